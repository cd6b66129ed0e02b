//! Acquisition of records for a member.

use std::sync::Arc;

use super::{Range, SharePartition, State};
use crate::effects::share_group::StoredRange;
use crate::ids::Millis;

/// Request of a member for records.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Member id.
    pub member: Arc<str>,
    /// End of the locks.
    pub lock_ends: Millis,
    /// Records that the member wants.
    pub max_records: i64,
    /// Whether batches are acquired whole, even beyond `max_records`.
    pub whole_batches: bool,
    /// Offsets from the start offset on that may be in flight.
    pub max_locks: i64,
}

/// Offsets of a batch that was read from the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSpan {
    /// First offset.
    pub first: i64,
    /// Last offset.
    pub last: i64,
    /// Whether its records belong to an aborted transaction, which the group does not read.
    pub is_aborted: bool,
}

/// Consecutive records that a member gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acquired {
    /// First offset.
    pub first: i64,
    /// Last offset.
    pub last: i64,
    /// Number of deliveries, with this one.
    pub deliveries: i16,
}

impl SharePartition {
    /// Returns the offset from which records can be acquired. `None`: as many are in flight as the group allows.
    #[must_use]
    pub fn first_acquirable(&self, max_locks: i64) -> Option<i64> {
        let available = self.ranges.iter().find(|(_, range)| matches!(range.state, State::Available { .. }));
        let next = self.next();
        available.map(|(first, _)| *first).or_else(|| (next - self.start < max_locks).then_some(next))
    }

    /// Gives a member records of these batches, which follow [`SharePartition::first_acquirable`]. Returns the records, and
    /// the ranges that are done: gaps between batches, and aborted transactions.
    pub fn acquire(&mut self, claim: &Claim, batches: &[BatchSpan]) -> (Vec<Acquired>, Vec<StoredRange>) {
        let (mut acquired, mut done) = (Vec::new(), Vec::new());
        let mut left = claim.max_records;
        for batch in batches {
            if left <= 0 {
                break;
            }
            let next = self.next();
            if batch.first > next {
                self.ranges.insert(next, Range { last: batch.first - 1, state: State::Done });
                done.push(StoredRange { first: next, last: batch.first - 1, deliveries: None });
            }
            self.take_available(claim, batch, &mut left, &mut acquired, &mut done);
            if left > 0 && !self.take_new(claim, batch, &mut left, &mut acquired, &mut done) {
                break;
            }
        }
        self.advance();
        (acquired, done)
    }

    /// Takes records that were in flight before.
    fn take_available(
        &mut self,
        claim: &Claim,
        batch: &BatchSpan,
        left: &mut i64,
        acquired: &mut Vec<Acquired>,
        done: &mut Vec<StoredRange>,
    ) {
        let mut at = batch.first.max(self.start);
        self.split_at(at);
        while at <= batch.last {
            let Some((&first, range)) = self.ranges.range(at..=batch.last).next() else { return };
            let State::Available { deliveries } = range.state else {
                at = range.last + 1;
                continue;
            };
            if *left <= 0 && !claim.whole_batches {
                return;
            }
            let mut last = range.last.min(batch.last);
            if !claim.whole_batches && !batch.is_aborted {
                last = last.min(first + *left - 1);
            }
            self.split_at(last + 1);
            self.give(claim, (first, last), batch.is_aborted, deliveries, left, acquired, done);
            at = last + 1;
        }
    }

    /// Takes records that were never in flight. Returns whether the next batch can follow.
    fn take_new(
        &mut self,
        claim: &Claim,
        batch: &BatchSpan,
        left: &mut i64,
        acquired: &mut Vec<Acquired>,
        done: &mut Vec<StoredRange>,
    ) -> bool {
        let first = self.next();
        if first > batch.last {
            return true;
        }
        let room = claim.max_locks - (first - self.start);
        let wanted = if claim.whole_batches || batch.is_aborted { i64::MAX } else { *left };
        let last = batch.last.min(first.saturating_add(wanted.min(room) - 1));
        if last < first {
            return false;
        }
        self.give(claim, (first, last), batch.is_aborted, 0, left, acquired, done);
        last == batch.last
    }

    #[expect(clippy::too_many_arguments, reason = "the two callers share what they collect")]
    fn give(
        &mut self,
        claim: &Claim,
        (first, last): (i64, i64),
        is_aborted: bool,
        deliveries: i16,
        left: &mut i64,
        acquired: &mut Vec<Acquired>,
        done: &mut Vec<StoredRange>,
    ) {
        if is_aborted {
            self.ranges.insert(first, Range { last, state: State::Done });
            done.push(StoredRange { first, last, deliveries: None });
            return;
        }
        let deliveries = deliveries.saturating_add(1);
        let (member, lock_ends) = (Arc::clone(&claim.member), claim.lock_ends);
        self.ranges.insert(first, Range { last, state: State::Acquired { deliveries, member, lock_ends } });
        *left -= last - first + 1;
        match acquired.last_mut() {
            Some(previous) if previous.last + 1 == first && previous.deliveries == deliveries => previous.last = last,
            _ => acquired.push(Acquired { first, last, deliveries }),
        }
    }
}
