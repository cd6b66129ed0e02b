//! The one place where a monotonic clock is read.

use std::time::{Duration, Instant};

use grete_core::time::Nanos;

/// Nanoseconds since this clock was made. Clones agree.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// Starts at one second, so that `now - something` never underflows near zero.
    #[must_use]
    pub fn new() -> Self {
        let now = Instant::now();
        Self { start: now.checked_sub(Duration::from_secs(1)).unwrap_or(now) }
    }

    /// Now.
    #[must_use]
    pub fn now(&self) -> Nanos {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(Nanos::MAX)
    }

    /// How long from `now` until `deadline`.
    #[must_use]
    pub fn until(&self, deadline: Nanos) -> Duration {
        Duration::from_nanos(deadline.saturating_sub(self.now()))
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}
