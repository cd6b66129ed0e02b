//! One process of the application: a dispatcher, what its network thread knows of each lane, and its workers' jobs.

use std::collections::BTreeMap;

use grete_wire::records::{DecodeLimits, Decoder};
use grete_wire::slab::{Slab, SlabPool};

use super::book::{Book, Stage};
use super::figures::Ledger;
use super::handler::Run;
use super::log::Fetched;
use super::queue::Queue;
use super::rate::Rate;
use super::scenario::Scenario;
use crate::dispatch::{
    ClientId, ColumnsPool, Dispatch, Finished, LaneId, LaneSpec, Lease, OffsetMap, Outbox, Pool, Prepared, RoutePolicy,
};
use crate::fetch::{Chunk, Times};
use crate::ids::{Slot, TopicPartition};
use crate::rng::Rng;
use crate::time::{Nanos, SECOND, earlier};
use std::sync::Arc;

/// The wall clock less the other one, in milliseconds.
pub const WALL: i64 = 1_700_000_000_000;

/// As many jobs as the event loop takes on side by side.
const LOOP: usize = 20;

/// One assigned partition, as the network thread sees it.
#[derive(Debug)]
pub struct Seat {
    pub partition: usize,
    pub tp: TopicPartition,
    pub slot: Slot,
    pub epoch: u32,
    pub policy: Arc<RoutePolicy>,
    pub book: Book,
    /// What is fetched carries this; none until the position is known.
    pub generation: Option<u32>,
    pub drawn: u32,
    pub fetch: i64,
    pub fetching: bool,
    pub last_tick: Nanos,
    /// When reading began.
    pub since: Nanos,
    /// The end that was told without data.
    pub told_end: i64,
    pub paused_until: Option<Nanos>,
}

/// A job in a worker's hands.
#[derive(Debug)]
pub struct Job {
    pub lease: Lease,
    pub rows: Vec<i64>,
    /// None while it is being decoded.
    pub run: Option<Run>,
    pub prepared: Option<Prepared>,
    /// What it does no longer counts.
    pub void: bool,
    pub since: Nanos,
    /// When its rows were ready.
    pub began: Nanos,
    pub told_stalled: u32,
}

#[derive(Debug)]
pub struct Process {
    pub dispatch: Dispatch,
    pub client: ClientId,
    pub lanes: BTreeMap<LaneId, Seat>,
    pub jobs: BTreeMap<u64, Job>,
    pub alive: bool,
    pub stopping: bool,
    pub quiet: bool,
    /// No thread of it moves until then.
    pub asleep_until: Option<Nanos>,
    /// The group has given it up.
    pub evicted: bool,
    pub last_heartbeat: Nanos,
    pub woke_at: Nanos,
    /// When the network thread looks for jobs that take too long, at the latest.
    pub look_at: Option<Nanos>,
    shortest_stall: Option<Nanos>,
    pub queue: Queue,
    pub rates: BTreeMap<u32, Rate>,
    pub ledger: Ledger,
    pub starved: bool,
    /// Somebody has woken the network thread.
    pub woken: bool,
    threads: usize,
    decoder: Decoder,
    columns: ColumnsPool,
    /// Bytes that are charged and not released.
    pub held: BTreeMap<Slot, i64>,
}

impl Seat {
    /// It has been there for long enough to have had a tick.
    pub fn is_settled(&self, now: Nanos) -> bool {
        self.book.stage == Stage::Active && now > self.since.saturating_add(10 * SECOND)
    }
}

