//! Records that this member has acquired and not acknowledged.

use std::collections::BTreeMap;

use super::acknowledgement::{AckType, Acknowledgement, merged};
use crate::fetch::AcquiredRange;
use crate::time::Nanos;

/// Time of renewal of a lock that has ended, while the record is still being processed here.
const LOST: Nanos = Nanos::MAX;

/// Record that is held.
#[derive(Debug, Clone, Copy)]
struct HeldRecord {
    /// Time at which this member got the record.
    since: Nanos,
    /// Time at which the lock is renewed: after half of its duration.
    renew_at: Nanos,
    /// Time at which the lock ends, unless it is renewed.
    ends_at: Nanos,
}

/// Record that is held no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Removed {
    /// Time at which this member got the record.
    pub(super) since: Nanos,
    /// Whether the lock lasts, as far as the leader has answered.
    pub(super) is_locked: bool,
    /// Whether the lock has ended by this member's clock: it was not renewed in time.
    pub(super) is_late: bool,
}

/// Renewals of locks that are due.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Renewals {
    pub(super) acks: Vec<Acknowledgement>,
    /// Number and first offset of records whose locks have ended before.
    pub(super) late: Option<(usize, i64)>,
}

/// Acquired records of one partition, by offset, with the time at which each lock is renewed. The duration of locks can
/// change while records are held.
///
/// A record whose lock has ended stays: its handler still runs, and must not run a second time beside itself.
#[derive(Debug, Default)]
pub(super) struct HeldRecords {
    records: BTreeMap<i64, HeldRecord>,
    /// No lock is renewed before; `None`: nothing is held.
    next_renewal: Option<Nanos>,
}

impl HeldRecords {
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn contains(&self, offset: i64) -> bool {
        self.records.contains_key(&offset)
    }

    /// Adds a range, locked from `now` on for `lock`. Returns how many of its records were not held.
    pub(super) fn add(&mut self, range: &AcquiredRange, now: Nanos, lock: Nanos) -> usize {
        let before = self.len();
        let (renew_at, ends_at) = (now.saturating_add(lock / 2), now.saturating_add(lock));
        for offset in range.offsets() {
            let new = HeldRecord { since: now, renew_at, ends_at };
            let record = self.records.entry(offset).or_insert(new);
            *record = HeldRecord { since: record.since, ..new };
        }
        self.next_renewal = Some(self.next_renewal.map_or(renew_at, |next| next.min(renew_at)));
        self.len() - before
    }

    /// Removes a record. `None`: the record was not held.
    pub(super) fn remove(&mut self, offset: i64, now: Nanos) -> Option<Removed> {
        let HeldRecord { since, renew_at, ends_at } = self.records.remove(&offset)?;
        if self.records.is_empty() {
            self.next_renewal = None;
        }
        let is_locked = renew_at != LOST;
        Some(Removed { since, is_locked, is_late: is_locked && ends_at <= now })
    }

    /// Records that the lock of a held record has ended.
    pub(super) fn set_lost(&mut self, offset: i64) {
        if let Some(record) = self.records.get_mut(&offset) {
            record.renew_at = LOST;
        }
    }

    /// Returns when the next lock is renewed; `None`: no lock lasts. A time after `now` may be too early.
    pub(super) fn next_renewal(&mut self, now: Nanos) -> Option<Nanos> {
        if self.next_renewal.is_some_and(|next| next <= now) {
            self.next_renewal = self.renewals().min();
        }
        self.next_renewal
    }

    fn renewals(&self) -> impl Iterator<Item = Nanos> {
        self.records.values().map(|record| record.renew_at).filter(|renew_at| *renew_at != LOST)
    }

    /// Returns the renewals that are due, and counts their records as locked from `now` on for `lock`.
    pub(super) fn renew(&mut self, now: Nanos, lock: Nanos) -> Renewals {
        if self.next_renewal.is_none_or(|next| next > now) {
            return Renewals::default();
        }
        let (mut renewals, mut late) = (Vec::new(), None);
        for (offset, record) in &mut self.records {
            if record.renew_at <= now {
                if record.ends_at <= now {
                    late = Some(late.map_or((1, *offset), |(records, first)| (records + 1, first)));
                }
                (record.renew_at, record.ends_at) = (now.saturating_add(lock / 2), now.saturating_add(lock));
                renewals.push(Acknowledgement::one(*offset, AckType::Renew));
            }
        }
        self.next_renewal = self.renewals().min();
        Renewals { acks: merged(renewals), late }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_that_were_taken_for_a_shorter_time_are_renewed_by_it() {
        let mut held = HeldRecords::default();
        let range = |first, last| AcquiredRange { first, last, deliveries: 1 };
        held.add(&range(0, 1), 0, 1_000);
        held.add(&range(2, 2), 0, 60_000);
        assert_eq!((held.next_renewal(0), held.renew(499, 60_000)), (Some(500), Renewals::default()));
        let renewed = held.renew(500, 60_000);
        assert_eq!(renewed.acks, [Acknowledgement { first: 0, last: 1, kind: AckType::Renew }]);
        assert_eq!((renewed.late, held.next_renewal(500)), (None, Some(30_000)));
        assert_eq!(held.remove(0, 500), Some(Removed { since: 0, is_locked: true, is_late: false }));
        held.set_lost(1);
        assert_eq!(held.remove(1, 500), Some(Removed { since: 0, is_locked: false, is_late: false }));
    }

    /// The process stood still, and another member may have the records.
    #[test]
    fn a_lock_that_was_not_renewed_in_time_is_late() {
        let mut held = HeldRecords::default();
        held.add(&AcquiredRange { first: 3, last: 6, deliveries: 1 }, 0, 1_000);
        assert_eq!(held.remove(3, 999), Some(Removed { since: 0, is_locked: true, is_late: false }));
        assert_eq!(held.remove(4, 1_000), Some(Removed { since: 0, is_locked: true, is_late: true }));
        assert_eq!(held.renew(1_000, 1_000).late, Some((2, 5)));
        assert_eq!(held.remove(5, 1_999), Some(Removed { since: 0, is_locked: true, is_late: false }));
    }
}
