//! Fixed-rate ticker that keeps its phase when the process sleeps.

use std::time::{Duration, Instant};

/// Ticker that is due at its start and then at multiples of the interval. Ticks that the process slept through are
/// skipped, so there is no burst afterwards, and no drift.
#[derive(Debug, Clone, Copy)]
pub struct Ticker {
    start: Instant,
    interval: Duration,
    due: Instant,
}

impl Ticker {
    /// Creates a ticker whose first tick is due at `now`. `interval`: at least 1 ms.
    pub fn new(now: Instant, interval: Duration) -> Self {
        Self { start: now, interval: interval.max(Duration::from_millis(1)), due: now }
    }

    /// Returns when the next tick is due.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Returns the time since the start.
    pub fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.start)
    }

    /// Takes the tick that is due by `now`. Returns when that tick was due, and whether earlier ticks were slept
    /// through.
    pub fn tick(&mut self, now: Instant) -> (Instant, bool) {
        let late = now.saturating_duration_since(self.due) >= self.interval;
        let elapsed = self.elapsed(now);
        let into =
            Duration::from_nanos(u64::try_from(elapsed.as_nanos() % self.interval.as_nanos()).unwrap_or_default());
        let tick = now.checked_sub(into).unwrap_or(now);
        self.due = tick + self.interval;
        (tick, late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn it_keeps_its_phase() {
        let start = Instant::now();
        let mut beat = Ticker::new(start, SECOND);
        assert_eq!(beat.due(), start);
        assert_eq!(beat.tick(start), (start, false));
        assert_eq!(beat.due(), start + SECOND);
        assert_eq!(beat.tick(start + SECOND + SECOND / 3), (start + SECOND, false));
        assert_eq!(beat.due(), start + 2 * SECOND);
        assert_eq!(beat.elapsed(beat.due()), 2 * SECOND);
    }

    #[test]
    fn a_long_sleep_costs_beats_and_brings_no_burst() {
        let start = Instant::now();
        let mut beat = Ticker::new(start, SECOND);
        assert_eq!(beat.tick(start), (start, false));
        assert_eq!(beat.tick(start + 60 * SECOND + SECOND / 4), (start + 60 * SECOND, true));
        assert_eq!(beat.due(), start + 61 * SECOND);
        assert_eq!(beat.tick(start + 61 * SECOND), (start + 61 * SECOND, false));
    }
}
