//! Both clocks that a record needs, for the price of one.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use grete_core::time::{MILLI, Nanos};
use grete_net::Clock;

/// One instant on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Monotonic: for time-outs.
    pub now: Nanos,
    /// Milliseconds since 1970 UTC: a record's timestamp.
    pub millis: i64,
}

/// How long the distance between the clocks is believed: a step of the wall clock is seen that much later.
const FRESH: Nanos = 10 * MILLI;

/// Reads the monotonic clock, and keeps the distance of the wall clock from it: reading both takes twice as long, which a
/// hundred nanoseconds' append would feel.
#[derive(Debug)]
pub(super) struct Stamps {
    clock: Clock,
    distance: AtomicI64,
    read_at: AtomicU64,
}

impl Stamps {
    pub(super) fn new() -> Self {
        Self { clock: Clock::new(), distance: AtomicI64::new(0), read_at: AtomicU64::new(0) }
    }

    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    #[inline]
    pub(super) fn now(&self) -> Stamp {
        let now = self.clock.now();
        // Two threads may both read the wall clock: both find the truth.
        if now.wrapping_sub(self.read_at.load(Ordering::Relaxed)) > FRESH {
            self.read(now);
        }
        let millis = (now as i64).wrapping_add(self.distance.load(Ordering::Relaxed)) / MILLI as i64;
        Stamp { now, millis }
    }

    #[cold]
    fn read(&self, now: Nanos) {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
        self.distance.store(wall.wrapping_sub(now as i64), Ordering::Relaxed);
        self.read_at.store(now, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_agree_with_the_system() {
        let stamps = Stamps::new();
        for _ in 0..1000 {
            let before = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
            let (stamp, clock) = (stamps.now(), stamps.clock().now());
            let after = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
            assert!((before - 1..=after + 1).contains(&stamp.millis), "{before} {stamp:?} {after}");
            assert!(stamp.now <= clock);
        }
    }
}
