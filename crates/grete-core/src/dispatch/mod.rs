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
//! | `take`, `lease`, `complete` | a job's life |
//! | `tracker`, `span`, `marks`, `shared` | what is done |
//! | `trouble`, `flow`, `offset_map` | failures, rates and delays, what is done beyond the committable offset |
//! | `jobs`, `stall`, `status`, `outbox` | what there is to tell |
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
mod offset_map;
mod outbox;
mod parcel;
mod piece;
mod ready;
mod route;
mod shared;
mod sieve;
#[cfg(test)]
mod simulation;
mod span;
mod spread;
mod stall;
mod status;
mod take;
#[cfg(test)]
mod tests;
mod tracker;
mod trouble;
mod unit;

use std::collections::HashMap;
use std::sync::Arc;

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
pub use unit::UnitId;

use crate::fetch::Chunk;
use crate::ids::{Slot, TopicPartition};
use crate::rng::Rng;
use crate::time::{MILLI, Nanos};
use alarm::{Alarm, Alarms};
use client::Client;
use flow::RateLimit;
use jobs::Jobs;
use lane::{Lane, Phase};
use marks::Marks;
use ready::{Claim, Place, Ready};
use tracker::Tracker;

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
        if let Some(rate) = policy.rate_limit {
            let limit = RateLimit::new(rate, self.now);
            self.routes.insert(policy.route, Route { limit, held: Vec::new(), alarm: None });
        }
    }

    /// What to add to milliseconds of the monotonic clock to have the time of day, as of now.
    pub fn set_wall(&mut self, wall_minus_mono_ms: i64) {
        self.wall_minus_mono_ms = wall_minus_mono_ms;
    }

    // ---- the network side

    /// Adds a lane for a newly assigned partition.
    pub fn add_lane(&mut self, spec: LaneSpec) -> LaneId {
        self.generation += 1;
        let index = self.lanes.iter().position(Option::is_none).unwrap_or_else(|| {
            self.lanes.push(None);
            self.lanes.len() - 1
        });
        let id = LaneId { index: u32::try_from(index).unwrap_or(u32::MAX), generation: self.generation };
        let ghost = self.lanes.iter().flatten().find(|lane| {
            matches!(lane.phase, Phase::Abandoned | Phase::Leaving { .. })
                && lane.spec.client == spec.client
                && lane.spec.tp == spec.tp
        });
        let mut lane = Lane::new(id, spec, ghost.map(|lane| lane.id), self.now);
        if self.mode == Mode::Stopping {
            lane.phase = Phase::Finished;
        }
        if let Some(place) = self.lanes.get_mut(index) {
            *place = Some(lane);
        }
        self.arm_tick(id);
        id
    }

    /// Fetched data for a lane. Returns whether a worker is worth waking. Data of an older assignment or of a position
    /// left by a seek is dropped here, before anybody decodes it.
    pub fn push(&mut self, now: Nanos, id: LaneId, chunk: Chunk) -> bool {
        self.now = self.now.max(now);
        let Some(lane) = self.lane_mut(id) else { return false };
        // A lane that was stopped keeps what it gets: the memory budget then stops the fetcher.
        let gone = matches!(lane.phase, Phase::Leaving { .. } | Phase::Abandoned);
        if gone || lane.fetch_generation != Some(chunk.fetch_generation) {
            let (client, slot, bytes) = (lane.spec.client, lane.spec.slot, chunk.bytes);
            self.release(client, slot, bytes);
            return false;
        }
        lane.high_watermark = chunk.high_watermark;
        lane.log_start_offset = chunk.log_start_offset;
        lane.queued_bytes += chunk.bytes;
        lane.eof_told = false;
        let records = if lane.policy().max_wait > 0 { feed::claimed_records(&chunk) } else { 0 };
        lane.feed.push(chunk, records, now);
        self.offer_feed(id)
    }

    /// The broker told a newer high watermark along with no data. Returns whether a worker is worth waking.
    pub fn set_high_watermark(&mut self, id: LaneId, high_watermark: i64) -> bool {
        let Some(lane) = self.lane_mut(id) else { return false };
        lane.high_watermark = high_watermark;
        self.offer(id, Claim::Whole)
    }

    /// Where the lane starts, once that is known, and what its data carries from now on. `already`: offsets from there on
    /// that were marked in an earlier life of the partition (with a `committed` offset only).
    ///
    /// A position that moved by itself (truncation, reset) makes what is queued the past. One that is where a corrupt batch
    /// was makes nothing so: rows that were decoded before it are as good as ever.
    pub fn set_position(&mut self, id: LaneId, offset: i64, generation: u32, committed: bool, already: OffsetMap) {
        let Some(lane) = self.lane_mut(id) else { return };
        let refetch = lane.refetch.take();
        if lane.fetch_generation == Some(generation) {
            return;
        }
        if lane.position.is_some() && lane.fetch_generation.is_none() && refetch == Some(offset) {
            lane.fetch_generation = Some(generation);
            return;
        }
        if lane.position.is_some() {
            self.reset_lane(id);
        }
        let Some(lane) = self.lane_mut(id) else { return };
        lane.fetch_generation = Some(generation);
        lane.position = Some(offset);
        lane.marks = Arc::new(Marks::new(Tracker::at(offset)));
        lane.committed =
            committed.then(|| (offset, if lane.policy().offset_map { already.clone() } else { OffsetMap::default() }));
        lane.already = (!already.is_empty()).then(|| Arc::new(already));
        self.offer(id, Claim::Whole);
    }

    /// The partition leaves this process. Its jobs in flight end first, then its `revoked` hook; [`Outbox::drained`] says
    /// when. Returns whether a worker is worth waking.
    pub fn revoke(&mut self, id: LaneId, lost: bool) -> bool {
        let Some(lane) = self.lane_mut(id) else { return false };
        let before = lane.phase;
        if before == Phase::Abandoned || (matches!(before, Phase::Leaving { .. }) && !lost) {
            return false;
        }
        lane.phase = Phase::Leaving { lost };
        lane.marks.leave();
        if lost {
            // Somebody else may be at work on it already.
            lane.marks.fence();
        }
        if matches!(before, Phase::Leaving { .. }) {
            return false; // lost while it was being given up
        }
        self.discard(id);
        self.settle(id)
    }

    /// The deadline for leaving has passed while jobs still run: from now on nothing that they do counts. Returns the jobs,
    /// for the report. When the last of them has come back the lane's hook runs, if there is somebody to run it for.
    pub fn abandon(&mut self, id: LaneId) -> Vec<Running> {
        let Some(lane) = self.lane_mut(id) else { return Vec::new() };
        lane.marks.fence();
        lane.phase = Phase::Abandoned;
        let running: Vec<Running> = self.jobs.of(id).cloned().collect();
        self.discard(id);
        self.settle(id);
        running
    }

    /// Drops a lane without hooks or a last commit (a low-level client unassigned it).
    pub fn remove_lane(&mut self, id: LaneId) {
        if let Some(lane) = self.lane_mut(id) {
            lane.silent = true;
        }
        self.abandon(id);
    }

    /// The position moves (seek, or truncation): what is queued belongs to the past, and so does whatever still arrives
    /// before the new position is known.
    pub fn reset_lane(&mut self, id: LaneId) {
        self.discard(id);
        let Some(lane) = self.lane_mut(id) else { return };
        lane.fetch_generation = None;
        lane.refetch = None;
        lane.position = None;
        lane.already = None;
        lane.eof_told = false;
        lane.unmarked_told = false;
        lane.marks.fence();
        // A lane that is given up, or lost, stays fenced.
        if matches!(lane.phase, Phase::Active | Phase::Stopping | Phase::Finished) {
            lane.marks = Arc::default();
        }
    }

    /// Keeps the lane's data but hands none out, until then or until [`Dispatch::resume`].
    pub fn pause(&mut self, id: LaneId, until: Option<Nanos>) {
        let Some(lane) = get_mut(&mut self.lanes, id) else { return };
        lane.paused = true;
        self.alarms.set(Alarm::Pause(id), &mut lane.paused_until, until);
    }

    /// Ends the user's pause. Returns whether a worker is worth waking.
    pub fn resume(&mut self, id: LaneId) -> bool {
        let Some(lane) = get_mut(&mut self.lanes, id) else { return false };
        lane.paused = false;
        self.alarms.set(Alarm::Pause(id), &mut lane.paused_until, None);
        self.offer_all(id)
    }

    /// A mark has ended the lane's wait for marks: see [`JobShared::take_resumed`]. Returns whether a worker is worth waking.
    pub fn marked(&mut self, id: LaneId) -> bool {
        self.offer_feed(id)
    }

    /// The group's session is alive until then. `None`: there is no session to mind. Returns whether lanes became ready.
    pub fn set_session(&mut self, client: ClientId, until: Option<Nanos>) -> bool {
        let Some(entry) = self.client_mut(client) else { return false };
        entry.session_until = until;
        let held = std::mem::take(&mut entry.held);
        let any = !held.is_empty();
        for (pool, place) in held {
            self.ready.put(pool, place);
        }
        any
    }

    /// While set, releases of memory wake the client. So do those that it has not heard of yet: a worker may have ended
    /// its job between what the client saw and this call, and woken nobody.
    pub fn set_starved(&mut self, client: ClientId, starved: bool) {
        if let Some(entry) = self.client_mut(client) {
            entry.starved = starved;
            entry.wake |= starved && !entry.outbox.released.is_empty();
        }
    }

    /// What has happened since the last call.
    pub fn take_outbox(&mut self, client: ClientId) -> Outbox {
        self.client_mut(client).map(|entry| std::mem::take(&mut entry.outbox)).unwrap_or_default()
    }

    /// Whether the client should be woken; asking clears it.
    pub fn take_wake(&mut self, client: ClientId) -> bool {
        self.client_mut(client).is_some_and(|entry| std::mem::take(&mut entry.wake))
    }

    /// Offsets that have grown since they were last told; with `all`, unchanged ones, too. What jobs in flight have marked,
    /// or told as progress, counts.
    pub fn committables(&mut self, client: ClientId, all: bool) -> Vec<Committable> {
        self.mark_progress(|running| running.client == client);
        let lanes = self.lanes.iter_mut().flatten().filter(|lane| lane.spec.client == client);
        lanes.filter_map(|lane| lane.take_committable(all)).collect()
    }

    /// What may be committed of one lane now, unchanged or not; what its jobs in flight have marked, or told as progress,
    /// counts.
    ///
    /// # Errors
    /// When the lane is not this process's any more.
    pub fn committable(&mut self, id: LaneId) -> Result<Option<Committable>, Fenced> {
        self.mark_progress(|running| running.unit.lane == id);
        let lane = self.lane_mut(id).filter(|lane| !lane.marks.is_fenced()).ok_or(Fenced)?;
        Ok(lane.take_committable(true))
    }

    /// These were told by [`Dispatch::committables`] but did not reach the group: they are told again.
    pub fn forget_committed(&mut self, client: ClientId, tps: &[TopicPartition]) {
        for lane in self.lanes.iter_mut().flatten() {
            if lane.spec.client == client && tps.contains(&lane.spec.tp) {
                lane.committed = None;
            }
        }
    }

    /// Bytes of `slot` are not held any more.
    pub fn release(&mut self, client: ClientId, slot: Slot, bytes: usize) {
        if let Some(entry) = self.client_mut(client).filter(|_| bytes > 0) {
            entry.outbox.released.push((slot, bytes));
            entry.wake |= entry.starved;
        }
    }

    // ---- of the whole

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

    /// How each lane does.
    #[must_use]
    pub fn statuses(&self, client: Option<ClientId>) -> Vec<LaneStatus> {
        let of_client = |lane: &&Lane| client.is_none_or(|client| lane.spec.client == client);
        let mut statuses: Vec<LaneStatus> = self.lanes.iter().flatten().filter(of_client).map(Lane::status).collect();
        let places: HashMap<LaneId, usize> =
            statuses.iter().enumerate().map(|(at, status)| (status.lane, at)).collect();
        for running in self.jobs.all() {
            let place = places.get(&running.unit.lane).and_then(|at| statuses.get_mut(*at));
            if let Some(status) = place {
                status.running_since = crate::time::earlier(status.running_since, Some(running.since));
                status.stalled |= running.told.0 || running.told.1;
                status.attempt = status.attempt.max(running.attempt);
            }
        }
        statuses
    }

    // ---- inside

    fn lane_mut(&mut self, id: LaneId) -> Option<&mut Lane> {
        get_mut(&mut self.lanes, id)
    }

    fn client_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        self.clients.get_mut(id.0 as usize)
    }

    /// The time of day, in milliseconds since the epoch.
    fn wall_ms(&self) -> i64 {
        (self.now / MILLI).cast_signed().saturating_add(self.wall_minus_mono_ms)
    }

    /// What these jobs have told as progress is marked; a lane that has waited for such marks goes on.
    fn mark_progress(&mut self, of: impl Fn(&Running) -> bool) {
        let resumed = self.jobs.all().filter(|running| of(running)).filter(|running| {
            running.shared.mark_progress();
            running.shared.take_resumed()
        });
        let resumed: Vec<LaneId> = resumed.map(|running| running.unit.lane).collect();
        for id in resumed {
            self.offer_feed(id);
        }
    }

    /// Gives the claim a place in the order if there is something to run for it. Returns whether it was given one.
    fn offer(&mut self, id: LaneId, claim: Claim) -> bool {
        let (now, running) = (self.now, self.mode == Mode::Running);
        let Some(lane) = get_mut(&mut self.lanes, id) else { return false };
        if lane.is_queued(claim) {
            return false;
        }
        let hook = |kind| matches!(kind, JobKind::Revoked { .. } | JobKind::Shutdown);
        if !lane.due(claim, now).is_some_and(|kind| running || hook(kind)) {
            return false;
        }
        lane.set_queued(claim, true);
        self.ready.add(now, &lane.spec.policy, id, claim);
        true
    }

    /// After the feed has grown, or has come back, or may be taken again.
    fn offer_feed(&mut self, id: LaneId) -> bool {
        let now = self.now;
        let Some(lane) = get_mut(&mut self.lanes, id) else { return false };
        let claim = if lane.is_parted() { Claim::Decode } else { Claim::Unit(0) };
        if lane.phase == Phase::Active {
            let at = lane.feed_due_at(now);
            self.alarms.set(Alarm::Feed(id), &mut lane.feed_alarm, at);
        }
        let offered = self.offer(id, claim);
        if !offered {
            self.remark_unmarked(id);
        }
        offered
    }

    /// After something that kept the whole lane back.
    fn offer_all(&mut self, id: LaneId) -> bool {
        let Some(lane) = self.lane_mut(id) else { return false };
        let slots = 0..u32::try_from(lane.units.len()).unwrap_or(u32::MAX);
        let waiting: Vec<u32> = slots.filter(|slot| lane.unit(*slot).is_some_and(unit::Unit::is_due)).collect();
        let mut any = waiting.into_iter().fold(false, |any, slot| self.offer(id, Claim::Unit(slot)) | any);
        any |= self.offer(id, Claim::Loose);
        any |= self.offer_feed(id);
        any | self.offer(id, Claim::Whole)
    }

    /// A lane that waits for marks says so, once.
    fn remark_unmarked(&mut self, id: LaneId) {
        let Some(lane) = get_mut(&mut self.lanes, id) else { return };
        if lane.phase != Phase::Active || lane.unmarked_told {
            return;
        }
        let Some((records, first)) = lane.unmarked() else { return };
        lane.unmarked_told = true;
        let (tp, policy) = (lane.spec.tp.clone(), Arc::clone(&lane.spec.policy));
        let client = lane.spec.client;
        let what = match policy.offsets {
            OffsetPolicy::Manual => RemarkKind::Unmarked { open: records, first },
            _ => RemarkKind::Ahead { records, first },
        };
        self.remark(client, Remark { lane: id, tp, policy, what });
    }

    fn remark(&mut self, client: ClientId, remark: Remark) {
        if let Some(entry) = self.client_mut(client) {
            entry.outbox.remarks.push(remark);
            entry.wake = true;
        }
    }

    /// What time alone has brought.
    fn run_alarms(&mut self) {
        while let Some((_, alarm)) = self.alarms.pop(self.now) {
            match alarm {
                Alarm::Unit(id, slot) => {
                    if let Some(lane) = self.lane_mut(id) {
                        lane.unit_mut(slot).until = None;
                        self.offer(id, Claim::Unit(slot));
                        self.offer(id, Claim::Loose);
                        if let Some(lane) = self.lane_mut(id) {
                            lane.tidy(slot);
                        }
                    }
                }
                Alarm::Feed(id) => {
                    let now = self.now;
                    if let Some(lane) = self.lane_mut(id) {
                        lane.feed_alarm = None;
                        lane.feed_until = if lane.feed_until > now { lane.feed_until } else { 0 };
                        self.offer_feed(id);
                    }
                }
                Alarm::Pause(id) => {
                    if let Some(lane) = self.lane_mut(id) {
                        lane.paused_until = None;
                        self.resume(id);
                    }
                }
                Alarm::Tick(id) => {
                    if let Some(lane) = self.lane_mut(id) {
                        lane.tick_alarm = None;
                        if !self.offer(id, Claim::Whole) {
                            self.arm_tick(id);
                        }
                    }
                }
                Alarm::Rate(route) => {
                    if let Some(route) = self.routes.get_mut(&route) {
                        route.alarm = None;
                        for (pool, place) in route.held.drain(..) {
                            self.ready.put(pool, place);
                        }
                    }
                }
            }
        }
    }

    /// An idle lane's next tick; a busy one is asked again after as long.
    fn arm_tick(&mut self, id: LaneId) {
        let (now, running) = (self.now, self.mode == Mode::Running);
        let Some(lane) = get_mut(&mut self.lanes, id) else { return };
        let Some(every) = lane.policy().tick.filter(|_| running && lane.phase == Phase::Active) else { return };
        let at = lane.tick_at().filter(|at| *at > now).unwrap_or(now.saturating_add(every.max(MILLI)));
        self.alarms.set(Alarm::Tick(id), &mut lane.tick_alarm, Some(at));
    }

    /// A lane that has left, or has been stopped, and has nothing more to run is told as drained or finished.
    fn settle(&mut self, id: LaneId) -> bool {
        let Some(lane) = get_mut(&mut self.lanes, id) else { return false };
        if lane.jobs > 0 {
            return false;
        }
        if lane.hook_due() || lane.phase == Phase::Active {
            return self.offer(id, Claim::Whole);
        }
        match lane.phase {
            Phase::Leaving { lost } => {
                let (client, drained) = (lane.spec.client, lane.drained(lost));
                if let Some(entry) = self.client_mut(client) {
                    entry.outbox.drained.push(drained);
                    entry.wake = true;
                }
                self.remove(id)
            }
            Phase::Abandoned => self.remove(id),
            _ => {
                lane.phase = Phase::Finished;
                false
            }
        }
    }

    /// Drops what the lane has fetched or decoded and not handed out, and what its units wait for.
    fn discard(&mut self, id: LaneId) {
        let Some(lane) = get_mut(&mut self.lanes, id) else { return };
        let bytes = lane.drop_fetched() + lane.drop_waiting();
        self.alarms.set(Alarm::Feed(id), &mut lane.feed_alarm, None);
        let mut emptied = Vec::new();
        for (slot, unit) in (0_u32..).zip(&mut lane.units) {
            if let Some(unit) = unit {
                self.alarms.set(Alarm::Unit(id, slot), &mut unit.until, None);
                emptied.push(slot);
            }
        }
        emptied.into_iter().for_each(|slot| lane.tidy(slot));
        self.give_back(id, bytes);
    }

    /// Bytes that the lane held are free.
    fn give_back(&mut self, id: LaneId, bytes: usize) {
        let Some(lane) = get_mut(&mut self.lanes, id).filter(|_| bytes > 0) else { return };
        lane.queued_bytes = lane.queued_bytes.saturating_sub(bytes);
        let (client, slot) = (lane.spec.client, lane.spec.slot);
        self.release(client, slot, bytes);
    }

    /// Returns whether that made another lane ready: one of the same partition may have waited for this one.
    fn remove(&mut self, id: LaneId) -> bool {
        if let Some(lane) = get_mut(&mut self.lanes, id) {
            self.alarms.set(Alarm::Pause(id), &mut lane.paused_until, None);
            self.alarms.set(Alarm::Tick(id), &mut lane.tick_alarm, None);
        }
        if let Some(place) = self.lanes.get_mut(id.index as usize)
            && place.as_ref().is_some_and(|lane| lane.id == id)
        {
            *place = None;
        }
        let waiting = self.lanes.iter_mut().flatten().filter(|lane| lane.waits_for == Some(id));
        let waiting = waiting.map(|lane| {
            lane.waits_for = None;
            lane.id
        });
        let waiting: Vec<LaneId> = waiting.collect();
        waiting.into_iter().fold(false, |any, lane| self.offer_all(lane) | any)
    }
}

fn get_mut(lanes: &mut [Option<Lane>], id: LaneId) -> Option<&mut Lane> {
    lanes.get_mut(id.index as usize)?.as_mut().filter(|lane| lane.id == id)
}
