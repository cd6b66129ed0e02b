//! Acknowledgements of a member.

use grete_wire::ErrorCode;

use super::{Range, SharePartition, State};
use crate::effects::share_group::StoredRange;
use crate::ids::Millis;

/// Meaning of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckKind {
    /// There is no record at the offset.
    Gap,
    /// The record is processed.
    Accept,
    /// A member gets the record again.
    Release,
    /// The record cannot be processed.
    Reject,
    /// The lock begins anew (KIP-1222).
    Renew,
}

impl AckKind {
    /// Returns the meaning of a number in a request.
    #[must_use]
    pub const fn from_number(number: i8) -> Option<Self> {
        Some(match number {
            0 => Self::Gap,
            1 => Self::Accept,
            2 => Self::Release,
            3 => Self::Reject,
            4 => Self::Renew,
            _ => return None,
        })
    }
}

/// Acknowledgements of consecutive offsets: one for all, or one for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AckBatch {
    /// First offset.
    pub first: i64,
    /// Last offset.
    pub last: i64,
    /// Meanings: one, or one for each offset.
    pub kinds: Vec<AckKind>,
}

impl AckBatch {
    /// Reads the acknowledgements of a partition.
    ///
    /// # Errors
    /// `INVALID_REQUEST`: offsets do not ascend, or the number of the meanings is neither one nor that of the offsets, or a
    /// meaning is unknown. `allow_renew`: whether the request says that it renews.
    pub fn read<'a>(
        batches: impl IntoIterator<Item = (i64, i64, &'a [i8])>,
        allow_renew: bool,
    ) -> Result<Vec<Self>, ErrorCode> {
        const INVALID: ErrorCode = ErrorCode::INVALID_REQUEST;
        let mut read = Vec::new();
        let mut after = -1;
        for (first, last, types) in batches {
            let count = last.checked_sub(first).and_then(|more| more.checked_add(1)).ok_or(INVALID)?;
            let is_counted = types.len() == 1 || i64::try_from(types.len()) == Ok(count);
            if first <= after || count < 1 || !is_counted {
                return Err(INVALID);
            }
            let kinds = types.iter().map(|kind| AckKind::from_number(*kind)).collect::<Option<Vec<_>>>();
            let kinds = kinds.ok_or(INVALID)?;
            if kinds.contains(&AckKind::Renew) && !allow_renew {
                return Err(INVALID);
            }
            after = last;
            read.push(Self { first, last, kinds });
        }
        Ok(read)
    }

    /// Returns consecutive offsets of one meaning: first, last, meaning.
    fn runs(&self) -> Vec<(i64, i64, AckKind)> {
        let mut runs: Vec<(i64, i64, AckKind)> = Vec::new();
        if let [kind] = self.kinds[..] {
            return vec![(self.first, self.last, kind)];
        }
        for (offset, kind) in (self.first..=self.last).zip(&self.kinds) {
            match runs.last_mut() {
                Some((_, last, same)) if same == kind => *last = offset,
                _ => runs.push((offset, offset, *kind)),
            }
        }
        runs
    }
}

/// Rules of acknowledgements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckRules {
    /// End of a lock that is renewed now.
    pub lock_ends: Millis,
    /// `share.delivery.count.limit`.
    pub delivery_count_limit: i16,
}

impl SharePartition {
    /// Applies the acknowledgements of a member: all of them, or none. Returns the ranges with a new state. Offsets below the
    /// start offset are done already, and are ignored.
    ///
    /// # Errors
    /// `INVALID_RECORD_STATE`: the member does not have one of the records. `INVALID_REQUEST`: no member ever got one.
    pub fn acknowledge(
        &mut self,
        member: &str,
        batches: &[AckBatch],
        rules: AckRules,
    ) -> Result<Vec<StoredRange>, ErrorCode> {
        let next = self.next();
        if batches.iter().any(|batch| batch.first >= next) {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        if batches.iter().any(|batch| !self.has_all(member, batch.first.max(self.start), batch.last)) {
            return Err(ErrorCode::INVALID_RECORD_STATE);
        }
        let mut changed = Vec::new();
        for (first, last, kind) in batches.iter().flat_map(AckBatch::runs) {
            self.acknowledge_run((first.max(self.start), last), kind, rules, &mut changed);
        }
        self.advance();
        Ok(changed)
    }

    /// Returns whether a member has all records of a range.
    fn has_all(&self, member: &str, first: i64, last: i64) -> bool {
        let mut at = first;
        while at <= last {
            let Some((_, range)) = self.ranges.range(..=at).next_back().filter(|(_, range)| range.last >= at) else {
                return false;
            };
            if !matches!(&range.state, State::Acquired { member: owner, .. } if **owner == *member) {
                return false;
            }
            at = range.last + 1;
        }
        true
    }

    fn acknowledge_run(
        &mut self,
        (first, last): (i64, i64),
        kind: AckKind,
        rules: AckRules,
        changed: &mut Vec<StoredRange>,
    ) {
        if first > last {
            return;
        }
        self.split_at(first);
        self.split_at(last + 1);
        for (first, range) in self.ranges.range_mut(first..=last) {
            let Range { last, state } = range;
            let State::Acquired { deliveries, lock_ends, .. } = state else { continue };
            let deliveries = match kind {
                AckKind::Renew => {
                    *lock_ends = rules.lock_ends;
                    continue;
                }
                AckKind::Release => Some(*deliveries).filter(|deliveries| *deliveries < rules.delivery_count_limit),
                AckKind::Gap | AckKind::Accept | AckKind::Reject => None,
            };
            *state = deliveries.map_or(State::Done, |deliveries| State::Available { deliveries });
            changed.push(StoredRange { first: *first, last: *last, deliveries });
        }
    }
}
