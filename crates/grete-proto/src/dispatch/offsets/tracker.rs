//! Offset tracker of a lane: records handed out, marks, and the committable offset.

use std::collections::VecDeque;
use std::ops::Range;

use super::acquired_records::AcquiredRecords;
use super::in_flight_range::{InFlightRange, Offsets, is_dense};
use super::job_outputs::Mark;
use crate::dispatch::offset_map::OffsetMap;
use crate::optional::OptionalI64;
use crate::share::AckType;

/// Offset tracker; a seek gives the lane another one.
#[derive(Debug, Default)]
pub(in crate::dispatch) struct OffsetTracker {
    /// All offsets below are done; `None` until the lane's position is known.
    base: OptionalI64,
    /// Leader epoch of the last record below `base`; -1 if unknown.
    leader_epoch: i32,
    /// Ranges handed out behind `base`, ascending. The first range has an open record.
    ranges: VecDeque<InFlightRange>,
    open: usize,
    /// Records in `ranges`, marked or not.
    rows: usize,
    /// Records that were marked as done.
    marked_records: u64,
    /// The lane waits until at most this many records count.
    resume_below: Option<(PendingKind, usize)>,
    /// `Some`: the records belong to a share group. They come in any order, and each is acknowledged; there is no
    /// committable offset.
    acquired: Option<Box<AcquiredRecords>>,
}

/// Count of records that the dispatcher limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::dispatch) enum PendingKind {
    /// Records that are handed out and not marked.
    Unmarked,
    /// Records from the first open one on, done or not: these run again after a crash.
    FromFirstUnmarked,
}

impl OffsetTracker {
    pub(in crate::dispatch) fn from_offset(offset: i64) -> Self {
        Self { base: Some(offset).into(), leader_epoch: -1, ..Self::default() }
    }

    /// Creates the tracker of a share group's records.
    pub(in crate::dispatch) fn of_acquired() -> Self {
        Self { acquired: Some(Box::default()), ..Self::default() }
    }

    /// Returns the records of a share group; `None`: the lane's records belong to no share group.
    pub(in crate::dispatch) fn acquired(&mut self) -> Option<&mut AcquiredRecords> {
        self.acquired.as_deref_mut()
    }

    /// Returns the committable offset, and the leader epoch of the record before it; `None`: the position is unknown.
    pub(in crate::dispatch) fn committable(&self) -> Option<(i64, i32)> {
        let base = self.base.get()?;
        match self.ranges.front().and_then(|span| Some((span.first_open()?, span))) {
            // Some records of the first range may be marked already.
            Some((open, span)) if open > span.first() => Some((open, span.leader_epoch)),
            _ => Some((base, self.leader_epoch)),
        }
    }

    /// Returns how many records count.
    pub(in crate::dispatch) fn pending_records(&self, kind: PendingKind) -> usize {
        if let Some(acquired) = &self.acquired {
            return acquired.open_count();
        }
        let marked = || self.ranges.front().map_or(0, InFlightRange::leading_marked);
        match kind {
            PendingKind::Unmarked => self.open,
            PendingKind::FromFirstUnmarked => self.rows - marked(),
        }
    }

    /// Returns the first open offset.
    pub(in crate::dispatch) fn first_open(&self) -> Option<i64> {
        if let Some(acquired) = &self.acquired {
            return acquired.first_open();
        }
        self.ranges.front().and_then(InFlightRange::first_open)
    }

    /// Records these offsets as handed out; the first record has this `timestamp`.
    ///
    /// `next_offset` is the offset to read next: behind these records and behind offsets after them that hold no
    /// visible record.
    pub(in crate::dispatch) fn hand_out(
        &mut self,
        offsets: Offsets,
        next_offset: i64,
        leader_epoch: i32,
        timestamp: i64,
    ) {
        if let Some(acquired) = &mut self.acquired {
            return acquired.open(offsets.iter());
        }
        let Some(span) = InFlightRange::new(offsets, next_offset, leader_epoch, timestamp) else {
            return self.skip(next_offset);
        };
        // Offsets before the first record were skipped.
        self.skip(span.first());
        self.open += span.open();
        self.rows += span.len();
        if self.ranges.capacity() == 0 {
            self.ranges.reserve_exact(1); // most lanes have one job in flight, and there may be thousands of lanes
        }
        self.ranges.push_back(span);
    }

