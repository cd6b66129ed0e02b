//! Measures how long a thread waits for the GIL, by acquiring it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::HealthError;

/// Thread that acquires the GIL when it is asked to, and releases it at once.
#[derive(Debug)]
pub struct GilProbe {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Handle to the measurements of a [`GilProbe`].
#[derive(Debug, Clone)]
pub struct GilProbeHandle {
    shared: Arc<Shared>,
}

/// State shared by the thread and the handles. The lock of `state` is held for a read or a write, never while the
/// thread waits for the GIL.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Start of the wait that is in progress or about to begin; `None`: no wait.
    since: Option<Instant>,
    /// Duration of the last wait.
    last: Duration,
    stop: bool,
    /// The thread has ended.
    ended: bool,
}

impl GilProbe {
    /// Starts the thread. `attach` acquires the GIL and releases it; `false`: the interpreter has ended. The thread
    /// "grete-gil-probe" calls it once for each [`GilProbeHandle::sample`].
    ///
    /// # Errors
    /// [`HealthError::Os`] if the system has no thread to give.
    pub fn start(attach: impl FnMut() -> bool + Send + 'static) -> Result<Self, HealthError> {
        let shared = Arc::new(Shared::default());
        let run = {
            let shared = Arc::clone(&shared);
            move || shared.run(attach)
        };
        let thread = Builder::new().name("grete-gil-probe".into()).spawn(run);
        let thread = thread.map_err(|error| HealthError::Os { what: "starting the GIL probe's thread", error })?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Returns a handle to the measurements.
    #[must_use]
    pub fn handle(&self) -> GilProbeHandle {
        GilProbeHandle { shared: Arc::clone(&self.shared) }
    }

    /// Ends the thread and joins it. If the thread waits for the GIL, the join lasts until it has acquired the GIL; so
    /// the caller must not hold the GIL. Idempotent.
    pub fn close(&self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join(); // a panic has been reported by its hook
        }
    }
}

impl GilProbeHandle {
    /// Starts an acquisition of the GIL, unless one is in progress.
    pub fn sample(&self, now: Instant) {
        let mut state = self.shared.lock();
        if state.since.is_none() && !state.ended {
            state.since = Some(now);
            drop(state);
            self.shared.changed.notify_all();
        }
    }

    /// Returns the current wait or the last one, whichever is longer.
    pub fn max_wait(&self, now: Instant) -> Duration {
        let state = self.shared.lock();
        state.waiting(now).max(state.last)
    }

    /// Returns the current wait; zero: the thread does not wait.
    pub fn current_wait(&self, now: Instant) -> Duration {
        self.shared.lock().waiting(now)
    }

    /// Discards the time until `now`, in which the whole process slept: that was no wait for the GIL. A wait in
    /// progress counts from `now`.
    ///
    /// The order of this call and the probe's wake-up does not matter. If the probe wakes first, the wait that it
    /// records is discarded here. If it wakes later, it records a wait that began at `now`.
    pub fn discount(&self, now: Instant) {
        let mut state = self.shared.lock();
        state.last = Duration::ZERO;
        state.since = state.since.map(|_| now);
    }
}

impl State {
    fn waiting(&self, now: Instant) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

impl Shared {
    fn run(&self, mut attach: impl FnMut() -> bool) {
        loop {
            let idle = |state: &mut State| state.since.is_none() && !state.stop;
            let state = self.changed.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
            let stop = state.stop;
            drop(state);
            let attached = !stop && attach();
            let mut state = self.lock();
            if let Some(since) = state.since.take() {
                state.last = since.elapsed();
            }
            if !attached {
                state.ended = true;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
