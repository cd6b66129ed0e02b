//! The dispatcher behind a lock, and the sleep of its workers.
//!
//! One lock guards the lanes; it is held for the hand-over of a job and never while decoding or while user code runs.
//! A worker that finds nothing sleeps until somebody makes a lane ready: the network thread by pushing data, another
//! worker by completing a job, or the clock. `sleepers` says who is woken for what.

mod failures;
mod job;
mod looping;
mod sleep;
mod sleepers;
mod status;
#[cfg(test)]
mod tests;
mod vitals;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use grete_core::dispatch::{
    ClientId, ColumnsPool, Committable, Decision, Dispatch, Failure, Finished, LaneId, Lease, Pool,
};
use grete_core::ids::TopicPartition;
use grete_core::rng::Rng;
use grete_core::time::{MILLI, Nanos};
use grete_net::{Clock, EventFd, Futex, Waited, Waker};
use grete_wire::slab::SlabPool;

pub use job::{Counts, Job, JobToken, Next, Outcome};
pub use looping::Started;
pub use status::{LaneReport, RunningJob};
pub use vitals::Vitals;

use failures::Failures;
use looping::Looping;
use sleepers::Sleepers;

use crate::error::ClientError;
use crate::notice::{Notice, Notices};
use crate::worker::Worker;

/// Idle buffers that the process keeps.
const RETAIN_SLABS: usize = 32 << 20;

/// How the threads that call [`Dispatcher::next`] sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// For worker threads, each of which is woken for itself.
    Parked,
    /// For one thread that must notice Unix signals while it waits (Python's main thread).
    Interruptible,
}

/// Lanes and jobs, shared by all clients of one App, or private to one low-level consumer. Clones share it.
#[derive(Debug, Clone)]
pub struct Dispatcher {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    wait: Wait,
    /// What an interruptible thread sleeps on.
    poller: Futex,
    notices: Notices,
    failures: Mutex<Failures>,
    looping: Mutex<Option<Arc<Looping>>>,
    released: AtomicBool,
    slabs: SlabPool,
    columns: ColumnsPool,
    clock: Clock,
    fork_generation: u32,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) dispatch: Dispatch,
    clients: Vec<ClientSide>,
    /// Jobs that workers hold. The lease stays here while Python runs, because Python must not be able to lose it.
    leases: HashMap<u64, Lent>,
    last_job: u64,
    sleepers: Sleepers,
    /// Interruptible threads that sleep.
    polling: usize,
    /// Workers with a higher number end; `None`: nobody does.
    workers: Option<u32>,
}

#[derive(Debug)]
struct Lent {
    lease: Lease,
    over: Arc<AtomicBool>,
}

