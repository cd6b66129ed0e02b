//! Dispatcher: the lanes behind a lock, and the waits of its workers.
//!
//! One lock guards the lanes. It is held to hand over a job, never while decoding or while user code runs. A worker
//! that finds no job sleeps until a lane becomes ready. A lane becomes ready when the network thread pushes records,
//! when another worker completes a job, or when a deadline passes. The module `waiters` decides which worker is woken.

mod async_jobs;
mod failures;
mod histories;
mod job;
pub(crate) mod lane_events;
mod leases;
mod marks;
mod outputs;
mod parking;
mod poll_fd;
mod reports;
mod settling;
mod state;
#[cfg(test)]
mod tests;
mod virtual_time;
mod waiters;
mod worker_context;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use grete_net::{CallerLoop, Clock, Waker};
use grete_proto::dispatch::{ClientId, ColumnPool, Dispatch, Pool};
use grete_proto::ids::TopicPartition;
use grete_proto::rng::Rng;
use grete_proto::time::Nanos;
use grete_sys::{EventFd, Futex};
use grete_wire::buffer_pool::BufferPool;

pub use async_jobs::AsyncJobs;
pub use histories::History;
pub use job::{Job, JobCounts, JobToken, NextJob, Outcome};
pub(crate) use reports::stall_events;
pub use reports::{
    BlockingJob, DispatcherSnapshot, EventLoopStatus, FailureReport, LaneReport, RunningJob, WaitReport,
};
pub(crate) use settling::Condition;
pub use settling::Settling;
pub use worker_context::WorkerContext;

use async_jobs::AsyncJobQueue;
use failures::Failures;
use histories::HistoryQueue;
use outputs::OutputProducer;
use poll_fd::PollFd;
use state::{ClientThread, State};
use virtual_time::VirtualTime;
use waiters::WaiterList;

use crate::error::ClientError;
use crate::log_event::{LogEvent, LogEventQueue, LogSink};
use crate::random_seed;

/// Most bytes of idle buffers that the process retains.
const MAX_RETAINED_BYTES: usize = 32 << 20;
/// Bytes of what clients fetch ahead that allow no idle buffers: a small `queued_bytes` says that memory matters
/// more than the page faults that idle buffers avoid.
const UNRETAINED_BYTES: usize = 6 << 20;

/// Mode in which threads sleep in [`Dispatcher::next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitMode {
    /// For worker threads, each of which is woken individually.
    Parked,
    /// For one thread that must notice Unix signals while it waits (Python's main thread).
    Interruptible,
}

/// Lanes and jobs, shared by all clients of an App, or private to one low-level consumer. Clones share one dispatcher.
#[derive(Debug, Clone)]
pub struct Dispatcher {
    inner: Arc<DispatcherInner>,
}

#[derive(Debug)]
struct DispatcherInner {
    state: Mutex<State>,
    wait: WaitMode,
    /// Futex that interruptible threads sleep on.
    interruptible_futex: Futex,
    /// Loop of the first client: a thread that waits for its records may lead the loop.
    caller_loop: OnceLock<Box<dyn CallerLoop>>,
    /// Descriptor that an event loop waits for instead.
    poll_fd: PollFd,
    /// Futex that threads sleep on until all is processed.
    settling_futex: Futex,
    log_events: LogEventQueue,
    failures: Mutex<Failures>,
    async_queue: Mutex<Option<Arc<AsyncJobQueue>>>,
    released: AtomicBool,
    /// Producer of the handlers' records, set with the first use.
    output_producer: OnceLock<OutputProducer>,
    histories: HistoryQueue,
    slabs: BufferPool,
    columns: ColumnPool,
    clock: Clock,
    /// Clock of a test; `None`: `clock` and the system's wall clock count.
    virtual_time: Option<VirtualTime>,
    fork_generation: u32,
}

impl Dispatcher {
    /// Creates a dispatcher without lanes. `wait` is the kind of thread that will call [`Dispatcher::next`].
    ///
    /// # Errors
    /// Fails if the system has no descriptor or random numbers left.
    pub fn new(wait: WaitMode) -> Result<Self, ClientError> {
        Self::with_log(wait, None)
    }

