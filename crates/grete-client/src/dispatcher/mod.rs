//! Dispatcher: the lanes behind a lock, and the waits of its workers.
//!
//! One lock guards the lanes. It is held to hand over a job, never while decoding or while user code runs. A worker
//! that finds no job sleeps until a lane becomes ready. A lane becomes ready when the network thread pushes records,
//! when another worker completes a job, or when a deadline passes. The module `waiters` decides which worker is woken.

mod async_jobs;
mod failures;
mod job;
pub(crate) mod lane_events;
mod loop_status;
mod outputs;
mod parking;
mod poll_fd;
mod settling;
mod snapshot;
mod status;
#[cfg(test)]
mod tests;
mod virtual_time;
mod waiters;
mod worker_context;

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use grete_net::{Clock, Futex, WakeReason, Waker};
use grete_proto::dispatch::{
    ClientId, ColumnPool, Committable, Decision, Dispatch, Failure, FinishResult, JobOutcome, LaneId, Lease, MarkError,
    Pool,
};
use grete_proto::ids::TopicPartition;
use grete_proto::rng::Rng;
use grete_proto::time::{MILLI, Nanos};
use grete_sys::{EventFd, IdHasher};
use grete_wire::buffer_pool::BufferPool;

pub use async_jobs::AsyncJobs;
pub use job::{Job, JobCounts, JobToken, NextJob, Outcome};
pub use loop_status::{BlockingJob, EventLoopStatus};
pub(crate) use settling::Condition;
pub use settling::Settling;
pub use snapshot::DispatcherSnapshot;
pub use status::{FailureReport, LaneReport, RunningJob};
pub use worker_context::WorkerContext;

use async_jobs::AsyncJobQueue;
use failures::Failures;
use outputs::OutputProducer;
use poll_fd::PollFd;
use virtual_time::VirtualTime;
use waiters::WaiterList;

use crate::error::ClientError;
use crate::log_event::{LogEvent, LogEventQueue, LogSink};
use crate::random_seed;

/// Bytes of idle buffers that the process retains.
const MAX_RETAINED_BYTES: usize = 32 << 20;

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
    slabs: BufferPool,
    columns: ColumnPool,
    clock: Clock,
    /// Clock of a test; `None`: `clock` and the system's wall clock count.
    virtual_time: Option<VirtualTime>,
    fork_generation: u32,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) dispatch: Dispatch,
    clients: Vec<ClientThread>,
    /// Jobs that workers hold. The lease stays here while Python runs, because Python must not be able to lose it.
    leases: HashMap<u64, LeasedJob, BuildHasherDefault<IdHasher>>,
    last_job: u64,
    waiters: WaiterList,
    /// Number of interruptible threads that sleep.
    interruptible_waiters: usize,
    /// Whether an event loop waits for `poll_fd`, until it is signalled.
    poll_armed: bool,
    /// Number of threads that wait until all is processed.
    settling_waiters: usize,
    /// Workers with a higher number end; `None`: no limit.
    workers: Option<u32>,
}

#[derive(Debug)]
struct LeasedJob {
    lease: Lease,
    ended: Arc<AtomicBool>,
}

/// Network thread of a client, as the dispatcher sees it.
#[derive(Debug, Default)]
struct ClientThread {
    waker: Option<Waker>,
    /// Deadline of the dispatcher that this thread keeps, so that no worker has to.
    held_deadline: Option<Nanos>,
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
            leases: HashMap::default(),
            last_job: 0,
            waiters: WaiterList::default(),
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
                poll_fd: PollFd::default(),
                settling_futex: Futex::default(),
                log_events: LogEventQueue::new(event, log),
                failures: Mutex::new(Failures::default()),
                async_queue: Mutex::default(),
                released: AtomicBool::new(false),
                output_producer: OnceLock::new(),
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

