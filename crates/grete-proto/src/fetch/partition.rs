//! Fetch state of one partition: retries, pauses and checks that only the fetcher knows.

use grete_wire::error_code::ErrorCode;

use crate::ids::NodeId;
use crate::rng::Rng;
use crate::time::Nanos;

use super::config::FetchConfig;

/// Place of a partition among the sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionPlace {
    /// Index of the leader's session; `u32::MAX`: no node leads the partition.
    pub session: u32,
    /// Index of the entry in the session.
    pub entry: u32,
}

impl SessionPlace {
    pub const NONE: Self = Self { session: u32::MAX, entry: u32::MAX };
}

/// Retries, limits and pending checks of one partition.
#[derive(Debug)]
pub(super) struct PartitionFetchState {
    pub place: SessionPlace,
    /// Paused by the user.
    pub paused: bool,
    /// The partition holds too many bytes; see [`FetchConfig::partition_queue_limit`].
    pub over_queue_limit: bool,
    /// The leader reported a problem that would move the position (out of range, diverged) while batches with unproven
    /// headers were queued. Nothing is fetched until those batches are proven; then the leader is asked again.
    pub draining: bool,
    /// The partition is not fetched until bytes are released.
    pub awaits_release: bool,
    /// `None`: nothing has failed. Boxed, because there may be thousands of partitions.
    failure: Option<Box<FailureState>>,
}

/// State of a partition in which something has failed.
#[derive(Debug, Clone)]
pub(super) struct FailureState {
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

impl FailureState {
    const NONE: Self = Self {
        failures: 0,
        last_error: ErrorCode::NONE,
        fatal_errors: 0,
        failed_leader: (0, 0),
        not_before: 0,
        rejected_batch: None,
        refetched_batch: None,
        verifying_refetch: false,
        max_bytes: 0,
        validated: 0,
    };

    /// Returns whether nothing is left to remember.
    fn is_over(&self) -> bool {
        self.failures == 0
            && self.fatal_errors == 0
            && self.not_before == 0
            && self.rejected_batch.is_none()
            && self.refetched_batch.is_none()
            && !self.verifying_refetch
            && self.max_bytes == 0
            && self.validated == 0
    }
}

impl Default for PartitionFetchState {
    fn default() -> Self {
        Self {
            place: SessionPlace::NONE,
            paused: false,
            over_queue_limit: false,
            draining: false,
            awaits_release: false,
            failure: None,
        }
    }
}

impl PartitionFetchState {
    /// Returns what has failed.
    pub fn failure(&self) -> &FailureState {
        static NONE: FailureState = FailureState::NONE;
        self.failure.as_deref().unwrap_or(&NONE)
    }

    /// Returns what has failed, to record more.
    pub fn failure_mut(&mut self) -> &mut FailureState {
        self.failure.get_or_insert_with(|| Box::new(FailureState::NONE))
    }

    /// Applies an end of failures, and frees the memory if none is left.
    pub fn clear_failure(&mut self, clear: impl FnOnce(&mut FailureState)) {
        if let Some(failure) = &mut self.failure {
            clear(failure);
            self.failure.take_if(|failure| failure.is_over());
        }
    }

    /// Records a response without an error.
    pub fn record_success(&mut self) {
        self.clear_failure(|failure| (failure.failures, failure.not_before) = (0, 0));
    }

    /// Records that the fetched data is valid, as far as the fetcher knows.
    pub fn record_recovery(&mut self) {
        self.clear_failure(|failure| {
            failure.fatal_errors = 0;
            failure.refetched_batch = None;
            failure.verifying_refetch = false;
        });
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
        let failure = self.failure_mut();
        let wait = config.retry_backoff.saturating_mul(1 << failure.fatal_errors.min(16)).min(longest);
        failure.fatal_errors = failure.fatal_errors.saturating_add(1);
        failure.failed_leader = leader;
        failure.not_before = now.saturating_add(rng.jitter(wait, 20));
        failure.verifying_refetch = false;
    }

    /// Counts a failure and starts a backoff.
    pub fn record_failure(&mut self, now: Nanos, leader: (NodeId, i32), config: &FetchConfig, rng: &mut Rng) {
        let failure = self.failure_mut();
        let wait = config.retry_backoff.saturating_mul(1 << failure.failures.min(16)).min(config.retry_backoff_max);
        failure.failures = failure.failures.saturating_add(1);
        failure.failed_leader = leader;
        failure.not_before = now.saturating_add(rng.jitter(wait, 20));
    }

    /// Returns whether the last response or its content had an error.
    pub fn is_failing(&self) -> bool {
        let failure = self.failure();
        failure.failures > 0 || failure.fatal_errors > 0
    }

    /// Returns the end of the backoff; `None`: no backoff. A new leader is asked at once, unless leaders change
    /// repeatedly.
    pub fn backoff_until(&self, now: Nanos, leader: (NodeId, i32)) -> Option<Nanos> {
        let failure = self.failure();
        let moved = leader != failure.failed_leader && failure.failures <= 3;
        (now < failure.not_before && !moved).then_some(failure.not_before)
    }

    /// Returns whether the partition is suspended with so many queued bytes: above `limit`, until half of `limit`.
    pub fn is_over_queue_limit(&self, queued: usize, limit: usize) -> bool {
        queued > if self.over_queue_limit { limit / 2 } else { limit }
    }

    /// Suspends the partition above `limit` queued bytes, and releases it again below half of `limit`.
    pub fn update_queue_limit(&mut self, queued: usize, limit: usize) {
        self.over_queue_limit = self.is_over_queue_limit(queued, limit);
    }

    pub fn partition_bytes(&self, config: &FetchConfig) -> i32 {
        let raised = self.failure().max_bytes;
        if raised > 0 { raised } else { config.partition_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both exist for each assigned partition, and there may be ten thousand.
    #[test]
    fn the_state_of_a_partition_is_small() {
        assert!(size_of::<PartitionFetchState>() <= 24, "{} bytes", size_of::<PartitionFetchState>());
        let entry = size_of::<super::super::session::SessionPartition>();
        assert!(entry <= 48, "{entry} bytes");
    }

    #[test]
    fn a_failure_that_is_over_leaves_nothing_behind() {
        let (mut lane, mut rng) = (PartitionFetchState::default(), Rng::new(1));
        let config = FetchConfig::default();
        lane.record_failure(5, (1, 2), &config, &mut rng);
        lane.record_fatal_error(5, (1, 2), 100, &config, &mut rng);
        lane.record_success();
        assert!(lane.is_failing() && lane.failure.is_some());
        lane.record_recovery();
        assert!(!lane.is_failing() && lane.failure.is_none());
    }
}
