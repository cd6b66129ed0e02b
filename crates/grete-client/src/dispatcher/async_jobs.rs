//! Jobs for an event loop: a separate thread decodes and queues them, and makes the loop's descriptor readable.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use grete_net::Clock;
use grete_proto::dispatch::EventLoopMonitor;
use grete_proto::time::Nanos;
use grete_sys::EventFd;

use super::{BlockingJob, Dispatcher, Job, NextJob};
use crate::dispatcher::worker_context::WorkerContext;
use crate::error::ClientError;

/// Maximum number of decoded jobs that wait for the loop. The limit keeps the loop busy while more jobs are decoded,
/// and a blocked loop does not fill the memory with decoded records.
const MAX_PREFETCHED_JOBS: usize = 64;

/// Queue between the decoder thread and the event loop's thread.
#[derive(Debug)]
pub(super) struct AsyncJobQueue {
    state: Mutex<QueueState>,
    space: Condvar,
    event_fd: EventFd,
    clock: Clock,
}

#[derive(Debug, Default)]
pub(super) struct QueueState {
    jobs: Vec<Job>,
    cancelled: Vec<u64>,
    /// Whether the descriptor is readable. One write lasts until the loop has taken all jobs.
    signalled: bool,
    stopped: bool,
    pub(super) watch: EventLoopMonitor,
    /// Job that blocks the loop, until the loop runs again.
    pub(super) blocker: Option<BlockingJob>,
}

/// Commands for the event loop.
#[derive(Debug, Default)]
pub struct AsyncJobs {
    /// Jobs to start.
    pub jobs: Vec<Job>,
    /// Ids of running jobs to cancel, because their lane was abandoned; see [`super::JobToken::id`].
    pub cancelled: Vec<u64>,
}

