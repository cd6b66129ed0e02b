//! Simulated process: a dispatcher, the network thread's view of each lane, and the jobs of its workers.

use std::collections::BTreeMap;

use grete_wire::buffer_pool::{BufferPool, PooledBuf};
use grete_wire::records::{DecodeLimits, Decoder};

use super::checks::fairness::FairnessCheck;
use super::checks::lane_oracle::{LaneOracle, Stage};
use super::checks::rate_limit::RateLimitCheck;
use super::checks::stats::ExpectedStats;
use super::handler::Run;
use super::partition_log::Fetched;
use super::produced_records::{ProducedBatch, ProducedRecords, SuspendedJob};
use super::scenario::Scenario;
use crate::dispatch::{
    ClientId, ColumnPool, Dispatch, JobKind, JobOutcome, LaneId, LaneSpec, LaneStatus, Lease, OffsetMap, Outbox, Pool,
    PrepareResult, RouteConfig,
};
use crate::fetch::{CompletedFetch, TimestampRange};
use crate::ids::{PartitionHandle, TopicPartition};
use crate::rng::Rng;
use crate::time::{Nanos, SECOND, earliest};
use std::sync::Arc;

/// Difference between the wall clock and the monotonic clock, in milliseconds.
pub const WALL_CLOCK_OFFSET_MS: i64 = 1_700_000_000_000;

/// Most jobs that the event loop runs concurrently.
const LOOP: usize = 20;

/// Assigned partition, from the network thread's view.
#[derive(Debug)]
pub struct AssignedPartition {
    pub partition: usize,
    pub tp: TopicPartition,
    pub slot: PartitionHandle,
    pub epoch: u32,
    pub policy: Arc<RouteConfig>,
    pub oracle: LaneOracle,
    /// Generation of fetched data; `None` until the position is known.
    pub generation: Option<u32>,
    pub drawn: u32,
    pub fetch: i64,
    pub fetching: bool,
    pub last_tick: Nanos,
    /// Time at which reading started.
    pub since: Nanos,
    /// End offset that was reported without data.
    pub reported_end: i64,
    pub paused_until: Option<Nanos>,
}

/// Job leased to a worker.
#[derive(Debug)]
pub struct Job {
    pub lease: Lease,
    pub rows: Vec<i64>,
    /// `None` while the rows are being decoded.
    pub run: Option<Run>,
    pub prepared: Option<PrepareResult>,
    /// The marks and the outcome of the job do not count any more.
    pub void: bool,
    pub since: Nanos,
    /// Time at which the rows were ready.
    pub began: Nanos,
    pub reported_stalls: u32,
}

#[derive(Debug)]
pub struct Process {
    pub dispatch: Dispatch,
    pub client: ClientId,
    pub lanes: BTreeMap<LaneId, AssignedPartition>,
    pub jobs: BTreeMap<u64, Job>,
    /// Jobs whose handler has returned.
    pub waiting: BTreeMap<u64, SuspendedJob>,
    pub batches: Vec<ProducedBatch>,
    pub outputs: Vec<ProducedRecords>,
    /// The producer is closed.
    pub closed: bool,
    pub alive: bool,
    pub stopping: bool,
    pub quiet: bool,
    /// All threads of the process sleep until then.
    pub asleep_until: Option<Nanos>,
    /// The coordinator has evicted the member.
    pub evicted: bool,
    pub last_heartbeat: Nanos,
    pub woke_at: Nanos,
    /// Latest time at which the network thread checks for stalled jobs.
    pub stall_check_at: Option<Nanos>,
    shortest_stall: Option<Nanos>,
    pub queue: FairnessCheck,
    pub rates: BTreeMap<u32, RateLimitCheck>,
    pub expected_stats: ExpectedStats,
    pub awaiting_memory: bool,
    /// The network thread was woken.
    pub woken: bool,
    threads: usize,
    decoder: Decoder,
    columns: ColumnPool,
    /// Bytes that are charged and not released, by partition.
    pub held: BTreeMap<PartitionHandle, i64>,
}

