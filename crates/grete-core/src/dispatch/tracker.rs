//! Which of a lane's records are done: what has been handed out, what is marked, and how far marks are contiguous.

use std::collections::VecDeque;
use std::ops::Range;

use super::offset_map::OffsetMap;
use super::span::{Offsets, Span};

/// One for each position history of a lane: a seek starts another.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    /// Everything below is done; `None` until the lane knows where it starts.
    base: Option<i64>,
    /// Leader epoch of the last record below the base, -1 if unknown.
    leader_epoch: i32,
    /// What was handed out behind the base, ascending. The first one has an open record.
    spans: VecDeque<Span>,
    open: usize,
    /// Records in spans, marked or not.
    rows: usize,
    /// Records that were marked as done.
    done: u64,
    /// Somebody waits until no more than so many records count.
    waits_for: Option<(Measure, usize)>,
}

/// What of a tracker is not to grow without bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// Records that are open: what nobody has marked.
    Open,
    /// Records from the first open one on: what comes again after a crash, done or not.
    Ahead,
}

impl Tracker {
    pub(super) fn at(offset: i64) -> Self {
        Self { base: Some(offset), leader_epoch: -1, ..Self::default() }
    }

    /// The offset to go on from if only what is done counts, and the leader epoch before it.
    pub(super) fn committable(&self) -> Option<(i64, i32)> {
        let base = self.base?;
        match self.spans.front().and_then(|span| Some((span.first_open()?, span))) {
            // Some of the first span may be marked already.
            Some((open, span)) if open > span.first() => Some((open, span.leader_epoch)),
            _ => Some((base, self.leader_epoch)),
        }
    }

    /// How many records count.
    pub(super) fn measure(&self, measure: Measure) -> usize {
        let marked = || self.spans.front().map_or(0, Span::marked_in_front);
        match measure {
            Measure::Open => self.open,
            Measure::Ahead => self.rows - marked(),
        }
    }

    /// The first of them.
    pub(super) fn first_open(&self) -> Option<i64> {
        self.spans.front().and_then(Span::first_open)
    }

    /// Records with these offsets are handed out, the first of them with this timestamp; `next_offset` is behind what follows
    /// them that holds nothing for us.
    pub(super) fn hand_out(&mut self, offsets: Offsets, next_offset: i64, leader_epoch: i32, timestamp: i64) {
        let Some(span) = Span::new(offsets, next_offset, leader_epoch, timestamp) else {
            return self.skip(next_offset);
        };
        // What lies before its first record was passed over.
        self.skip(span.first());
        self.open += span.open();
        self.rows += span.len();
        self.spans.push_back(span);
    }

    /// What was handed out counts as done at once.
    pub(super) fn pass(&mut self, next_offset: i64, leader_epoch: i32) {
        self.skip(next_offset);
        if self.spans.is_empty() {
            self.leader_epoch = leader_epoch;
        }
    }

    /// There is nothing for us from the last span on to this offset.
    pub(super) fn skip(&mut self, next_offset: i64) {
        match self.spans.back_mut() {
            Some(last) => last.next_offset = last.next_offset.max(next_offset),
            None => self.base = Some(self.base.map_or(next_offset, |base| base.max(next_offset))),
        }
    }

    /// Marks what was handed out of `first..=last`; returns how many records were open.
    pub(super) fn mark(&mut self, first: i64, last: i64) -> usize {
        let start = self.spans.partition_point(|span| span.last() < first);
        let mut new = 0;
        for span in self.spans.range_mut(start..) {
            if span.first() > last {
                break;
            }
            new += span.mark(first, last);
        }
        self.open -= new;
        self.done += new as u64;
        self.advance();
        new
    }

    /// Marks a record that is not done: it went elsewhere.
    pub(super) fn bury(&mut self, offsets: &[i64]) {
        let done = self.done;
        self.mark_each(offsets);
        self.done = done;
    }

    /// How many records were marked as done.
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// Marks these offsets, ascending; what lies between them stays as it is.
    pub(super) fn mark_each(&mut self, offsets: &[i64]) -> usize {
        let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return 0 };
        let start = self.spans.partition_point(|span| span.last() < *first);
        // As it was handed out, or without gaps: the usual cases, both without a look at each record.
        let whole = self
            .spans
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

    /// The offset behind all that was handed out or passed over.
    pub(super) fn reach(&self) -> Option<i64> {
        self.spans.back().map_or(self.base, |span| Some(span.next_offset))
    }

    /// The first open record, and the timestamp of what it was handed out with: the oldest that it can be.
    pub(super) fn oldest(&self) -> Option<(i64, i64)> {
        let span = self.spans.front()?;
        Some((span.first_open()?, span.timestamp))
    }

    /// Whether that record is handed out and not marked.
    pub(super) fn is_open(&self, offset: i64) -> bool {
        let at = self.spans.partition_point(|span| span.last() < offset);
        self.spans.get(at).is_some_and(|span| span.is_open(offset))
    }

    /// Whether no more than `limit` records count. If more do, the mark that changes it says so, once.
    pub(super) fn wait_for(&mut self, measure: Measure, limit: usize) -> bool {
        self.waits_for = (self.measure(measure) > limit).then_some((measure, limit));
        self.waits_for.is_none()
    }

