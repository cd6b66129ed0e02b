//! Record headers (KIP-82), parsed when somebody looks.

use crate::error::WireError;
use crate::primitives::Reader;

/// Where a record's headers lie; `count` is 0 for a record without any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeaderSpan {
    /// Index into the columns' buffers.
    pub buffer: u32,
    /// First byte in that buffer, after the count.
    pub offset: u32,
    /// Bytes.
    pub len: u32,
    /// How many headers.
    pub count: u32,
}

/// A header's key (UTF-8 by contract, but nobody checks) and its value.
pub type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// The headers of one record, in order, duplicates and nulls included. After an error there are no more.
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
