//! Settings of the position machine, in Kafka's terms.

use crate::time::{MILLI, Nanos, SECOND};

/// `auto.offset.reset`: where to go when the position is not in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResetPolicy {
    /// To the first offset of the log.
    #[default]
    Earliest,
    /// To its end.
    Latest,
    /// Nowhere: stop the slot with an error.
    None,
}

/// How positions are looked up.
#[derive(Debug, Clone)]
pub struct PositionConfig {
    /// `auto.offset.reset`.
    pub reset: ResetPolicy,
    /// `isolation.level=read_committed`: the end of the log is the last stable offset.
    pub read_committed: bool,
    /// `request.timeout.ms`.
    pub request_timeout: Nanos,
    /// First wait after a failure (`retry.backoff.ms`).
    pub retry_backoff: Nanos,
    /// Longest wait after failures (`retry.backoff.max.ms`).
    pub retry_backoff_max: Nanos,
    /// A lookup that takes longer is worth a notice.
    pub notice_after: Nanos,
}

impl Default for PositionConfig {
    fn default() -> Self {
        Self {
            reset: ResetPolicy::default(),
            read_committed: false,
            request_timeout: 30 * SECOND,
            retry_backoff: 100 * MILLI,
            retry_backoff_max: SECOND,
            notice_after: 10 * SECOND,
        }
    }
}
