//! The dispatcher behind a lock, and the sleep of its workers.
//!
//! One lock guards the lanes; it is held for the hand-over of a job and never while decoding or while user code runs.
//! A worker that finds nothing sleeps until somebody makes a lane ready: the network thread by pushing data, another
//! worker by completing a job, a paused lane by its deadline, which each sleeper keeps.

mod failures;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use grete_core::dispatch::{
    Batch, ClientId, ColumnsPool, Decision, Dispatch, Failure, Finished, JobKind, JobShared, LaneStatus, Lease, Pool,
};
use grete_core::ids::TopicPartition;
use grete_core::rng::Rng;
use grete_core::time::Nanos;
use grete_net::Waited;
use grete_net::{Clock, EventFd, Waker};
use grete_wire::slab::SlabPool;

use failures::Failures;

use crate::error::ClientError;
use crate::notice::{Notice, Notices};
use crate::waiter::{Wait, Waiter};
use crate::worker::Worker;

/// Idle buffers that the process keeps.
const RETAIN_SLABS: usize = 32 << 20;

/// Lanes and jobs, shared by all clients of one App, or private to one low-level consumer. Clones share it.
#[derive(Debug, Clone)]
pub struct Dispatcher {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    waiter: Waiter,
    notices: Notices,
    failures: Mutex<Failures>,
    released: AtomicBool,
    slabs: SlabPool,
    columns: ColumnsPool,
    clock: Clock,
    fork_generation: u32,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) dispatch: Dispatch,
    wakers: Vec<Option<Waker>>,
    /// Jobs that workers hold, by lane. The lease stays here while Python runs, because Python must not be able to
    /// lose it.
    leases: HashMap<u64, Lease>,
    sleeping: usize,
}

/// What [`Dispatcher::next`] came to.
#[derive(Debug)]
pub enum Next {
    /// Run it, then say how it ended.
    Job(Job),
    /// Nothing came in time.
    TimedOut,
    /// There will be no more jobs.
    Stopped,
    /// A Unix signal arrived while waiting: let its handler run and call again.
    Interrupted,
}

/// One call of a hook.
#[derive(Debug)]
pub struct Job {
    /// Its name, for marks and for its end.
    pub token: JobToken,
    /// The route's number.
    pub route: u32,
    /// Unique per assignment: the key of the consumer instance.
    pub lane: u64,
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
    /// Which hook.
    pub kind: JobKind,
    /// Runs of the first unmarked offset, this one included.
    pub attempt: u32,
    /// Rows, for [`JobKind::Consume`].
    pub batch: Option<Batch>,
}

/// Names a job that is under way.
#[derive(Debug, Clone)]
pub struct JobToken {
    lane: u64,
    shared: Arc<JobShared>,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All rows are processed.
    Done,
    /// It raised.
    Failed(Failure),
}

/// A job under way, for reports.
#[derive(Debug, Clone)]
pub struct RunningJob {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
    /// The route's number.
    pub route: u32,
    /// Which hook.
    pub kind: JobKind,
    /// The worker's name.
    pub worker: String,
    /// For how many seconds.
    pub seconds: f64,
}

/// How one lane does.
#[derive(Debug, Clone)]
pub struct LaneReport {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
    /// The route's number.
    pub route: u32,
    /// idle, ready, running, paused or leaving.
    pub state: &'static str,
    /// The next offset to hand out, once it is known.
    pub position: Option<i64>,
    /// The offset that may be committed.
    pub committable: Option<i64>,
    /// End of the partition as last told; `None` before the first data.
    pub high_watermark: Option<i64>,
    /// Bytes that wait.
    pub queued_bytes: usize,
    /// Records from the position to the end, as last told.
    pub lag: Option<i64>,
}

impl From<LaneStatus> for LaneReport {
    fn from(lane: LaneStatus) -> Self {
        let high_watermark = (lane.high_watermark >= 0).then_some(lane.high_watermark);
        let lag = high_watermark.zip(lane.position).map(|(end, position)| (end - position).max(0));
        Self {
            topic: lane.tp.topic,
            partition: lane.tp.partition,
            route: lane.policy.route,
            state: lane.state.name(),
            position: lane.position,
            committable: lane.committable,
            high_watermark,
            queued_bytes: lane.queued_bytes,
            lag,
        }
    }
}

