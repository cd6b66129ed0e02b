//! Shutdown of an App: one deadline, begun by a signal or a call, and enforced by threads that need no interpreter.
//!
//! The interpreter runs the shutdown as long as it can: jobs in flight end, hooks run, then the clients are closed.
//! None of this happens while a handler keeps the interpreter lock. Therefore, at [`ShutdownDeadlines::takeover`], a
//! separate thread closes the clients, so that the records processed by other handlers are committed. At the end,
//! another thread ends the process.

mod close_clients;
mod deadlines;
mod forced_exit;
mod signals;
#[cfg(test)]
mod tests;

use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use grete_sys::EventFd;

pub use close_clients::ShutdownReport;
pub use deadlines::ShutdownDeadlines;
pub use signals::{SignalNumbers, SignalWatch};

use crate::consumer::Consumer;
use crate::dispatcher::Dispatcher;
use crate::error::ClientError;
use crate::producer::Producer;
use close_clients::ClientShutdown;
use deadlines::remaining;

/// Shutdown of one App. Clones share one shutdown.
#[derive(Debug, Clone)]
pub struct Shutdown {
    inner: Arc<ShutdownInner>,
}

#[derive(Debug)]
struct ShutdownInner {
    dispatcher: Dispatcher,
    timeout: Duration,
    client_shutdown: ClientShutdown,
    state: Mutex<State>,
    changed: Condvar,
    /// Received signals that the interpreter has not taken yet.
    pending_signals: Mutex<Vec<i32>>,
    signals_taken: Condvar,
    wake: EventFd,
}

#[derive(Debug)]
struct State {
    /// Signal that dumps all stacks when the process is ended at the deadline; `None`: the process is not ended.
    exit_dump_signal: Option<i32>,
    deadlines: Option<ShutdownDeadlines>,
    takeover_started: bool,
    finished: bool,
}

impl Shutdown {
    /// Creates a shutdown that has not begun. `timeout` is its time unless [`Shutdown::begin`] gets another one.
    ///
    /// # Errors
    /// Fails if the system has no descriptor left.
    pub fn new(dispatcher: &Dispatcher, timeout: Duration) -> Result<Self, ClientError> {
        let wake = EventFd::new().map_err(|error| ClientError::os("opening an eventfd", &error))?;
        let state = State { exit_dump_signal: None, deadlines: None, takeover_started: false, finished: false };
        Ok(Self {
            inner: Arc::new(ShutdownInner {
                dispatcher: dispatcher.clone(),
                timeout,
                client_shutdown: ClientShutdown::default(),
                state: Mutex::new(state),
                changed: Condvar::new(),
                pending_signals: Mutex::default(),
                signals_taken: Condvar::new(),
                wake,
            }),
        })
    }

    /// Begins the shutdown: no more jobs are handed out except for the last hooks, and the timeout runs. After several
    /// calls the earliest deadline counts.
    pub fn begin(&self, timeout: Option<Duration>) {
        self.inner.dispatcher.stop();
        self.inner.client_shutdown.expedite();
        let timeout = timeout.unwrap_or(self.inner.timeout);
        self.set_deadlines(ShutdownDeadlines::new(Instant::now(), timeout));
    }

    /// Expedites the shutdown: the close gets `timeout`, and handlers get no more time.
    pub fn expedite(&self, timeout: Duration) {
        self.inner.dispatcher.stop();
        self.inner.client_shutdown.expedite();
        self.set_deadlines(ShutdownDeadlines::expedited(Instant::now(), timeout));
    }

    /// Makes the process end at the deadline. It reports the running jobs, raises signal `dump` (0: none) for its
    /// handler to dump all stacks, and exits with status 2. Without this call the process is not ended.
    pub fn exit_on_deadline(&self, dump: i32) {
        self.lock().exit_dump_signal = Some(dump);
        self.inner.changed.notify_all();
    }

    /// Stops handing out records; running jobs continue.
    pub fn quiet(&self) {
        self.inner.dispatcher.quiet();
    }

    /// Returns the deadlines; `None`: the shutdown has not begun.
    pub fn deadlines(&self) -> Option<ShutdownDeadlines> {
        self.lock().deadlines
    }

    /// Adds a client, which the shutdown will close. Returns false if the close already runs: the caller must close the
    /// client.
    pub fn add_client(&self, client: &Consumer) -> bool {
        self.inner.client_shutdown.add_client(client)
    }

    /// Adds the producer of the handlers, whose records are delivered before offsets are committed. Returns false if it
    /// comes too late: it must not be used.
    pub fn add_producer(&self, producer: &Producer) -> bool {
        if self.deadlines().is_some() {
            producer.expedite_metadata();
        }
        self.inner.client_shutdown.add_producer(producer)
    }

