//! What waits for a worker, in the order in which it is served.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::lane::LaneId;
use super::route::{Pool, RoutePolicy};
use crate::time::{Nanos, SECOND};

/// What of a lane wants to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Claim {
    /// A slot's rows; in a lane that is worked on as a whole, slot 0: its data.
    Unit(u32),
    /// Rows that any slot may take.
    Loose,
    /// Data to decode for the slots.
    Decode,
    /// A hook of the whole lane.
    Whole,
}

/// A place in the order. Each claim has one at most; the lane remembers which of its claims do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Since when it waits, less a second for each step of priority: so a route of higher priority goes first, and nobody
    /// waits for ever.
    score: i64,
    sequence: u64,
    pub(super) lane: LaneId,
    pub(super) claim: Claim,
}

/// One order for each pool.
#[derive(Debug, Default)]
pub(super) struct Ready {
    places: [BinaryHeap<Reverse<Place>>; Pool::ALL.len()],
    sequence: u64,
}

impl Ready {
    pub(super) fn add(&mut self, since: Nanos, policy: &RoutePolicy, lane: LaneId, claim: Claim) {
        let since = i64::try_from(since).unwrap_or(i64::MAX);
        let score = since.saturating_sub(i64::from(policy.priority).saturating_mul(SECOND.cast_signed()));
        self.sequence += 1;
        self.put(policy.pool, Place { score, sequence: self.sequence, lane, claim });
    }

    /// Back to where it was.
    pub(super) fn put(&mut self, pool: Pool, place: Place) {
        if let Some(places) = self.places.get_mut(pool.index()) {
            places.push(Reverse(place));
        }
    }

    pub(super) fn pop(&mut self, pool: Pool) -> Option<Place> {
        self.places.get_mut(pool.index())?.pop().map(|Reverse(place)| place)
    }

    pub(super) fn is_empty(&self, pool: Pool) -> bool {
        self.places.get(pool.index()).is_none_or(BinaryHeap::is_empty)
    }
}
