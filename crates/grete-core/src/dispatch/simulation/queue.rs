//! Fairness: who has waited longest goes first, as far as can be told from outside.

use std::collections::BTreeMap;

use crate::dispatch::{Concurrency, LaneId, LaneState, LaneStatus, Lease};
use crate::time::{Nanos, SECOND};

/// The lanes of one process.
#[derive(Debug, Default)]
pub struct Queue {
    /// Seen ready, and since when.
    ready: BTreeMap<LaneId, (Nanos, i32)>,
    /// When they were last worked on.
    ended: BTreeMap<LaneId, Nanos>,
}

impl Queue {
    /// A look at all lanes.
    pub fn look(&mut self, now: Nanos, statuses: &[LaneStatus]) {
        self.ready.retain(|id, _| statuses.iter().any(|status| status.lane == *id && status.state == LaneState::Ready));
        for status in statuses.iter().filter(|status| status.state == LaneState::Ready) {
            self.ready.entry(status.lane).or_insert((now, status.policy.priority));
        }
    }

    /// A job was handed out. A lane that was worked on after another had become ready comes behind it, unless its priority
    /// is worth more than that.
    pub fn taken(&mut self, lease: &Lease, others: &[LaneStatus]) {
        self.ready.remove(&lease.lane);
        // The slots of a lane wait each for itself.
        let Some(ended) = self
            .ended
            .get(&lease.lane)
            .filter(|_| lease.kind.needs_session() && lease.policy.concurrency == Concurrency::Partition)
        else {
            return;
        };
        // Of others only such that wait for one thing, and not for their rate.
        let waits = |other: &&LaneStatus| {
            let policy = &other.policy;
            let plain = policy.concurrency == Concurrency::Partition && policy.tick.is_none() && !policy.eof;
            plain && policy.rate_limit.is_none() && policy.pool == lease.pool() && other.state == LaneState::Ready
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

    /// The lane has been moved, or paused: it waits anew.
    pub fn moved(&mut self, lane: LaneId) {
        self.ready.remove(&lane);
    }

    /// Nothing was handed out for a while: whoever waited waits anew.
    pub fn forget(&mut self) {
        self.ready.clear();
    }
}
