//! Offsets by timestamp, for ListOffsets.

use super::batches::StoredBatch;
use super::{Codecs, PartitionLog};

/// Record that a timestamp refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampOffset {
    /// Offset of the record.
    pub offset: i64,
    /// Timestamp of the record in ms since 1970.
    pub timestamp: i64,
    /// Leader epoch of the record's batch.
    pub leader_epoch: i32,
}

impl PartitionLog {
    /// Returns the first record whose timestamp is `timestamp` or later. `None`: there is none; with
    /// `read_committed`, none before the last stable offset.
    #[must_use]
    pub fn offset_for_timestamp(
        &self,
        timestamp: i64,
        read_committed: bool,
        codecs: &mut Codecs,
    ) -> Option<TimestampOffset> {
        let candidates = self.batches.from(self.log_start).filter(|batch| batch.max_timestamp >= timestamp);
        let found = candidates.into_iter().find_map(|batch| self.find(batch, codecs, |at| at >= timestamp))?;
        self.is_visible(found.offset, read_committed).then_some(found)
    }

    /// Returns the first record with the largest timestamp (KIP-734). `None`: no record has a timestamp; with
    /// `read_committed`, the record is not before the last stable offset.
    #[must_use]
    pub fn max_timestamp(&self, read_committed: bool, codecs: &mut Codecs) -> Option<TimestampOffset> {
        let largest = self.batches.from(self.log_start).map(|batch| batch.max_timestamp).max().filter(|&at| at >= 0)?;
        let batches = self.batches.from(self.log_start).filter(|batch| batch.max_timestamp == largest);
        let found = batches.into_iter().find_map(|batch| self.find(batch, codecs, |at| at == largest))?;
        self.is_visible(found.offset, read_committed).then_some(found)
    }

    /// Returns the log start offset and its leader epoch; `None`: the epoch is unknown.
    #[must_use]
    pub fn earliest(&self) -> (i64, Option<i32>) {
        (self.log_start, self.epochs.epoch_of(self.log_start))
    }

    /// Returns the offset after the last record that clients read; with `read_committed`, the last stable offset.
    #[must_use]
    pub fn latest(&self, read_committed: bool) -> i64 {
        if read_committed { self.last_stable_offset() } else { self.high_watermark() }
    }

    fn is_visible(&self, offset: i64, read_committed: bool) -> bool {
        offset < self.latest(read_committed)
    }

    /// Returns the first record from the log start offset on whose timestamp has the property.
    fn find(&self, batch: &StoredBatch, codecs: &mut Codecs, has: impl Fn(i64) -> bool) -> Option<TimestampOffset> {
        let header = batch.header()?;
        let records = codecs.reader.read(&batch.bytes, &header).ok()?;
        let mut records = records.iter().filter_map(Result::ok);
        let record = records.find(|record| record.offset >= self.log_start && has(record.timestamp))?;
        let (offset, timestamp) = (record.offset, record.timestamp);
        Some(TimestampOffset { offset, timestamp, leader_epoch: header.leader_epoch })
    }
}
