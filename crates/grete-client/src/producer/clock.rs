//! Clock that yields monotonic and wall time for the price of one clock read.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use grete_net::Clock;
use grete_proto::time::{MILLI, Nanos};

/// One point in time on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// Monotonic time in nanoseconds, for timeouts.
    pub now: Nanos,
    /// Milliseconds since 1970 UTC, for record timestamps.
    pub millis: i64,
}

/// Time for which the cached difference of the two clocks is used. A step of the wall clock is noticed that much later.
const MAX_AGE: Nanos = 10 * MILLI;

/// Monotonic clock with a cached offset of the wall clock. Reading both clocks takes twice as long, which matters for
/// an append of about 100 ns.
#[derive(Debug)]
pub(super) struct CachedClock {
    clock: Clock,
    wall_offset: AtomicI64,
    read_at: AtomicU64,
}

impl CachedClock {
    pub(super) fn new() -> Self {
        Self { clock: Clock::new(), wall_offset: AtomicI64::new(0), read_at: AtomicU64::new(0) }
    }

    pub(super) fn monotonic(&self) -> Clock {
        self.clock
    }

    #[inline]
    pub(super) fn now(&self) -> ClockReading {
        let now = self.clock.now();
        // Two threads may both read the wall clock; both results are correct.
        if now.wrapping_sub(self.read_at.load(Ordering::Relaxed)) > MAX_AGE {
            self.refresh(now);
        }
        let millis = (now as i64).wrapping_add(self.wall_offset.load(Ordering::Relaxed)) / MILLI as i64;
        ClockReading { now, millis }
    }

    #[cold]
    fn refresh(&self, now: Nanos) {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
        self.wall_offset.store(wall.wrapping_sub(now as i64), Ordering::Relaxed);
        self.read_at.store(now, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_agree_with_the_system() {
        let stamps = CachedClock::new();
        for _ in 0..1000 {
            let before = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
            let (stamp, clock) = (stamps.now(), stamps.monotonic().now());
            let after = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
            assert!((before - 1..=after + 1).contains(&stamp.millis), "{before} {stamp:?} {after}");
            assert!(stamp.now <= clock);
        }
    }
}
