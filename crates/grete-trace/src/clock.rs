//! Times of spans.

use std::time::{Instant, SystemTime};

/// A point on both clocks. What is timed from it is a point in real time that is never before an earlier one, whatever is
/// done to the real clock meanwhile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Anchor {
    real: u64,
    steady: Instant,
}

impl Anchor {
    pub(crate) fn now() -> Self {
        let real = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Self { real: u64::try_from(real.as_nanos()).unwrap_or(u64::MAX), steady: Instant::now() }
    }

    /// Nanoseconds since 1970 at the anchor.
    pub(crate) fn real(&self) -> u64 {
        self.real
    }

    /// Nanoseconds since 1970, now.
    pub(crate) fn read(&self) -> u64 {
        self.real.saturating_add(u64::try_from(self.steady.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}