impl Process {
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let mut dispatch = Dispatch::new(Rng::new(seed));
        let client = dispatch.attach();
        dispatch.set_wall(WALL);
        for route in &scenario.routes {
            dispatch.add_route(&route.policy);
        }
        let policies = scenario.routes.iter().map(|route| &route.policy);
        let limits = policies.flat_map(|policy| [policy.stall_after, policy.handler_timeout]).flatten();
        Self {
            dispatch,
            client,
            lanes: BTreeMap::new(),
            jobs: BTreeMap::new(),
            alive: true,
            stopping: false,
            quiet: false,
            asleep_until: None,
            evicted: false,
            last_heartbeat: 0,
            woke_at: 0,
            look_at: None,
            shortest_stall: limits.min(),
            queue: Queue::default(),
            rates: BTreeMap::new(),
            ledger: Ledger::default(),
            starved: false,
            woken: false,
            threads: scenario.threads,
            decoder: Decoder::new(SlabPool::new(1 << 20), DecodeLimits::default()),
            columns: ColumnsPool::default(),
            held: BTreeMap::new(),
        }
    }

    pub fn is_awake(&self) -> bool {
        self.alive && self.asleep_until.is_none()
    }

    pub fn idle(&self, pool: Pool) -> usize {
        let busy = self.jobs.values().filter(|job| job.lease.pool() == pool).count();
        let all = if pool == Pool::Threads { self.threads } else { LOOP };
        all.saturating_sub(busy)
    }

    // ---- the network thread

    pub fn add_lane(&mut self, partition: usize, tp: TopicPartition, epoch: u32, policy: &Arc<RoutePolicy>) -> LaneId {
        let slot = Slot(self.held.len() as u32);
        self.held.insert(slot, 0);
        let spec =
            LaneSpec { client: self.client, slot, tp: tp.clone(), assignment_epoch: epoch, policy: Arc::clone(policy) };
        let id = self.dispatch.add_lane(spec);
        let mut book = Book::new();
        if self.stopping {
            book.stage = Stage::Leaving;
        }
        let seat = Seat {
            partition,
            tp,
            slot,
            epoch,
            policy: Arc::clone(policy),
            book,
            generation: None,
            drawn: 0,
            fetch: 0,
            fetching: false,
            last_tick: 0,
            since: Nanos::MAX,
            told_end: -1,
            paused_until: None,
        };
        let before = self.lanes.insert(id, seat);
        assert!(before.is_none(), "a lane's name is used twice");
        id
    }

    pub fn seat_of(&self, partition: usize) -> Option<LaneId> {
        let mut seats =
            self.lanes.iter().filter(|(_, seat)| seat.partition == partition && seat.book.stage != Stage::Gone);
        seats.next().map(|(id, _)| *id)
    }

    /// Reading goes on from here; what is fetched from now on carries a new number.
    pub fn position(&mut self, id: LaneId, offset: i64, committed: bool, map: OffsetMap) {
        let Some(seat) = self.lanes.get_mut(&id) else { return };
        seat.drawn += 1;
        self.queue.moved(id);
        (seat.generation, seat.fetch) = (Some(seat.drawn), offset);
        self.dispatch.set_position(id, offset, seat.drawn, committed, map);
    }

    pub fn push(
        &mut self,
        now: Nanos,
        id: LaneId,
        generation: u32,
        fetch_offset: i64,
        fetched: Fetched,
        high_watermark: i64,
    ) {
        let Some(seat) = self.lanes.get_mut(&id) else { return };
        let bytes = fetched.bytes.len();
        let times = Times::of(&fetched.bytes);
        let chunk = Chunk {
            slot: seat.slot,
            assignment_epoch: seat.epoch,
            fetch_generation: generation,
            range: 0..bytes,
            bytes,
            frame: Slab::from(fetched.bytes),
            fetch_offset,
            next_offset: fetched.next_offset,
            aborted: fetched.aborted,
            high_watermark,
            readable_end: high_watermark,
            log_start_offset: 0,
            leader_epoch: 0,
            times,
        };
        *self.held.entry(seat.slot).or_default() += bytes as i64;
        if seat.book.stage == Stage::Gone {
            // The network thread knows that the lane has left.
            return self.dispatch.release(self.client, seat.slot, bytes);
        }
        if seat.generation == Some(generation) {
            seat.fetch = fetched.next_offset;
        }
        self.dispatch.push(now, id, chunk);
    }

    pub fn held_bytes(&self) -> i64 {
        self.held.values().sum()
    }

    /// Whether it is time to ask for jobs that take too long.
    pub fn stalls_due(&self, now: Nanos) -> bool {
        earlier(self.dispatch.stall_deadline(self.client), self.look_at).is_some_and(|deadline| deadline <= now)
    }

    /// Whoever has looked looks again before a job that begins now may be too long.
    pub fn looked(&mut self, now: Nanos) {
        self.look_at = self.shortest_stall.map(|limit| now + limit);
    }

    /// What the workers have left for the network thread, with the bytes accounted for.
    pub fn take_outbox(&mut self, woken: bool) -> Outbox {
        let outbox = self.dispatch.take_outbox(self.client);
        assert!(woken || (outbox.drained.is_empty() && outbox.corrupt.is_empty()), "nobody was woken for {outbox:?}");
        for (slot, bytes) in &outbox.charged {
            *self.held.entry(*slot).or_default() += *bytes as i64;
        }
        for (slot, bytes) in &outbox.released {
            *self.held.entry(*slot).or_default() -= *bytes as i64;
        }
        assert!(self.held.values().all(|bytes| *bytes >= 0), "released twice: {:?}", self.held);
        outbox
    }

    /// The dispatcher knows of each lane what it holds.
    pub fn check_bytes(&self) {
        for status in self.dispatch.statuses(None) {
            let held = self.held[&self.lanes[&status.lane].slot];
            assert_eq!(status.queued_bytes as i64, held, "bytes of {} {:?}", status.tp, status.lane);
        }
    }

    // ---- the workers

    /// The next lease for a worker of the pool, if there is one.
    pub fn take(&mut self, now: Nanos, pool: Pool) -> Option<Lease> {
        // Whoever unlocks looks whether something is ready, and wakes somebody; a sleeper's timer is the other way.
        let due = self.dispatch.next_deadline().is_some_and(|deadline| deadline <= now);
        let woken = self.dispatch.has_ready(pool) || due;
        self.queue.look(now, &self.dispatch.statuses(None));
        let lease = self.dispatch.take(now, "worker", pool)?;
        let statuses = self.dispatch.statuses(None);
        self.queue.taken(&lease, &statuses);
        assert!(woken, "a worker sleeps beside a ready unit: {:?} of {} {}", lease.kind, lease.tp, lease.slot);
        Some(lease)
    }

    pub fn prepare(&mut self, lease: &mut Lease) -> Prepared {
        lease.prepare(&mut self.decoder, &self.columns, None)
    }

    /// The job ends. Its worker looks for another.
    pub fn complete(&mut self, now: Nanos, lease: Lease, finished: Finished) -> Option<crate::dispatch::Decision> {
        self.queue.ended(now, lease.lane);
        let failed = matches!(finished, Finished::Failed(_)) && lease.kind.needs_session();
        self.ledger.ends(&lease, &finished);
        let handler = Arc::clone(&lease.policy.name);
        let (client, decision) = self.dispatch.complete(now, lease, finished);
        if let Some(decision) = decision {
            self.ledger.decided(&handler, decision);
        }
        assert_eq!(client, self.client);
        assert!(decision.is_some() || !failed, "{decision:?}");
        decision.filter(|_| failed)
    }
}
