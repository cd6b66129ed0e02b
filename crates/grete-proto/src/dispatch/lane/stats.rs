//! Counters of a lane that are not yet in the counters of its route.

use crate::dispatch::stats::RouteStats;
use crate::optional::OptionalNanos;
use crate::time::Nanos;

/// Records of a lane that are done or skipped.
#[derive(Debug)]
pub(in crate::dispatch) struct LaneStats {
    /// Index of the route's counters.
    route: u32,
    /// Records done without a mark, or marked in an earlier tracker, that are not yet in the route's counters.
    records: u64,
    /// Records skipped that are not yet in the route's counters.
    skipped: u64,
    /// Records marked in the current tracker that are in the route's counters already.
    reported_marks: u64,
    /// Last time at which records were done or skipped.
    progress_at: OptionalNanos,
}

impl LaneStats {
    pub(super) fn new(route: usize) -> Self {
        let route = u32::try_from(route).unwrap_or(u32::MAX);
        Self { route, records: 0, skipped: 0, reported_marks: 0, progress_at: OptionalNanos::NONE }
    }

    /// Returns the index of the route's counters.
    pub(in crate::dispatch) fn route(&self) -> usize {
        self.route as usize
    }

    /// Counts records that are done without a mark.
    pub(in crate::dispatch) fn add_records(&mut self, records: usize) {
        self.records += records as u64;
    }

    pub(super) fn add_skipped(&mut self, records: usize) {
        self.skipped += records as u64;
    }

    /// Records that the lane has a new tracker. `marked`: number of records marked in the old one.
    pub(super) fn on_tracker_replaced(&mut self, marked: u64) {
        self.records += marked - self.reported_marks;
        self.reported_marks = 0;
    }

    /// Adds what was done since the last call to the route's counters. `marked`: number of records marked in the
    /// current tracker.
    pub(super) fn flush(&mut self, now: Nanos, marked: u64, stats: &mut RouteStats) {
        let records = std::mem::take(&mut self.records) + (marked - self.reported_marks);
        self.reported_marks = marked;
        stats.records += records;
        stats.skipped += std::mem::take(&mut self.skipped);
        if records > 0 {
            self.progress_at = Some(now).into();
        }
    }

    /// Records that records were done or skipped.
    pub(in crate::dispatch) fn on_progress(&mut self, now: Nanos) {
        self.progress_at = Some(now).into();
    }

    /// Returns the last time at which records were done or skipped; `None`: none were.
    pub(in crate::dispatch) fn progress_at(&self) -> Option<Nanos> {
        self.progress_at.get()
    }
}
