//! From batch to batch by headers alone, so that the next Fetch can leave before anything is decoded.

use std::ops::Range;

use super::header::{BatchHeader, LENGTH_END};
use crate::error::WireError;

/// Where the magic stands in every format since 0.8.
const MAGIC_AT: usize = 16;

/// Walks the batches in the records of one partition.
#[must_use]
pub fn walk(records: &[u8]) -> BatchWalk<'_> {
    BatchWalk { records, position: 0 }
}

/// Yields each whole batch's header and where it lies. Brokers cut the last batch at the byte limit: a truncated tail
/// ends the walk in silence. After an error the walk is over.
#[derive(Debug, Clone)]
pub struct BatchWalk<'a> {
    records: &'a [u8],
    position: usize,
}

impl BatchWalk<'_> {
    /// Bytes walked so far; after the walk, what follows is a truncated tail.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }
}

impl Iterator for BatchWalk<'_> {
    type Item = Result<(BatchHeader, Range<usize>), WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.records.get(self.position..)?;
        let length = i32::from_be_bytes(*rest.get(8..)?.first_chunk()?);
        let magic = i8::from_be_bytes([*rest.get(MAGIC_AT)?]);
        // The magic is looked at first: in older formats a length below a whole header is nothing wrong.
        let batch = if magic == 2 && length >= 0 {
            // i32::MAX + 12 fits: usize has 64 bits, or the slice is shorter anyway.
            rest.get(..LENGTH_END.saturating_add(length as usize))?
        } else {
            rest
        };
        let start = self.position;
        let item = match check(batch, length, magic) {
            Ok(header) => {
                self.position += batch.len();
                Ok((header, start..self.position))
            }
            Err(error) => {
                self.records = &[];
                Err(error)
            }
        };
        Some(item)
    }
}

fn check(batch: &[u8], length: i32, magic: i8) -> Result<BatchHeader, WireError> {
    if magic != 2 {
        let base_offset = batch.first_chunk().map_or(-1, |bytes| i64::from_be_bytes(*bytes));
        return Err(WireError::UnsupportedMagic { magic, base_offset });
    }
    if batch.len() < super::HEADER_BYTES {
        return Err(WireError::BadLength { what: "a record batch", value: length.into() });
    }
    BatchHeader::parse(batch)
}
