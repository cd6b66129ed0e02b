//! Finds out how long an interpreter's lock is waited for, by waiting for it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::HealthError;

/// A thread that takes the lock when it is asked to, and gives it back at once.
#[derive(Debug)]
pub struct Canary {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What others see of a [`Canary`].
#[derive(Debug, Clone)]
pub struct Watch {
    shared: Arc<Shared>,
}

/// The lock of `state` is held for a look or a note, never while the interpreter's is waited for.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The wait that is under way, or about to begin.
    since: Option<Instant>,
    /// How long the last one took.
    last: Duration,
    stop: bool,
    /// The thread has ended.
    over: bool,
}

impl Canary {
    /// `attach` takes the interpreter's lock and gives it back; false: there is no interpreter any more. It is called once for
    /// each [`Watch::ask`], in a thread "grete-canary".
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(attach: impl FnMut() -> bool + Send + 'static) -> Result<Self, HealthError> {
        let shared = Arc::new(Shared::default());
        let run = {
            let shared = Arc::clone(&shared);
            move || shared.run(attach)
        };
        let thread = Builder::new().name("grete-canary".into()).spawn(run);
        let thread = thread.map_err(|error| HealthError::Os { what: "starting the canary's thread", error })?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// For whoever asks it.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch { shared: Arc::clone(&self.shared) }
    }

    /// Ends the thread and waits for that: if it waits for the interpreter's lock, until it has had it. Whoever calls this must
    /// not hold that lock. A second call does nothing.
    pub fn close(&self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join(); // a panic has been reported by its hook
        }
    }
}

impl Watch {
    /// Has it take the lock, unless it is still at it.
    pub fn ask(&self, now: Instant) {
        let mut state = self.shared.lock();
        if state.since.is_none() && !state.over {
            state.since = Some(now);
            drop(state);
            self.shared.changed.notify_all();
        }
    }

    /// How long it has waited by now, or waited last; the longer of the two.
    #[must_use]
    pub fn wait(&self, now: Instant) -> Duration {
        let state = self.shared.lock();
        state.waiting(now).max(state.last)
    }

    /// How long it has waited by now; nothing when it does not wait.
    #[must_use]
    pub fn waiting(&self, now: Instant) -> Duration {
        self.shared.lock().waiting(now)
    }

    /// The whole process has slept until `now`: that was no wait for the lock. One that is under way counts from then.
    ///
    /// Whether the canary wakes before this or after it makes no difference: before, it notes a wait that is forgotten here;
    /// after, it notes one that began here.
    pub fn forgive(&self, now: Instant) {
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
            let goes_on = !stop && attach();
            let mut state = self.lock();
            if let Some(since) = state.since.take() {
                state.last = since.elapsed();
            }
            if !goes_on {
                state.over = true;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
