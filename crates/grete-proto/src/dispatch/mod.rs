//! Dispatcher of jobs: it decides which lanes are ready, hands their jobs to workers and tracks their offsets.
//!
//! A lane is one route's records of one assigned partition: fetched data, the jobs that process it, and the offsets
//! that its handler has marked. The dispatcher schedules *units*. A unit is the lane itself, or one of its slots where
//! records of different keys run concurrently. A unit has at most one job in flight. Units are independent of each
//! other, so a slow unit delays no other. The unit that has waited longest goes first.
//!
//! The lines above `lane` hold methods of [`Dispatch`] and their types. From `lane` on, each line uses only lines below it.
//!
//! | module | holds |
//! |---|---|
//! | `network` | calls of the network thread |
//! | `take`, `lease`, `complete`, `scheduler` | life cycle of a job, and the jobs that its end makes ready |
//! | `suspended_jobs` | jobs and marks that wait until the records that they produced are written |
//! | `acquisition` | lanes of share groups: acknowledgements instead of offsets |
//! | `status`, `settled`, `outbox` | reports about lanes |
//! | `event_loop_monitor` | reports about event loops |
//! | `watch` | reports of lanes that have not moved for long |
//! | `waits` | reasons why lanes do not move |
//! | `transaction` | exactly-once jobs: staged records, until they are committed with their offsets |
//! | `lane` | fetched data, waiting rows, position and marks of a lane, and checks of which job may run |
//! | `stats` | counters of routes |
//! | `job` | jobs in flight and their limits (`table`), and the state that a job shares with its lane (`state`) |
//! | `retry` | retries, bisection and dead letters after failures |
//! | `offsets` | marks of a lane (`tracker`, `in_flight_range`, `shared_tracker`), outputs of jobs (`job_outputs`) |
//! | `rows` | the path from fetched bytes to rows (`decode_queue`, `filter`), and from rows to units |
//! | `queue` | order of ready units (`ready_queue`), timers (`timers`), limits of rates and jobs (`rate_limit`, `job_limit`) |
//! | `offset_map` | marks beyond the committable offset, as metadata of a commit |
//! | `dedup` | ids of records, by which duplicates are skipped |
//! | `ids`, `route_config` | identifiers, and settings of a route |
//!
//! Not obvious:
//! - A job that decodes takes its lane's decode queue along. While that job runs, no other thread touches the queued
//!   data, so decoding needs no lock. Data that the network thread pushes meanwhile waits in a second decode queue in
//!   the lane.
//! - A revoked lane with jobs in flight is drained by the end of the last of these jobs and by nothing else.
//! - An abandoned lane stays in the table until its jobs have come back and its hook has run. A leaving lane stays
//!   until its hook has run. A new lane of the same partition waits for the old lane.
//! - A seek gives the lane another tracker and fences the old tracker. Jobs from before the seek mark in the old
//!   tracker.
//! - A corrupt batch invalidates the *fetched* data and nothing else. Rows in slots and open offsets stay.

mod acquisition;
mod complete;
mod dedup;
mod event_loop_monitor;
mod ids;
mod job;
mod lane;
mod lease;
mod network;
mod offset_map;
mod offsets;
mod outbox;
mod queue;
mod retry;
mod route_config;
mod rows;
mod scheduler;
mod settled;
#[cfg(test)]
mod simulation;
mod stats;
mod status;
mod suspended_jobs;
mod take;
#[cfg(test)]
mod tests;
mod transaction;
mod waits;
mod watch;

use std::collections::{BTreeMap, BTreeSet};

pub use dedup::{DedupPolicy, DuplicateFilter, IdSource};
pub use event_loop_monitor::{EventLoopCheck, EventLoopMonitor};
pub use ids::{ClientId, LaneId, UnitId};
pub use job::staging::{StageError, StageResult};
pub use job::state::JobState;
pub use job::table::StalledJob;
pub use job::{InFlightJob, JobKind, JobOutcome};
pub use lane::{LaneFailure, LaneSpec};
pub use lease::{Lease, PrepareResult};
pub use offset_map::{MAX_METADATA, OffsetMap};
pub use offsets::job_outputs::UndeliveredOutput;
pub use offsets::shared_tracker::{Fenced, MarkError};
pub use outbox::{
    Committable, CorruptBatch, DrainedLane, HistoryRequest, LaneEvent, LaneEventKind, Outbox, TrialRequest,
};
pub use queue::timers::PendingTimers;
pub use retry::failure::{Decision, Failure, FailureHistory, FailureKind};
pub use route_config::{Concurrency, OffsetPolicy, Pool, RatePolicy, RetryPolicy, RouteConfig};
pub use rows::decoded_batch::{ColumnPool, DecodedBatch, PooledColumns};
pub use stats::{DurationHistogram, RouteStats};
pub use status::{LaneState, LaneStatus};
pub use suspended_jobs::{DeliveryActions, FinishResult};
pub use transaction::{TransactionDemand, TransactionEnd};
pub use waits::LaneWait;
pub use watch::{StallReport, WatchResult};