    /// Creates a dispatcher with a log sink, which threads that wait in a call of a client use to write log events.
    ///
    /// # Errors
    /// The same as [`Dispatcher::new`].
    pub fn with_log(wait: WaitMode, log: Option<LogSink>) -> Result<Self, ClientError> {
        Self::build(wait, log, Rng::new(random_seed()?), None)
    }

    /// Creates a dispatcher on a virtual clock, for one thread that feeds it and takes its jobs; see
    /// [`Dispatcher::advance_virtual_time`]. Random numbers are the same in each run.
    ///
    /// # Errors
    /// Fails if the system has no descriptor left.
    pub fn with_virtual_time() -> Result<Self, ClientError> {
        Self::build(WaitMode::Parked, None, Rng::new(1), Some(VirtualTime::new()))
    }

    fn build(
        wait: WaitMode,
        log: Option<LogSink>,
        rng: Rng,
        virtual_time: Option<VirtualTime>,
    ) -> Result<Self, ClientError> {
        let event = EventFd::new().map_err(|e| ClientError::os("opening an eventfd", &e))?;
        let state = State {
            dispatch: Dispatch::new(rng),
            clients: Vec::new(),
            queued_bytes: 0,
            leases: HashMap::default(),
            last_job: 0,
            waiters: WaiterList::default(),
            worker_leads: false,
            interruptible_waiters: 0,
            poll_armed: false,
            settling_waiters: 0,
            workers: None,
        };
        Ok(Self {
            inner: Arc::new(DispatcherInner {
                state: Mutex::new(state),
                wait,
                interruptible_futex: Futex::default(),
                caller_loop: OnceLock::new(),
                poll_fd: PollFd::default(),
                settling_futex: Futex::default(),
                log_events: LogEventQueue::new(event, log),
                failures: Mutex::new(Failures::default()),
                async_queue: Mutex::default(),
                released: AtomicBool::new(false),
                output_producer: OnceLock::new(),
                histories: HistoryQueue::default(),
                slabs: BufferPool::new(MAX_RETAINED_BYTES),
                columns: ColumnPool::default(),
                clock: Clock::new(),
                virtual_time,
                fork_generation: grete_sys::fork::generation(),
            }),
        })
    }

    /// Creates the context of a thread that runs the jobs of `pool`, with `name` in reports; see
    /// [`Dispatcher::worker_context`].
    #[must_use]
    pub fn pool_context(&self, name: &str, pool: Pool) -> WorkerContext {
        match pool {
            Pool::Threads => self.worker_context(name, 0),
            Pool::EventLoop => WorkerContext::for_event_loop(name, self.slabs()),
        }
    }

    /// Creates the context of a worker with `name` in reports. The worker ends when there are fewer than `number`
    /// workers (0: never).
    pub fn worker_context(&self, name: &str, number: u32) -> WorkerContext {
        WorkerContext::new(name, self.slabs(), number)
    }