    /// Completes `done`, then waits for the next job. A `timeout` of `None` waits without a limit.
    ///
    /// # Errors
    /// [`ClientError::Forked`] in a forked child of the process that created the dispatcher.
    pub fn next(
        &self,
        worker: &mut WorkerContext,
        done: Option<&JobToken>,
        timeout: Option<Duration>,
    ) -> Result<NextJob, ClientError> {
        self.check_fork()?;
        let mut now = self.now();
        let deadline = timeout.map(|t| now.saturating_add(u64::try_from(t.as_nanos()).unwrap_or(Nanos::MAX)));
        let mut state = self.lock();
        if let Some(token) = done {
            self.finish(&mut state, now, token, Outcome::Done);
            state = self.flush_outputs(state, now);
        }
        state.dispatch.set_wall_clock_offset(self.wall_clock_offset_ms(now));
        loop {
            let ended = self.inner.released.load(Ordering::Relaxed)
                || state.workers.is_some_and(|workers| worker.number > workers);
            if ended {
                return Ok(self.return_without_job(state, NextJob::Stopped));
            }
            if let Some((id, lease)) = state.dispatch.take_failed_job(worker.pool) {
                return Ok(NextJob::Job(lease_job(&mut state, id, lease)));
            }
            if let Some(mut lease) = state.dispatch.take(now, &worker.name, worker.pool) {
                // Other ready lanes are for other waiters.
                self.unlock_and_wake(state);
                let prepared = lease.prepare(&mut worker.decoder, &self.inner.columns, worker.max_messages);
                state = self.lock();
                now = self.now();
                state.dispatch.on_prepared(now, &lease, &prepared);
                match prepared.outcome {
                    None => return Ok(NextJob::Job(lease_new_job(&mut state, lease))),
                    Some(finished) => {
                        let (client, _) = state.dispatch.complete(now, lease, finished);
                        state.wake_client(client);
                        continue;
                    }
                }
            }
            if state.dispatch.is_stopped() {
                drop(state);
                self.wake_all();
                return Ok(NextJob::Stopped);
            }
            let interruptible = self.inner.wait == WaitMode::Interruptible;
            // A low-level consumer's `poll` reports a failure; the workers of an App are stopped by the App.
            let failed = interruptible && self.fatal().is_some();
            if failed || deadline.is_some_and(|deadline| deadline <= now) {
                return Ok(self.return_without_job(state, NextJob::TimedOut));
            }
            let reason;
            (state, reason) = if interruptible {
                self.wait_interruptibly(state, now, deadline)
            } else {
                self.park(state, worker, now, deadline)
            };
            now = self.now();
            if reason == WakeReason::Interrupted {
                return Ok(self.return_without_job(state, NextJob::Interrupted));
            }
        }
    }

    /// Completes a job without taking another one. Returns the decision about a failure; `None`: no failure.
    ///
    /// # Errors
    /// [`ClientError::Forked`] in a forked child of the process that created the dispatcher.
    pub fn complete(&self, token: &JobToken, outcome: Outcome) -> Result<Option<Decision>, ClientError> {
        self.check_fork()?;
        let mut state = self.lock();
        let failed = matches!(outcome, Outcome::Failed(_));
        let now = self.now();
        let decision = self.finish(&mut state, now, token, outcome);
        let state = self.flush_outputs(state, now);
        let stopped = state.dispatch.is_stopped();
        self.unlock_and_wake(state);
        if stopped {
            self.wake_all();
        }
        Ok(decision.or(failed.then_some(Decision::Fenced)))
    }

    /// Completes a failed job and returns the decision about its records.
    ///
    /// # Errors
    /// [`ClientError::Forked`] in a forked child of the process that created the dispatcher.
    pub fn fail_job(&self, token: &JobToken, failure: Failure) -> Result<Decision, ClientError> {
        // The token of a job that has already ended names no job, so a late result does not count.
        Ok(self.complete(token, Outcome::Failed(failure))?.unwrap_or(Decision::Fenced))
    }

    /// Marks the job's records with offsets in `first..=last` as processed. Returns how many were not marked before.
    ///
    /// # Errors
    /// [`ClientError::Revoked`] if the lane was abandoned or lost, or its position was moved; [`ClientError::Forked`]
    /// in a forked child of the process that created the dispatcher.
    pub fn mark(&self, token: &JobToken, first: i64, last: i64) -> Result<u64, ClientError> {
        self.check_fork()?;
        let marked = token.shared.mark(first, last);
        self.after_mark(token, marked)
    }

    /// Marks just the records with these ascending offsets; see [`grete_proto::dispatch::JobState::mark_rows`].
    ///
    /// # Errors
    /// The same as [`Dispatcher::mark`].
    pub fn mark_rows(&self, token: &JobToken, offsets: &[i64]) -> Result<u64, ClientError> {
        self.check_fork()?;
        let marked = token.shared.mark_rows(offsets);
        self.after_mark(token, marked)
    }

    fn after_mark(&self, token: &JobToken, marked: Result<u64, MarkError>) -> Result<u64, ClientError> {
        let marked = marked.map_err(|error| match error {
            MarkError::Fenced => ClientError::Revoked,
            MarkError::Undelivered => ClientError::Undelivered,
        })?;
        self.apply_late_mark(token);
        self.await_mark_outputs(token);
        Ok(marked)
    }

    fn apply_late_mark(&self, token: &JobToken) {
        // A job's marks count when the job ends. For a job that has already ended, the lane checks its marks now,
        // because it may wait for them (too many open records). The end of a job sets `ended` before it reads the
        // marks, and both sides access marks under the job's lock. If `ended` is not set here, the end reads the marks
        // later and finds this mark. If the end has read the marks before this mark, `ended` is set here, and this
        // check finds the mark.
        if token.ended.load(Ordering::Acquire) {
            let mut state = self.lock();
            state.dispatch.on_marks_resumed(token.lane);
            self.unlock_and_wake(state);
        }
    }

