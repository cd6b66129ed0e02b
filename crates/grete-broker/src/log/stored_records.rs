//! Decoded records of a log, for tests that look into a broker.

use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::records::{AbortedTransactionFilter, BatchHeader};

use super::{Codecs, PartitionLog};

/// Record as consumers with `read_committed` get the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// Offset.
    pub offset: i64,
    /// Timestamp in ms since 1970; -1: none.
    pub timestamp: i64,
    /// Key; `None`: null.
    pub key: Option<Vec<u8>>,
    /// Value; `None`: null.
    pub value: Option<Vec<u8>>,
    /// Headers in order; `None` for a value: null.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl PartitionLog {
    /// Returns at most `limit` records from an offset on, without those of aborted and open transactions.
    ///
    /// # Errors
    /// `OFFSET_OUT_OF_RANGE`: the offset is below the log start offset or beyond the end.
    pub fn stored_records(&self, from: i64, limit: usize, codecs: &mut Codecs) -> Result<Vec<StoredRecord>, ErrorCode> {
        let read = self.read(from, usize::MAX, true, true)?;
        let mut filter = AbortedTransactionFilter::new(read.aborted.unwrap_or_default());
        let mut records = Vec::new();
        for batch in &read.batches {
            if records.len() >= limit {
                break;
            }
            records.extend(decode(batch, from, &mut filter, codecs).unwrap_or_default());
        }
        records.truncate(limit);
        Ok(records)
    }
}

/// Decodes a batch. `None` does not occur: each batch was checked before it was stored.
fn decode(
    batch: &Arc<Vec<u8>>,
    from: i64,
    filter: &mut AbortedTransactionFilter,
    codecs: &mut Codecs,
) -> Option<Vec<StoredRecord>> {
    let header = BatchHeader::parse(batch).ok()?;
    if !filter.is_visible(&header, batch).ok()? {
        return None;
    }
    let decoded = codecs.reader.read(batch, &header).ok()?;
    let mut records = Vec::new();
    for record in decoded.iter() {
        let record = record.ok()?;
        if record.offset >= from {
            let mut headers = Vec::new();
            for header in record.headers() {
                let (key, value) = header.ok()?;
                headers.push((String::from_utf8_lossy(key).into_owned(), value.map(<[u8]>::to_vec)));
            }
            records.push(StoredRecord {
                offset: record.offset,
                timestamp: record.timestamp,
                key: record.key.map(<[u8]>::to_vec),
                value: record.value.map(<[u8]>::to_vec),
                headers,
            });
        }
    }
    Some(records)
}
