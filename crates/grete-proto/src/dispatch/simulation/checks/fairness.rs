//! Check of fairness: the lane that has waited longest goes first, as far as this is visible from outside.

use std::collections::BTreeMap;

use crate::dispatch::{Concurrency, LaneId, LaneState, LaneStatus, Lease};
use crate::time::{Nanos, SECOND};

/// Waiting times of the lanes of one process.
#[derive(Debug, Default)]
pub struct FairnessCheck {
    /// Lanes seen ready, since when, and their priority.
    ready: BTreeMap<LaneId, (Nanos, i32)>,
    /// Time at which the last job of each lane ended.
    ended: BTreeMap<LaneId, Nanos>,
}

impl FairnessCheck {
    /// Observes the status of all lanes.
    pub fn observe(&mut self, now: Nanos, statuses: &[LaneStatus]) {
        self.ready.retain(|id, _| statuses.iter().any(|status| status.lane == *id && status.state == LaneState::Ready));
        for status in statuses.iter().filter(|status| status.state == LaneState::Ready) {
            self.ready.entry(status.lane).or_insert((now, status.policy.priority));
        }
    }

    /// Checks a job that was handed out. A lane whose job ended after another lane had become ready comes after that
    /// lane, unless its priority outweighs the difference.
    pub fn taken(&mut self, lease: &Lease, others: &[LaneStatus]) {
        self.ready.remove(&lease.lane);
        // Each slot of a lane waits on its own.
        let Some(ended) = self
            .ended
            .get(&lease.lane)
            .filter(|_| lease.kind.needs_session() && lease.policy.concurrency == Concurrency::Partition)
        else {
            return;
        };
        // Only lanes that wait for one kind of job, and not for a limit of their route, are compared.
        let waits = |other: &&LaneStatus| {
            let policy = &other.policy;
            let plain = policy.concurrency == Concurrency::Partition && policy.tick.is_none() && !policy.eof;
            let unlimited = policy.rate_limit.is_none() && policy.max_concurrency.is_none();
            plain && unlimited && policy.pool == lease.pool() && other.state == LaneState::Ready
        };
        for other in others.iter().filter(waits) {
            let Some((since, priority)) = self.ready.get(&other.lane) else { continue };
            let ahead = u64::try_from(lease.policy.priority - priority).unwrap_or(0) * SECOND;
            let behind = u64::try_from(priority - lease.policy.priority).unwrap_or(0) * SECOND;
            assert!(
                ended + behind <= since + ahead,
                "{} goes before {}, which is ready since {since}; it was worked on until {ended}",
                lease.tp,
                other.tp
            );
        }
    }

    pub fn ended(&mut self, now: Nanos, lane: LaneId) {
        self.ended.insert(lane, now);
    }

    /// Restarts the lane's waiting time, after a move or a pause.
    pub fn moved(&mut self, lane: LaneId) {
        self.ready.remove(&lane);
    }

    /// Restarts all waiting times: no job was handed out for a while.
    pub fn forget(&mut self) {
        self.ready.clear();
    }
}
