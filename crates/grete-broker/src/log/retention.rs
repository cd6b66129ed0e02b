//! Deletion of the oldest records: DeleteRecords, `retention.ms` and `retention.bytes`, and expiry of producers.

use grete_wire::ErrorCode;

use super::config::LogConfig;
use super::{LogChange, PartitionLog};
use crate::ids::Millis;

/// Offset in DeleteRecords that stands for the high watermark.
const HIGH_WATERMARK: i64 = -1;

impl PartitionLog {
    /// Deletes the records before an offset; -1: all records. Returns the log start offset, and the change to store;
    /// `None`: the records were deleted before. The memory of batches is freed at once, and not by whole segments.
    ///
    /// # Errors
    /// `OFFSET_OUT_OF_RANGE`: the offset is beyond the high watermark, or another negative number.
    pub fn delete_records(&mut self, before: i64) -> Result<(i64, Option<LogChange>), ErrorCode> {
        let before = if before == HIGH_WATERMARK { self.high_watermark() } else { before };
        if before < 0 || before > self.high_watermark() {
            return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
        }
        Ok((self.log_start.max(before), self.advance_log_start(before)))
    }

    /// Deletes the oldest segments according to `retention.ms` and `retention.bytes`. As in Kafka, only whole segments
    /// are deleted: one is as old as its newest record, and the last segment is deleted when it is too old. Returns the
    /// change to store; `None`: nothing was deleted.
    pub fn enforce_retention(&mut self, now: Millis, config: &LogConfig) -> Option<LogChange> {
        if !config.delete {
            return None;
        }
        let segments = self.batches.segments();
        let mut excess = match u64::try_from(config.retention_bytes) {
            Ok(limit) => self.batches.size().saturating_sub(limit),
            Err(_) => 0,
        };
        let mut deleted = 0;
        for segment in segments {
            let old = config.retention_ms >= 0 && now.saturating_sub(segment.largest_timestamp()) > config.retention_ms;
            if !old && (excess == 0 || excess < segment.bytes) {
                break;
            }
            excess = excess.saturating_sub(segment.bytes);
            deleted += 1;
        }
        if deleted == 0 {
            return None;
        }
        let start = segments.get(deleted).map_or(self.log_end, |segment| segment.base_offset);
        self.advance_log_start(start)
    }

    /// Returns the time at which `retention.ms` deletes the oldest segment; `None`: never. `retention.bytes` needs no
    /// time, but a check after appends.
    #[must_use]
    pub fn retention_deadline(&self, config: &LogConfig) -> Option<Millis> {
        if !config.delete || config.retention_ms < 0 {
            return None;
        }
        let oldest = self.batches.segments().front()?;
        Some(oldest.largest_timestamp().saturating_add(config.retention_ms).saturating_add(1))
    }

    /// Forgets producers without an ongoing transaction that have been silent for `producer.id.expiration.ms` (Kafka's
    /// default is a day). Returns the change to store; `None`: no producer expired.
    pub fn expire_producers(&mut self, now: Millis, expiration_ms: i64) -> Option<LogChange> {
        self.producers.expire_verifications(now, expiration_ms);
        let expired = self.producers.expired(now, expiration_ms);
        if expired.is_empty() {
            return None;
        }
        self.producers.remove(&expired);
        Some(LogChange::ProducersExpired(expired))
    }

    fn advance_log_start(&mut self, offset: i64) -> Option<LogChange> {
        if offset <= self.log_start {
            return None;
        }
        self.apply_log_start(offset);
        Some(LogChange::LogStart(offset))
    }

    pub(super) fn apply_log_start(&mut self, offset: i64) {
        self.log_start = offset;
        self.batches.delete_before(offset);
        self.epochs.delete_before(offset);
        self.transactions.delete_before(offset);
    }
}
