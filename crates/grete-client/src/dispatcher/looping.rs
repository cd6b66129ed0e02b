//! Jobs for an event loop: decoded on a thread of their own, then queued, and the loop's descriptor made readable.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use grete_net::EventFd;

use super::{Dispatcher, Job, Next};
use crate::error::ClientError;
use crate::worker::Worker;

/// Decoded jobs that may wait for the loop: enough to keep it busy while more are decoded, few enough that a loop which
/// is stuck does not fill the memory with decoded records.
const AHEAD: usize = 64;

/// Between the decoder's thread and the event loop's.
#[derive(Debug)]
pub(super) struct Looping {
    state: Mutex<State>,
    room: Condvar,
    event: EventFd,
}

#[derive(Debug, Default)]
struct State {
    jobs: Vec<Job>,
    cancelled: Vec<u64>,
    /// The descriptor is readable: one write lasts until the loop has taken everything.
    signalled: bool,
    stopped: bool,
}

/// What the event loop is to do.
#[derive(Debug, Default)]
pub struct Started {
    /// Jobs to start.
    pub jobs: Vec<Job>,
    /// Running jobs, by [`super::JobToken::id`], whose lane was abandoned: to be cancelled.
    pub cancelled: Vec<u64>,
}

impl Looping {
    fn new() -> Result<Self, ClientError> {
        let event = EventFd::new().map_err(|e| ClientError::os("opening an eventfd", &e))?;
        Ok(Self { state: Mutex::default(), room: Condvar::new(), event })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what waits for the loop, and says so once.
    fn tell(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        if !std::mem::replace(&mut state.signalled, true) {
            self.event.signal();
        }
    }

    fn push(&self, job: Job) {
        self.tell(|state| state.jobs.push(job));
        let mut state = self.lock();
        while state.jobs.len() >= AHEAD && !state.stopped {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn cancel(&self, ids: Vec<u64>) {
        if !ids.is_empty() {
            self.tell(|state| state.cancelled.extend(ids));
        }
    }

    /// The job has ended: there is nothing to cancel.
    pub(super) fn forget(&self, id: u64) {
        self.lock().cancelled.retain(|cancelled| *cancelled != id);
    }

    /// No job comes any more; a decoder that waits for room waits no longer.
    pub(super) fn stop(&self) {
        self.tell(|state| state.stopped = true);
        self.room.notify_all();
    }

    fn take(&self) -> Started {
        let mut state = self.lock();
        if std::mem::take(&mut state.signalled) {
            self.event.clear();
        }
        let started =
            Started { jobs: std::mem::take(&mut state.jobs), cancelled: std::mem::take(&mut state.cancelled) };
        drop(state);
        self.room.notify_one();
        started
    }
}

impl Dispatcher {
    /// Starts the thread that decodes for an event loop, with the first call. Returns a descriptor that is readable while
    /// [`Dispatcher::take_loop`] has something to say.
    ///
    /// # Errors
    /// When the system has no descriptor or thread to give; in a child of the process that made this.
    pub fn start_loop(&self) -> Result<i32, ClientError> {
        self.check_fork()?;
        let mut place = self.shared.looping.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(looping) = &*place {
            return Ok(looping.fd());
        }
        let looping = Arc::new(Looping::new()?);
        let (dispatcher, told) = (self.clone(), Arc::clone(&looping));
        // Nobody joins it: it ends when the dispatcher has stopped, and knows no Python.
        let thread = std::thread::Builder::new().name("grete-decode".into()).spawn(move || decode(&dispatcher, &told));
        thread.map_err(|e| ClientError::os("starting the decoder's thread", &e))?;
        let fd = looping.fd();
        *place = Some(looping);
        Ok(fd)
    }

    /// What the event loop is to start and to cancel.
    ///
    /// # Errors
    /// In a child of the process that made this.
    pub fn take_loop(&self) -> Result<Started, ClientError> {
        self.check_fork()?;
        Ok(self.looping().map(|looping| looping.take()).unwrap_or_default())
    }

    /// Whether no job comes for the event loop any more.
    #[must_use]
    pub fn loop_stopped(&self) -> bool {
        self.looping().is_some_and(|looping| {
            let state = looping.lock();
            state.stopped && state.jobs.is_empty()
        })
    }

    /// These jobs on the event loop count for nothing any more: they are to be cancelled.
    pub(crate) fn cancel_loop_jobs(&self, ids: Vec<u64>) {
        if let Some(looping) = self.looping() {
            looping.cancel(ids);
        }
    }

    pub(super) fn looping(&self) -> Option<Arc<Looping>> {
        self.shared.looping.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Looping {
    fn fd(&self) -> i32 {
        std::os::fd::AsRawFd::as_raw_fd(&self.event)
    }
}

/// The thread "grete-decode".
fn decode(dispatcher: &Dispatcher, looping: &Looping) {
    let _ending = Ending { dispatcher, looping };
    let mut worker = Worker::for_loop("grete-loop", dispatcher);
    loop {
        match dispatcher.next(&mut worker, None, None) {
            Ok(Next::Job(job)) => looping.push(job),
            Ok(Next::TimedOut | Next::Interrupted) => {}
            Ok(Next::Stopped) | Err(_) => return,
        }
    }
}

/// The decoder's end is the loop's, even if it is a panic: then it is told as a failure, too.
struct Ending<'a> {
    dispatcher: &'a Dispatcher,
    looping: &'a Looping,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.dispatcher.fail(ClientError::fault());
        }
        self.looping.stop();
    }
}
