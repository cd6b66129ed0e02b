//! Filter of decoded rows: holds back rows that are too young, skips rows that are too old, done already or duplicates.

use std::ops::Range;
use std::sync::Arc;

use super::decoded_batch::DecodedBatch;
use crate::dispatch::dedup::DuplicateFilter;
use crate::dispatch::offset_map::OffsetMap;
use crate::dispatch::route_config::RouteConfig;

/// Conditions of a route at one time.
#[derive(Debug, Default, Clone)]
pub(in crate::dispatch) struct RowFilter {
    delay_ms: Option<i64>,
    max_age_ms: Option<i64>,
    wall_ms: i64,
    /// Offsets that were marked under an earlier assignment of the partition.
    recovered_marks: Option<Arc<OffsetMap>>,
    duplicates: Option<Arc<DuplicateFilter>>,
}

/// Rows that were skipped.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(in crate::dispatch) struct SkippedRows {
    /// Expired rows: number, first and last offset.
    pub(in crate::dispatch) expired: Option<(usize, i64, i64)>,
    /// Number of rows that were done already.
    pub(in crate::dispatch) already_done: usize,
    /// Duplicates: number, first and last offset.
    pub(in crate::dispatch) duplicates: Option<(usize, i64, i64)>,
    /// Number of ids that were dropped within their window.
    pub(in crate::dispatch) forgotten_ids: usize,
}

/// Adds an offset to a number of rows, with their first and last offset.
fn count_row(counted: &mut Option<(usize, i64, i64)>, offset: i64) {
    *counted = Some(counted.map_or((1, offset, offset), |(count, first, _)| (count + 1, first, offset)));
}

/// Rows of a batch that are left.
#[derive(Debug)]
pub(in crate::dispatch) enum FilterResult {
    All(DecodedBatch),
    Partial(DecodedBatch),
    Empty,
}

impl RowFilter {
    pub(in crate::dispatch) fn new(
        policy: &RouteConfig,
        wall_ms: i64,
        recovered_marks: Option<Arc<OffsetMap>>,
        duplicates: Option<Arc<DuplicateFilter>>,
    ) -> Self {
        Self { delay_ms: policy.delay_ms, max_age_ms: policy.max_age_ms, wall_ms, recovered_marks, duplicates }
    }

    /// Returns how many leading rows are old enough.
    pub(in crate::dispatch) fn matured(&self, batch: &DecodedBatch) -> MaturedRows {
        match self.delay_ms {
            None => MaturedRows { rows: batch.rows.len(), next_at_ms: None },
            Some(delay_ms) => matured_rows(timestamps(batch), delay_ms, self.wall_ms),
        }
    }

    /// Removes rows that have expired, are done already or are duplicates, and adds them to `skipped`.
    ///
    /// An expired row is not processed, so its id is not remembered. A row that is done already was processed.
    pub(in crate::dispatch) fn apply(&self, batch: DecodedBatch, skipped: &mut SkippedRows) -> FilterResult {
        let unexpired =
            self.max_age_ms.and_then(|expire_ms| unexpired_rows(timestamps(&batch), expire_ms, self.wall_ms));
        let offsets = batch.offsets();
        let done = |offset: i64| self.recovered_marks.as_ref().is_some_and(|already| already.contains(offset));
        let kept = |row: usize| {
            unexpired.as_ref().is_none_or(|unexpired| {
                let at = unexpired.partition_point(|range| range.end <= row);
                unexpired.get(at).is_some_and(|range| range.contains(&row))
            })
        };
        let is_done = |row: usize| offsets.get(row).is_some_and(|offset| done(*offset));
        let found = self
            .duplicates
            .as_ref()
            .map(|filter| filter.find(&batch.columns, batch.rows.clone(), |row| kept(row) || is_done(row)));
        let duplicates = found.as_ref().map(|found| found.rows.as_slice()).unwrap_or_default();
        let has_done = self.recovered_marks.is_some() && offsets.iter().any(|offset| done(*offset));
        skipped.forgotten_ids += found.as_ref().map_or(0, |found| found.forgotten);
        if unexpired.is_none() && !has_done && duplicates.is_empty() {
            return FilterResult::All(batch);
        }
        let is_duplicate = |row: usize| duplicates.binary_search(&row).is_ok();
        for (row, offset) in offsets.iter().enumerate() {
            match (done(*offset), kept(row)) {
                (true, _) => skipped.already_done += 1,
                (false, false) => count_row(&mut skipped.expired, *offset),
                (false, true) if is_duplicate(row) => count_row(&mut skipped.duplicates, *offset),
                (false, true) => {}
            }
        }
        let wanted = |row: usize| kept(row) && !is_done(row) && !is_duplicate(row);
        batch.filter_rows(wanted).map_or(FilterResult::Empty, FilterResult::Partial)
    }
}

