//! Configuration of a topic, as far as the log needs it.

use grete_wire::records::{Compression, TimestampType};

use crate::ids::Millis;

/// Configuration of a topic. The default values are Kafka's.
#[derive(Debug, Clone, PartialEq)]
pub struct LogConfig {
    /// `max.message.bytes`: maximum length of a batch.
    pub max_message_bytes: usize,
    /// `retention.ms`; -1: unlimited.
    pub retention_ms: i64,
    /// `retention.bytes`; -1: unlimited.
    pub retention_bytes: i64,
    /// `segment.bytes`: length from which a new segment begins. Retention deletes whole segments, and compaction leaves
    /// the last one.
    pub segment_bytes: u64,
    /// `segment.ms`: age from which a new segment begins.
    pub segment_ms: i64,
    /// Whether `cleanup.policy` contains `compact`.
    pub compact: bool,
    /// Whether `cleanup.policy` contains `delete`.
    pub delete: bool,
    /// `min.compaction.lag.ms`.
    pub min_compaction_lag_ms: i64,
    /// `min.cleanable.dirty.ratio`, from 0 to 1.
    pub min_cleanable_dirty_ratio: f64,
    /// `delete.retention.ms`: time for which compaction keeps tombstones and transaction markers.
    pub delete_retention_ms: i64,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: i64,
    /// `compression.type`: codec of the stored batches, at its default level; `None`: `producer`.
    pub compression: Option<Compression>,
}

const HOUR: Millis = 60 * 60 * 1000;

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            max_message_bytes: (1 << 20) + 12,
            retention_ms: 7 * 24 * HOUR,
            retention_bytes: -1,
            segment_bytes: 1 << 30,
            segment_ms: 7 * 24 * HOUR,
            compact: false,
            delete: true,
            min_compaction_lag_ms: 0,
            min_cleanable_dirty_ratio: 0.5,
            delete_retention_ms: 24 * HOUR,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: HOUR,
            compression: None,
        }
    }
}