    /// Records a hand-out whose records count as done at once.
    pub(in crate::dispatch) fn hand_out_done(&mut self, next_offset: i64, leader_epoch: i32) {
        self.skip(next_offset);
        if self.ranges.is_empty() {
            self.leader_epoch = leader_epoch;
        }
    }

    /// Records that there is no visible record from the end of the last range up to `next_offset`.
    pub(in crate::dispatch) fn skip(&mut self, next_offset: i64) {
        if self.acquired.is_some() {
            return;
        }
        match self.ranges.back_mut() {
            Some(last) => last.next_offset = last.next_offset.max(next_offset),
            None => self.base = Some(self.base.get().map_or(next_offset, |base| base.max(next_offset))).into(),
        }
    }

    /// Marks the handed-out records of `first..=last`. Returns how many records were open.
    pub(in crate::dispatch) fn mark(&mut self, first: i64, last: i64) -> usize {
        if let Some(acquired) = &mut self.acquired {
            let new = acquired.finish_open(first, last, AckType::Accept);
            self.marked_records += new as u64;
            return new;
        }
        let start = self.ranges.partition_point(|span| span.last() < first);
        let mut new = 0;
        for span in self.ranges.range_mut(start..) {
            if span.first() > last {
                break;
            }
            new += span.mark(first, last);
        }
        self.open -= new;
        self.marked_records += new as u64;
        self.advance();
        new
    }

    /// Applies a job's mark. Returns how many records were open.
    pub(in crate::dispatch) fn apply(&mut self, mark: &Mark) -> usize {
        match mark {
            Mark::Range(first, last) => self.mark(*first, *last),
            Mark::Rows(offsets) => self.mark_offsets(offsets),
        }
    }

    /// Returns how many records [`OffsetTracker::apply`] would mark.
    pub(in crate::dispatch) fn count_open(&self, mark: &Mark) -> usize {
        match mark {
            Mark::Range(first, last) if self.acquired.is_some() => {
                self.acquired.as_ref().map_or(0, |acquired| acquired.count_open(*first, *last))
            }
            Mark::Range(first, last) => {
                let start = self.ranges.partition_point(|span| span.last() < *first);
                let spans = self.ranges.range(start..).take_while(|span| span.first() <= *last);
                spans.map(|span| span.open_offsets().filter(|open| (first..=last).contains(&open)).count()).sum()
            }
            Mark::Rows(offsets) => offsets.iter().filter(|offset| self.is_open(**offset)).count(),
        }
    }

    /// Marks records that went to a dead letter topic. They do not count as done.
    pub(in crate::dispatch) fn mark_dead_lettered(&mut self, offsets: &[i64]) {
        if let Some(acquired) = &mut self.acquired {
            for offset in offsets {
                acquired.finish_open(*offset, *offset, AckType::Reject);
            }
            return;
        }
        let done = self.marked_records;
        self.mark_offsets(offsets);
        self.marked_records = done;
    }

    /// Returns how many records were marked as done.
    pub(in crate::dispatch) fn marked_records(&self) -> u64 {
        self.marked_records
    }

