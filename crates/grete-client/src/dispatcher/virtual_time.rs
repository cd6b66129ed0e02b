//! Time that lanes and jobs see: that of the system's clocks, or the virtual time of a dispatcher without network
//! threads. Tests advance the virtual clock, and take jobs without waiting.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use grete_proto::dispatch::PendingTimers;
use grete_proto::time::{MILLI, Nanos, SECOND};

use super::Dispatcher;

/// Clock that stands still until it is advanced. The wall clock advances along with it.
#[derive(Debug)]
pub(super) struct VirtualTime {
    now: AtomicU64,
    wall_clock_offset_ms: i64,
}

impl VirtualTime {
    /// Creates a clock at one second, so that `now - something` does not underflow near zero.
    pub(super) fn new() -> Self {
        let offset = wall_clock_ms().saturating_sub(i64::try_from(SECOND / MILLI).unwrap_or(0));
        Self { now: AtomicU64::new(SECOND), wall_clock_offset_ms: offset }
    }

    pub(super) fn now(&self) -> Nanos {
        self.now.load(Ordering::Relaxed)
    }

    pub(super) fn wall_clock_offset_ms(&self) -> i64 {
        self.wall_clock_offset_ms
    }
}

impl Dispatcher {
    /// Returns the time that lanes and jobs see.
    pub(crate) fn now(&self) -> Nanos {
        self.inner.virtual_time.as_ref().map_or_else(|| self.inner.clock.now(), VirtualTime::now)
    }

    /// Returns the wall clock's time that lanes and jobs see, in milliseconds since 1970.
    #[must_use]
    pub fn wall_clock_ms(&self) -> i64 {
        match &self.inner.virtual_time {
            Some(clock) => clock.wall_clock_offset_ms().saturating_add(millis(clock.now())),
            None => wall_clock_ms(),
        }
    }

    /// Returns the difference between the wall clock and the monotonic clock `now`, in milliseconds.
    pub(crate) fn wall_clock_offset_ms(&self, now: Nanos) -> i64 {
        match &self.inner.virtual_time {
            Some(clock) => clock.wall_clock_offset_ms(),
            None => wall_clock_ms().saturating_sub(millis(now)),
        }
    }

    /// Returns the time since the dispatcher was created; zero without virtual time.
    #[must_use]
    pub fn virtual_time(&self) -> Duration {
        let now = self.inner.virtual_time.as_ref().map_or(SECOND, VirtualTime::now);
        Duration::from_nanos(now.saturating_sub(SECOND))
    }

    /// Returns the timers that are set, in virtual time since the dispatcher was created.
    #[must_use]
    pub fn pending_timers(&self) -> PendingTimers {
        let mut timers = self.lock().dispatch.pending_timers();
        timers.next = timers.next.map(|at| at.saturating_sub(SECOND));
        timers
    }

    /// Advances the virtual clock to `time` since the dispatcher was created, and makes all jobs ready that are due by
    /// then. Does nothing without virtual time, or if the clock is there already.
    pub fn advance_virtual_time(&self, time: Duration) {
        let Some(clock) = &self.inner.virtual_time else { return };
        let until = u64::try_from(time.as_nanos()).unwrap_or(Nanos::MAX).saturating_add(SECOND);
        clock.now.fetch_max(until, Ordering::Relaxed);
        let now = self.now();
        let mut state = self.lock();
        state.dispatch.set_wall_clock_offset(self.wall_clock_offset_ms(now));
        state.dispatch.advance(now);
        self.unlock_and_wake(state);
    }
}

fn millis(nanos: Nanos) -> i64 {
    i64::try_from(nanos / MILLI).unwrap_or(i64::MAX)
}

fn wall_clock_ms() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the time in seconds since the epoch.
pub(super) fn wall_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
