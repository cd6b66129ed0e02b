//! The dispatcher: which lanes are ready, who runs them, what their offsets have come to.
//!
//! A lane is one assigned partition: fetched data, the jobs that work on it, the offsets that its handler has earned. What is
//! scheduled is a *unit*: the lane itself, or, where keys are worked on side by side, one of its slots. A unit has one job in
//! flight at most. Units know nothing of each other: a slow one delays nobody. Who has waited longest goes first.
//!
//! | file | holds |
//! |---|---|
//! | `route` | a route's settings |
//! | `lane`, `unit` | what is due, and what waits |
//! | `feed`, `sieve`, `spread`, `piece`, `parcel` | fetched bytes on their way to rows, rows on their way to units |
//! | `ready`, `alarm` | who is next; what time alone brings |
//! | `network` | what the network thread tells |
//! | `take`, `lease`, `complete`, `settle` | a job's life, and what follows from its end |
//! | `tracker`, `span`, `marks`, `shared` | what is done |
//! | `trouble`, `flow`, `offset_map` | failures, rates and delays, what is done beyond the committable offset |
//! | `jobs`, `stall`, `status`, `tally`, `outbox` | what there is to tell |
//!
//! Not obvious:
//! - A job that decodes carries its lane's feed away. While it runs nobody else touches that data, so that decoding needs no
//!   lock; what the network thread pushes meanwhile waits in the lane's own feed.
//! - A lane that leaves while jobs run is drained by the end of the last of them and by nothing else.
//! - An abandoned lane stays here as a ghost until its jobs have come back and its hook has run, and a leaving one until its
//!   hook has run; a new lane of the same partition waits for it.
//! - A seek gives the lane another tracker and fences the old one: jobs of the past mark into the past.
//! - A corrupt batch makes what is *fetched* void, and nothing else: rows in slots and open offsets stay.

mod alarm;
mod batch;
mod client;
mod complete;
mod failure;
mod feed;
mod flow;
mod job;
mod jobs;
mod lane;
mod lease;
mod marks;
mod network;
mod offset_map;
mod outbox;
mod parcel;
mod piece;
mod ready;
mod route;
mod settle;
mod shared;
mod sieve;
#[cfg(test)]
mod simulation;
mod span;
mod spread;
mod stall;
mod status;
mod take;
mod tally;
#[cfg(test)]
mod tests;
mod tracker;
mod trouble;
mod unit;

use std::collections::HashMap;

pub use batch::{Batch, ColumnsPool, PooledColumns};
pub use client::ClientId;
pub use failure::{Decision, Failure, Trouble, Verdict};
pub use job::{Finished, JobKind, Running};
pub use lane::{LaneId, LaneSpec};
pub use lease::{Lease, Prepared};
pub use marks::Fenced;
pub use offset_map::{MAX_METADATA, OffsetMap};
pub use outbox::{Committable, Corrupt, Drained, Outbox, Remark, RemarkKind};
pub use route::{Concurrency, OffsetPolicy, Pool, RatePolicy, RetryPolicy, RoutePolicy};
pub use shared::JobShared;
pub use stall::Stall;
pub use status::{LaneState, LaneStatus};
pub use tally::{Durations, Tally};
pub use unit::UnitId;

use crate::rng::Rng;
use crate::time::Nanos;
use alarm::{Alarm, Alarms};
use client::Client;
use flow::RateLimit;
use jobs::Jobs;
use lane::{Lane, Phase};
use ready::{Place, Ready};
use tally::Tallies;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Running,
    /// No more jobs of records.
    Quiet,
    /// Each lane that has run gets its shutdown hook; then nothing more.
    Stopping,
}

/// What the lanes of a route share.
#[derive(Debug)]
struct Route {
    limit: RateLimit,
    /// Places of those that wait for the rate to allow more.
    held: Vec<(Pool, Place)>,
    alarm: Option<Nanos>,
}

/// See the module.
#[derive(Debug)]
pub struct Dispatch {
    lanes: Vec<Option<Lane>>,
    generation: u32,
    jobs: Jobs,
    ready: Ready,
    alarms: Alarms,
    clients: Vec<Client>,
    /// Those that limit their rate.
    routes: HashMap<u32, Route>,
    tallies: Tallies,
    wall_minus_mono_ms: i64,
    /// As last told.
    now: Nanos,
    mode: Mode,
    rng: Rng,
}