impl AssignedPartition {
    /// Returns whether the lane has existed long enough to have had a tick.
    pub fn is_settled(&self, now: Nanos) -> bool {
        self.oracle.stage == Stage::Active && now > self.since.saturating_add(10 * SECOND)
    }
}

impl Process {
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let mut dispatch = Dispatch::new(Rng::new(seed));
        let client = dispatch.add_client();
        dispatch.set_wall_clock_offset(WALL_CLOCK_OFFSET_MS);
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
            waiting: BTreeMap::new(),
            batches: Vec::new(),
            outputs: Vec::new(),
            closed: false,
            alive: true,
            stopping: false,
            quiet: false,
            asleep_until: None,
            evicted: false,
            last_heartbeat: 0,
            woke_at: 0,
            stall_check_at: None,
            shortest_stall: limits.min(),
            queue: FairnessCheck::default(),
            rates: BTreeMap::new(),
            expected_stats: ExpectedStats::default(),
            awaiting_memory: false,
            woken: false,
            threads: scenario.threads,
            decoder: Decoder::new(BufferPool::new(1 << 20), DecodeLimits::default()),
            columns: ColumnPool::default(),
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

    /// Returns how many jobs of a route handle records, or wait for the records that they have produced.
    pub fn running_jobs(&self, route: u32) -> usize {
        let handles = |lease: &Lease| matches!(lease.kind, JobKind::Consume | JobKind::DeadLetter);
        let in_handlers = self.jobs.values().filter(|job| job.lease.policy.route == route && handles(&job.lease));
        in_handlers.count()
            + self.waiting.values().filter(|waiting| self.lanes[&waiting.job.lane].policy.route == route).count()
    }

    // ---- the network thread

    pub fn add_lane(&mut self, partition: usize, tp: TopicPartition, epoch: u32, policy: &Arc<RouteConfig>) -> LaneId {
        let slot = PartitionHandle(self.held.len() as u32);
        self.held.insert(slot, 0);
        let spec = LaneSpec {
            client: self.client,
            handle: slot,
            tp: tp.clone(),
            assignment_epoch: epoch,
            policy: Arc::clone(policy),
        };
        let id = self.dispatch.add_lane(spec);
        let mut book = LaneOracle::new();
        if self.stopping {
            book.stage = Stage::Leaving;
        }
        let seat = AssignedPartition {
            partition,
            tp,
            slot,
            epoch,
            policy: Arc::clone(policy),
            oracle: book,
            generation: None,
            drawn: 0,
            fetch: 0,
            fetching: false,
            last_tick: 0,
            since: Nanos::MAX,
            reported_end: -1,
            paused_until: None,
        };
        let before = self.lanes.insert(id, seat);
        assert!(before.is_none(), "a lane's name is used twice");
        id
    }

    pub fn seat_of(&self, partition: usize) -> Option<LaneId> {
        let mut seats =
            self.lanes.iter().filter(|(_, seat)| seat.partition == partition && seat.oracle.stage != Stage::Gone);
        seats.next().map(|(id, _)| *id)
    }

