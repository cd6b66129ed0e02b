//! Settings of a topic in the form that the log reads.

use grete_wire::records::{Compression, TimestampType};

use super::TopicConfig;
use crate::log::LogConfig;

impl TopicConfig {
    /// Returns the settings of the topic's logs.
    #[must_use]
    pub fn log_config(&self) -> LogConfig {
        LogConfig {
            max_message_bytes: usize::try_from(self.number("max.message.bytes")).unwrap_or(0),
            retention_ms: self.number("retention.ms"),
            retention_bytes: self.number("retention.bytes"),
            segment_bytes: u64::try_from(self.number("segment.bytes")).unwrap_or(0),
            segment_ms: self.number("segment.ms"),
            compact: self.list_contains("cleanup.policy", "compact"),
            delete: self.list_contains("cleanup.policy", "delete"),
            min_compaction_lag_ms: self.number("min.compaction.lag.ms"),
            min_cleanable_dirty_ratio: self.value("min.cleanable.dirty.ratio").parse().unwrap_or(0.5),
            delete_retention_ms: self.number("delete.retention.ms"),
            timestamp_type: match self.value("message.timestamp.type") {
                "LogAppendTime" => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            timestamp_before_max_ms: self.number("message.timestamp.before.max.ms"),
            timestamp_after_max_ms: self.number("message.timestamp.after.max.ms"),
            compression: match self.value("compression.type") {
                "uncompressed" => Some(Compression::None),
                "gzip" => Some(Compression::Gzip),
                "snappy" => Some(Compression::Snappy),
                "lz4" => Some(Compression::Lz4),
                "zstd" => Some(Compression::Zstd),
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_log() {
        assert_eq!(TopicConfig::default().log_config(), LogConfig::default());
    }
}
