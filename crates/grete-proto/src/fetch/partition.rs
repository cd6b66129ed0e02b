//! Fetch state of one partition: retries, pauses and checks that only the fetcher knows.

use grete_wire::error_code::ErrorCode;

use crate::ids::NodeId;
use crate::rng::Rng;
use crate::time::Nanos;

use super::config::FetchConfig;

/// Retries, limits and pending checks of one partition.
#[derive(Debug, Clone, Default)]
pub(super) struct PartitionFetchState {
    /// Paused by the user.
    pub paused: bool,
    /// The partition holds too many bytes; see [`FetchConfig::partition_queue_limit`].
    pub over_queue_limit: bool,
    /// The leader reported a problem that would move the position (out of range, diverged) while batches with unproven
    /// headers were queued. Nothing is fetched until those batches are proven; then the leader is asked again.
    pub draining: bool,
    /// Consecutive failures.
    pub failures: u32,
    /// Error code of the last failure.
    pub last_error: ErrorCode,
    /// Consecutive errors that would stop the partition without retries.
    pub fatal_errors: u32,
    /// Leader (node id and epoch) of the last failure, and the end of its backoff.
    pub failed_leader: (NodeId, i32),
    pub not_before: Nanos,
    /// Offset and leader epoch of a batch that was rejected once.
    pub rejected_batch: Option<(i64, i32)>,
    /// Offset of a batch that was fetched again, and the generation of that fetch.
    pub refetched_batch: Option<(i64, u32)>,
    /// The batch was fetched again, and its content is not proven yet.
    pub verifying_refetch: bool,
    /// Raised limit of one response, while a batch did not fit; 0: the configured limit.
    pub max_bytes: i32,
    /// Leader epoch under which the position was validated, for Fetch versions that cannot validate it.
    pub validated: i32,
}

impl PartitionFetchState {
    /// Records a response without an error.
    pub fn record_success(&mut self) {
        self.failures = 0;
        self.not_before = 0;
    }

    /// Records that the fetched data is valid, as far as the fetcher knows.
    pub fn record_recovery(&mut self) {
        self.fatal_errors = 0;
        self.refetched_batch = None;
        self.verifying_refetch = false;
    }

    /// Suspends the partition after an error that is retried until its cause is gone.
    pub fn record_fatal_error(
        &mut self,
        now: Nanos,
        leader: (NodeId, i32),
        longest: Nanos,
        config: &FetchConfig,
        rng: &mut Rng,
    ) {
        let wait = config.retry_backoff.saturating_mul(1 << self.fatal_errors.min(16)).min(longest);
        self.fatal_errors = self.fatal_errors.saturating_add(1);
        self.failed_leader = leader;
        self.not_before = now.saturating_add(rng.jitter(wait, 20));
        self.verifying_refetch = false;
    }

    /// Counts a failure and starts a backoff.
    pub fn record_failure(&mut self, now: Nanos, leader: (NodeId, i32), config: &FetchConfig, rng: &mut Rng) {
        let wait = config.retry_backoff.saturating_mul(1 << self.failures.min(16)).min(config.retry_backoff_max);
        self.failures = self.failures.saturating_add(1);
        self.failed_leader = leader;
        self.not_before = now.saturating_add(rng.jitter(wait, 20));
    }

    /// Returns the end of the backoff; `None`: no backoff. A new leader is asked at once, unless leaders change
    /// repeatedly.
    pub fn backoff_until(&self, now: Nanos, leader: (NodeId, i32)) -> Option<Nanos> {
        let moved = leader != self.failed_leader && self.failures <= 3;
        (now < self.not_before && !moved).then_some(self.not_before)
    }

    /// Suspends the partition above `limit` queued bytes, and releases it again below half of `limit`.
    pub fn update_queue_limit(&mut self, queued: usize, limit: usize) {
        self.over_queue_limit = queued > if self.over_queue_limit { limit / 2 } else { limit };
    }

    pub fn partition_bytes(&self, config: &FetchConfig) -> i32 {
        if self.max_bytes > 0 { self.max_bytes } else { config.partition_bytes }
    }
}
