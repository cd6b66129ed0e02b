//! Clock for span times.

use std::time::{Instant, SystemTime};

/// One point in time on both clocks. Times derived from it are wall-clock times that never go back, even if the wall
/// clock is set meanwhile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockAnchor {
    unix_nanos: u64,
    monotonic: Instant,
}

impl ClockAnchor {
    pub(crate) fn now() -> Self {
        let real = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Self { unix_nanos: u64::try_from(real.as_nanos()).unwrap_or(u64::MAX), monotonic: Instant::now() }
    }

    /// Returns nanoseconds since 1970 at the anchor.
    pub(crate) fn anchor_nanos(&self) -> u64 {
        self.unix_nanos
    }

    /// Returns the current time in nanoseconds since 1970.
    pub(crate) fn now_nanos(&self) -> u64 {
        self.unix_nanos.saturating_add(u64::try_from(self.monotonic.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}
