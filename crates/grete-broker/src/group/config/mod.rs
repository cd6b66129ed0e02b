//! Configuration of the group coordinator.

mod assignor;
mod consumer;

pub use assignor::Assignor;
pub use consumer::ConsumerGroupConfig;

/// Broker options of groups, with Kafka's defaults except for the delay of the first rebalance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupConfig {
    /// `group.min.session.timeout.ms`. JoinGroup with a shorter session timeout is refused.
    pub min_session_timeout_ms: i64,
    /// `group.max.session.timeout.ms`. JoinGroup with a longer session timeout is refused.
    pub max_session_timeout_ms: i64,
    /// `group.initial.rebalance.delay.ms`: wait for more members before the first generation. Kafka waits for 3000 ms;
    /// the default here is 0, because tests start groups often.
    pub initial_rebalance_delay_ms: i64,
    /// Time in milliseconds after which a new member, which cannot send heartbeats before its JoinGroup is answered, is
    /// removed. Kafka has no option for this time.
    pub new_member_join_timeout_ms: i64,
    /// `group.max.size`, in members.
    pub max_size: usize,
    /// `offset.metadata.max.bytes`. Like Kafka, the coordinator counts UTF-16 units.
    pub offset_metadata_max_bytes: usize,
    /// `offsets.retention.minutes`, in milliseconds.
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`.
    pub offsets_retention_check_interval_ms: i64,
    /// Options of groups of the consumer protocol.
    pub consumer: ConsumerGroupConfig,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self {
            min_session_timeout_ms: 6_000,
            max_session_timeout_ms: 1_800_000,
            initial_rebalance_delay_ms: 0,
            new_member_join_timeout_ms: 300_000,
            max_size: i32::MAX as usize,
            offset_metadata_max_bytes: 4096,
            offsets_retention_ms: 7 * 24 * 60 * 60 * 1000,
            offsets_retention_check_interval_ms: 600_000,
            consumer: ConsumerGroupConfig::default(),
        }
    }
}