    /// Sets the lane's position; data fetched from now on carries a new generation.
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
        let times = TimestampRange::from_batches(&fetched.bytes);
        let chunk = CompletedFetch {
            slot: seat.slot,
            assignment_epoch: seat.epoch,
            fetch_generation: generation,
            range: 0..bytes,
            bytes,
            frame: PooledBuf::from(fetched.bytes),
            fetch_offset,
            next_offset: fetched.next_offset,
            aborted_transactions: fetched.aborted,
            high_watermark,
            readable_end: high_watermark,
            log_start_offset: 0,
            leader_epoch: 0,
            source: 1,
            timestamps: times,
            acquired: None,
        };
        *self.held.entry(seat.slot).or_default() += bytes as i64;
        if seat.oracle.stage == Stage::Gone {
            // The network thread knows that the lane has ended.
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

    /// Returns whether it is time to check for stalled jobs.
    pub fn stalls_due(&self, now: Nanos) -> bool {
        earliest(self.dispatch.next_stall_check(self.client), self.stall_check_at)
            .is_some_and(|deadline| deadline <= now)
    }

    /// Sets the next check for stalled jobs: before a job that starts now can pass a limit.
    pub fn looked(&mut self, now: Nanos) {
        self.stall_check_at = self.shortest_stall.map(|limit| now + limit);
    }

    /// Takes the dispatcher's outbox, and accounts for its bytes.
    pub fn take_outbox(&mut self, woken: bool) -> Outbox {
        let outbox = self.dispatch.take_outbox(self.client);
        assert!(woken || (outbox.drained.is_empty() && outbox.corrupt.is_empty()), "no wake-up for {outbox:?}");
        for (slot, bytes) in &outbox.charged {
            *self.held.entry(*slot).or_default() += *bytes as i64;
        }
        for (slot, bytes) in &outbox.released {
            *self.held.entry(*slot).or_default() -= *bytes as i64;
        }
        assert!(self.held.values().all(|bytes| *bytes >= 0), "released twice: {:?}", self.held);
        outbox
    }

    /// Checks the dispatcher's byte counts of all lanes.
    pub fn check_bytes(&self) {
        for status in self.dispatch.lane_statuses(None) {
            let held = self.held[&self.lanes[&status.lane].slot];
            assert_eq!(status.queued_bytes as i64, held, "bytes of {} {:?}", status.tp, status.lane);
        }
    }

    // ---- the workers

    /// Takes the next lease for a worker of the pool; `None`: no job is ready.
    pub fn take(&mut self, now: Nanos, pool: Pool) -> Option<Lease> {
        // The thread that unlocks the dispatcher checks for ready jobs and wakes a worker; otherwise a sleeping
        // worker's timer wakes it.
        let due = self.dispatch.next_deadline().is_some_and(|deadline| deadline <= now);
        let woken = self.dispatch.has_ready(pool) || due;
        self.queue.observe(now, &self.waiting());
        let lease = self.dispatch.take(now, "worker", pool)?;
        let statuses = self.waiting();
        self.queue.taken(&lease, &statuses);
        assert!(woken, "a worker sleeps beside a ready unit: {:?} of {} {}", lease.kind, lease.tp, lease.slot);
        Some(lease)
    }

    /// Returns the status of lanes without a job. Lanes whose jobs wait for their event loop have the state ready, too,
    /// but their jobs are leased already.
    fn waiting(&self) -> Vec<LaneStatus> {
        let mut statuses = self.dispatch.lane_statuses(None);
        statuses.retain(|status| !self.jobs.values().any(|job| job.lease.lane == status.lane));
        statuses
    }

    pub fn prepare(&mut self, lease: &mut Lease) -> PrepareResult {
        lease.prepare(&mut self.decoder, &self.columns, None)
    }

    /// Completes a job.
    pub fn complete(&mut self, now: Nanos, lease: Lease, finished: JobOutcome) -> Option<crate::dispatch::Decision> {
        self.queue.ended(now, lease.lane);
        let failed = matches!(finished, JobOutcome::Failed(_)) && lease.kind.needs_session();
        self.expected_stats.ends(&lease.policy, lease.kind, &lease.shared, &finished);
        self.drop_progress(&lease.shared);
        let handler = Arc::clone(&lease.policy.name);
        let (client, decision) = self.dispatch.complete(now, lease, finished);
        if let Some(decision) = decision {
            self.expected_stats.on_decision(&handler, decision);
        }
        assert_eq!(client, self.client);
        assert!(decision.is_some() || !failed, "{decision:?}");
        decision.filter(|_| failed)
    }
}
