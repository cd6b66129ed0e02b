//! The stop of an App: one deadline, begun by a signal or by a call, kept by threads that need no interpreter.
//!
//! The interpreter runs the stop as long as it can: jobs in flight end, hooks run, then the farewell. When a handler keeps
//! its lock to itself, nothing of that happens; then, at [`Stages::takeover`], a thread of ours says the farewell, so that
//! what other handlers have processed is committed, and at the end one ends the process.

mod farewell;
mod last_words;
mod signals;
mod stages;
#[cfg(test)]
mod tests;

use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use grete_net::EventFd;

pub use farewell::Parting;
pub use signals::{SignalNumbers, SignalWatch};
pub use stages::Stages;

use crate::consumer::Consumer;
use crate::dispatcher::Dispatcher;
use crate::error::ClientError;
use crate::producer::Producer;
use farewell::Farewell;
use stages::left;

/// One stop. Clones share it.
#[derive(Debug, Clone)]
pub struct Stop {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    dispatcher: Dispatcher,
    patience: Duration,
    farewell: Farewell,
    state: Mutex<State>,
    changed: Condvar,
    /// Signals that came, for the interpreter to hear of.
    heard: Mutex<Vec<i32>>,
    taken: Condvar,
    wake: EventFd,
}

#[derive(Debug)]
struct State {
    /// The process ends with the time, and this signal makes it dump all stacks; `None`: it is not ours to end.
    exit: Option<i32>,
    stages: Option<Stages>,
    taken_over: bool,
    over: bool,
}

impl Stop {
    /// Nothing is begun. `patience` is the time that a stop has unless it is told otherwise.
    ///
    /// # Errors
    /// When the system has no descriptor to give.
    pub fn new(dispatcher: &Dispatcher, patience: Duration) -> Result<Self, ClientError> {
        let wake = EventFd::new().map_err(|error| ClientError::os("opening an eventfd", &error))?;
        let state = State { exit: None, stages: None, taken_over: false, over: false };
        Ok(Self {
            shared: Arc::new(Shared {
                dispatcher: dispatcher.clone(),
                patience,
                farewell: Farewell::default(),
                state: Mutex::new(state),
                changed: Condvar::new(),
                heard: Mutex::default(),
                taken: Condvar::new(),
                wake,
            }),
        })
    }

    /// No more jobs are handed out, except for last hooks, and the time runs. Again: the earliest end counts.
    pub fn begin(&self, patience: Option<Duration>) {
        self.shared.dispatcher.stop();
        let patience = patience.unwrap_or(self.shared.patience);
        self.set(Stages::new(Instant::now(), patience));
    }

    /// Somebody will not wait any longer: the end gets that much time, handlers none.
    pub fn hurry(&self, patience: Duration) {
        self.shared.dispatcher.stop();
        self.set(Stages::hurried(Instant::now(), patience));
    }

    /// When the time is up the process says who is to blame, raises `dump` (0: none) for its handler to dump all stacks, and
    /// exits with 2. Without this nothing happens to the process.
    pub fn exit_at_the_end(&self, dump: i32) {
        self.lock().exit = Some(dump);
        self.shared.changed.notify_all();
    }

    /// Hands out no more records; what runs goes on.
    pub fn quiet(&self) {
        self.shared.dispatcher.quiet();
    }

    /// What it has come to; `None` before the beginning.
    #[must_use]
    pub fn stages(&self) -> Option<Stages> {
        self.lock().stages
    }

    /// The client is closed by the farewell. False: that is under way already, close it yourself.
    #[must_use]
    pub fn add_client(&self, client: &Consumer) -> bool {
        self.shared.farewell.add_client(client)
    }

    /// What handlers produce with it is delivered before offsets are committed. False: too late, it must not be used.
    #[must_use]
    pub fn add_producer(&self, producer: &Producer) -> bool {
        self.shared.farewell.add_producer(producer)
    }

