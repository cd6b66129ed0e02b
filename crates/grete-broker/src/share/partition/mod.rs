//! Share partition: the state of each record that a group has not done with yet.

mod acknowledge;
mod acquire;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use acknowledge::{AckBatch, AckKind, AckRules};
pub use acquire::{Acquired, BatchSpan, Claim};

use crate::effects::share_group::StoredRange;
use crate::ids::Millis;

/// State of a range of records.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// A member can get the records. `deliveries`: how often members got them.
    Available { deliveries: i16 },
    /// A member has the records until it acknowledges them or their lock ends.
    Acquired { deliveries: i16, member: Arc<str>, lock_ends: Millis },
    /// No member gets the records again: acknowledged, archived, or no records at all.
    Done,
}

/// Range of records, from its key in the map on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    last: i64,
    state: State,
}

/// Records of a partition in flight, for one group. Ranges follow each other without gaps from the start offset on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharePartition {
    /// First offset that is not done (share-partition start offset). No range: also the next offset to acquire.
    start: i64,
    ranges: BTreeMap<i64, Range>,
    /// Leader epoch of the last request: another one ends all locks.
    leader_epoch: i32,
}

impl SharePartition {
    /// Creates the state of a partition that a group begins to read at an offset.
    #[must_use]
    pub fn new(start: i64, leader_epoch: i32) -> Self {
        Self { start, ranges: BTreeMap::new(), leader_epoch }
    }

    /// Returns the first offset that is not done.
    #[must_use]
    pub fn start(&self) -> i64 {
        self.start
    }

    /// Returns the offset after the last one that a member ever got.
    #[must_use]
    pub fn next(&self) -> i64 {
        self.ranges.last_key_value().map_or(self.start, |(_, range)| range.last + 1)
    }

    /// Returns the number of offsets behind the start offset that are done.
    #[must_use]
    pub fn done(&self) -> i64 {
        let done = self.ranges.iter().filter(|(_, range)| range.state == State::Done);
        done.map(|(first, range)| range.last - first + 1).sum()
    }

    /// Returns when the first lock ends. `None`: no record is acquired.
    #[must_use]
    pub fn deadline(&self) -> Option<Millis> {
        let locks = self.ranges.values().filter_map(|range| match range.state {
            State::Acquired { lock_ends, .. } => Some(lock_ends),
            _ => None,
        });
        locks.min()
    }

    /// Ends the locks that are due. Returns the ranges with a new state.
    pub fn expire(&mut self, now: Millis, delivery_count_limit: i16) -> Vec<StoredRange> {
        self.unlock(|_, ends| ends <= now, |deliveries| (deliveries < delivery_count_limit).then_some(deliveries))
    }

    /// Gives back what a member has. Returns the ranges with a new state.
    pub fn release_member(&mut self, member: &str, delivery_count_limit: i16) -> Vec<StoredRange> {
        let again = |deliveries| (deliveries < delivery_count_limit).then_some(deliveries);
        self.unlock(|owner, _| owner == member, again)
    }

    /// Follows the leader and the start of the log: a new leader knows no locks, and records that the log no longer has
    /// are done. Returns the ranges with a new state.
    pub fn follow(&mut self, leader_epoch: i32, log_start: i64) -> Vec<StoredRange> {
        let mut changed = Vec::new();
        if leader_epoch != self.leader_epoch {
            self.leader_epoch = leader_epoch;
            changed = self.unlock(|_, _| true, |deliveries| Some(deliveries.saturating_sub(1).max(0)));
        }
        if log_start > self.start {
            self.split_at(log_start);
            self.ranges = self.ranges.split_off(&log_start);
            changed.push(StoredRange { first: self.start, last: log_start - 1, deliveries: None });
            self.start = log_start;
        }
        self.advance();
        changed
    }

    /// Applies a stored change. Offsets between the ranges, which no member had acknowledged, are available.
    pub fn restore(&mut self, start: i64, ranges: &[StoredRange]) {
        let before = self.start;
        for stored in ranges.iter().filter(|stored| stored.first <= stored.last && stored.last >= before) {
            let (first, last) = (stored.first.max(self.start), stored.last);
            let next = self.next();
            if first > next {
                let state = State::Available { deliveries: 0 };
                self.ranges.insert(next, Range { last: first - 1, state });
            }
            self.split_at(first);
            self.split_at(last.saturating_add(1));
            let covered: Vec<i64> = self.ranges.range(first..=last).map(|(first, _)| *first).collect();
            covered.iter().for_each(|first| drop(self.ranges.remove(first)));
            let state = stored.deliveries.map_or(State::Done, |deliveries| State::Available { deliveries });
            self.ranges.insert(first, Range { last, state });
        }
        if start > self.start {
            self.split_at(start);
            self.ranges = self.ranges.split_off(&start);
            self.start = start;
        }
        self.advance();
    }

    /// Returns the ranges that restore the state. Locks are not stored: what is acquired counts one delivery less.
    #[must_use]
    pub fn snapshot(&self) -> Vec<StoredRange> {
        let stored = |(first, range): (&i64, &Range)| StoredRange {
            first: *first,
            last: range.last,
            deliveries: match range.state {
                State::Available { deliveries } => Some(deliveries),
                State::Acquired { deliveries, .. } => Some(deliveries.saturating_sub(1).max(0)),
                State::Done => None,
            },
        };
        self.ranges.iter().map(stored).collect()
    }

    /// Ends locks. `is_due`: of the owner and the end of a lock. `deliveries`: of the number so far to the new one; `None`:
    /// no member gets the records again.
    fn unlock(
        &mut self,
        is_due: impl Fn(&str, Millis) -> bool,
        deliveries: impl Fn(i16) -> Option<i16>,
    ) -> Vec<StoredRange> {
        let mut changed = Vec::new();
        for (first, range) in &mut self.ranges {
            let State::Acquired { deliveries: so_far, member, lock_ends } = &range.state else { continue };
            if is_due(member, *lock_ends) {
                let deliveries = deliveries(*so_far);
                range.state = deliveries.map_or(State::Done, |deliveries| State::Available { deliveries });
                changed.push(StoredRange { first: *first, last: range.last, deliveries });
            }
        }
        if !changed.is_empty() {
            self.advance();
        }
        changed
    }

    /// Lets a range begin at an offset that is inside another one.
    fn split_at(&mut self, offset: i64) {
        let Some((_, range)) = self.ranges.range_mut(..offset).next_back() else { return };
        if range.last >= offset {
            let rest = range.clone();
            range.last = offset - 1;
            self.ranges.insert(offset, rest);
        }
    }

    /// Moves the start over what is done, and joins neighbors of one state.
    fn advance(&mut self) {
        while let Some(first) = self.ranges.first_entry().filter(|first| first.get().state == State::Done) {
            self.start = first.remove().last + 1;
        }
        let mut joined: BTreeMap<i64, Range> = BTreeMap::new();
        for (first, range) in std::mem::take(&mut self.ranges) {
            match joined.last_entry() {
                Some(mut previous) if previous.get().state == range.state => previous.get_mut().last = range.last,
                _ => drop(joined.insert(first, range)),
            }
        }
        self.ranges = joined;
    }
}
