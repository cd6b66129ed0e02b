//! Record headers (KIP-82), parsed on access.

use crate::error::WireError;
use crate::primitives::Reader;

/// Position of a record's headers; `count` is 0 for a record without any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeaderRange {
    /// Index into the columns' buffers.
    pub buffer: u32,
    /// First byte in the buffer, after the count.
    pub offset: u32,
    /// Length in bytes.
    pub len: u32,
    /// Number of headers.
    pub count: u32,
}

/// Key and value of a header. The key is UTF-8 by contract, but not checked.
pub type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// Iterator over the headers of one record, in order, including duplicates and nulls. It ends after an error.
#[derive(Debug, Clone)]
pub struct Headers<'a> {
    reader: Reader<'a>,
    left: u32,
}

impl<'a> Headers<'a> {
    pub(crate) fn new(bytes: &'a [u8], count: u32) -> Self {
        Self { reader: Reader::new(bytes), left: count }
    }

    fn parse(&mut self) -> Result<Header<'a>, WireError> {
        let key = self.field("header key")?.ok_or(WireError::BadLength { what: "header key", value: -1 })?;
        let value = self.field("header value")?;
        if self.left == 0 {
            self.reader.finish()?;
        }
        Ok((key, value))
    }

    fn field(&mut self, what: &'static str) -> Result<Option<&'a [u8]>, WireError> {
        let len = self.reader.varint()?;
        match usize::try_from(len) {
            Ok(len) => self.reader.take(len).map(Some),
            Err(_) if len == -1 => Ok(None),
            Err(_) => Err(WireError::BadLength { what, value: len.into() }),
        }
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Result<Header<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let header = self.parse();
        if header.is_err() {
            self.left = 0;
        }
        Some(header)
    }
}