    /// Returns the offset of the job's lane that may be committed; `None`: there is none.
    ///
    /// # Errors
    /// [`ClientError::Revoked`] if the lane is gone or the job is fenced.
    pub(crate) fn committable(&self, token: &JobToken) -> Result<Option<Committable>, ClientError> {
        self.check_fork()?;
        if token.is_fenced() {
            return Err(ClientError::Revoked);
        }
        let mut state = self.lock();
        let committable = state.dispatch.committable(token.lane);
        self.unlock_and_wake(state); // a lane that waited for marks may continue
        committable.map_err(|_| ClientError::Revoked)
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
        above.into_iter().for_each(|thread| thread.unpark());
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

    /// Returns the jobs in flight.
    pub fn running(&self) -> Vec<RunningJob> {
        let now = self.now();
        let running = self.lock().dispatch.in_flight_jobs();
        running.into_iter().map(|job| RunningJob::new(job, now)).collect()
    }

    /// Returns the job counters since the dispatcher was created.
    pub fn counts(&self) -> JobCounts {
        let now = self.now();
        JobCounts::from_stats(self.lock().dispatch.route_stats(now))
    }

    /// Returns the log events of the network threads, which wait for a thread that can log.
    pub fn log_events(&self) -> &LogEventQueue {
        &self.inner.log_events
    }

    /// Returns the failure to report; `None`: no client has failed.
    pub fn fatal(&self) -> Option<ClientError> {
        self.failures().first().cloned()
    }

    /// Returns the status of each lane.
    pub fn lanes(&self) -> Vec<LaneReport> {
        let now = self.now();
        let mut state = self.lock();
        state.dispatch.route_stats(now); // marks up to now count as progress
        let statuses = state.dispatch.lane_statuses(None);
        drop(state);
        let wall = wall_seconds();
        statuses.into_iter().map(|lane| LaneReport::new(lane, now, wall)).collect()
    }

    /// Returns the bytes of batches that users kept after their jobs.
    pub fn pinned_bytes(&self) -> usize {
        self.inner.columns.pinned_bytes()
    }

    // ---- for the clients of this crate

    pub(crate) fn slabs(&self) -> BufferPool {
        self.inner.slabs.clone()
    }

    /// Returns the clock of network threads.
    pub(crate) fn clock(&self) -> Clock {
        self.inner.clock
    }

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

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
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

    // ---- internal

    /// Ends a job. The token of a job that has already ended names no job.
    fn finish(&self, state: &mut State, now: Nanos, token: &JobToken, outcome: Outcome) -> Option<Decision> {
        let LeasedJob { lease, ended: over } = state.leases.remove(&token.id)?;
        over.store(true, Ordering::Release);
        let decision = state.complete(now, token.id, lease, outcome);
        if token.pool == Pool::EventLoop
            && let Some(looping) = self.async_queue()
        {
            self.report_unblocked(looping.job_ended(now, token.id));
        }
        decision
    }

    /// Returns from [`Dispatcher::next`] without a job. If this thread was woken for a job, another thread is woken for
    /// it.
    fn return_without_job(&self, state: MutexGuard<'_, State>, next: NextJob) -> NextJob {
        self.unlock_and_wake(state);
        next
    }
}

impl State {
    fn client_mut(&mut self, client: ClientId) -> Option<&mut ClientThread> {
        self.clients.get_mut(client.0 as usize)
    }

    fn complete(&mut self, now: Nanos, id: u64, lease: Lease, outcome: Outcome) -> Option<Decision> {
        let finished = match outcome {
            Outcome::Done => JobOutcome::Done,
            Outcome::Failed(failure) => JobOutcome::Failed(failure),
        };
        match self.dispatch.finish(now, id, lease, finished) {
            FinishResult::Completed(client, decision) => {
                self.wake_client(client);
                decision
            }
            FinishResult::Suspended => None,
        }
    }

    pub(crate) fn wake_client(&mut self, client: ClientId) {
        if self.dispatch.take_pending_wake(client)
            && let Some(waker) = self.client_mut(client).and_then(|client| client.waker.as_ref())
        {
            waker.wake();
        }
    }

    /// Returns the ids of the lane's jobs that the event loop runs.
    pub(crate) fn async_job_ids(&self, lane: LaneId) -> Vec<u64> {
        let mine =
            self.leases.iter().filter(|(_, lent)| lent.lease.lane == lane && lent.lease.pool() == Pool::EventLoop);
        mine.map(|(id, _)| *id).collect()
    }
}

fn lease_new_job(state: &mut State, lease: Lease) -> Job {
    state.last_job += 1;
    let id = state.last_job;
    lease_job(state, id, lease)
}

fn lease_job(state: &mut State, id: u64, lease: Lease) -> Job {
    let ended = Arc::default();
    let job = Job::new(id, &lease, Arc::clone(&ended));
    state.leases.insert(id, LeasedJob { lease, ended });
    job
}

fn millis(nanos: Nanos) -> i64 {
    i64::try_from(nanos / MILLI).unwrap_or(i64::MAX)
}

fn wall_clock_ms() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the time in seconds since the epoch.
fn wall_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
