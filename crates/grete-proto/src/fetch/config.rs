//! Settings of the fetcher, in Kafka's terms.

use std::sync::Arc;

use crate::time::{MILLI, Nanos, SECOND};

/// Limits and wait times of fetching.
#[derive(Debug, Clone)]
pub struct FetchConfig {
    /// `fetch.max.wait.ms`: time for which a broker delays its response while there is too little data.
    pub max_wait_ms: i32,
    /// `fetch.min.bytes`: amount of data below which the broker delays its response.
    pub min_bytes: i32,
    /// `fetch.max.bytes`: soft limit of one response.
    pub max_bytes: i32,
    /// `max.partition.fetch.bytes`: soft limit of one partition in one response.
    pub partition_bytes: i32,
    /// `isolation.level=read_committed`.
    pub read_committed: bool,
    /// Limit of queued and decompressed bytes over all partitions; beyond it no Fetch is sent.
    pub queued_bytes: usize,
    /// `request.timeout.ms`, in nanoseconds: a Fetch without a response for this long is lost. Must exceed
    /// `max_wait_ms`.
    pub request_timeout: Nanos,
    /// `retry.backoff.ms`, in nanoseconds: first wait after a failure.
    pub retry_backoff: Nanos,
    /// `retry.backoff.max.ms`, in nanoseconds: longest wait after failures.
    pub retry_backoff_max: Nanos,
    /// Longest wait between retries of errors with [`RecoveryPolicy::Retry`](crate::partition::error::RecoveryPolicy),
    /// in nanoseconds; `None`: such an error stops the partition.
    pub fatal_retry_backoff_max: Option<Nanos>,
    /// `client.rack`: leaders name a replica in this rack to read from (KIP-392); empty: leaders send all records.
    pub rack: Arc<str>,
    /// `metadata.max.age.ms`, in nanoseconds: time after which a leader is asked again which replica to read from.
    pub read_replica_max_age: Nanos,
}

impl Default for FetchConfig {
    fn default() -> Self {
        Self {
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: 50 << 20,
            partition_bytes: 2 << 20,
            read_committed: false,
            queued_bytes: 64 << 20,
            request_timeout: 30 * SECOND,
            retry_backoff: 100 * MILLI,
            retry_backoff_max: SECOND,
            fatal_retry_backoff_max: None,
            rack: Arc::default(),
            read_replica_max_age: 300 * SECOND,
        }
    }
}

impl FetchConfig {
    /// Returns the soft limit of one response, in bytes: `fetch.max.bytes`, but at most about a quarter of the memory
    /// for queued bytes. While one response is processed, the next ones are on their way, and their buffers are used
    /// again. The sixteenth less leaves room for the fields of the partitions in a buffer of a power of two.
    pub fn response_bytes(&self) -> i32 {
        let quarter = self.queued_bytes / 4;
        i32::try_from(quarter - quarter / 16).unwrap_or(i32::MAX).clamp(1, self.max_bytes.max(1))
    }

    /// Returns the queue limit of one partition, in bytes. A partition above the limit is not fetched, so that one
    /// stuck lane never starves the others.
    pub fn partition_queue_limit(&self) -> usize {
        let partition = usize::try_from(self.partition_bytes).unwrap_or(0);
        partition.saturating_mul(2).max(self.queued_bytes / 16)
    }
}
