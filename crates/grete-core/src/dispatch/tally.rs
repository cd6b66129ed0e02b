//! What became of a route's jobs and records, counted since the process began.
//!
//! Each record that a lane is rid of is counted once, by what became of it: done, in a dead letter topic, expired or skipped.

use std::sync::Arc;

use super::failure::Decision;
use super::job::JobKind;
use super::route::RoutePolicy;
use crate::time::{MILLI, Nanos, SECOND};

const RANGES: usize = 15;

/// Upper ends of the ranges that durations are counted in.
const ENDS: [Nanos; RANGES] = [
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

/// How long consume jobs took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Durations {
    /// How many fell into each range of [`Durations::BOUNDS`], and at last how many took longer.
    pub counts: [u64; RANGES + 1],
    /// Of all of them.
    pub sum: Nanos,
}

impl Durations {
    /// Upper ends of the ranges in seconds; each belongs to its range.
    pub const BOUNDS: [f64; RANGES] = {
        let mut bounds = [0.0; RANGES];
        let mut range = 0;
        while range < RANGES {
            bounds[range] = ENDS[range] as f64 / SECOND as f64;
            range += 1;
        }
        bounds
    };

    fn add(&mut self, duration: Nanos) {
        let range = ENDS.partition_point(|end| *end < duration);
        if let Some(count) = self.counts.get_mut(range) {
            *count += 1;
        }
        self.sum = self.sum.saturating_add(duration);
    }
}

/// One handler's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Its name. Routes of the same name are counted together.
    pub handler: Arc<str>,
    /// Jobs that ended, of all hooks, failed ones included.
    pub jobs: u64,
    /// Records that are done: by the end of their job or by a mark, as the route's [`super::OffsetPolicy`] has it; at most
    /// once, by the end of their job.
    pub records: u64,
    /// Jobs that failed. (Asking for the records again later is no failure.)
    pub failures: u64,
    /// Of these, those whose records run again.
    pub retries: u64,
    /// Records that are in a dead letter topic.
    pub dead_letters: u64,
    /// Records passed over because they were too old.
    pub expired: u64,
    /// Records passed over because they were done in an earlier life of the partition, or, at most once, because nobody knows
    /// what the job that failed has seen of them.
    pub skipped: u64,
    /// Jobs that ran longer than `stall_after`.
    pub stalls: u64,
    /// Jobs that ran longer than `handler_timeout`.
    pub timeouts: u64,
    /// How long consume jobs took, from when their rows were ready.
    pub durations: Durations,
}

/// How a job ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending {
    pub(super) kind: JobKind,
    pub(super) duration: Nanos,
    /// It raised, and did not just ask for a wait.
    pub(super) failed: bool,
    pub(super) decision: Option<Decision>,
}

impl Tally {
    pub(super) fn ended(&mut self, ending: Ending) {
        self.jobs += 1;
        self.failures += u64::from(ending.failed);
        let again = matches!(ending.decision, Some(Decision::Retry { rows: 1.., .. } | Decision::Halve { .. }));
        self.retries += u64::from(again);
        if ending.kind == JobKind::Consume {
            self.durations.add(ending.duration);
        }
    }
}

/// Those of all routes. Few, and each lane knows its place.
#[derive(Debug, Default)]
pub(super) struct Tallies(Vec<Tally>);

impl Tallies {
    /// The place of a route's, made if there is none.
    pub(super) fn place(&mut self, policy: &RoutePolicy) -> usize {
        let found = self.0.iter().position(|tally| tally.handler == policy.name);
        found.unwrap_or_else(|| {
            self.0.push(Tally { handler: Arc::clone(&policy.name), ..Tally::default() });
            self.0.len() - 1
        })
    }

    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut Tally> {
        self.0.get_mut(place)
    }

    pub(super) fn all(&self) -> &[Tally] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_belongs_to_the_range_that_it_ends() {
        let mut durations = Durations::default();
        for duration in [0, MILLI, MILLI + 1, 5 * MILLI / 2, 60 * SECOND, 60 * SECOND + 1, Nanos::MAX] {
            durations.add(duration);
        }
        let mut expected = [0; RANGES + 1];
        (expected[0], expected[1], expected[14], expected[15]) = (2, 2, 1, 2);
        assert_eq!(durations, Durations { counts: expected, sum: Nanos::MAX });
    }

    #[test]
    fn bounds_are_what_people_would_write() {
        let written = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
        assert_eq!(Durations::BOUNDS, written);
    }

    #[test]
    fn routes_of_one_name_share_a_place() {
        let named = |name: &str| RoutePolicy { name: name.into(), ..RoutePolicy::default() };
        let mut tallies = Tallies::default();
        let places = ["orders", "bills", "orders"].map(|name| tallies.place(&named(name)));
        assert_eq!(places, [0, 1, 0]);
        assert_eq!(tallies.all().len(), 2);
    }
}