use crate::optional::OptionalNanos;
use crate::rng::Rng;
use crate::time::{Nanos, earliest};
use job::table::JobTable;
use lane::{Lane, Phase};
use network::ClientState;
use queue::job_limit::JobLimit;
use queue::rate_limit::RateLimit;
use queue::ready_queue::{QueueEntry, ReadyQueue};
use queue::timers::{Timer, Timers};
use stats::RouteStatsTable;
use suspended_jobs::SuspendedJobs;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Running,
    /// Hands out no more jobs of records.
    Quiet,
    /// Runs the shutdown hook of each lane that has run, and nothing else.
    Stopping,
}

/// State that the lanes of a route with a rate limit or a limit of jobs share.
#[derive(Debug)]
struct Route {
    rate: Option<RateLimit>,
    /// Queue entries that wait until the rate allows more records.
    rate_limited: Vec<(Pool, QueueEntry)>,
    timer: OptionalNanos,
    jobs: JobLimit,
}

/// State machine of the dispatcher: lanes, jobs in flight, queues and timers of one process.
#[derive(Debug)]
pub struct Dispatch {
    /// Boxed, so that the vector is small where it doubles.
    lanes: Vec<Option<Box<Lane>>>,
    /// Indices in `lanes` that are free.
    free_lanes: Vec<u32>,
    /// Lanes that are leaving or abandoned.
    departing: BTreeSet<LaneId>,
    /// Lanes that wait for the end of an earlier lane of their partition, by that lane.
    successors: BTreeMap<LaneId, Vec<LaneId>>,
    generation: u32,
    jobs: JobTable,
    suspended: SuspendedJobs,
    ready: ReadyQueue,
    timers: Timers,
    clients: Vec<ClientState>,
    /// Routes with a rate limit or a limit of jobs, by number.
    routes: BTreeMap<u32, Route>,
    stats: RouteStatsTable,
    /// Shortest `stall_after` and shortest `handler_timeout` of the routes whose jobs an event loop runs.
    event_loop_limits: (Option<Nanos>, Option<Nanos>),
    wall_clock_offset_ms: i64,
    /// Latest time that a caller has passed in.
    now: Nanos,
    mode: Mode,
    rng: Rng,
}

impl Dispatch {
    /// Creates a dispatcher without lanes.
    pub fn new(rng: Rng) -> Self {
        Self {
            lanes: Vec::new(),
            free_lanes: Vec::new(),
            departing: BTreeSet::new(),
            successors: BTreeMap::new(),
            generation: 0,
            jobs: JobTable::default(),
            suspended: SuspendedJobs::default(),
            ready: ReadyQueue::default(),
            timers: Timers::default(),
            clients: Vec::new(),
            routes: BTreeMap::new(),
            stats: RouteStatsTable::default(),
            event_loop_limits: (None, None),
            wall_clock_offset_ms: 0,
            now: 0,
            mode: Mode::Running,
            rng,
        }
    }

    /// Adds a client. Each lane belongs to one client.
    pub fn add_client(&mut self) -> ClientId {
        self.clients.push(ClientState::default());
        ClientId(u32::try_from(self.clients.len() - 1).unwrap_or(u32::MAX))
    }

    /// Adds a route, before its lanes: creates the state that its lanes share.
    pub fn add_route(&mut self, policy: &RouteConfig) {
        self.stats.place(policy);
        if policy.pool == Pool::EventLoop {
            let (stall, timeout) = self.event_loop_limits;
            self.event_loop_limits = (earliest(stall, policy.stall_after), earliest(timeout, policy.handler_timeout));
        }
        if policy.rate_limit.is_some() || policy.max_concurrency.is_some() {
            let rate = policy.rate_limit.map(|rate| RateLimit::new(rate, self.now));
            let jobs = JobLimit::new(policy.route, policy.max_concurrency);
            self.routes
                .insert(policy.route, Route { rate, rate_limited: Vec::new(), timer: OptionalNanos::NONE, jobs });
        }
    }

    /// Sets the offset of the wall clock: milliseconds to add to the monotonic clock.
    pub fn set_wall_clock_offset(&mut self, wall_clock_offset_ms: i64) {
        self.wall_clock_offset_ms = wall_clock_offset_ms;
    }

    /// Returns whether a job is ready for this pool, so that no worker of the pool should go to sleep.
    pub fn has_ready(&self, pool: Pool) -> bool {
        !self.ready.is_empty(pool) || self.suspended.has_failed_jobs(pool)
    }

    /// Moves the clock and makes ready all jobs that are due by `now`.
    pub fn advance(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        self.run_timers();
    }

