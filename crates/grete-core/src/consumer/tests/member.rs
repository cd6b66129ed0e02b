//! What `grete-client` makes of a core: the driver of the network thread, the dispatcher, and workers that are variables.

use std::collections::HashMap;
use std::sync::Arc;

use grete_wire::records::{DecodeLimits, Decoder};
use grete_wire::slab::SlabPool;

use super::log::value;
use crate::consumer::*;
use crate::dispatch::{
    ClientId, ColumnsPool, Committable, Dispatch, Failure, Finished, JobKind, LaneId, LaneSpec, LaneStatus, Lease,
    OffsetMap, Pool, RoutePolicy, Verdict,
};
use crate::ids::{ConnId, TopicPartition};
use crate::slot_error::SlotError;

/// What a driver asks of the network.
#[derive(Debug)]
pub enum Net {
    Connect(ConnId, Arc<str>),
    Write(ConnId, Vec<u8>),
    Close(ConnId),
}

/// A hook that runs.
#[derive(Debug)]
pub struct Job {
    pub id: u64,
    pub tp: TopicPartition,
    pub kind: JobKind,
    pub offsets: Vec<i64>,
    pub lease: Lease,
    /// Its lane is lost or abandoned: others may work on the partition.
    pub ghost: bool,
}

/// A handler has raised.
pub fn failed() -> Finished {
    Finished::Failed(Failure::new(Verdict::Retry, "ValueError", "no"))
}

#[derive(Debug)]
pub struct Member {
    pub core: ConsumerCore,
    pub dispatch: Dispatch,
    client: ClientId,
    lanes: HashMap<Slot, LaneId>,
    wishes: Vec<ConsumerAction>,
    pub auto_commit: bool,
    pub max_messages: usize,
    pub workers: usize,
    pub jobs: Vec<Job>,
    next_job: u64,
    decoder: Decoder,
    pool: ColumnsPool,
    pub replies: Vec<(u32, ConsumerReply)>,
    pub notices: Vec<ConsumerNotice>,
    pub failed: Vec<SlotError>,
    pub fatal: Vec<ConsumerFatal>,
    pub not_committed: Vec<TopicPartition>,
    pub starved: Vec<bool>,
    pub finished: bool,
    /// Records handed out, and hooks, in order.
    pub delivered: Vec<(i32, i64)>,
    /// Of each position: the offset, whether it is committed, and what is processed beyond it.
    pub positions: Vec<(i64, bool, OffsetMap)>,
    pub hooks: Vec<(i32, JobKind)>,
    pub alive: bool,
    pub asleep_until: Nanos,
}

impl Member {
    pub fn new(config: ConsumerCoreConfig, seed: u64) -> Self {
        let mut dispatch = Dispatch::new(Rng::new(seed));
        let client = dispatch.attach();
        Self {
            auto_commit: config.auto_commit.is_some(),
            core: ConsumerCore::new(config, Rng::new(seed)),
            dispatch,
            client,
            lanes: HashMap::new(),
            wishes: Vec::new(),
            max_messages: 500,
            workers: 4,
            jobs: Vec::new(),
            next_job: 0,
            decoder: Decoder::new(SlabPool::new(1 << 20), DecodeLimits::default()),
            pool: ColumnsPool::default(),
            replies: Vec::new(),
            notices: Vec::new(),
            failed: Vec::new(),
            fatal: Vec::new(),
            not_committed: Vec::new(),
            starved: Vec::new(),
            finished: false,
            delivered: Vec::new(),
            positions: Vec::new(),
            hooks: Vec::new(),
            alive: true,
            asleep_until: 0,
        }
    }

    // ---- the network thread

