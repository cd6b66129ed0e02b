//! A beat that keeps its phase, whatever the process sleeps through.

use std::time::{Duration, Instant};

/// Due at the start and then once an interval, at multiples of it. Beats that nobody was awake for are left out: there is no
/// burst afterwards, and no drift.
#[derive(Debug, Clone, Copy)]
pub struct Beat {
    start: Instant,
    interval: Duration,
    due: Instant,
}

impl Beat {
    /// The first one is due now.
    #[must_use]
    pub fn new(now: Instant, interval: Duration) -> Self {
        Self { start: now, interval: interval.max(Duration::from_millis(1)), due: now }
    }

    /// When the next one is due.
    #[must_use]
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Since the first one.
    #[must_use]
    pub fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.start)
    }

    /// Takes the beat that is due by now: when it was due, and whether others before it were slept through.
    pub fn take(&mut self, now: Instant) -> (Instant, bool) {
        let late = now.saturating_duration_since(self.due) >= self.interval;
        let elapsed = self.elapsed(now);
        let into =
            Duration::from_nanos(u64::try_from(elapsed.as_nanos() % self.interval.as_nanos()).unwrap_or_default());
        let beat = now.checked_sub(into).unwrap_or(now);
        self.due = beat + self.interval;
        (beat, late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn it_keeps_its_phase() {
        let start = Instant::now();
        let mut beat = Beat::new(start, SECOND);
        assert_eq!(beat.due(), start);
        assert_eq!(beat.take(start), (start, false));
        assert_eq!(beat.due(), start + SECOND);
        assert_eq!(beat.take(start + SECOND + SECOND / 3), (start + SECOND, false));
        assert_eq!(beat.due(), start + 2 * SECOND);
        assert_eq!(beat.elapsed(beat.due()), 2 * SECOND);
    }

    #[test]
    fn a_long_sleep_costs_beats_and_brings_no_burst() {
        let start = Instant::now();
        let mut beat = Beat::new(start, SECOND);
        assert_eq!(beat.take(start), (start, false));
        assert_eq!(beat.take(start + 60 * SECOND + SECOND / 4), (start + 60 * SECOND, true));
        assert_eq!(beat.due(), start + 61 * SECOND);
        assert_eq!(beat.take(start + 61 * SECOND), (start + 61 * SECOND, false));
    }
}
