//! Counters of jobs and records per route, since the process started.
//!
//! Each record that leaves a lane is counted once, by its outcome: done, in a dead letter topic, expired, a duplicate or skipped.

use std::sync::Arc;

use super::job::JobKind;
use super::retry::failure::Decision;
use super::route_config::RouteConfig;
use crate::time::{MILLI, Nanos, SECOND};

const BUCKETS: usize = 15;

/// Upper bounds of the histogram's buckets, in nanoseconds.
const BUCKET_BOUNDS: [Nanos; BUCKETS] = [
    MILLI,
    5 * MILLI / 2,
    5 * MILLI,
    10 * MILLI,
    25 * MILLI,
    50 * MILLI,
    100 * MILLI,
    250 * MILLI,
    500 * MILLI,
    SECOND,
    5 * SECOND / 2,
    5 * SECOND,
    10 * SECOND,
    30 * SECOND,
    60 * SECOND,
];

/// Histogram of the durations of consume jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DurationHistogram {
    /// Number of jobs per bucket of [`DurationHistogram::BUCKET_BOUNDS_SECONDS`]; the last entry counts jobs that took
    /// longer.
    pub counts: [u64; BUCKETS + 1],
    /// Sum of all durations.
    pub sum: Nanos,
}

impl DurationHistogram {
    /// Upper bounds of the buckets in seconds; each bound belongs to its bucket.
    pub const BUCKET_BOUNDS_SECONDS: [f64; BUCKETS] = {
        let mut bounds = [0.0; BUCKETS];
        let mut range = 0;
        while range < BUCKETS {
            bounds[range] = BUCKET_BOUNDS[range] as f64 / SECOND as f64;
            range += 1;
        }
        bounds
    };

    fn add(&mut self, duration: Nanos) {
        let range = BUCKET_BOUNDS.partition_point(|end| *end < duration);
        if let Some(count) = self.counts.get_mut(range) {
            *count += 1;
        }
        self.sum = self.sum.saturating_add(duration);
    }
}

/// Counters of one handler.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteStats {
    /// Name of the handler. Routes of the same name are counted together.
    pub handler: Arc<str>,
    /// Jobs that ended, of all hooks, failed jobs included.
    pub jobs: u64,
    /// Records done. The route's [`super::OffsetPolicy`] decides: by the end of their job or by a mark; at most once,
    /// by the end of their job.
    pub records: u64,
    /// Jobs that failed. (A request to retry the records later is no failure.)
    pub failures: u64,
    /// Failed jobs whose records run again.
    pub retries: u64,
    /// Records sent to a dead letter topic.
    pub dead_letters: u64,
    /// Records skipped because they were too old.
    pub expired: u64,
    /// Records skipped because their ids came before.
    pub duplicates: u64,
    /// Ids that were dropped before the end of their window, because the memory is full.
    pub forgotten_ids: u64,
    /// Records skipped because they were marked under an earlier assignment of the partition. At most once, also
    /// records of a failed job that the handler may or may not have seen.
    pub skipped: u64,
    /// Jobs that ran longer than `stall_after`.
    pub stalls: u64,
    /// Jobs that ran longer than `handler_timeout`.
    pub timeouts: u64,
    /// Durations of consume jobs, from the time when their rows were ready.
    pub durations: DurationHistogram,
}

/// End of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobEnd {
    pub(super) kind: JobKind,
    pub(super) duration: Nanos,
    /// The handler raised, and did not only ask for a later retry.
    pub(super) failed: bool,
    pub(super) decision: Option<Decision>,
}

impl RouteStats {
    pub(super) fn record_job(&mut self, job: JobEnd) {
        self.jobs += 1;
        self.failures += u64::from(job.failed);
        let again = matches!(job.decision, Some(Decision::Retry { rows: 1.., .. } | Decision::Bisect { .. }));
        self.retries += u64::from(again);
        if job.kind == JobKind::Consume {
            self.durations.add(job.duration);
        }
    }
}

/// Counters of all routes. A linear search is enough: routes are few, and each lane keeps its index.
#[derive(Debug, Default)]
pub(super) struct RouteStatsTable(Vec<RouteStats>);

impl RouteStatsTable {
    /// Returns the index of a route's counters, which are created if missing.
    pub(super) fn place(&mut self, policy: &RouteConfig) -> usize {
        let found = self.0.iter().position(|tally| tally.handler == policy.name);
        found.unwrap_or_else(|| {
            self.0.push(RouteStats { handler: Arc::clone(&policy.name), ..RouteStats::default() });
            self.0.len() - 1
        })
    }

    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut RouteStats> {
        self.0.get_mut(place)
    }

    pub(super) fn all(&self) -> &[RouteStats] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_belongs_to_the_range_that_it_ends() {
        let mut durations = DurationHistogram::default();
        for duration in [0, MILLI, MILLI + 1, 5 * MILLI / 2, 60 * SECOND, 60 * SECOND + 1, Nanos::MAX] {
            durations.add(duration);
        }
        let mut expected = [0; BUCKETS + 1];
        (expected[0], expected[1], expected[14], expected[15]) = (2, 2, 1, 2);
        assert_eq!(durations, DurationHistogram { counts: expected, sum: Nanos::MAX });
    }

    #[test]
    fn bounds_are_what_people_would_write() {
        let written = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
        assert_eq!(DurationHistogram::BUCKET_BOUNDS_SECONDS, written);
    }

    #[test]
    fn routes_of_one_name_share_a_place() {
        let named = |name: &str| RouteConfig { name: name.into(), ..RouteConfig::default() };
        let mut tallies = RouteStatsTable::default();
        let places = ["orders", "bills", "orders"].map(|name| tallies.place(&named(name)));
        assert_eq!(places, [0, 1, 0]);
        assert_eq!(tallies.all().len(), 2);
    }
}
