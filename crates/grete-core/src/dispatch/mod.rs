//! The dispatcher: which lanes are ready, who runs them, what their offsets have come to.
//!
//! A lane is one assigned partition: fetched data, at most one job in flight, the offsets that its handler has
//! earned. Lanes know nothing of each other: a slow one delays nobody. The longest-waiting ready lane goes first.
//!
//! Not obvious:
//! - A job carries its lane's feed away. While it runs nobody else touches that data, so that decoding needs no lock;
//!   what the network thread pushes meanwhile waits in the lane's inbox.
//! - A lane that leaves while its job runs is drained by that job's completion and by nothing else.
//! - An abandoned lane stays here as a ghost until its job comes back, and a leaving one until its hook has run; a new
//!   lane of the same partition waits for it.

mod batch;
mod failure;
mod feed;
mod flow;
mod job;
mod lane;
mod offset_map;
mod outbox;
mod route;
mod stall;
#[cfg(test)]
mod tests;
mod trouble;
mod unit;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

pub use batch::{Batch, ColumnsPool, PooledColumns};
pub use failure::{Decision, Failure, Trouble, Verdict};
pub use feed::{Feed, FeedError, Filled};
pub use flow::{Due, Fresh, RateLimit, due, fresh};
pub use job::{Fenced, Finished, JobKind, JobShared, Lease, Prepared, Running};
pub use lane::{LaneId, LaneSpec, LaneState, LaneStatus};
pub use offset_map::{MAX_METADATA, OffsetMap};
pub use outbox::{Committable, Corrupt, Drained, Outbox, Remark, RemarkKind};
pub use route::{Concurrency, OffsetPolicy, Pool, RatePolicy, RetryPolicy, RoutePolicy};
pub use stall::Stall;
pub use trouble::{Attempts, Plan};
pub use unit::UnitId;

use crate::fetch::Chunk;
use crate::ids::{Slot, TopicPartition};
use crate::rng::Rng;
use crate::time::Nanos;
use lane::{Lane, Phase};

/// A client (one group's connections) that feeds lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientId(pub u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Running,
    /// No more consume jobs.
    Quiet,
    /// Each lane that has run gets its shutdown hook; then nothing more.
    Stopping,
}