impl AsyncJobQueue {
    fn new(clock: Clock) -> Result<Self, ClientError> {
        let event = EventFd::new().map_err(|e| ClientError::os("opening an eventfd", &e))?;
        Ok(Self { state: Mutex::default(), space: Condvar::new(), event_fd: event, clock })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the queue and signals the loop once.
    fn update_and_signal(&self, change: impl FnOnce(&mut QueueState)) {
        let mut state = self.lock();
        change(&mut state);
        self.signal(&mut state);
    }

    /// Makes the descriptor readable.
    pub(super) fn signal(&self, state: &mut QueueState) {
        if !std::mem::replace(&mut state.signalled, true) {
            state.watch.on_signalled(self.clock.now());
            self.event_fd.signal();
        }
    }

    fn push(&self, job: Job) {
        self.update_and_signal(|state| state.jobs.push(job));
        let mut state = self.lock();
        while state.jobs.len() >= MAX_PREFETCHED_JOBS && !state.stopped {
            state = self.space.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn cancel(&self, ids: Vec<u64>) {
        if !ids.is_empty() {
            self.update_and_signal(|state| state.cancelled.extend(ids));
        }
    }

    /// Reports that the loop runs the job's first step. Returns for how long the loop had been blocked, if that was
    /// reported.
    pub(super) fn job_started(&self, now: Nanos, id: u64) -> Option<Nanos> {
        let mut state = self.lock();
        state.blocker = None;
        state.watch.on_job_started(now, id)
    }

    /// Reports that the job has ended, so it needs no cancellation. Returns the same as [`AsyncJobQueue::job_started`].
    pub(super) fn job_ended(&self, now: Nanos, id: u64) -> Option<Nanos> {
        let mut state = self.lock();
        state.cancelled.retain(|cancelled| *cancelled != id);
        state.blocker = None;
        state.watch.on_job_ended(now, id)
    }

    /// Stops the queue: no more jobs arrive, and a decoder that waits for space continues.
    pub(super) fn stop(&self) {
        self.update_and_signal(|state| state.stopped = true);
        self.space.notify_all();
    }

    /// Takes all commands. Also returns for how long the loop had been blocked, if that was reported.
    fn drain(&self) -> (AsyncJobs, Option<Nanos>) {
        let mut state = self.lock();
        if std::mem::take(&mut state.signalled) {
            self.event_fd.clear();
        }
        let started =
            AsyncJobs { jobs: std::mem::take(&mut state.jobs), cancelled: std::mem::take(&mut state.cancelled) };
        state.blocker = None;
        let over = state.watch.on_jobs_taken(self.clock.now(), started.jobs.iter().map(|job| job.token.id));
        drop(state);
        self.space.notify_one();
        (started, over)
    }
}

impl Dispatcher {
    /// Starts the decoder thread for an event loop on the first call; `name` is the loop's name in reports. Returns a
    /// descriptor that is readable while [`Dispatcher::take_async_jobs`] has commands.
    ///
    /// # Errors
    /// Fails if the system has no descriptor or thread left, and in a forked child of the process that created the
    /// dispatcher.
    pub fn start_async(&self, name: &str) -> Result<i32, ClientError> {
        self.check_fork()?;
        let mut place = self.inner.async_queue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(looping) = &*place {
            return Ok(looping.fd());
        }
        let looping = Arc::new(AsyncJobQueue::new(self.clock())?);
        let (dispatcher, shared, name) = (self.clone(), Arc::clone(&looping), name.to_owned());
        // The thread is not joined: it ends after the dispatcher has stopped, and knows no Python.
        let run = move || run_decoder(&dispatcher, &shared, &name);
        let thread = std::thread::Builder::new().name("grete-decode".into()).spawn(run);
        thread.map_err(|e| ClientError::os("starting the decoder's thread", &e))?;
        let fd = looping.fd();
        *place = Some(looping);
        Ok(fd)
    }

    /// Takes the jobs that the event loop must start and cancel.
    ///
    /// # Errors
    /// [`ClientError::Forked`] in a forked child of the process that created the dispatcher.
    pub fn take_async_jobs(&self) -> Result<AsyncJobs, ClientError> {
        self.check_fork()?;
        let Some(looping) = self.async_queue() else { return Ok(AsyncJobs::default()) };
        let (started, over) = looping.drain();
        self.report_unblocked(over);
        Ok(started)
    }

    /// Returns whether the event loop gets no more jobs.
    pub fn async_stopped(&self) -> bool {
        self.async_queue().is_some_and(|looping| {
            let state = looping.lock();
            state.stopped && state.jobs.is_empty()
        })
    }

    /// Cancels fenced jobs on the event loop.
    pub(crate) fn cancel_async_jobs(&self, ids: Vec<u64>) {
        if let Some(looping) = self.async_queue() {
            looping.cancel(ids);
        }
    }

    pub(super) fn async_queue(&self) -> Option<Arc<AsyncJobQueue>> {
        self.inner.async_queue.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl AsyncJobQueue {
    fn fd(&self) -> i32 {
        std::os::fd::AsRawFd::as_raw_fd(&self.event_fd)
    }
}

/// Runs the thread "grete-decode".
fn run_decoder(dispatcher: &Dispatcher, looping: &AsyncJobQueue, name: &str) {
    let _ending = DecoderGuard { dispatcher, looping };
    let mut worker = WorkerContext::for_event_loop(name, dispatcher.slabs());
    loop {
        match dispatcher.next(&mut worker, None, None) {
            Ok(NextJob::Job(job)) => looping.push(job),
            Ok(NextJob::TimedOut | NextJob::Interrupted) => {}
            Ok(NextJob::Stopped) | Err(_) => return,
        }
    }
}

/// Drop guard of the decoder thread: stops the loop's queue. A panic of the decoder is reported as a failure too.
struct DecoderGuard<'a> {
    dispatcher: &'a Dispatcher,
    looping: &'a AsyncJobQueue,
}

impl Drop for DecoderGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.dispatcher.fail(ClientError::network_thread_panicked());
        }
        self.looping.stop();
    }
}