    /// Whether somebody waited, and need not any longer; asking ends the wait.
    pub(super) fn take_resumed(&mut self) -> bool {
        let over = self.waits_for.is_some_and(|(measure, limit)| self.measure(measure) <= limit);
        over && self.waits_for.take().is_some()
    }

    /// Runs of offsets behind the committable one that are done or hold nothing for us, up to where records were handed out.
    pub(super) fn done_ahead(&self) -> Vec<Range<i64>> {
        let Some((mut from, _)) = self.committable() else { return Vec::new() };
        let mut runs = Vec::new();
        for span in &self.spans {
            for open in span.open_offsets() {
                if from < open {
                    runs.push(from..open);
                }
                from = open + 1;
            }
        }
        let end = self.spans.back().map_or(from, |span| span.next_offset);
        if from < end {
            runs.push(from..end);
        }
        runs
    }

    /// A run of what is known to be done that begins where this ends is passed: nobody is going to hand it out.
    pub(super) fn pass_known(&mut self, further: &OffsetMap) {
        let end = self.reach();
        let run = end.and_then(|end| further.runs().iter().find(|run| run.contains(&end)));
        if let Some(run) = run {
            self.skip(run.end);
        }
    }

    /// The same, with what is known to be done further on.
    pub(super) fn offset_map(&self, further: &OffsetMap) -> OffsetMap {
        let end = self.reach().unwrap_or(i64::MAX);
        let further = further.runs().iter().map(|run| run.start.max(end)..run.end);
        OffsetMap::from_runs(self.done_ahead().into_iter().chain(further))
    }

    fn advance(&mut self) {
        while let Some(span) = self.spans.pop_front_if(|span| span.open() == 0) {
            self.rows -= span.len();
            self.base = Some(span.next_offset);
            self.leader_epoch = span.leader_epoch;
        }
    }
}

/// Whether ascending offsets have no gap.
pub(super) fn is_dense(offsets: &[i64]) -> bool {
    match (offsets.first(), offsets.last()) {
        (Some(first), Some(last)) => usize::try_from(last - first).is_ok_and(|span| span + 1 == offsets.len()),
        _ => true,
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
        let mut tracker = Tracker::at(17);
        tracker.hand_out(Offsets::Dense(17..19), 19, 3, 0);
        assert_eq!(tracker.mark(0, 100), 2);
        assert_eq!(tracker.committable(), Some((19, 3)));
        tracker.hand_out(Offsets::Dense(21..23), 25, 4, 0);
        assert_eq!(tracker.committable(), Some((21, 3)), "19 and 20 were not for us");
        assert_eq!(tracker.mark(22, 22), 1);
        assert_eq!(tracker.offset_map(&OffsetMap::default()), runs(&[(22, 25)]));
        assert_eq!((tracker.mark_each(&[21]), tracker.committable()), (1, Some((25, 4))));
    }

    #[test]
    fn what_is_known_to_be_done_is_passed_before_anybody_decodes_it() {
        let mut tracker = Tracker::at(37);
        let known = runs(&[(39, 40), (50, 60)]);
        tracker.hand_out(Offsets::Dense(37..39), 39, 0, 0);
        tracker.pass_known(&known);
        assert_eq!(tracker.committable(), Some((37, -1)));
        tracker.mark(37, 38);
        assert_eq!(tracker.committable(), Some((40, 0)));
        assert_eq!(tracker.offset_map(&known), runs(&[(50, 60)]));
    }

    #[test]
    fn who_waits_for_marks_is_told_once() {
        let mut tracker = Tracker::at(0);
        tracker.hand_out(Offsets::Dense(0..10), 10, 0, 0);
        assert!(tracker.wait_for(Measure::Open, 10) && !tracker.take_resumed());
        assert!(!tracker.wait_for(Measure::Open, 7));
        tracker.mark(0, 1);
        assert!(!tracker.take_resumed());
        tracker.mark(5, 5);
        assert!(tracker.take_resumed() && !tracker.take_resumed());
    }

    proptest! {
        /// Against sets of offsets.
        #[test]
        fn as_a_naive_tracker(
            spans in prop::collection::vec((0..4_i64, prop::collection::vec(1..4_i64, 1..90), 0..3_i64), 1..6),
            marks in prop::collection::vec((0..400_i64, 0..90_i64, any::<bool>()), 0..60),
        ) {
            let mut tracker = Tracker::at(0);
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
                // Each third one, to leave gaps.
                let hit: Vec<i64> = if each { hit.into_iter().step_by(3).collect() } else { hit };
                let new = hit.iter().filter(|offset| open.remove(offset)).count();
                prop_assert_eq!(if each { tracker.mark_each(&hit) } else { tracker.mark(from, from + len) }, new);
                prop_assert_eq!(tracker.measure(Measure::Open), open.len());
                let ahead = open.first().map_or(0, |first| all.range(first..).count());
                prop_assert_eq!(tracker.measure(Measure::Ahead), ahead);
                let first = open.first().copied();
                prop_assert_eq!(tracker.first_open(), first);
                prop_assert_eq!(tracker.committable().map(|(offset, _)| offset), Some(first.unwrap_or(next)));
                for offset in &all {
                    prop_assert_eq!(tracker.is_open(*offset), open.contains(offset));
                }
                let map = OffsetMap::from_runs(tracker.done_ahead());
                let from = first.unwrap_or(next);
                for offset in from..next {
                    prop_assert_eq!(map.contains(offset), !open.contains(&offset), "{}", offset);
                }
            }
        }
    }
}
