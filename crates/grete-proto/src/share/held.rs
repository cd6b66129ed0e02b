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
}

/// Record that is held no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Removed {
    /// Time at which this member got the record.
    pub(super) since: Nanos,
    /// Whether the lock lasts, as far as is known.
    pub(super) is_locked: bool,
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
        let renew_at = now.saturating_add(lock / 2);
        for offset in range.offsets() {
            self.records.entry(offset).or_insert(HeldRecord { since: now, renew_at }).renew_at = renew_at;
        }
        self.next_renewal = Some(self.next_renewal.map_or(renew_at, |next| next.min(renew_at)));
        self.len() - before
    }

    /// Removes a record. `None`: the record was not held.
    pub(super) fn remove(&mut self, offset: i64) -> Option<Removed> {
        let HeldRecord { since, renew_at } = self.records.remove(&offset)?;
        if self.records.is_empty() {
            self.next_renewal = None;
        }
        Some(Removed { since, is_locked: renew_at != LOST })
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
    pub(super) fn renew(&mut self, now: Nanos, lock: Nanos) -> Vec<Acknowledgement> {
        if self.next_renewal.is_none_or(|next| next > now) {
            return Vec::new();
        }
        let mut renewals = Vec::new();
        for (offset, record) in &mut self.records {
            if record.renew_at <= now {
                record.renew_at = now.saturating_add(lock / 2);
                renewals.push(Acknowledgement::one(*offset, AckType::Renew));
            }
        }
        self.next_renewal = self.renewals().min();
        merged(renewals)
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
        assert_eq!((held.next_renewal(0), held.renew(499, 60_000)), (Some(500), vec![]));
        let renewed = held.renew(500, 60_000);
        assert_eq!(renewed, [Acknowledgement { first: 0, last: 1, kind: AckType::Renew }]);
        assert_eq!(held.next_renewal(500), Some(30_000));
        assert_eq!(held.remove(0), Some(Removed { since: 0, is_locked: true }));
        held.set_lost(1);
        assert_eq!(held.remove(1), Some(Removed { since: 0, is_locked: false }));
    }
}