impl Dispatcher {
    /// No lanes yet. `wait` says what kind of thread will call [`Dispatcher::next`].
    ///
    /// # Errors
    /// When the system has no descriptor or no randomness to give.
    pub fn new(wait: Wait) -> Result<Self, ClientError> {
        let event = EventFd::new().map_err(|e| ClientError::os("opening an eventfd", &e))?;
        let state = State {
            dispatch: Dispatch::new(Rng::new(seed()?)),
            wakers: Vec::new(),
            leases: HashMap::new(),
            sleeping: 0,
        };
        Ok(Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                waiter: Waiter::new(wait),
                notices: Notices::new(event),
                failures: Mutex::new(Failures::default()),
                released: AtomicBool::new(false),
                slabs: SlabPool::new(RETAIN_SLABS),
                columns: ColumnsPool::default(),
                clock: Clock::new(),
                fork_generation: grete_net::fork::generation(),
            }),
        })
    }

    /// Completes `done`, then waits for the next job. `None` as timeout waits for as long as it takes.
    ///
    /// # Errors
    /// [`ClientError::Forked`] in a child of the process that made this.
    pub fn next(
        &self,
        worker: &mut Worker,
        done: Option<(JobToken, Outcome)>,
        timeout: Option<Duration>,
    ) -> Result<Next, ClientError> {
        self.check_fork()?;
        let shared = &*self.shared;
        let mut now = shared.clock.now();
        let deadline = timeout.map(|t| now.saturating_add(u64::try_from(t.as_nanos()).unwrap_or(Nanos::MAX)));
        let mut state = self.lock();
        if let Some((token, outcome)) = done {
            self.finish(&mut state, now, &token, outcome);
        }
        loop {
            if shared.released.load(Ordering::Relaxed) {
                return Ok(Next::Stopped);
            }
            if let Some(mut lease) = state.dispatch.take(now, &worker.name, Pool::Threads) {
                // What is left is for somebody else who sleeps.
                if state.sleeping > 0 && state.dispatch.has_ready(Pool::Threads) {
                    shared.waiter.wake_one();
                }
                drop(state);
                let max_rows = worker.max_messages;
                let prepared = lease.prepare(&mut worker.decoder, &shared.columns, max_rows);
                state = self.lock();
                now = shared.clock.now();
                state.dispatch.prepared(now, &lease, &prepared);
                match prepared.finished {
                    None => return Ok(Next::Job(hand_out(&mut state, lease))),
                    Some(finished) => {
                        let (client, _) = state.dispatch.complete(now, lease, finished);
                        self.wake_client(&mut state, client);
                        continue;
                    }
                }
            }
            if state.dispatch.is_stopped() {
                shared.waiter.wake_all();
                return Ok(Next::Stopped);
            }
            let until = match (deadline, state.dispatch.next_deadline()) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            // A low-level consumer's poll reports a failure; the workers of an App are stopped by the App.
            let failed = matches!(shared.waiter, Waiter::Interruptible(_)) && self.fatal().is_some();
            if failed || deadline.is_some_and(|deadline| deadline <= now) {
                return Ok(Next::TimedOut);
            }
            let left = until.map(|until| Duration::from_nanos(until.saturating_sub(now)));
            state.sleeping += 1;
            let waited;
            (state, waited) = shared.waiter.wait(state, left, || self.lock());
            state.sleeping -= 1;
            now = shared.clock.now();
            if waited == Waited::Interrupted {
                return Ok(Next::Interrupted);
            }
        }
    }

    /// Completes a job without taking another. Returns what a failure leads to.
    ///
    /// # Errors
    /// [`ClientError::Forked`] in a child of the process that made this.
    pub fn complete(&self, token: &JobToken, outcome: Outcome) -> Result<Option<Decision>, ClientError> {
        self.check_fork()?;
        let mut state = self.lock();
        let decision = self.finish(&mut state, self.shared.clock.now(), token, outcome);
        if state.sleeping > 0 && state.dispatch.has_ready(Pool::Threads) {
            self.shared.waiter.wake_one();
        }
        Ok(decision)
    }

    /// Declares the job's records with offsets in `first..=last` processed; returns how many were not before.
    ///
    /// # Errors
    /// [`ClientError::Forked`] in a child of the process that made this.
    pub fn mark(&self, token: &JobToken, first: i64, last: i64) -> Result<u64, ClientError> {
        self.check_fork()?;
        Ok(token.shared.mark(first, last).unwrap_or(0))
    }

    /// Hands out no more consume jobs.
    pub fn quiet(&self) {
        self.lock().dispatch.quiet();
    }

    /// Quiet, then a shutdown job for each lane that has run, then every worker is told to stop.
    pub fn stop(&self) {
        self.lock().dispatch.stop();
        self.shared.waiter.wake_all();
    }

    /// Tells every worker to stop at once, whatever is left to run.
    pub fn release_workers(&self) {
        self.shared.released.store(true, Ordering::Relaxed);
        // Under the lock, so that no worker is between its look and its sleep.
        drop(self.lock());
        self.shared.waiter.wake_all();
    }

    /// Jobs under way.
    #[must_use]
    pub fn running(&self) -> Vec<RunningJob> {
        let now = self.shared.clock.now();
        let running = self.lock().dispatch.running();
        let report = |job: grete_core::dispatch::Running| RunningJob {
            topic: job.tp.topic,
            partition: job.tp.partition,
            route: job.policy.route,
            kind: job.kind,
            worker: job.worker,
            seconds: Duration::from_nanos(now.saturating_sub(job.since)).as_secs_f64(),
        };
        running.into_iter().map(report).collect()
    }

    /// A descriptor that is readable while notices wait or after a client has failed.
    #[must_use]
    pub fn event_fd(&self) -> i32 {
        std::os::fd::AsRawFd::as_raw_fd(self.shared.notices.event())
    }

    /// What happened since the last call.
    #[must_use]
    pub fn take_notices(&self) -> Vec<Notice> {
        self.shared.notices.take()
    }

    /// Why a client has given up, if one has.
    #[must_use]
    pub fn fatal(&self) -> Option<ClientError> {
        self.failures().first().cloned()
    }

    /// How each lane does.
    #[must_use]
    pub fn lanes(&self) -> Vec<LaneReport> {
        self.lock().dispatch.statuses(None).into_iter().map(LaneReport::from).collect()
    }

    /// Bytes under batches that users kept after their job.
    #[must_use]
    pub fn pinned_bytes(&self) -> usize {
        self.shared.columns.pinned_bytes()
    }

    // ---- for the clients of this crate

    pub(crate) fn slabs(&self) -> SlabPool {
        self.shared.slabs.clone()
    }

    pub(crate) fn clock(&self) -> Clock {
        self.shared.clock
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn attach(&self) -> ClientId {
        let mut state = self.lock();
        state.wakers.push(None);
        state.dispatch.attach()
    }

    pub(crate) fn set_waker(&self, client: ClientId, waker: Option<Waker>) {
        if let Some(place) = self.lock().wakers.get_mut(client.0 as usize) {
            *place = waker;
        }
    }

    /// After lanes became ready: wakes a sleeper, or more of them.
    pub(crate) fn wake_workers(&self, ready: usize) {
        match ready {
            0 => {}
            1 => self.shared.waiter.wake_one(),
            _ => self.shared.waiter.wake_all(),
        }
    }

    pub(crate) fn notify(&self, notices: Vec<Notice>) {
        if !notices.is_empty() {
            self.shared.notices.push(notices);
        }
    }

    pub(crate) fn fail(&self, error: ClientError) {
        self.failures().add(error);
        self.wake_for_failure();
    }

    /// This one stopped; others go on.
    pub(crate) fn fail_partition(&self, tp: TopicPartition, error: ClientError) {
        self.failures().add_partition(tp, error);
        self.wake_for_failure();
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.shared.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_for_failure(&self) {
        self.shared.notices.signal();
        drop(self.lock());
        self.shared.waiter.wake_all();
    }

    /// A partition that had stopped gets a new position: what was wrong with the old one is over.
    pub(crate) fn forgive(&self, tp: &TopicPartition) {
        self.failures().forgive(tp);
    }

    /// All partitions are assigned anew.
    pub(crate) fn forgive_partitions(&self) {
        self.failures().forgive_partitions();
    }

    pub(crate) fn check_fork(&self) -> Result<(), ClientError> {
        if self.shared.fork_generation == grete_net::fork::generation() {
            return Ok(());
        }
        Err(ClientError::Forked { what: "dispatcher" })
    }

    // ---- inside

    /// A token whose job has ended already names nothing.
    fn finish(&self, state: &mut State, now: Nanos, token: &JobToken, outcome: Outcome) -> Option<Decision> {
        let lease = state.leases.remove(&token.lane)?;
        if !Arc::ptr_eq(&lease.shared, &token.shared) {
            state.leases.insert(token.lane, lease);
            return None;
        }
        let finished = match outcome {
            Outcome::Done => Finished::Done,
            Outcome::Failed(failure) => Finished::Failed(failure),
        };
        let (client, decision) = state.dispatch.complete(now, lease, finished);
        self.wake_client(state, client);
        decision
    }

    fn wake_client(&self, state: &mut State, client: ClientId) {
        if state.dispatch.take_wake(client)
            && let Some(Some(waker)) = state.wakers.get(client.0 as usize)
        {
            waker.wake();
        }
    }
}

fn hand_out(state: &mut State, lease: Lease) -> Job {
    let lane = lease.lane.as_u64();
    let job = Job {
        token: JobToken { lane, shared: Arc::clone(&lease.shared) },
        route: lease.policy.route,
        lane,
        topic: lease.tp.topic.clone(),
        partition: lease.tp.partition,
        kind: lease.kind,
        attempt: lease.attempt,
        batch: lease.shared.batch(),
    };
    state.leases.insert(lane, lease);
    job
}

/// From the kernel, after any fork: two children must not draw the same jitter.
pub(crate) fn seed() -> Result<u64, ClientError> {
    getrandom::u64().map_err(|e| ClientError::Os { what: "asking the kernel for randomness", cause: e.to_string() })
}