/// What the dispatcher knows of a client's network thread.
#[derive(Debug, Default)]
struct ClientSide {
    waker: Option<Waker>,
    /// The dispatcher's deadline that this thread keeps, so that no worker has to.
    keeps: Option<Nanos>,
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
            clients: Vec::new(),
            leases: HashMap::new(),
            last_job: 0,
            sleepers: Sleepers::default(),
            polling: 0,
            workers: None,
        };
        Ok(Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                wait,
                poller: Futex::default(),
                notices: Notices::new(event),
                failures: Mutex::new(Failures::default()),
                looping: Mutex::default(),
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
        done: Option<&JobToken>,
        timeout: Option<Duration>,
    ) -> Result<Next, ClientError> {
        self.check_fork()?;
        let mut now = self.shared.clock.now();
        let deadline = timeout.map(|t| now.saturating_add(u64::try_from(t.as_nanos()).unwrap_or(Nanos::MAX)));
        let mut state = self.lock();
        if let Some(token) = done {
            self.finish(&mut state, now, token, Outcome::Done);
        }
        state.dispatch.set_wall(self.wall_minus_mono_ms(now));
        loop {
            let ended = self.shared.released.load(Ordering::Relaxed)
                || state.workers.is_some_and(|workers| worker.number > workers);
            if ended {
                return Ok(self.leave(state, Next::Stopped));
            }
            if let Some(mut lease) = state.dispatch.take(now, &worker.name, worker.pool) {
                // What is left is for somebody else who sleeps.
                self.unlock(state);
                let prepared = lease.prepare(&mut worker.decoder, &self.shared.columns, worker.max_messages);
                state = self.lock();
                now = self.shared.clock.now();
                state.dispatch.prepared(now, &lease, &prepared);
                match prepared.finished {
                    None => return Ok(Next::Job(hand_out(&mut state, lease))),
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
                return Ok(Next::Stopped);
            }
            let interruptible = self.shared.wait == Wait::Interruptible;
            // A low-level consumer's poll reports a failure; the workers of an App are stopped by the App.
            let failed = interruptible && self.fatal().is_some();
            if failed || deadline.is_some_and(|deadline| deadline <= now) {
                return Ok(self.leave(state, Next::TimedOut));
            }
            let waited;
            (state, waited) = if interruptible {
                self.sleep_interruptibly(state, now, deadline)
            } else {
                self.park(state, worker, now, deadline)
            };
            now = self.shared.clock.now();
            if waited == Waited::Interrupted {
                return Ok(self.leave(state, Next::Interrupted));
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
        let failed = matches!(outcome, Outcome::Failed(_));
        let decision = self.finish(&mut state, self.shared.clock.now(), token, outcome);
        let stopped = state.dispatch.is_stopped();
        self.unlock(state);
        if stopped {
            self.wake_all();
        }
        Ok(decision.or(failed.then_some(Decision::Refused)))
    }

    /// Completes a job that failed, and says what that leads to.
    ///
    /// # Errors
    /// [`ClientError::Forked`] in a child of the process that made this.
    pub fn fail_job(&self, token: &JobToken, failure: Failure) -> Result<Decision, ClientError> {
        // A token whose job has ended already names nothing: what comes late does not count.
        Ok(self.complete(token, Outcome::Failed(failure))?.unwrap_or(Decision::Refused))
    }

    /// Declares the job's records with offsets in `first..=last` processed; returns how many were not before.
    ///
    /// # Errors
    /// [`ClientError::Revoked`] when the lane was abandoned, lost or sought; [`ClientError::Forked`] in a child of the process
    /// that made this.
    pub fn mark(&self, token: &JobToken, first: i64, last: i64) -> Result<u64, ClientError> {
        self.check_fork()?;
        let marked = token.shared.mark(first, last).map_err(|_| ClientError::Revoked)?;
        self.look_at_marks(token);
        Ok(marked)
    }

    /// As [`Dispatcher::mark`], of just the records with these offsets, ascending: see [`grete_core::dispatch::JobShared::mark_rows`].
    ///
    /// # Errors
    /// As [`Dispatcher::mark`].
    pub fn mark_rows(&self, token: &JobToken, offsets: &[i64]) -> Result<u64, ClientError> {
        self.check_fork()?;
        let marked = token.shared.mark_rows(offsets).map_err(|_| ClientError::Revoked)?;
        self.look_at_marks(token);
        Ok(marked)
    }

    fn look_at_marks(&self, token: &JobToken) {
        // A job's own marks count at its end. One that has ended has its lane look at them now: it may wait for them, because
        // too many records are open. The end sets the flag before it reads the marks, and both sides read and write marks
        // under the job's lock. So if the flag is not set here, the end reads the marks later and finds this one; if the end
        // has read them before this one came, the flag is seen, and the look finds it.
        if token.over.load(Ordering::Acquire) {
            let mut state = self.lock();
            state.dispatch.marked(token.lane);
            self.unlock(state);
        }
    }

    /// What may be committed of the job's lane; `None`: nothing.
    ///
    /// # Errors
    /// [`ClientError::Revoked`] when the lane is gone, or what the job did no longer counts.
    pub(crate) fn committable(&self, token: &JobToken) -> Result<Option<Committable>, ClientError> {
        self.check_fork()?;
        if token.is_fenced() {
            return Err(ClientError::Revoked);
        }
        let mut state = self.lock();
        let committable = state.dispatch.committable(token.lane);
        self.unlock(state); // a lane that waited for marks may go on
        committable.map_err(|_| ClientError::Revoked)
    }

    /// Hands out nothing more of the job's lane for so long; `None`: until [`Dispatcher::resume`].
    ///
    /// # Errors
    /// [`ClientError::Forked`] in a child of the process that made this.
    pub fn pause(&self, token: &JobToken, wait: Option<Duration>) -> Result<(), ClientError> {
        self.check_fork()?;
        let until = wait
            .map(|wait| self.shared.clock.now().saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(Nanos::MAX)));
        let mut state = self.lock();
        state.dispatch.pause(token.lane, until);
        self.unlock(state);
        Ok(())
    }

    /// Ends a pause of the job's lane.
    ///
    /// # Errors
    /// [`ClientError::Forked`] in a child of the process that made this.
    pub fn resume(&self, token: &JobToken) -> Result<(), ClientError> {
        self.check_fork()?;
        let mut state = self.lock();
        state.dispatch.resume(token.lane);
        self.unlock(state);
        Ok(())
    }

    /// From now on there are so many workers: those with a higher number end when they come for a job, at once if they wait
    /// for one.
    pub fn set_workers(&self, count: u32) {
        let mut state = self.lock();
        state.workers = Some(count);
        let above = state.sleepers.above(count);
        drop(state);
        above.into_iter().for_each(|thread| thread.unpark());
    }

    /// Hands out no more consume jobs.
    pub fn quiet(&self) {
        self.lock().dispatch.quiet();
    }

    /// Quiet, then a shutdown job for each lane that has run, then every worker is told to stop.
    pub fn stop(&self) {
        self.lock().dispatch.stop();
        self.wake_all();
    }

    /// Tells every worker to stop at once, whatever is left to run.
    pub fn release_workers(&self) {
        self.shared.released.store(true, Ordering::Relaxed);
        self.wake_all();
        if let Some(looping) = self.looping() {
            looping.stop();
        }
    }

    /// Jobs under way.
    #[must_use]
    pub fn running(&self) -> Vec<RunningJob> {
        let now = self.shared.clock.now();
        let running = self.lock().dispatch.running();
        running.into_iter().map(|job| RunningJob::new(job, now)).collect()
    }

    /// What happened since this was made.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let now = self.shared.clock.now();
        Counts::of(self.lock().dispatch.tallies(now))
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
        let now = self.shared.clock.now();
        let mut state = self.lock();
        state.dispatch.tallies(now); // what was marked up to now is progress
        let statuses = state.dispatch.statuses(None);
        drop(state);
        let wall = wall_seconds();
        statuses.into_iter().map(|lane| LaneReport::new(lane, now, wall)).collect()
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

    /// What to add to milliseconds of the clock to have the time of day.
    pub(crate) fn wall_minus_mono_ms(&self, now: Nanos) -> i64 {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        i64::try_from(wall).unwrap_or(i64::MAX).saturating_sub(i64::try_from(now / MILLI).unwrap_or(i64::MAX))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn attach(&self) -> ClientId {
        let mut state = self.lock();
        state.clients.push(ClientSide::default());
        state.dispatch.attach()
    }

    /// `None`: the client's thread ends; it keeps no deadline any more.
    pub(crate) fn set_waker(&self, client: ClientId, waker: Option<Waker>) {
        let mut state = self.lock();
        if let Some(side) = state.client_mut(client) {
            *side = ClientSide { waker, keeps: None };
        }
        self.unlock(state);
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
        if self.shared.wait == Wait::Interruptible {
            self.wake_all();
        }
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
        let Lent { lease, over } = state.leases.remove(&token.id)?;
        over.store(true, Ordering::Release);
        let decision = state.complete(now, lease, outcome);
        if token.pool == Pool::Loop
            && let Some(looping) = self.looping()
        {
            looping.forget(token.id);
        }
        decision
    }

    /// The calling thread leaves [`Dispatcher::next`] without a job: if it was woken for one, somebody else is to have it.
    fn leave(&self, state: MutexGuard<'_, State>, next: Next) -> Next {
        self.unlock(state);
        next
    }
}

impl State {
    fn client_mut(&mut self, client: ClientId) -> Option<&mut ClientSide> {
        self.clients.get_mut(client.0 as usize)
    }

    fn complete(&mut self, now: Nanos, lease: Lease, outcome: Outcome) -> Option<Decision> {
        let finished = match outcome {
            Outcome::Done => Finished::Done,
            Outcome::Failed(failure) => Finished::Failed(failure),
        };
        let (client, decision) = self.dispatch.complete(now, lease, finished);
        self.wake_client(client);
        decision
    }

    pub(crate) fn wake_client(&mut self, client: ClientId) {
        if self.dispatch.take_wake(client)
            && let Some(waker) = self.client_mut(client).and_then(|client| client.waker.as_ref())
        {
            waker.wake();
        }
    }

    /// Jobs of a lane that the event loop runs.
    pub(crate) fn loop_jobs(&self, lane: LaneId) -> Vec<u64> {
        let mine = self.leases.iter().filter(|(_, lent)| lent.lease.lane == lane && lent.lease.pool() == Pool::Loop);
        mine.map(|(id, _)| *id).collect()
    }
}

fn hand_out(state: &mut State, lease: Lease) -> Job {
    state.last_job += 1;
    let over = Arc::default();
    let job = Job::new(state.last_job, &lease, Arc::clone(&over));
    state.leases.insert(state.last_job, Lent { lease, over });
    job
}

/// Since the epoch.
fn wall_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// From the kernel, after any fork: two children must not draw the same jitter.
pub(crate) fn seed() -> Result<u64, ClientError> {
    getrandom::u64().map_err(|e| ClientError::Os { what: "asking the kernel for randomness", cause: e.to_string() })
}
