//! Simulation of `grete-client` around a consumer core: the network thread's driver, the dispatcher and workers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use grete_wire::buffer_pool::BufferPool;
use grete_wire::records::{DecodeLimits, Decoder};

use super::partition_log::{Log, incarnation_of};
use crate::consumer::*;
use crate::dispatch::{
    ClientId, ColumnPool, Committable, Dispatch, Failure, FailureKind, JobKind, JobOutcome, LaneFailure, LaneId,
    LaneSpec, LaneStatus, Lease, OffsetMap, Pool, RouteConfig,
};
use crate::ids::{ConnId, TopicPartition};
use crate::partition::error::PartitionError;
use crate::transport::TransportAction;

/// Command of a driver to the network.
#[derive(Debug)]
pub enum NetworkCommand {
    Connect(ConnId, Arc<str>),
    Write(ConnId, Vec<u8>),
    Close(ConnId),
}

/// Job that runs in a worker.
#[derive(Debug)]
pub struct Job {
    pub id: u64,
    pub tp: TopicPartition,
    pub kind: JobKind,
    pub offsets: Vec<i64>,
    /// Incarnation of the topic that each record belongs to.
    pub incarnations: Vec<u128>,
    pub lease: Lease,
    /// The job's lane is lost or abandoned: other members may process the partition.
    pub superseded: bool,
}

impl Job {
    /// Returns the offsets of the job's records that belong to the current topic.
    pub fn done(&self, logs: &BTreeMap<TopicPartition, Log>) -> impl Iterator<Item = i64> {
        let incarnation = logs.get(&self.tp).map(|log| log.incarnation);
        let now = self.offsets.iter().zip(&self.incarnations).filter(move |(_, of)| Some(**of) == incarnation);
        now.map(|(offset, _)| *offset)
    }
}

/// Returns the outcome of a handler that raised.
pub fn failed() -> JobOutcome {
    JobOutcome::Failed(Failure::new(FailureKind::Retriable, "ValueError", "no"))
}

#[derive(Debug)]
pub struct Member {
    pub core: ConsumerCore,
    pub dispatch: Dispatch,
    client: ClientId,
    lanes: HashMap<PartitionHandle, LaneId>,
    pending_actions: Vec<ConsumerAction>,
    pub auto_commit: bool,
    pub max_messages: usize,
    pub workers: usize,
    pub jobs: Vec<Job>,
    next_job: u64,
    decoder: Decoder,
    pool: ColumnPool,
    pub replies: Vec<(u32, ConsumerReply)>,
    pub notices: Vec<ConsumerLogEvent>,
    pub failed: Vec<PartitionError>,
    pub recovered: Vec<PartitionError>,
    /// Number of reports that a partition cannot be read.
    pub said: usize,
    pub fatal: Vec<ConsumerFatal>,
    pub not_committed: Vec<TopicPartition>,
    pub starved: Vec<bool>,
    pub finished: bool,
    /// Records handed out, and hooks, in order.
    pub delivered: Vec<(i32, i64)>,
    /// For each position: the offset, whether it is committed, and the processed offsets beyond it.
    pub positions: Vec<(i64, bool, OffsetMap)>,
    pub hooks: Vec<(i32, JobKind)>,
    pub alive: bool,
    pub asleep_until: Nanos,
}