    /// Delivers, commits, leaves groups and closes, or waits for the thread that does so. Returns `None` if that did
    /// not end in time. Begins the shutdown if it has not begun.
    pub fn close_clients(&self) -> Option<Arc<ShutdownReport>> {
        self.begin(None);
        let deadlines = self.deadlines().unwrap_or_else(|| ShutdownDeadlines::new(Instant::now(), Duration::ZERO));
        self.inner.client_shutdown.run_once(&self.inner.dispatcher, deadlines)
    }

    /// Finishes the shutdown: the deadline is canceled.
    pub fn finish(&self) {
        self.lock().finished = true;
        self.inner.changed.notify_all();
    }

    /// Returns a descriptor that is readable after a signal or [`Shutdown::wake`].
    pub fn fd(&self) -> RawFd {
        self.inner.wake.as_raw_fd()
    }

    /// Makes the descriptor readable, so that its waiter checks again.
    pub fn wake(&self) {
        self.inner.wake.signal();
    }

    /// Returns the signals since the last call, in order. A signal that arrives after the descriptor is cleared is
    /// taken now, and leaves the descriptor readable for a call that finds nothing.
    #[must_use]
    pub fn take_signals(&self) -> Vec<i32> {
        self.inner.wake.clear();
        let signals = std::mem::take(&mut *self.inner.pending_signals.lock().unwrap_or_else(PoisonError::into_inner));
        self.inner.signals_taken.notify_all();
        signals
    }

    /// Dumps the stacks if the interpreter has not taken the signal within `timeout`, because then a thread keeps the
    /// interpreter lock. The C-level handler of the signal from [`Shutdown::exit_on_deadline`] dumps them. It must not
    /// run earlier: it reads frames without the lock, and frames of running threads may vanish meanwhile.
    fn dump_if_unhandled(&self, number: i32, timeout: Duration) {
        let Some(dump) = self.lock().exit_dump_signal else { return };
        let shared = Arc::clone(&self.inner);
        let run = move || {
            let heard = shared.pending_signals.lock().unwrap_or_else(PoisonError::into_inner);
            let untaken = |heard: &mut Vec<i32>| heard.contains(&number);
            let waited = shared.signals_taken.wait_timeout_while(heard, timeout, untaken);
            let (heard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            drop(heard);
            if timeout.timed_out() {
                forced_exit::write_stack_header();
                grete_net::process::raise_signal(dump);
            }
        };
        let _ = std::thread::Builder::new().name("grete-dump".into()).spawn(run);
    }

    fn on_signals(&self, numbers: impl IntoIterator<Item = i32>) {
        self.inner.pending_signals.lock().unwrap_or_else(PoisonError::into_inner).extend(numbers);
        self.wake();
    }

    fn set_deadlines(&self, stages: ShutdownDeadlines) {
        let mut state = self.lock();
        let first = state.deadlines.is_none();
        state.deadlines = Some(state.deadlines.map_or(stages, |before| before.earliest(stages)));
        drop(state);
        self.inner.changed.notify_all();
        self.wake();
        if first {
            let shared = Arc::clone(&self.inner);
            // Without this thread there is no deadline; the interpreter continues the shutdown all the same.
            let _ = std::thread::Builder::new().name("grete-deadline".into()).spawn(move || shared.enforce_deadlines());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.lock()
    }
}

impl ShutdownInner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enforce_deadlines(self: Arc<Self>) {
        let mut state = self.lock();
        while !state.finished {
            let Some(stages) = state.deadlines else { return };
            let due = if state.takeover_started { stages.end } else { stages.takeover };
            let wait = remaining(due);
            if !wait.is_zero() {
                state = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
            } else if !state.takeover_started {
                state.takeover_started = true;
                drop(state);
                self.close_in_background(stages);
                state = self.lock();
            } else if let Some(dump) = state.exit_dump_signal {
                drop(state);
                forced_exit::report_and_exit(&self.dispatcher, dump);
            } else {
                // This process is not ended here; wait for a change.
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Closes the clients on a separate thread, because a broker that does not answer must not block this thread until
    /// the deadline has passed.
    fn close_in_background(self: &Arc<Self>, stages: ShutdownDeadlines) {
        let shared = Arc::clone(self);
        let run = move || drop(shared.client_shutdown.run_once(&shared.dispatcher, stages));
        let _ = std::thread::Builder::new().name("grete-close".into()).spawn(run);
    }
}
