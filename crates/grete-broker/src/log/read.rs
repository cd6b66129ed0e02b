//! Reads of Fetch requests.

use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::records::AbortedTransaction;

use super::PartitionLog;

/// Read of a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadResult {
    /// Batches in order. The first one may begin before the fetch offset.
    pub batches: Vec<Arc<Vec<u8>>>,
    /// Length of the batches.
    pub bytes: usize,
    /// High watermark.
    pub high_watermark: i64,
    /// Last stable offset.
    pub last_stable_offset: i64,
    /// Log start offset.
    pub log_start_offset: i64,
    /// Aborted transactions among the batches; `None`: the read is not `read_committed`.
    pub aborted: Option<Vec<AbortedTransaction>>,
}

impl PartitionLog {
    /// Reads whole batches from the one on that contains `fetch_offset`, up to `max_bytes`; with `read_committed`, up
    /// to the last stable offset. With `min_one` the first batch is read even if it is longer than `max_bytes`
    /// (KIP-74). At the end of the log the result has no batch.
    ///
    /// # Errors
    /// `OFFSET_OUT_OF_RANGE`: the offset is below the log start offset or beyond the end.
    pub fn read(
        &self,
        fetch_offset: i64,
        max_bytes: usize,
        min_one: bool,
        read_committed: bool,
    ) -> Result<ReadResult, ErrorCode> {
        if fetch_offset < self.log_start || fetch_offset > self.log_end {
            return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
        }
        let end = if read_committed { self.last_stable_offset() } else { self.log_end };
        let mut result = ReadResult {
            high_watermark: self.high_watermark(),
            last_stable_offset: self.last_stable_offset(),
            log_start_offset: self.log_start,
            aborted: read_committed.then(Vec::new),
            ..ReadResult::default()
        };
        let mut read_end = fetch_offset;
        for batch in self.batches.from(fetch_offset).take_while(|batch| batch.last_offset < end) {
            let bytes = result.bytes.saturating_add(batch.bytes.len());
            if bytes > max_bytes && !(min_one && result.batches.is_empty()) {
                break;
            }
            result.bytes = bytes;
            result.batches.push(Arc::clone(&batch.bytes));
            read_end = batch.last_offset.saturating_add(1);
        }
        if read_committed && !result.batches.is_empty() {
            result.aborted = Some(self.transactions.aborted(fetch_offset, read_end));
        }
        Ok(result)
    }

    /// Returns the bytes that a read would return, up to `enough`: whether a Fetch has to wait for `min_bytes`.
    #[must_use]
    pub fn available_bytes(&self, fetch_offset: i64, enough: usize, read_committed: bool) -> usize {
        let end = if read_committed { self.last_stable_offset() } else { self.log_end };
        let mut bytes = 0;
        for batch in self.batches.from(fetch_offset).take_while(|batch| batch.last_offset < end) {
            bytes += batch.bytes.len();
            if bytes >= enough {
                break;
            }
        }
        bytes
    }
}