fn timestamps(batch: &DecodedBatch) -> &[i64] {
    batch.columns.timestamps.get(batch.rows.clone()).unwrap_or_default()
}

/// Leading rows that are old enough to be handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::dispatch) struct MaturedRows {
    /// Number of leading rows that are old enough.
    pub(in crate::dispatch) rows: usize,
    /// Wall-clock time in milliseconds at which the next row is old enough; `None` if all rows are.
    pub(in crate::dispatch) next_at_ms: Option<i64>,
}

/// Returns the leading rows that are at least `delay_ms` old. Rows without a timestamp (-1) are old enough.
///
/// Rows behind a row that is too young wait with it, whatever their age: the partition's order holds.
fn matured_rows(timestamps: &[i64], delay_ms: i64, wall_ms: i64) -> MaturedRows {
    let due_at = |timestamp: i64| timestamp.saturating_add(delay_ms);
    let waits = |timestamp: &i64| *timestamp >= 0 && due_at(*timestamp) > wall_ms;
    let rows = timestamps.iter().position(waits).unwrap_or(timestamps.len());
    MaturedRows { rows, next_at_ms: timestamps.get(rows).map(|timestamp| due_at(*timestamp)) }
}

/// Returns the rows that are at most `max_age_ms` old, ascending, adjacent rows in one range. Rows without a timestamp
/// (-1) never expire. `None`: no row has expired.
fn unexpired_rows(timestamps: &[i64], max_age_ms: i64, wall_ms: i64) -> Option<Vec<Range<usize>>> {
    let limit = wall_ms.saturating_sub(max_age_ms);
    let expired = |timestamp: &i64| *timestamp >= 0 && *timestamp < limit;
    let first = timestamps.iter().position(expired)?;
    let mut kept: Vec<Range<usize>> = Vec::new();
    if first > 0 {
        kept.push(0..first);
    }
    for (row, timestamp) in timestamps.iter().enumerate().skip(first) {
        if expired(timestamp) {
            continue;
        }
        match kept.last_mut().filter(|range| range.end == row) {
            Some(range) => range.end = row + 1,
            None => kept.push(row..row + 1),
        }
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rows_are_due_when_they_are_old_enough() {
        assert_eq!(matured_rows(&[100, 200, 300], 50, 250), MaturedRows { rows: 2, next_at_ms: Some(350) });
        assert_eq!(matured_rows(&[100, 200], 50, 250), MaturedRows { rows: 2, next_at_ms: None });
        assert_eq!(matured_rows(&[-1, 100, -1, 300], 50, 150), MaturedRows { rows: 3, next_at_ms: Some(350) });
        // The first row delays the rows behind it.
        assert_eq!(matured_rows(&[400, 100], 50, 250), MaturedRows { rows: 0, next_at_ms: Some(450) });
        assert_eq!(matured_rows(&[i64::MAX], 50, 250), MaturedRows { rows: 0, next_at_ms: Some(i64::MAX) });
        assert_eq!(matured_rows(&[], 50, 250), MaturedRows { rows: 0, next_at_ms: None });
    }

    #[test]
    fn rows_that_are_too_old_are_left_out() {
        assert_eq!(unexpired_rows(&[100, 200, -1], 50, 150), None);
        let kept = vec![0..1, 3..4];
        assert_eq!(unexpired_rows(&[300, 100, 200, 300], 50, 260), Some(kept));
        let kept = vec![0..2, 3..4, 5..6];
        assert_eq!(unexpired_rows(&[500, -1, 1, 500, 2, -1, 3], 50, 260), Some(kept));
        assert_eq!(unexpired_rows(&[1], 50, 260), Some(vec![]));
        assert_eq!(unexpired_rows(&[0], i64::MAX, i64::MIN), None);
    }

    proptest! {
        #[test]
        fn kept_rows_are_those_that_have_not_expired(times in prop::collection::vec(-1..20_i64, 0..40), wall in 0..40_i64) {
            let naive: Vec<usize> = (0..times.len()).filter(|row| times[*row] < 0 || wall - times[*row] <= 10).collect();
            let found = unexpired_rows(&times, 10, wall);
            prop_assert_eq!(found.is_none(), naive.len() == times.len());
            if let Some(kept) = found {
                prop_assert!(kept.is_sorted_by(|a, b| a.end < b.start));
                prop_assert_eq!(kept.into_iter().flatten().collect::<Vec<_>>(), naive);
            }
        }
    }
}
