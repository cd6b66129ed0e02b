//! Ready units of lanes, in the order in which workers serve them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::dispatch::ids::LaneId;
use crate::dispatch::route_config::{Pool, RouteConfig};
use crate::time::{Nanos, SECOND};

/// Part of a lane that is ready to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::dispatch) enum ReadyKind {
    /// Rows of a slot; in a lane without slots, slot 0 stands for the lane's data.
    Unit(u32),
    /// Rows without a key, which any slot may take.
    Unkeyed,
    /// Fetched data to decode for the slots.
    Decode,
    /// A hook of the whole lane.
    LaneHook,
}

/// Entry of the ready queue. Each [`ReadyKind`] of a lane has at most one entry; the lane records which kinds have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::dispatch) struct QueueEntry {
    /// Time since which the entry waits, less one second for each step of priority. A route of higher priority goes
    /// first, and each entry is served at some time.
    score: i64,
    sequence: u64,
    pub(in crate::dispatch) lane: LaneId,
    pub(in crate::dispatch) kind: ReadyKind,
    /// Number of the route whose limit of jobs has let this entry go; `None`: it was not held.
    pub(in crate::dispatch) released_by: Option<u32>,
}

/// One priority queue for each pool.
#[derive(Debug, Default)]
pub(in crate::dispatch) struct ReadyQueue {
    places: [BinaryHeap<Reverse<QueueEntry>>; Pool::ALL.len()],
    sequence: u64,
}

impl ReadyQueue {
    pub(in crate::dispatch) fn add(&mut self, since: Nanos, policy: &RouteConfig, lane: LaneId, claim: ReadyKind) {
        let since = i64::try_from(since).unwrap_or(i64::MAX);
        let score = since.saturating_sub(i64::from(policy.priority).saturating_mul(SECOND.cast_signed()));
        self.sequence += 1;
        self.put(policy.pool, QueueEntry { score, sequence: self.sequence, lane, kind: claim, released_by: None });
    }

    /// Puts an entry back, with its old score.
    pub(in crate::dispatch) fn put(&mut self, pool: Pool, place: QueueEntry) {
        if let Some(places) = self.places.get_mut(pool.index()) {
            places.push(Reverse(place));
        }
    }

    pub(in crate::dispatch) fn pop(&mut self, pool: Pool) -> Option<QueueEntry> {
        self.places.get_mut(pool.index())?.pop().map(|Reverse(place)| place)
    }

    pub(in crate::dispatch) fn is_empty(&self, pool: Pool) -> bool {
        self.places.get(pool.index()).is_none_or(BinaryHeap::is_empty)
    }
}
