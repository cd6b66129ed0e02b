//! Settings of the fetch machine, in Kafka's terms.

use crate::time::{MILLI, Nanos, SECOND};

/// How much is fetched, and how long brokers and slots wait.
#[derive(Debug, Clone)]
pub struct FetchConfig {
    /// `fetch.max.wait.ms`: a broker holds its answer that long when there is too little data.
    pub max_wait_ms: i32,
    /// `fetch.min.bytes`: less is worth waiting for.
    pub min_bytes: i32,
    /// `fetch.max.bytes`: soft limit of one answer.
    pub max_bytes: i32,
    /// `max.partition.fetch.bytes`: soft limit of one partition in one answer.
    pub partition_bytes: i32,
    /// `isolation.level=read_committed`.
    pub read_committed: bool,
    /// Bytes that may be queued or decompressed over all slots; beyond it no Fetch is sent.
    pub queued_bytes: usize,
    /// A Fetch that is unanswered for this long is lost (`request.timeout.ms`); longer than `max_wait_ms`.
    pub request_timeout: Nanos,
    /// First wait after a failure (`retry.backoff.ms`).
    pub retry_backoff: Nanos,
    /// Longest wait after failures (`retry.backoff.max.ms`).
    pub retry_backoff_max: Nanos,
}

impl Default for FetchConfig {
    fn default() -> Self {
        Self {
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: 50 << 20,
            partition_bytes: 1 << 20,
            read_committed: false,
            queued_bytes: 64 << 20,
            request_timeout: 30 * SECOND,
            retry_backoff: 100 * MILLI,
            retry_backoff_max: SECOND,
        }
    }
}

impl FetchConfig {
    /// A slot that holds more than this is parked, so that one stuck lane never starves the others.
    #[must_use]
    pub fn slot_limit(&self) -> usize {
        let partition = usize::try_from(self.partition_bytes).unwrap_or(0);
        partition.saturating_mul(2).max(self.queued_bytes / 16)
    }
}