impl Dispatch {
    /// No lanes yet.
    #[must_use]
    pub fn new(rng: Rng) -> Self {
        Self {
            lanes: Vec::new(),
            generation: 0,
            jobs: Jobs::default(),
            ready: Ready::default(),
            alarms: Alarms::default(),
            clients: Vec::new(),
            routes: HashMap::new(),
            tallies: Tallies::default(),
            wall_minus_mono_ms: 0,
            now: 0,
            mode: Mode::Running,
            rng,
        }
    }

    /// A new client; its lanes name it.
    pub fn attach(&mut self) -> ClientId {
        self.clients.push(Client::default());
        ClientId(u32::try_from(self.clients.len() - 1).unwrap_or(u32::MAX))
    }

    /// A route whose lanes will come: what they share is made here.
    pub fn add_route(&mut self, policy: &RoutePolicy) {
        self.tallies.place(policy);
        if let Some(rate) = policy.rate_limit {
            let limit = RateLimit::new(rate, self.now);
            self.routes.insert(policy.route, Route { limit, held: Vec::new(), alarm: None });
        }
    }

    /// What to add to milliseconds of the monotonic clock to have the time of day, as of now.
    pub fn set_wall(&mut self, wall_minus_mono_ms: i64) {
        self.wall_minus_mono_ms = wall_minus_mono_ms;
    }

    /// Whether a worker of this pool that goes to sleep now would leave work lying.
    #[must_use]
    pub fn has_ready(&self, pool: Pool) -> bool {
        !self.ready.is_empty(pool)
    }

    /// The clock has moved: what is due by now is ready.
    pub fn advance(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        self.run_alarms();
    }

    /// When a worker should look again though nobody has woken it.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.alarms.next()
    }

    /// Hands out no more jobs of records; those in flight end.
    pub fn quiet(&mut self) {
        if self.mode == Mode::Running {
            self.mode = Mode::Quiet;
        }
    }

    /// Quiet, then a shutdown job for each lane that has run.
    pub fn stop(&mut self) {
        self.mode = Mode::Stopping;
        let ids: Vec<LaneId> = self.lanes.iter().flatten().map(|lane| lane.id).collect();
        for id in ids {
            if let Some(lane) = self.lane_mut(id).filter(|lane| lane.phase == Phase::Active) {
                lane.phase = Phase::Stopping;
                lane.marks.leave();
                self.discard(id);
                self.settle(id);
            }
        }
    }

    /// Whether no more jobs of records are handed out.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.mode != Mode::Running
    }

    /// Whether stopping is asked for.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.mode == Mode::Stopping
    }

    /// Whether stopping is asked for and nothing is left to run.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.mode == Mode::Stopping && self.lanes.iter().flatten().all(|lane| lane.phase == Phase::Finished)
    }

    /// Jobs in flight, ghosts included; decoding is none of theirs.
    #[must_use]
    pub fn running(&self) -> Vec<Running> {
        self.jobs.all().filter(|running| running.kind != JobKind::Decode).cloned().collect()
    }

    /// Jobs of this client that run for longer than their route expects; each is told once per limit.
    pub fn stalls(&mut self, now: Nanos, client: ClientId) -> Vec<Stall> {
        let (stalls, next) = self.jobs.stalls(now, client);
        for stall in &stalls {
            let place = self.tallies.place(&stall.policy);
            if let Some(tally) = self.tallies.get_mut(place) {
                *(if stall.overdue { &mut tally.timeouts } else { &mut tally.stalls }) += 1;
            }
        }
        if let Some(entry) = self.client_mut(client) {
            entry.stall_look = next;
        }
        stalls
    }

    /// When [`Dispatch::stalls`] is worth asking again: no job that has begun passes a limit before. Those that begin later
    /// pass none before their limit from then; nobody is woken for them, so look again by then.
    #[must_use]
    pub fn stall_deadline(&self, client: ClientId) -> Option<Nanos> {
        self.clients.get(client.0 as usize)?.stall_look
    }

    /// What became of each route's jobs and records, with what was marked up to now.
    pub fn tallies(&mut self, now: Nanos) -> &[Tally] {
        for lane in self.lanes.iter_mut().flatten() {
            if let Some(tally) = self.tallies.get_mut(lane.tally) {
                lane.count(now, tally);
            }
        }
        self.tallies.all()
    }
}

fn get_mut(lanes: &mut [Option<Lane>], id: LaneId) -> Option<&mut Lane> {
    lanes.get_mut(id.index as usize)?.as_mut().filter(|lane| lane.id == id)
}
