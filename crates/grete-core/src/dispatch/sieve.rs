//! Which decoded rows a lane wants now: not too young, not too old, not done already.

use std::sync::Arc;

use super::batch::Batch;
use super::flow::{Due, due, fresh};
use super::offset_map::OffsetMap;
use super::route::RoutePolicy;

/// A route's conditions at one time.
#[derive(Debug, Default, Clone)]
pub(super) struct Sieve {
    delay_ms: Option<i64>,
    expire_ms: Option<i64>,
    wall_ms: i64,
    /// What was done in an earlier life of the partition.
    already: Option<Arc<OffsetMap>>,
}

/// Rows that were passed over.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Passed {
    /// They had expired: how many, the first, the last.
    pub(super) expired: Option<(usize, i64, i64)>,
    /// They were done already.
    pub(super) known: usize,
}

/// What is left of a batch.
#[derive(Debug)]
pub(super) enum Sifted {
    All(Batch),
    Some(Batch),
    None,
}

impl Sieve {
    pub(super) fn new(policy: &RoutePolicy, wall_ms: i64, already: Option<Arc<OffsetMap>>) -> Self {
        Self { delay_ms: policy.delay_ms, expire_ms: policy.expire_ms, wall_ms, already }
    }

    /// How many of the first rows are old enough.
    pub(super) fn due(&self, batch: &Batch) -> Due {
        match self.delay_ms {
            None => Due { rows: batch.rows.len(), next_at_ms: None },
            Some(delay_ms) => due(timestamps(batch), delay_ms, self.wall_ms),
        }
    }

    /// Passes over what has expired or is done already. `passed` counts along.
    pub(super) fn sift(&self, batch: Batch, passed: &mut Passed) -> Sifted {
        let gone = self.expire_ms.and_then(|expire_ms| fresh(timestamps(&batch), expire_ms, self.wall_ms));
        let offsets = batch.offsets();
        let done = |offset: i64| self.already.as_ref().is_some_and(|already| already.contains(offset));
        if gone.is_none() && (self.already.is_none() || !offsets.iter().any(|offset| done(*offset))) {
            return Sifted::All(batch);
        }
        let kept = |row: usize| {
            gone.as_ref().is_none_or(|gone| {
                let at = gone.kept.partition_point(|range| range.end <= row);
                gone.kept.get(at).is_some_and(|range| range.contains(&row))
            })
        };
        let too_old = offsets.iter().enumerate().filter(|(row, offset)| !kept(*row) && !done(**offset));
        let mut too_old = too_old.map(|(_, offset)| *offset);
        if let Some(first) = too_old.next() {
            let (count, last) = too_old.fold((1, first), |(count, _), offset| (count + 1, offset));
            let (before, first) = passed.expired.map_or((0, first), |(count, first, _)| (count, first));
            passed.expired = Some((before + count, first, last));
        }
        let wanted = |row: usize| kept(row) && offsets.get(row).is_some_and(|offset| !done(*offset));
        passed.known += offsets.iter().filter(|offset| done(**offset)).count();
        batch.filtered(wanted).map_or(Sifted::None, Sifted::Some)
    }
}

fn timestamps(batch: &Batch) -> &[i64] {
    batch.columns.timestamps.get(batch.rows.clone()).unwrap_or_default()
}
