//! Deadlines of a shutdown: how its timeout is divided.

use std::time::{Duration, Instant};

/// Longest time reserved for delivering, committing and leaving, however long the timeout is.
const MAX_CLOSE_TIME: Duration = Duration::from_secs(5);
/// Longest time reserved for the report: a client that could not commit or leave in time can still log that.
const MAX_REPORT_TIME: Duration = Duration::from_millis(500);

/// Points in time of one shutdown, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShutdownDeadlines {
    /// End of the time for jobs in flight and hooks.
    pub handlers: Instant,
    /// Time at which threads without an interpreter take over the close, unless the interpreter has already begun it.
    pub takeover: Instant,
    /// Time by which produced records are delivered or dropped.
    pub delivery: Instant,
    /// Time by which offsets are committed and groups are left.
    pub close: Instant,
    /// End of the shutdown.
    pub end: Instant,
}

impl ShutdownDeadlines {
    /// Returns the deadlines of a shutdown that begins `now`.
    pub fn new(now: Instant, timeout: Duration) -> Self {
        let reserve = MAX_CLOSE_TIME.min(timeout / 4);
        Self::with_reserve(now + timeout, reserve, MAX_REPORT_TIME.min(timeout / 20))
    }

    /// Returns the deadlines of an expedited shutdown: handlers get no more time, and the close gets all of it.
    #[must_use]
    pub fn expedited(now: Instant, timeout: Duration) -> Self {
        Self::with_reserve(now + timeout, timeout, MAX_REPORT_TIME.min(timeout / 10))
    }

    fn with_reserve(end: Instant, reserve: Duration, last_words: Duration) -> Self {
        Self {
            handlers: end - reserve,
            takeover: end - reserve * 3 / 4,
            delivery: end - reserve / 2,
            close: end - last_words,
            end,
        }
    }

    /// Returns the earlier of both for each point in time.
    #[must_use]
    pub fn earliest(self, other: Self) -> Self {
        Self {
            handlers: self.handlers.min(other.handlers),
            takeover: self.takeover.min(other.takeover),
            delivery: self.delivery.min(other.delivery),
            close: self.close.min(other.close),
            end: self.end.min(other.end),
        }
    }
}

/// Returns the time left until `until`; zero if it has passed.
pub(super) fn remaining(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(stages: ShutdownDeadlines, from: Instant) -> [u128; 5] {
        [stages.handlers, stages.takeover, stages.delivery, stages.close, stages.end].map(|at| (at - from).as_millis())
    }

    #[test]
    fn the_end_gets_a_quarter_of_a_short_stop_and_five_seconds_of_a_long_one() {
        let now = Instant::now();
        assert_eq!(offsets(ShutdownDeadlines::new(now, Duration::from_secs(4)), now), [3000, 3250, 3500, 3800, 4000]);
        assert_eq!(
            offsets(ShutdownDeadlines::new(now, Duration::from_secs(60)), now),
            [55_000, 56_250, 57_500, 59_500, 60_000]
        );
        assert_eq!(offsets(ShutdownDeadlines::new(now, Duration::ZERO), now), [0; 5]);
    }

    #[test]
    fn an_expedited_shutdown_leaves_no_time_for_handlers() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        assert_eq!(offsets(ShutdownDeadlines::expedited(now, second), now), [0, 250, 500, 900, 1000]);
        let late = ShutdownDeadlines::new(now, second / 2);
        assert_eq!(late.earliest(ShutdownDeadlines::expedited(now, second)).end, now + second / 2);
        assert_eq!(late.earliest(ShutdownDeadlines::expedited(now, second)).handlers, now);
    }
}