    /// Delivers, commits, leaves, closes; or waits for whoever is at it. `None`: not in time. Begins the stop if nobody has.
    #[must_use]
    pub fn say_farewell(&self) -> Option<Arc<Parting>> {
        self.begin(None);
        let stages = self.stages().unwrap_or_else(|| Stages::new(Instant::now(), Duration::ZERO));
        self.shared.farewell.say(stages)
    }

    /// All is done: the deadline is called off.
    pub fn over(&self) {
        self.lock().over = true;
        self.shared.changed.notify_all();
    }

    /// Readable after a signal or [`Stop::wake`].
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.shared.wake.as_raw_fd()
    }

    /// Makes whoever waits on the descriptor look around.
    pub fn wake(&self) {
        self.shared.wake.signal();
    }

    /// The signals since the last call, in order. One that comes between the clearing and the look is taken now, and
    /// leaves the descriptor readable for a look that finds nothing.
    #[must_use]
    pub fn take_signals(&self) -> Vec<i32> {
        self.shared.wake.clear();
        let heard = std::mem::take(&mut *self.shared.heard.lock().unwrap_or_else(PoisonError::into_inner));
        self.shared.taken.notify_all();
        heard
    }

    /// When nobody has taken the signal within that time, the interpreter's lock is held by somebody who does not give it
    /// back: then the C-level handler of [`Stop::exit_at_the_end`]'s signal dumps the stacks. Not before, because it reads
    /// frames without the lock, and frames of threads that run may vanish under it.
    fn dump_unless_heard(&self, number: i32, patience: Duration) {
        let Some(dump) = self.lock().exit else { return };
        let shared = Arc::clone(&self.shared);
        let run = move || {
            let heard = shared.heard.lock().unwrap_or_else(PoisonError::into_inner);
            let untaken = |heard: &mut Vec<i32>| heard.contains(&number);
            let waited = shared.taken.wait_timeout_while(heard, patience, untaken);
            let (heard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            drop(heard);
            if timeout.timed_out() {
                last_words::head_stacks();
                grete_net::process::raise_here(dump);
            }
        };
        let _ = std::thread::Builder::new().name("grete-dump".into()).spawn(run);
    }

    fn hear(&self, numbers: impl IntoIterator<Item = i32>) {
        self.shared.heard.lock().unwrap_or_else(PoisonError::into_inner).extend(numbers);
        self.wake();
    }

    fn set(&self, stages: Stages) {
        let mut state = self.lock();
        let first = state.stages.is_none();
        state.stages = Some(state.stages.map_or(stages, |before| before.earliest(stages)));
        drop(state);
        self.shared.changed.notify_all();
        self.wake();
        if first {
            let shared = Arc::clone(&self.shared);
            // Without a thread for it there is no deadline; the interpreter goes on to stop all the same.
            let _ = std::thread::Builder::new().name("grete-stop".into()).spawn(move || shared.keep_the_deadline());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep_the_deadline(self: Arc<Self>) {
        let mut state = self.lock();
        while !state.over {
            let Some(stages) = state.stages else { return };
            let due = if state.taken_over { stages.end } else { stages.takeover };
            let wait = left(due);
            if !wait.is_zero() {
                state = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
            } else if !state.taken_over {
                state.taken_over = true;
                drop(state);
                self.take_over(stages);
                state = self.lock();
            } else if let Some(dump) = state.exit {
                drop(state);
                last_words::say_and_exit(&self.dispatcher, dump);
            } else {
                // Not our process, unless it ends meanwhile.
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// On a thread of its own: a broker that does not answer must not keep this one from the end.
    fn take_over(self: &Arc<Self>, stages: Stages) {
        let shared = Arc::clone(self);
        let run = move || drop(shared.farewell.say(stages));
        let _ = std::thread::Builder::new().name("grete-farewell".into()).spawn(run);
    }
}