    /// Pauses the job's lane for `duration`; `None`: until [`Dispatcher::resume`].
    ///
    /// # Errors
    /// [`ClientError::Forked`] in a forked child of the process that created the dispatcher.
    pub fn pause(&self, token: &JobToken, duration: Option<Duration>) -> Result<(), ClientError> {
        self.check_fork()?;
        let until =
            duration.map(|wait| self.now().saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(Nanos::MAX)));
        let mut state = self.lock();
        state.dispatch.pause(token.lane, until);
        self.unlock_and_wake(state);
        Ok(())
    }

    /// Ends a pause of the job's lane.
    ///
    /// # Errors
    /// [`ClientError::Forked`] in a forked child of the process that created the dispatcher.
    pub fn resume(&self, token: &JobToken) -> Result<(), ClientError> {
        self.check_fork()?;
        let mut state = self.lock();
        state.dispatch.resume(token.lane);
        self.unlock_and_wake(state);
        Ok(())
    }

    /// Sets the number of workers. Workers with a higher number end at their next call for a job, or at once if they
    /// wait for one.
    pub fn set_workers(&self, count: u32) {
        let mut state = self.lock();
        state.workers = Some(count);
        let above = state.waiters.numbered_above(count);
        drop(state);
        self.end_sleeps(above);
    }

    /// Stops handing out consume jobs.
    pub fn quiet(&self) {
        self.lock().dispatch.quiet();
    }

    /// Quiets the dispatcher, runs a shutdown job for each lane that has run, then stops every worker.
    pub fn stop(&self) {
        self.lock().dispatch.stop();
        self.wake_all();
    }

    /// Stops every worker at once, even if jobs are left.
    pub fn release_workers(&self) {
        self.inner.released.store(true, Ordering::Relaxed);
        self.wake_all();
        if let Some(looping) = self.async_queue() {
            looping.stop();
        }
    }

    /// Returns the log events of the network threads, which wait for a thread that can log.
    pub fn log_events(&self) -> &LogEventQueue {
        &self.inner.log_events
    }

    /// Returns the failure to report; `None`: no client has failed.
    pub fn fatal(&self) -> Option<ClientError> {
        self.failures().first().cloned()
    }

    // ---- for the clients of this crate

    pub(crate) fn slabs(&self) -> BufferPool {
        self.inner.slabs.clone()
    }

    /// Returns the clock of network threads.
    pub(crate) fn clock(&self) -> Clock {
        self.inner.clock
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a client fetches up to `queued_bytes` ahead. Idle buffers keep up to half of what all clients fetch
    /// ahead beyond [`UNRETAINED_BYTES`].
    pub(crate) fn retain_buffers_for(&self, queued_bytes: usize) {
        let mut state = self.lock();
        state.queued_bytes = state.queued_bytes.saturating_add(queued_bytes);
        let beyond = state.queued_bytes.saturating_sub(UNRETAINED_BYTES);
        self.inner.slabs.set_retained((beyond / 2).min(MAX_RETAINED_BYTES));
    }

    pub(crate) fn attach(&self) -> ClientId {
        let mut state = self.lock();
        state.clients.push(ClientThread::default());
        state.dispatch.add_client()
    }

    /// Sets the waker of a client's network thread. `None`: the thread ends and keeps no deadline any more.
    pub(crate) fn set_waker(&self, client: ClientId, waker: Option<Waker>) {
        let mut state = self.lock();
        if let Some(side) = state.client_mut(client) {
            *side = ClientThread { waker, held_deadline: None };
        }
        self.unlock_and_wake(state);
    }

    /// Returns whether interruptible threads wait for jobs, not workers.
    pub(crate) fn is_polled(&self) -> bool {
        self.inner.wait == WaitMode::Interruptible
    }

    /// Lets a thread that waits lead the loop of the first client. Workers lead while there is no other client.
    pub(crate) fn set_caller_loop(&self, event_loop: impl CallerLoop + 'static) {
        let _ = self.inner.caller_loop.set(Box::new(event_loop)); // that of the first client stays
    }

    pub(crate) fn emit(&self, events: Vec<LogEvent>) {
        if !events.is_empty() {
            self.inner.log_events.push(events);
            self.wake_pollers();
        }
    }

    pub(crate) fn fail(&self, error: ClientError) {
        self.failures().add(error);
        self.wake_for_failure();
    }

    /// Records that one partition stopped while others continue.
    pub(crate) fn fail_partition(&self, tp: TopicPartition, error: ClientError) {
        self.failures().add_partition(tp, error);
        self.wake_for_failure();
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.inner.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_for_failure(&self) {
        self.inner.log_events.signal();
        self.wake_settling();
        if self.inner.wait == WaitMode::Interruptible {
            self.wake_all();
        }
    }

    /// Clears the failure of a partition that gets a new position.
    pub(crate) fn clear_partition_failure(&self, tp: &TopicPartition) {
        self.failures().clear_partition(tp);
    }

    /// Clears the failures of all partitions, because all are assigned anew.
    pub(crate) fn clear_partition_failures(&self) {
        self.failures().clear_partitions();
    }

    pub(crate) fn check_fork(&self) -> Result<(), ClientError> {
        if self.inner.fork_generation == grete_sys::fork::generation() {
            return Ok(());
        }
        Err(ClientError::Forked { what: "dispatcher" })
    }
}
