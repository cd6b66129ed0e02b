//! Clock of the brokers: the wall clock, except that time never goes back.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::ids::Millis;

/// Clock in milliseconds since 1970. Advances at least as fast as the monotonic clock, so that timers run while the
/// wall clock is set back, and follows the wall clock when that is ahead, for example after a suspension.
#[derive(Debug)]
pub(super) struct WallClock {
    /// Last time and when it was read.
    last: (Instant, u128),
}

impl WallClock {
    pub(super) fn new() -> Self {
        Self { last: (Instant::now(), wall_nanos()) }
    }

    pub(super) fn now(&mut self) -> Millis {
        let instant = Instant::now();
        let (before, nanos) = self.last;
        let nanos = wall_nanos().max(nanos + instant.saturating_duration_since(before).as_nanos());
        self.last = (instant, nanos);
        Millis::try_from(nanos / 1_000_000).unwrap_or(Millis::MAX)
    }
}

fn wall_nanos() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_from_where_it_was_while_the_wall_clock_is_behind() {
        let mut clock = WallClock::new();
        let before = clock.now();
        // The wall clock is set back by an hour: the last time lies in its future.
        clock.last.1 += 3_600_000_000_000;
        let ahead = clock.now();
        assert!((3_600_000..3_700_000).contains(&(ahead - before)), "{before} {ahead}");
        let start = Instant::now();
        while start.elapsed().as_millis() < 3 {
            assert!(clock.now() >= ahead);
        }
        assert!(clock.now() > ahead);
    }
}