    /// What the driver does before it looks at an event: what workers left goes first.
    pub fn take_outbox(&mut self, now: Nanos) {
        let outbox = self.dispatch.take_outbox(self.client);
        self.dispatch.take_wake(self.client);
        for corrupt in outbox.corrupt {
            let (slot, generation, offset) = (corrupt.slot, corrupt.generation, corrupt.offset);
            self.core.step(now, ConsumerEvent::Corrupt { slot, generation, offset }, &mut self.wishes);
        }
        for (slot, bytes) in outbox.charged {
            self.core.step(now, ConsumerEvent::Charged(slot, bytes), &mut self.wishes);
        }
        for (slot, bytes) in outbox.released {
            self.core.step(now, ConsumerEvent::Released(slot, bytes), &mut self.wishes);
        }
        for drained in outbox.drained {
            self.lanes.remove(&drained.slot);
            self.core.step(now, ConsumerEvent::Drained(drained.slot, drained.commit), &mut self.wishes);
        }
    }

    pub fn step(&mut self, now: Nanos, event: ConsumerEvent) {
        self.core.step(now, event, &mut self.wishes);
    }

    /// Carries out what the core wishes.
    pub fn perform(&mut self, now: Nanos) -> Vec<Net> {
        let mut net = Vec::new();
        while !self.wishes.is_empty() {
            for wish in std::mem::take(&mut self.wishes) {
                match wish {
                    ConsumerAction::Connect { conn, host, .. } => net.push(Net::Connect(conn, host)),
                    ConsumerAction::Write { conn, bytes } => net.push(Net::Write(conn, bytes.to_vec())),
                    ConsumerAction::CloseConn(conn) => net.push(Net::Close(conn)),
                    ConsumerAction::CollectOffsets => {
                        let offsets = self.dispatch.committables(self.client, false);
                        self.core.step(now, ConsumerEvent::Commit { offsets, id: 0 }, &mut self.wishes);
                    }
                    ConsumerAction::Reply(id, reply) => self.replies.push((id, reply)),
                    ConsumerAction::Notice(notice) => self.notices.push(notice),
                    ConsumerAction::SlotFailed(error) => self.failed.push(error),
                    ConsumerAction::Fatal(error) => self.fatal.push(error),
                    ConsumerAction::Finished => self.finished = true,
                    lane => self.on_lane(now, lane),
                }
            }
        }
        net
    }

    fn on_lane(&mut self, now: Nanos, wish: ConsumerAction) {
        let lane = |slot: &Slot| self.lanes.get(slot).copied();
        match wish {
            ConsumerAction::AddLane { slot, tp, assignment_epoch } => {
                let max_messages = self.max_messages;
                let client = self.client;
                let policy = Arc::new(RoutePolicy { max_messages, ..RoutePolicy::default() });
                let spec = LaneSpec { client, slot, tp, assignment_epoch, policy };
                self.lanes.insert(slot, self.dispatch.add_lane(spec));
            }
            ConsumerAction::Push(chunk) => match lane(&chunk.slot) {
                Some(id) => {
                    self.dispatch.push(now, id, chunk);
                }
                None => self.dispatch.release(self.client, chunk.slot, chunk.bytes),
            },
            ConsumerAction::HighWatermark { slot, high_watermark, readable_end } => {
                if let Some(id) = lane(&slot) {
                    self.dispatch.set_end(id, high_watermark, readable_end);
                }
            }
            ConsumerAction::Position { slot, offset, generation, committed, already } => {
                if let Some(id) = lane(&slot) {
                    self.positions.push((offset, committed, already.clone()));
                    self.dispatch.set_position(id, offset, generation, committed, already);
                }
            }
            ConsumerAction::Revoke { slot, lost } => {
                if let Some(id) = lane(&slot) {
                    self.dispatch.revoke(id, lost);
                    self.jobs.iter_mut().filter(|job| job.lease.lane == id).for_each(|job| job.ghost |= lost);
                }
            }
            ConsumerAction::Abandon(slot) => {
                if let Some(id) = self.lanes.remove(&slot) {
                    self.dispatch.abandon(id);
                    self.jobs.iter_mut().filter(|job| job.lease.lane == id).for_each(|job| job.ghost = true);
                }
            }
            ConsumerAction::Remove(slot) => {
                if let Some(id) = self.lanes.remove(&slot) {
                    self.dispatch.remove_lane(id);
                    self.jobs.iter_mut().filter(|job| job.lease.lane == id).for_each(|job| job.ghost = true);
                }
            }
            ConsumerAction::Session(until) => {
                self.dispatch.set_session(self.client, until);
            }
            ConsumerAction::Starved(starved) => {
                self.starved.push(starved);
                self.dispatch.set_starved(self.client, starved);
            }
            ConsumerAction::NotCommitted(tps) => {
                self.dispatch.forget_committed(self.client, &tps);
                self.not_committed.extend(tps);
            }
            other => panic!("nobody carries out {other:?}"),
        }
    }

