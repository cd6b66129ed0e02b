//! How the time of a stop is divided.

use std::time::{Duration, Instant};

/// What the end of a stop needs, however long the whole may take: delivering, committing, leaving.
const LONGEST_RESERVE: Duration = Duration::from_secs(5);
/// The very end: whoever could not commit or leave by then still has the time to say so.
const LONGEST_LAST_WORDS: Duration = Duration::from_millis(500);

/// The points in time of one stop, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stages {
    /// Jobs in flight and hooks may run until then.
    pub handlers: Instant,
    /// Then the stop is brought to its end by threads that need no interpreter, unless the interpreter is at it.
    pub takeover: Instant,
    /// What was produced is delivered by then, or given up.
    pub delivery: Instant,
    /// Offsets are committed and groups left by then.
    pub close: Instant,
    /// The end.
    pub end: Instant,
}

impl Stages {
    /// A stop that begins `now`.
    #[must_use]
    pub fn new(now: Instant, patience: Duration) -> Self {
        let reserve = LONGEST_RESERVE.min(patience / 4);
        Self::with_reserve(now + patience, reserve, LONGEST_LAST_WORDS.min(patience / 20))
    }

    /// Somebody is impatient: no handler gets any more time, the end gets all of it.
    #[must_use]
    pub fn hurried(now: Instant, patience: Duration) -> Self {
        Self::with_reserve(now + patience, patience, LONGEST_LAST_WORDS.min(patience / 10))
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

    /// Each point as early as it is in either.
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

/// From now; nothing when it is past.
pub(super) fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(stages: Stages, from: Instant) -> [u128; 5] {
        [stages.handlers, stages.takeover, stages.delivery, stages.close, stages.end].map(|at| (at - from).as_millis())
    }

    #[test]
    fn the_end_gets_a_quarter_of_a_short_stop_and_five_seconds_of_a_long_one() {
        let now = Instant::now();
        assert_eq!(offsets(Stages::new(now, Duration::from_secs(4)), now), [3000, 3250, 3500, 3800, 4000]);
        assert_eq!(offsets(Stages::new(now, Duration::from_secs(60)), now), [55_000, 56_250, 57_500, 59_500, 60_000]);
        assert_eq!(offsets(Stages::new(now, Duration::ZERO), now), [0; 5]);
    }

    #[test]
    fn hurry_takes_the_time_from_the_handlers() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        assert_eq!(offsets(Stages::hurried(now, second), now), [0, 250, 500, 900, 1000]);
        let late = Stages::new(now, second / 2);
        assert_eq!(late.earliest(Stages::hurried(now, second)).end, now + second / 2);
        assert_eq!(late.earliest(Stages::hurried(now, second)).handlers, now);
    }
}