impl Member {
    pub fn new(config: ConsumerCoreConfig, seed: u64) -> Self {
        let mut dispatch = Dispatch::new(Rng::new(seed));
        let client = dispatch.add_client();
        Self {
            auto_commit: config.auto_commit.is_some(),
            core: ConsumerCore::new(config, Rng::new(seed)),
            dispatch,
            client,
            lanes: HashMap::new(),
            pending_actions: Vec::new(),
            max_messages: 500,
            workers: 4,
            jobs: Vec::new(),
            next_job: 0,
            decoder: Decoder::new(BufferPool::new(1 << 20), DecodeLimits::default()),
            pool: ColumnPool::default(),
            replies: Vec::new(),
            notices: Vec::new(),
            failed: Vec::new(),
            recovered: Vec::new(),
            said: 0,
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

    /// Drains the dispatcher's outbox, as the driver does before each event.
    pub fn take_outbox(&mut self, now: Nanos) {
        let outbox = self.dispatch.take_outbox(self.client);
        self.dispatch.take_pending_wake(self.client);
        for corrupt in outbox.corrupt {
            let (slot, generation, offset) = (corrupt.handle, corrupt.generation, corrupt.offset);
            self.core.step(now, ConsumerEvent::Corrupt { slot, generation, offset }, &mut self.pending_actions);
        }
        for (slot, bytes) in outbox.charged {
            self.core.step(now, ConsumerEvent::Charged(slot, bytes), &mut self.pending_actions);
        }
        if !outbox.released.is_empty() {
            self.core.step(now, ConsumerEvent::Released(outbox.released), &mut self.pending_actions);
        }
        for drained in outbox.drained {
            self.lanes.remove(&drained.handle);
            self.core.step(now, ConsumerEvent::Drained(drained.handle, drained.commit), &mut self.pending_actions);
        }
    }

    pub fn step(&mut self, now: Nanos, event: ConsumerEvent) {
        self.core.step(now, event, &mut self.pending_actions);
    }

    /// Carries out the core's actions.
    pub fn perform(&mut self, now: Nanos) -> Vec<NetworkCommand> {
        let mut net = Vec::new();
        while !self.pending_actions.is_empty() {
            for action in std::mem::take(&mut self.pending_actions) {
                match action {
                    ConsumerAction::Transport(TransportAction::Connect { conn, host, .. }) => {
                        net.push(NetworkCommand::Connect(conn, host))
                    }
                    ConsumerAction::Transport(TransportAction::Write { conn, bytes }) => {
                        net.push(NetworkCommand::Write(conn, bytes.to_vec()))
                    }
                    ConsumerAction::Transport(TransportAction::CloseConn(conn)) => {
                        net.push(NetworkCommand::Close(conn))
                    }
                    ConsumerAction::CollectOffsets => {
                        let offsets = self.dispatch.take_committables(self.client, false);
                        self.core.step(now, ConsumerEvent::Commit { offsets, id: 0 }, &mut self.pending_actions);
                    }
                    ConsumerAction::Reply(id, reply) => self.replies.push((id, reply)),
                    ConsumerAction::LogEvent(notice) => self.notices.push(notice),
                    ConsumerAction::PartitionFailed { slot, error, since, again } => {
                        self.said += 1;
                        if !again {
                            self.failed.push(error.clone());
                        }
                        let failure = LaneFailure { reason: error.reason(), error: error.to_string().into(), since };
                        if let Some(id) = self.lanes.get(&slot) {
                            self.dispatch.set_failure(*id, Some(failure));
                        }
                    }
                    ConsumerAction::PartitionRecovered { slot, error, .. } => {
                        self.recovered.push(error);
                        if let Some(id) = self.lanes.get(&slot) {
                            self.dispatch.set_failure(*id, None);
                        }
                    }
                    ConsumerAction::Fatal(error) => self.fatal.push(error),
                    ConsumerAction::Finished => self.finished = true,
                    lane => self.on_lane(now, lane),
                }
            }
        }
        net
    }

    fn on_lane(&mut self, now: Nanos, action: ConsumerAction) {
        let lane = |slot: &PartitionHandle| self.lanes.get(slot).copied();
        match action {
            ConsumerAction::AddPartition { slot, tp, assignment_epoch } => {
                let max_messages = self.max_messages;
                let client = self.client;
                let policy = Arc::new(RouteConfig { max_messages, ..RouteConfig::default() });
                let spec = LaneSpec { client, handle: slot, tp, assignment_epoch, policy };
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
                    self.dispatch.set_end_offsets(id, high_watermark, readable_end);
                }
            }
            ConsumerAction::Position { slot, offset, generation, committed, recovered_marks: already } => {
                if let Some(id) = lane(&slot) {
                    self.positions.push((offset, committed, already.clone()));
                    self.dispatch.set_position(id, offset, generation, committed, already);
                }
            }
            ConsumerAction::InvalidatePosition(slot) => {
                if let Some(id) = lane(&slot) {
                    self.dispatch.reset_recreated_topic(id);
                }
            }
            ConsumerAction::RevokePartition { slot, lost } => {
                if let Some(id) = lane(&slot) {
                    self.dispatch.revoke(id, lost);
                    self.jobs.iter_mut().filter(|job| job.lease.lane == id).for_each(|job| job.superseded |= lost);
                }
            }
            ConsumerAction::AbandonPartition(slot) => {
                if let Some(id) = self.lanes.remove(&slot) {
                    self.dispatch.abandon(id);
                    self.jobs.iter_mut().filter(|job| job.lease.lane == id).for_each(|job| job.superseded = true);
                }
            }
            ConsumerAction::RemovePartition(slot) => {
                if let Some(id) = self.lanes.remove(&slot) {
                    self.dispatch.remove_lane(id);
                    self.jobs.iter_mut().filter(|job| job.lease.lane == id).for_each(|job| job.superseded = true);
                }
            }
            ConsumerAction::Session(until) => {
                self.dispatch.set_session(self.client, until);
            }
            ConsumerAction::AwaitingMemory(starved) => {
                self.starved.push(starved.is_some());
                self.dispatch.set_awaiting_memory(self.client, starved);
            }
            ConsumerAction::CommitFailed(tps) => {
                self.dispatch.on_commit_failed(self.client, &tps);
                self.not_committed.extend(tps);
            }
            other => panic!("unexpected action {other:?}"),
        }
    }

    // ---- calls of the user

    /// Drops the queued records, like `Consumer::seek` before it notifies the network thread.
    pub fn drop_queued(&mut self, tp: &TopicPartition) {
        let lane = self.status(tp).lane;
        self.dispatch.reset_lane(lane);
    }

    /// Returns the offsets of the last commit, like `Consumer::close`.
    pub fn last_offsets(&mut self) -> Vec<Committable> {
        if self.auto_commit { self.dispatch.take_committables(self.client, false) } else { Vec::new() }
    }

    pub fn status(&self, tp: &TopicPartition) -> LaneStatus {
        let found = self.dispatch.lane_statuses(Some(self.client)).into_iter().rfind(|lane| lane.tp == *tp);
        found.unwrap_or_else(|| panic!("{tp} has no lane"))
    }

    /// Returns the partitions that have lanes.
    pub fn assignment(&self) -> Vec<i32> {
        let mut all: Vec<_> =
            self.dispatch.lane_statuses(Some(self.client)).into_iter().map(|lane| lane.tp.partition).collect();
        all.sort_unstable();
        all
    }

    pub fn has_lane(&self, tp: &TopicPartition) -> bool {
        self.lanes.keys().any(|slot| self.core.partitions.topic_partition(*slot) == Some(tp))
    }

    // ---- the workers

    /// Takes jobs while a worker is free; returns the ids of the new ones.
    pub fn take(&mut self, now: Nanos) -> Vec<u64> {
        let mut taken = Vec::new();
        while self.jobs.len() < self.workers {
            let Some(mut lease) = self.dispatch.take(now, "worker", Pool::Threads) else { break };
            let prepared = lease.prepare(&mut self.decoder, &self.pool, None);
            self.dispatch.on_prepared(now, &lease, &prepared);
            if let Some(finished) = prepared.outcome {
                self.dispatch.complete(now, lease, finished);
                continue;
            }
            let (mut offsets, mut lives) = (Vec::new(), Vec::new());
            if let Some(batch) = lease.shared.batch() {
                offsets = batch.offsets().to_vec();
                for (row, offset) in batch.rows.clone().zip(&offsets) {
                    lives.push(incarnation_of(&lease.tp, *offset, batch.columns.value(row).unwrap()));
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
            self.jobs.push(Job { id, tp, kind, offsets, incarnations: lives, lease, superseded: ghost });
        }
        taken
    }

    /// Completes a job; `None` if the job no longer exists.
    pub fn complete(&mut self, now: Nanos, id: u64, finished: JobOutcome) -> Option<()> {
        let at = self.jobs.iter().position(|job| job.id == id)?;
        let job = self.jobs.remove(at);
        self.dispatch.complete(now, job.lease, finished);
        Some(())
    }

    /// Returns whether the network thread must be woken, and clears the flag.
    pub fn wakes(&mut self) -> bool {
        self.dispatch.take_pending_wake(self.client)
    }
}