    /// Returns the time at which a worker should call [`Dispatch::advance`] without being woken; `None`: no timer is
    /// set.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.timers.next()
    }

    /// Returns which timers are set.
    #[must_use]
    pub fn pending_timers(&self) -> PendingTimers {
        self.timers.pending()
    }

    /// Stops handing out jobs of records. Jobs in flight end normally. Records of share groups that wait go back, so that
    /// other members get them.
    pub fn quiet(&mut self) {
        if self.mode != Mode::Running {
            return;
        }
        self.mode = Mode::Quiet;
        let queues = self.lanes.iter().flatten().filter(|lane| lane.spec.policy.queue);
        let queues: Vec<LaneId> = queues.map(|lane| lane.id).collect();
        for id in queues {
            self.drop_rows(id);
        }
    }

    /// Stops handing out jobs of records, then runs a shutdown job for each lane that has run.
    pub fn stop(&mut self) {
        self.mode = Mode::Stopping;
        let ids: Vec<LaneId> = self.lanes.iter().flatten().map(|lane| lane.id).collect();
        for id in ids {
            if let Some(lane) = self.lane_mut(id).filter(|lane| lane.phase == Phase::Active) {
                lane.phase = Phase::Stopping;
                lane.offsets.tracker().set_leaving();
                self.drop_rows(id);
                self.finish_if_idle(id);
            }
        }
    }

    /// Returns whether the dispatcher hands out no more jobs of records.
    pub fn is_quiet(&self) -> bool {
        self.mode != Mode::Running
    }

    /// Returns whether [`Dispatch::stop`] was called.
    pub fn is_stopping(&self) -> bool {
        self.mode == Mode::Stopping
    }

    /// Returns whether [`Dispatch::stop`] was called and nothing is left to run.
    pub fn is_stopped(&self) -> bool {
        self.mode == Mode::Stopping && self.lanes.iter().flatten().all(|lane| lane.phase == Phase::Finished)
    }

    /// Returns the jobs in flight, without decode jobs. Jobs of abandoned lanes are included.
    pub fn in_flight_jobs(&self) -> Vec<InFlightJob> {
        self.jobs.all().filter(|running| running.kind != JobKind::Decode).cloned().collect()
    }

    /// Returns whether jobs for an event loop are ready or in flight.
    pub fn has_async_jobs(&self) -> bool {
        self.has_ready(Pool::EventLoop) || self.jobs.count(Pool::EventLoop) > 0
    }

    /// Returns this client's jobs that run longer than a limit of their route. Each job is reported once per limit.
    ///
    /// The jobs in flight are visited only when one may have passed a limit: there may be thousands, and a network
    /// thread asks whenever it wakes up.
    pub fn take_stalled_jobs(&mut self, now: Nanos, client: ClientId) -> Vec<StalledJob> {
        if self.next_stall_check(client).is_none_or(|at| at > now) {
            return Vec::new();
        }
        let (stalls, next) = self.jobs.take_stalled(now, client);
        for stall in &stalls {
            let place = self.stats.place(&stall.policy);
            if let Some(tally) = self.stats.get_mut(place) {
                *(if stall.overdue { &mut tally.timeouts } else { &mut tally.stalls }) += 1;
            }
        }
        if let Some(entry) = self.client_mut(client) {
            entry.next_stall_check = next;
        }
        stalls
    }

    /// Returns when to call [`Dispatch::take_stalled_jobs`] next: no job that has started passes a limit before that
    /// time.
    ///
    /// A job that starts later passes no limit before its limit from its start. No thread is woken for such a job, so
    /// the caller must check again by then.
    pub fn next_stall_check(&self, client: ClientId) -> Option<Nanos> {
        self.clients.get(client.0 as usize)?.next_stall_check
    }

    /// Returns how long an event loop may be blocked until that is reported, and until its jobs count as hung; `None`:
    /// without limit.
    pub fn event_loop_limits(&self) -> (Option<Nanos>, Option<Nanos>) {
        let (stall, timeout) = self.event_loop_limits;
        (earliest(stall, timeout), timeout)
    }

    /// Returns the counters of each route, with all marks up to now.
    pub fn route_stats(&mut self, now: Nanos) -> &[RouteStats] {
        for lane in self.lanes.iter_mut().flatten() {
            if let Some(tally) = self.stats.get_mut(lane.stats.route()) {
                lane.flush_stats(now, tally);
            }
        }
        self.stats.all()
    }
}

fn get(lanes: &[Option<Box<Lane>>], id: LaneId) -> Option<&Lane> {
    lanes.get(id.index as usize)?.as_deref().filter(|lane| lane.id == id)
}

fn get_mut(lanes: &mut [Option<Box<Lane>>], id: LaneId) -> Option<&mut Lane> {
    lanes.get_mut(id.index as usize)?.as_deref_mut().filter(|lane| lane.id == id)
}