    // ---- calls of the user

    /// As `Consumer::seek`: what is queued is dropped before the network thread hears of it.
    pub fn drop_queued(&mut self, tp: &TopicPartition) {
        let lane = self.status(tp).lane;
        self.dispatch.reset_lane(lane);
    }

    /// As `Consumer::close`.
    pub fn last_offsets(&mut self) -> Vec<Committable> {
        if self.auto_commit { self.dispatch.committables(self.client, false) } else { Vec::new() }
    }

    pub fn status(&self, tp: &TopicPartition) -> LaneStatus {
        let found = self.dispatch.statuses(Some(self.client)).into_iter().rfind(|lane| lane.tp == *tp);
        found.unwrap_or_else(|| panic!("{tp} has no lane"))
    }

    /// The partitions that have lanes.
    pub fn assignment(&self) -> Vec<i32> {
        let mut all: Vec<_> =
            self.dispatch.statuses(Some(self.client)).into_iter().map(|lane| lane.tp.partition).collect();
        all.sort_unstable();
        all
    }

    pub fn has_lane(&self, tp: &TopicPartition) -> bool {
        self.lanes.keys().any(|slot| self.core.partitions.tp(*slot) == Some(tp))
    }

    // ---- the workers

    /// Takes jobs while a worker is free; returns the new ones' numbers.
    pub fn take(&mut self, now: Nanos) -> Vec<u64> {
        let mut taken = Vec::new();
        while self.jobs.len() < self.workers {
            let Some(mut lease) = self.dispatch.take(now, "worker", Pool::Threads) else { break };
            let prepared = lease.prepare(&mut self.decoder, &self.pool, None);
            self.dispatch.prepared(now, &lease, &prepared);
            if let Some(finished) = prepared.finished {
                self.dispatch.complete(now, lease, finished);
                continue;
            }
            let mut offsets = Vec::new();
            if let Some(batch) = lease.shared.batch() {
                offsets = batch.offsets().to_vec();
                for (row, offset) in batch.rows.clone().zip(&offsets) {
                    let expected = value(&lease.tp, *offset);
                    assert_eq!(batch.columns.value(row), Some(expected.as_bytes()));
                    self.delivered.push((lease.tp.partition, *offset));
                }
            } else {
                self.hooks.push((lease.tp.partition, lease.kind));
            }
            let same = self.jobs.iter().find(|job| job.tp == lease.tp);
            assert!(
                same.is_none(),
                "two jobs on {} in one process: {:?}, {:?}",
                lease.tp,
                same.unwrap().kind,
                lease.kind
            );
            self.next_job += 1;
            taken.push(self.next_job);
            let (id, tp, kind) = (self.next_job, lease.tp.clone(), lease.kind);
            let ghost = kind == JobKind::Revoked { lost: true };
            self.jobs.push(Job { id, tp, kind, offsets, lease, ghost });
        }
        taken
    }

    /// The job's hook returned; `None` if there is no such job any more.
    pub fn complete(&mut self, now: Nanos, id: u64, finished: Finished) -> Option<()> {
        let at = self.jobs.iter().position(|job| job.id == id)?;
        let job = self.jobs.remove(at);
        self.dispatch.complete(now, job.lease, finished);
        Some(())
    }

    /// Whether the network thread is to be woken; asking clears it.
    pub fn wakes(&mut self) -> bool {
        self.dispatch.take_wake(self.client)
    }
}