    /// Marks these offsets, ascending; offsets between them are not marked. Returns how many records were open.
    pub(in crate::dispatch) fn mark_offsets(&mut self, offsets: &[i64]) -> usize {
        if self.acquired.is_some() {
            return offsets.iter().map(|offset| self.mark(*offset, *offset)).sum();
        }
        let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return 0 };
        let start = self.ranges.partition_point(|span| span.last() < *first);
        // The two common cases, a whole range or offsets without gaps, need no check of each record.
        let whole = self
            .ranges
            .get(start)
            .is_some_and(|span| span.first() == *first && span.last() == *last && span.len() == offsets.len());
        if whole || is_dense(offsets) {
            return self.mark(*first, *last);
        }
        offsets.chunk_by(|a, b| a.checked_add(1) == Some(*b)).fold(0, |new, run| match run {
            [only] => new + self.mark(*only, *only),
            [first, .., last] => new + self.mark(*first, *last),
            [] => new,
        })
    }

    /// Returns the offset behind all records that were handed out or skipped.
    pub(in crate::dispatch) fn handed_out_end(&self) -> Option<i64> {
        self.ranges.back().map_or(self.base.get(), |span| Some(span.next_offset))
    }

    /// Returns the first open offset, and the timestamp of its range's first record, which bounds its age.
    pub(in crate::dispatch) fn oldest_open(&self) -> Option<(i64, i64)> {
        let span = self.ranges.front()?;
        Some((span.first_open()?, span.timestamp))
    }

    /// Returns whether the record is handed out and not marked.
    pub(in crate::dispatch) fn is_open(&self, offset: i64) -> bool {
        if let Some(acquired) = &self.acquired {
            return acquired.is_open(offset);
        }
        let at = self.ranges.partition_point(|span| span.last() < offset);
        self.ranges.get(at).is_some_and(|span| span.is_open(offset))
    }

    /// Returns whether at most `limit` records count. If more do, the mark that changes this makes `take_resumed` true,
    /// once.
    pub(in crate::dispatch) fn wait_until_below(&mut self, kind: PendingKind, limit: usize) -> bool {
        self.resume_below = (self.pending_records(kind) > limit).then_some((kind, limit));
        self.resume_below.is_none()
    }

    /// Returns whether the lane waited and need not wait any longer, and ends the wait.
    pub(in crate::dispatch) fn take_resumed(&mut self) -> bool {
        let over = self.resume_below.is_some_and(|(measure, limit)| self.pending_records(measure) <= limit);
        over && self.resume_below.take().is_some()
    }

    /// Returns the runs of offsets behind the committable one that are done or hold no visible record, up to the end of
    /// the handed-out records.
    pub(in crate::dispatch) fn done_runs(&self) -> Vec<Range<i64>> {
        let Some((mut from, _)) = self.committable() else { return Vec::new() };
        let mut runs = Vec::new();
        for span in &self.ranges {
            for open in span.open_offsets() {
                if from < open {
                    runs.push(from..open);
                }
                from = open + 1;
            }
        }
        let end = self.ranges.back().map_or(from, |span| span.next_offset);
        if from < end {
            runs.push(from..end);
        }
        runs
    }

    /// Returns those of the offsets that are done.
    pub(in crate::dispatch) fn done_among(&self, offsets: &[i64]) -> Vec<i64> {
        if let Some(acquired) = &self.acquired {
            return offsets.iter().copied().filter(|offset| !acquired.contains(*offset)).collect();
        }
        let end = self.handed_out_end().unwrap_or(i64::MIN);
        offsets.iter().copied().filter(|offset| *offset < end && !self.is_open(*offset)).collect()
    }

    /// Skips a run of `further`, known to be done, that contains the end of the handed-out records: these records are
    /// not handed out any more.
    pub(in crate::dispatch) fn skip_known(&mut self, further: &OffsetMap) {
        let end = self.handed_out_end();
        let run = end.and_then(|end| further.runs().iter().find(|run| run.contains(&end)));
        if let Some(run) = run {
            self.skip(run.end);
        }
    }

    /// Returns [`OffsetTracker::done_runs`] together with the runs of `further`, known to be done.
    pub(in crate::dispatch) fn offset_map(&self, further: &OffsetMap) -> OffsetMap {
        let end = self.handed_out_end().unwrap_or(i64::MAX);
        let further = further.runs().iter().map(|run| run.start.max(end)..run.end);
        OffsetMap::from_runs(self.done_runs().into_iter().chain(further))
    }

    fn advance(&mut self) {
        while let Some(span) = self.ranges.pop_front_if(|span| span.open() == 0) {
            self.rows -= span.len();
            self.base = Some(span.next_offset).into();
            self.leader_epoch = span.leader_epoch;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn runs(all: &[(i64, i64)]) -> OffsetMap {
        OffsetMap::from_runs(all.iter().map(|(start, end)| *start..*end))
    }

    #[test]
    fn what_was_passed_over_between_spans_is_passed() {
        let mut tracker = OffsetTracker::from_offset(17);
        tracker.hand_out(Offsets::Dense(17..19), 19, 3, 0);
        assert_eq!(tracker.mark(0, 100), 2);
        assert_eq!(tracker.committable(), Some((19, 3)));
        tracker.hand_out(Offsets::Dense(21..23), 25, 4, 0);
        assert_eq!(tracker.committable(), Some((21, 3)), "19 and 20 were not for us");
        assert_eq!(tracker.mark(22, 22), 1);
        assert_eq!(tracker.offset_map(&OffsetMap::default()), runs(&[(22, 25)]));
        assert_eq!((tracker.mark_offsets(&[21]), tracker.committable()), (1, Some((25, 4))));
    }

    #[test]
    fn what_is_known_to_be_done_is_passed_before_anybody_decodes_it() {
        let mut tracker = OffsetTracker::from_offset(37);
        let known = runs(&[(39, 40), (50, 60)]);
        tracker.hand_out(Offsets::Dense(37..39), 39, 0, 0);
        tracker.skip_known(&known);
        assert_eq!(tracker.committable(), Some((37, -1)));
        tracker.mark(37, 38);
        assert_eq!(tracker.committable(), Some((40, 0)));
        assert_eq!(tracker.offset_map(&known), runs(&[(50, 60)]));
    }

    #[test]
    fn a_wait_for_marks_is_resumed_once() {
        let mut tracker = OffsetTracker::from_offset(0);
        tracker.hand_out(Offsets::Dense(0..10), 10, 0, 0);
        assert!(tracker.wait_until_below(PendingKind::Unmarked, 10) && !tracker.take_resumed());
        assert!(!tracker.wait_until_below(PendingKind::Unmarked, 7));
        tracker.mark(0, 1);
        assert!(!tracker.take_resumed());
        tracker.mark(5, 5);
        assert!(tracker.take_resumed() && !tracker.take_resumed());
    }

    proptest! {
        /// Compares with a naive model: sets of offsets.
        #[test]
        fn as_a_naive_tracker(
            spans in prop::collection::vec((0..4_i64, prop::collection::vec(1..4_i64, 1..90), 0..3_i64), 1..6),
            marks in prop::collection::vec((0..400_i64, 0..90_i64, any::<bool>()), 0..60),
        ) {
            let mut tracker = OffsetTracker::from_offset(0);
            let (mut all, mut next) = (BTreeSet::new(), 0);
            for (gap, steps, hole) in spans {
                next += gap;
                let mut offsets = vec![next];
                offsets.extend(steps.iter().map(|step| { next += step; next }));
                all.extend(&offsets);
                next += 1 + hole;
                let offsets = if is_dense(&offsets) {
                    Offsets::Dense(offsets[0]..offsets[offsets.len() - 1] + 1)
                } else {
                    Offsets::Copied(offsets.into())
                };
                tracker.hand_out(offsets, next, 0, 0);
            }
            let mut open = all.clone();
            for (from, len, each) in marks {
                let hit: Vec<i64> = all.range(from..=from + len).copied().collect();
                // Every third offset, to leave gaps.
                let hit: Vec<i64> = if each { hit.into_iter().step_by(3).collect() } else { hit };
                let new = hit.iter().filter(|offset| open.remove(offset)).count();
                prop_assert_eq!(if each { tracker.mark_offsets(&hit) } else { tracker.mark(from, from + len) }, new);
                prop_assert_eq!(tracker.pending_records(PendingKind::Unmarked), open.len());
                let ahead = open.first().map_or(0, |first| all.range(first..).count());
                prop_assert_eq!(tracker.pending_records(PendingKind::FromFirstUnmarked), ahead);
                let first = open.first().copied();
                prop_assert_eq!(tracker.first_open(), first);
                prop_assert_eq!(tracker.committable().map(|(offset, _)| offset), Some(first.unwrap_or(next)));
                for offset in &all {
                    prop_assert_eq!(tracker.is_open(*offset), open.contains(offset));
                }
                let map = OffsetMap::from_runs(tracker.done_runs());
                let from = first.unwrap_or(next);
                for offset in from..next {
                    prop_assert_eq!(map.contains(offset), !open.contains(&offset), "{}", offset);
                }
            }
        }
    }
}
