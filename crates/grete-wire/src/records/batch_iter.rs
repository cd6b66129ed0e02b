//! Iterator over batches by headers alone, so that the next Fetch can be sent before any record is decoded.

use std::ops::Range;

use super::batch_header::{BatchHeader, LENGTH_END};
use crate::error::WireError;

/// Position of the magic byte, in every format since 0.8.
const MAGIC_OFFSET: usize = 16;

/// Returns an iterator over the batches in the records of one partition.
#[must_use]
pub fn iter_batches(records: &[u8]) -> BatchIter<'_> {
    BatchIter { records, position: 0 }
}

/// Yields the header and the range of each complete batch. Brokers truncate the last batch at the byte limit: such a
/// tail ends the iteration without an error. An error also ends the iteration.
#[derive(Debug, Clone)]
pub struct BatchIter<'a> {
    records: &'a [u8],
    position: usize,
}

impl BatchIter<'_> {
    /// Returns the bytes passed so far. After the iteration, the bytes from here on are a truncated tail.
    pub fn position(&self) -> usize {
        self.position
    }
}

impl Iterator for BatchIter<'_> {
    type Item = Result<(BatchHeader, Range<usize>), WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.records.get(self.position..)?;
        let length = i32::from_be_bytes(*rest.get(8..)?.first_chunk()?);
        let magic = i8::from_be_bytes([*rest.get(MAGIC_OFFSET)?]);
        // The magic is checked first: in older formats a length below that of a header is valid.
        let batch = if magic == 2 && length >= 0 {
            // Cannot overflow: i32::MAX + 12 fits a usize of 64 bits, and with 32 bits the slice is shorter anyway.
            rest.get(..LENGTH_END.saturating_add(length as usize))?
        } else {
            rest
        };
        let start = self.position;
        let item = match parse_header(batch, length, magic) {
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

fn parse_header(batch: &[u8], length: i32, magic: i8) -> Result<BatchHeader, WireError> {
    if magic != 2 {
        let base_offset = batch.first_chunk().map_or(-1, |bytes| i64::from_be_bytes(*bytes));
        return Err(WireError::UnsupportedMagic { magic, base_offset });
    }
    if batch.len() < super::HEADER_BYTES {
        return Err(WireError::BadLength { what: "a record batch", value: length.into() });
    }
    BatchHeader::parse(batch)
}
