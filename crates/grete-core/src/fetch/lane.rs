//! What only the fetch machine knows about a slot.

use crate::ids::NodeId;
use crate::rng::Rng;
use crate::time::Nanos;

use super::config::FetchConfig;

/// Retries, strikes and holds of one slot.
#[derive(Debug, Clone, Default)]
pub(super) struct Lane {
    /// The user paused it.
    pub paused: bool,
    /// It holds too many bytes; see [`FetchConfig::slot_limit`].
    pub parked: bool,
    /// The leader said something that would move the position (out of range, diverged) while batches were queued whose
    /// headers nobody has proven. Nothing is fetched until they are; then the leader is asked again.
    pub draining: bool,
    /// Failures in a row.
    pub failures: u32,
    /// Where it failed, and until when that counts.
    pub failed_at: (NodeId, i32),
    pub not_before: Nanos,
    /// A batch at this offset, under this leader epoch, was refused once.
    pub struck: Option<(i64, i32)>,
    /// A batch at this offset was fetched again, in this generation.
    pub refetched: Option<(i64, u32)>,
    /// Limit of one answer while a batch did not fit; 0: the configured one.
    pub max_bytes: i32,
    /// The leader epoch that the position was validated under, where Fetch cannot do it by itself.
    pub validated: i32,
}

impl Lane {
    /// An answer without an error.
    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.not_before = 0;
    }

    /// Counts a failure and holds the slot back for a while.
    pub fn failed(&mut self, now: Nanos, leader: (NodeId, i32), config: &FetchConfig, rng: &mut Rng) {
        let wait = config.retry_backoff.saturating_mul(1 << self.failures.min(16)).min(config.retry_backoff_max);
        self.failures = self.failures.saturating_add(1);
        self.failed_at = leader;
        self.not_before = now.saturating_add(rng.jitter(wait, 20));
    }

    /// Until when it waits, if it does. A new leader is asked at once, unless leaders change again and again.
    pub fn waits_until(&self, now: Nanos, leader: (NodeId, i32)) -> Option<Nanos> {
        let moved = leader != self.failed_at && self.failures <= 3;
        (now < self.not_before && !moved).then_some(self.not_before)
    }

    /// Holds it while it has more than `limit` bytes, until it has less than half of that.
    pub fn park(&mut self, queued: usize, limit: usize) {
        self.parked = queued > if self.parked { limit / 2 } else { limit };
    }

    pub fn partition_bytes(&self, config: &FetchConfig) -> i32 {
        if self.max_bytes > 0 { self.max_bytes } else { config.partition_bytes }
    }
}
