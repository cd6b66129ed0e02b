//! Records that this member has acquired and not acknowledged.

use std::collections::BTreeMap;

use super::acknowledgement::{AckType, Acknowledgement, merged};
use crate::fetch::AcquiredRange;
use crate::time::Nanos;

/// Time of a lock that has ended, while the record is still being processed here.
const LOST: Nanos = Nanos::MAX;

/// Acquired records of one partition, by offset, with the time of the last lock.
///
/// A record whose lock has ended stays: its handler still runs, and must not run a second time beside itself.
#[derive(Debug, Default)]
pub(super) struct HeldRecords {
    locked_at: BTreeMap<i64, Nanos>,
    /// No lock is older than this; `None`: nothing is held.
    oldest: Option<Nanos>,
}

impl HeldRecords {
    pub(super) fn len(&self) -> usize {
        self.locked_at.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.locked_at.is_empty()
    }

    pub(super) fn contains(&self, offset: i64) -> bool {
        self.locked_at.contains_key(&offset)
    }

    /// Adds a range, locked at `now`. Returns how many of its records were not held.
    pub(super) fn add(&mut self, range: &AcquiredRange, now: Nanos) -> usize {
        let before = self.len();
        self.locked_at.extend(range.offsets().map(|offset| (offset, now)));
        self.oldest = Some(self.oldest.map_or(now, |oldest| oldest.min(now)));
        self.len() - before
    }

    /// Removes a record. Returns whether its lock lasts, as far as is known; `None`: it was not held.
    pub(super) fn remove(&mut self, offset: i64) -> Option<bool> {
        let locked_at = self.locked_at.remove(&offset)?;
        if self.locked_at.is_empty() {
            self.oldest = None;
        }
        Some(locked_at != LOST)
    }

    /// Records that the lock of a held record has ended.
    pub(super) fn set_lost(&mut self, offset: i64) {
        if let Some(locked_at) = self.locked_at.get_mut(&offset) {
            *locked_at = LOST;
        }
    }

    /// Returns the time of the oldest lock; `None`: no lock lasts. A time after `after` may be too early.
    pub(super) fn oldest_lock(&mut self, after: Nanos) -> Option<Nanos> {
        if self.oldest.is_some_and(|oldest| oldest <= after) {
            self.oldest = self.locks().min();
        }
        self.oldest
    }

    fn locks(&self) -> impl Iterator<Item = Nanos> {
        self.locked_at.values().copied().filter(|locked_at| *locked_at != LOST)
    }

    /// Returns the renewals of the locks from before `before` whose records are not in `except`, and counts them as
    /// locked at `now`.
    pub(super) fn renew(&mut self, before: Nanos, now: Nanos, except: impl Fn(i64) -> bool) -> Vec<Acknowledgement> {
        if self.oldest.is_none_or(|oldest| oldest > before) {
            return Vec::new();
        }
        let mut renewals = Vec::new();
        for (offset, locked_at) in &mut self.locked_at {
            if *locked_at <= before && !except(*offset) {
                *locked_at = now;
                renewals.push(Acknowledgement::one(*offset, AckType::Renew));
            }
        }
        self.oldest = self.locks().min();
        merged(renewals)
    }
}