#[derive(Debug, Default)]
struct Client {
    outbox: Outbox,
    /// Group lanes may run only while the member's session is alive.
    session_until: Option<Nanos>,
    /// Ready lanes that wait for the session to be renewed.
    held: Vec<LaneId>,
    /// The fetcher waits for memory: a release is worth a wake-up.
    starved: bool,
    wake: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Dispatch {
    lanes: Vec<Option<Lane>>,
    generation: u32,
    ready: VecDeque<LaneId>,
    woken: [usize; Pool::ALL.len()],
    paused: BTreeSet<(Nanos, LaneId)>,
    clients: Vec<Client>,
    routes: HashMap<u32, Arc<RoutePolicy>>,
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
            ready: VecDeque::new(),
            woken: [0; Pool::ALL.len()],
            paused: BTreeSet::new(),
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

    /// A route whose lanes will come.
    pub fn add_route(&mut self, policy: Arc<RoutePolicy>) {
        self.routes.insert(policy.route, policy);
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
        let mut lane = Lane::new(id, spec, ghost.map(|lane| lane.id));
        if self.mode == Mode::Stopping {
            lane.phase = Phase::Finished;
        }
        if let Some(place) = self.lanes.get_mut(index) {
            *place = Some(lane);
        }
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
        lane.feed.push(chunk);
        self.make_ready(id)
    }

    /// The broker told a newer high watermark along with no data.
    pub fn set_high_watermark(&mut self, id: LaneId, high_watermark: i64) {
        if let Some(lane) = self.lane_mut(id) {
            lane.high_watermark = high_watermark;
        }
    }

    /// Where the lane starts, once that is known, and what its data carries from now on.
    /// A position that moved by itself (truncation, reset) makes what is queued the past.
    /// With `committed`, `_already` is what the commit says to be processed beyond the offset.
    pub fn set_position(&mut self, id: LaneId, offset: i64, generation: u32, committed: bool, _already: OffsetMap) {
        if self.lane_mut(id).is_some_and(|lane| lane.fetch_generation.is_some_and(|old| old != generation)) {
            self.reset_lane(id);
        }
        if let Some(lane) = self.lane_mut(id) {
            lane.fetch_generation = Some(generation);
            lane.position = Some(offset);
            lane.committable = Some(offset);
            lane.leader_epoch = -1;
            lane.committed = committed.then_some(offset);
        }
    }

    /// The partition leaves this process. Its job in flight ends first, then its `revoked` hook; [`Outbox::drained`] says
    /// when. Returns whether a worker is worth waking.
    pub fn revoke(&mut self, id: LaneId, lost: bool) -> bool {
        let Some(lane) = self.lane_mut(id) else { return false };
        match lane.phase {
            // Lost while it was being given up.
            Phase::Leaving { .. } if lost => {
                lane.phase = Phase::Leaving { lost };
                return false;
            }
            Phase::Leaving { .. } | Phase::Abandoned => return false,
            Phase::Active | Phase::Stopping | Phase::Finished => lane.phase = Phase::Leaving { lost },
        }
        lane.paused_until = None;
        self.discard(id);
        self.after_phase_change(id)
    }

    /// The deadline for leaving has passed while its job still runs: from now on nothing that the job does counts.
    /// Returns the job, for the report.
    pub fn abandon(&mut self, id: LaneId) -> Option<Running> {
        let lane = self.lane_mut(id)?;
        let running = lane.running.clone();
        running.iter().for_each(|running| running.shared.fence());
        if running.is_some() {
            lane.phase = Phase::Abandoned;
        } else {
            self.remove(id);
        }
        running
    }

    /// Drops a lane without hooks or a last commit (a low-level client unassigned it).
    pub fn remove_lane(&mut self, id: LaneId) {
        self.discard(id);
        if self.abandon(id).is_none() {
            self.remove(id);
        }
    }

    /// The position moves (seek, or truncation): what is queued belongs to the past, and so does whatever still arrives
    /// before the new position is known.
    pub fn reset_lane(&mut self, id: LaneId) {
        self.discard(id);
        let Some(lane) = self.lane_mut(id) else { return };
        lane.fetch_generation = None;
        lane.position = None;
        lane.committable = None;
        lane.failed = None;
        lane.paused_until = None;
        lane.reset_running = lane.running.is_some();
        lane.running.iter().for_each(|running| running.shared.fence());
    }

    /// Keeps the lane's data but hands none out, until then or until [`Dispatch::resume`].
    pub fn pause(&mut self, id: LaneId, _until: Option<Nanos>) {
        if let Some(lane) = self.lane_mut(id) {
            lane.user_paused = true;
        }
    }

    /// Ends the user's pause. Returns whether a worker is worth waking.
    pub fn resume(&mut self, id: LaneId) -> bool {
        let Some(lane) = self.lane_mut(id) else { return false };
        lane.user_paused = false;
        self.make_ready(id)
    }

    /// A mark came from outside a job: what waited for marks may go on. Returns whether a worker is worth waking.
    pub fn marked(&mut self, id: LaneId) -> bool {
        self.make_ready(id)
    }

    /// The group's session is alive until then. `None`: there is no session to mind. Returns whether lanes became ready.
    pub fn set_session(&mut self, client: ClientId, until: Option<Nanos>) -> bool {
        let Some(entry) = self.client_mut(client) else { return false };
        entry.session_until = until;
        let held = std::mem::take(&mut entry.held);
        held.into_iter().fold(false, |any, id| self.make_ready(id) | any)
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

    /// Offsets that have grown since they were last told. With `all`, those of running jobs' marks, too, and unchanged ones.
    pub fn committables(&mut self, client: ClientId, all: bool) -> Vec<Committable> {
        let lanes = self.lanes.iter_mut().flatten().filter(|lane| lane.spec.client == client);
        lanes.filter_map(|lane| lane.take_committable(all)).collect()
    }

    /// What may be committed of one lane now, a running job's marks included.
    ///
    /// # Errors
    /// When the lane is not this process's any more.
    pub fn committable(&mut self, id: LaneId) -> Result<Option<Committable>, Fenced> {
        let lane = self.lane_mut(id).filter(|lane| !lane.is_fenced()).ok_or(Fenced)?;
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

    // ---- the worker side

    /// The next job for this pool, if there is one.
    pub fn take(&mut self, now: Nanos, worker: &str, pool: Pool) -> Option<Lease> {
        self.unpause(now);
        let mut at = 0;
        while let Some(id) = self.ready.get(at).copied() {
            if self.lane(id).is_some_and(|lane| lane.spec.policy.pool != pool) {
                at += 1;
                continue;
            }
            self.ready.remove(at);
            let session = self.session_of(id);
            let Some(lane) = self.lane_mut(id) else { continue };
            lane.queued = false;
            let Some(kind) = lane.due(now) else { continue };
            // A process that slept through its session must not work on what by now belongs to another member.
            if kind.needs_session() && session.is_some_and(|until| until < now) {
                let client = lane.spec.client;
                if let Some(entry) = self.client_mut(client).filter(|entry| !entry.held.contains(&id)) {
                    entry.held.push(id);
                }
                continue;
            }
            if kind == JobKind::Consume && self.mode != Mode::Running {
                continue;
            }
            return self.lane_mut(id).map(|lane| lane.start(kind, now, worker));
        }
        None
    }

    /// The job's end. Returns the lane's client, whose wake-up [`Dispatch::take_wake`] tells, and what a failure leads to.
    pub fn complete(&mut self, now: Nanos, lease: Lease, finished: Finished) -> (ClientId, Option<Decision>) {
        let id = lease.lane;
        let client = lease.client;
        let failed = matches!(finished, Finished::Failed(_));
        let wait = if failed {
            let (failures, retry) = (lease.attempt.saturating_sub(1).min(16), &lease.policy.retry);
            self.rng.jitter((retry.first << failures).min(retry.longest), u64::from(retry.jitter_percent))
        } else {
            0
        };
        let attempt = lease.attempt + 1;
        let Some(lane) = self.lane_mut(id) else { return (client, failed.then_some(Decision::Refused)) };
        let (slot, tp) = (lane.spec.slot, lane.spec.tp.clone());
        let ended = lane.finish(lease, finished, now, wait);
        if ended.released > 0 {
            self.release(client, slot, ended.released);
        }
        if let Some((generation, offset, error)) = ended.corrupt {
            self.discard(id);
            // Whatever was fetched behind it comes again; a new position says from where.
            if let Some(lane) = self.lane_mut(id) {
                lane.fetch_generation = None;
            }
            if let Some(entry) = self.client_mut(client) {
                entry.outbox.corrupt.push(Corrupt { lane: id, slot, tp, generation, offset, error });
                entry.wake = true;
            }
        }
        if let Some(until) = ended.paused_until {
            self.paused.insert((until, id));
        }
        self.after_phase_change(id);
        let decision =
            if ended.refused { Decision::Refused } else { Decision::Retry { wait, attempt, rows: ended.again } };
        (client, failed.then_some(decision))
    }

    /// [`Lease::prepare`] has been called: what it added to the lane's memory counts from now on, and its rows as handed out.
    /// To be told before the job runs or ends.
    pub fn prepared(&mut self, now: Nanos, lease: &Lease, prepared: &Prepared) {
        self.now = self.now.max(now);
        let bytes = prepared.charged;
        let Some(lane) = self.lane_mut(lease.lane).filter(|_| bytes > 0) else { return };
        lane.queued_bytes += bytes;
        let (client, slot) = (lane.spec.client, lane.spec.slot);
        if let Some(entry) = self.client_mut(client) {
            entry.outbox.charged.push((slot, bytes));
        }
    }

    /// The clock has moved: what is due by now is ready.
    pub fn advance(&mut self, now: Nanos) {
        self.unpause(now);
    }

    /// Whether a worker of this pool that goes to sleep now would leave work lying.
    #[must_use]
    pub fn has_ready(&self, pool: Pool) -> bool {
        self.ready.iter().any(|id| self.lane(*id).is_some_and(|lane| lane.spec.policy.pool == pool))
    }

    /// How many units became ready for this pool since this was last asked: so many sleepers are worth waking.
    pub fn take_woken(&mut self, pool: Pool) -> usize {
        std::mem::take(&mut self.woken[pool.index()])
    }

    /// When a worker should look again though nobody has woken it.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.paused.first().map(|(until, _)| *until)
    }

    /// Hands out no more consume jobs; those in flight end.
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
                lane.paused_until = None;
                self.discard(id);
                self.after_phase_change(id);
            }
        }
    }

    /// Whether stopping is asked for and nothing is left to run.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.mode == Mode::Stopping && self.lanes.iter().flatten().all(|lane| lane.phase == Phase::Finished)
    }

    /// Jobs in flight, ghosts included.
    #[must_use]
    pub fn running(&self) -> Vec<Running> {
        self.lanes.iter().flatten().filter_map(|lane| lane.running.clone()).collect()
    }

    /// Jobs of this client that run for longer than their route expects; each is told once per limit.
    pub fn stalls(&mut self, _now: Nanos, _client: ClientId) -> Vec<Stall> {
        Vec::new()
    }

    /// When [`Dispatch::stalls`] is worth asking again.
    #[must_use]
    pub fn stall_deadline(&self, _client: ClientId) -> Option<Nanos> {
        None
    }

    /// How each lane does.
    #[must_use]
    pub fn statuses(&self, client: Option<ClientId>) -> Vec<LaneStatus> {
        let of_client = |lane: &&Lane| client.is_none_or(|client| lane.spec.client == client);
        self.lanes.iter().flatten().filter(of_client).map(Lane::status).collect()
    }

    // ---- inside

    fn lane(&self, id: LaneId) -> Option<&Lane> {
        self.lanes.get(id.index as usize)?.as_ref().filter(|lane| lane.id == id)
    }

    fn lane_mut(&mut self, id: LaneId) -> Option<&mut Lane> {
        self.lanes.get_mut(id.index as usize)?.as_mut().filter(|lane| lane.id == id)
    }

    fn client_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        self.clients.get_mut(id.0 as usize)
    }

    fn session_of(&mut self, id: LaneId) -> Option<Nanos> {
        let client = self.lane_mut(id)?.spec.client;
        self.client_mut(client)?.session_until
    }

    /// Puts the lane in the queue if it has something to do. Returns whether it was put there.
    fn make_ready(&mut self, id: LaneId) -> bool {
        let quiet = self.mode != Mode::Running;
        let Some(lane) = self.lane_mut(id) else { return false };
        let due = if lane.paused_until.is_some() { None } else { lane.due(Nanos::MAX) };
        if lane.queued || due.is_none() || (quiet && due == Some(JobKind::Consume)) {
            return false;
        }
        lane.queued = true;
        let pool = lane.spec.policy.pool;
        self.ready.push_back(id);
        self.woken[pool.index()] += 1;
        true
    }

    fn unpause(&mut self, now: Nanos) {
        while let Some((until, id)) = self.paused.first().copied().filter(|(until, _)| *until <= now) {
            self.paused.remove(&(until, id));
            if let Some(lane) = self.lane_mut(id).filter(|lane| lane.paused_until == Some(until)) {
                lane.paused_until = None;
                self.make_ready(id);
            }
        }
    }

    /// A lane that has left, or has been stopped, and has nothing more to run is told as drained or finished.
    fn after_phase_change(&mut self, id: LaneId) -> bool {
        let Some(lane) = self.lane_mut(id) else { return false };
        if lane.running.is_some() {
            return false;
        }
        match lane.phase {
            Phase::Abandoned => self.remove(id),
            Phase::Leaving { lost } if !lane.hook_due() => {
                let (client, drained) = (lane.spec.client, lane.drained(lost));
                if let Some(entry) = self.client_mut(client) {
                    entry.outbox.drained.push(drained);
                    entry.wake = true;
                }
                self.remove(id)
            }
            Phase::Stopping if !lane.hook_due() => {
                lane.phase = Phase::Finished;
                false
            }
            _ => self.make_ready(id),
        }
    }

    /// Drops what the lane has queued.
    fn discard(&mut self, id: LaneId) {
        let Some(lane) = self.lane_mut(id) else { return };
        let (client, slot) = (lane.spec.client, lane.spec.slot);
        let bytes = lane.feed.clear();
        lane.queued_bytes = lane.queued_bytes.saturating_sub(bytes);
        if bytes > 0 {
            self.release(client, slot, bytes);
        }
    }

    /// Bytes of `slot` are not held any more.
    pub fn release(&mut self, client: ClientId, slot: Slot, bytes: usize) {
        if let Some(entry) = self.client_mut(client) {
            entry.outbox.released.push((slot, bytes));
            entry.wake |= entry.starved;
        }
    }

    /// Returns whether that made another lane ready: one of the same partition may have waited for this one.
    fn remove(&mut self, id: LaneId) -> bool {
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
        waiting.into_iter().fold(false, |any, lane| self.make_ready(lane) | any)
    }
}
