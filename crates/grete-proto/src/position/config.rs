//! Settings of the offset resolver, in Kafka's terms.

use crate::time::{MILLI, Nanos, SECOND};

/// `auto.offset.reset`: new position when the log does not contain the old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResetPolicy {
    /// First offset of the log.
    #[default]
    Earliest,
    /// End of the log.
    Latest,
    /// No reset: the partition stops with an error.
    None,
}

/// Settings of offset lookups.
#[derive(Debug, Clone)]
pub struct PositionConfig {
    /// `auto.offset.reset`.
    pub reset: ResetPolicy,
    /// `isolation.level=read_committed`: the end of the log is the last stable offset.
    pub read_committed: bool,
    /// `request.timeout.ms`, in nanoseconds.
    pub request_timeout: Nanos,
    /// `retry.backoff.ms`, in nanoseconds: first wait after a failure.
    pub retry_backoff: Nanos,
    /// `retry.backoff.max.ms`, in nanoseconds: longest wait after failures.
    pub retry_backoff_max: Nanos,
    /// Duration of a lookup, in nanoseconds, after which a log event reports it.
    pub log_after: Nanos,
    /// Longest wait between retries of errors with [`RecoveryPolicy::Retry`](crate::partition::error::RecoveryPolicy),
    /// in nanoseconds; `None`: such an error stops the partition.
    pub fatal_retry_backoff_max: Option<Nanos>,
}

impl Default for PositionConfig {
    fn default() -> Self {
        Self {
            reset: ResetPolicy::default(),
            read_committed: false,
            request_timeout: 30 * SECOND,
            retry_backoff: 100 * MILLI,
            retry_backoff_max: SECOND,
            log_after: 10 * SECOND,
            fatal_retry_backoff_max: None,
        }
    }
}
