//! Monotonic clock of a client. No other module reads a monotonic clock.

use std::time::{Duration, Instant};

use grete_proto::time::Nanos;

/// Clock in nanoseconds since its creation. Clones return equal times.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// Creates a clock that starts at one second, so that `now - something` does not underflow near zero.
    pub fn new() -> Self {
        let now = Instant::now();
        Self { start: now.checked_sub(Duration::from_secs(1)).unwrap_or(now) }
    }

    /// Returns the current time in nanoseconds.
    pub fn now(&self) -> Nanos {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(Nanos::MAX)
    }

    /// Returns the time left until `deadline`; zero if the deadline has passed.
    pub fn until(&self, deadline: Nanos) -> Duration {
        Duration::from_nanos(deadline.saturating_sub(self.now()))
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}
