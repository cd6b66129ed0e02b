//! Sender: sends batches in order, and retries them until their outcome is known.
//!
//! ```text
//! accumulator --take_batch--> SendBatch --sequence, send--> in flight --written, refused--> complete
//!                               ^                             |
//!                               +----------- retry <----------+ retriable error, no response, too large (as halves)
//! ```
//!
//! Not obvious:
//! - A partition has several batches in flight only as long as no error occurs. While a batch is waiting for a retry,
//!   one batch is in flight at a time, so the order is kept in any case.
//! - Sequence numbers that will never be used leave a gap, and a broker accepts nothing after a gap. If certainly
//!   nothing was written under these numbers (`PartitionState::needs_renumbering`), the following batches get new
//!   numbers. If that is uncertain (`PartitionState::needs_new_epoch`), only a new epoch helps. Both wait until no
//!   batch of the partition is ambiguous: a batch gets a new number only when it certainly was not written under the
//!   old one. Other partitions continue meanwhile.
//! - `step` is the same on a caller's thread and on the network thread.

mod batch;
mod completion;
mod drop_summary;
pub(crate) mod event;
mod partition;
mod produce_requests;
mod producer_id;
mod response;
mod response_class;
mod sequence_arithmetic;
#[cfg(test)]
mod tests;
mod transactional;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

use grete_wire::records::Compressor;

use super::accumulator::{MetadataUpdate, SharedAccumulator, lock};
use super::error::FatalError;
use super::transaction::TransactionCause;
use crate::backoff::Backoff;
use crate::cluster::view::ClusterView;
use crate::ids::NodeId;
use crate::ids::{PartitionId, TopicPartition};
use crate::producer::config::ProduceConfig;
use crate::request::{NO_NODE, Reply, RequestOwner, Token};
use crate::rng::Rng;
use crate::time::{MILLI, Nanos, earliest};
use batch::{InFlightRequest, SendBatch};
use drop_summary::{DropCause, DropSummary};
use event::{SenderAction, SenderEvent, SenderStats};
use partition::{BROKER_DEDUP_WINDOW, PartitionState};
use producer_id::ProducerIdManager;

/// Longest backoff of a batch while the markers of the transaction before are written.
const CONCURRENT_BACKOFF: Nanos = 20 * MILLI;

/// Send queue of one broker.
#[derive(Debug)]
pub(super) struct BrokerQueue {
    pub id: NodeId,
    /// Ready partitions, each at most once; a partition that was served moves to the end.
    pub queue: VecDeque<PartitionId>,
    /// Number of requests in flight.
    pub in_flight: usize,
    /// Time of the next connection request; 0: none is pending.
    pub connect_requested_until: Nanos,
}

impl BrokerQueue {
    pub fn new(id: NodeId) -> Self {
        Self { id, queue: VecDeque::new(), in_flight: 0, connect_requested_until: 0 }
    }
}

/// State machine that sends batches; see the module documentation.
#[derive(Debug)]
pub struct Sender {
    config: ProduceConfig,
    accumulator: SharedAccumulator,
    rng: Rng,
    compressor: Compressor,
    /// Partition states, indexed by [`PartitionId`].
    partitions: Vec<PartitionState>,
    broker_queues: Vec<BrokerQueue>,
    /// Requests in flight, by token.
    requests: BTreeMap<u32, InFlightRequest>,
    /// Number of incomplete records of split batches, by batch number.
    split_open_records: HashMap<u64, u32>,
    /// Batches without a response (`acks=0`) that may still wait for their socket.
    awaiting_write: Vec<SendBatch>,
    next_write_check: Nanos,
    producer_ids: ProducerIdManager,
    /// Partitions in backoff; the earliest end is on top.
    backing_off: BinaryHeap<Reverse<(Nanos, PartitionId)>>,
    next_token: u32,
    /// Time to check connections and mutes again.
    next_node_check: Option<Nanos>,
    next_idle_topic_check: Option<Nanos>,
    next_tick: Option<Nanos>,
    /// A topic was requested, so the producer is in use.
    has_topics: bool,
    /// Number of the transaction, from 1; 0: there was none.
    transaction: u64,
    /// Partitions are added to transactions by request.
    adds_partitions: bool,
    /// Partitions that the transaction does not have yet.
    wanted: Vec<TopicPartition>,
    /// Partitions that were asked for, by name, until the transaction has them.
    asked: HashMap<TopicPartition, PartitionId>,
    /// First error of the transaction's records in this step.
    transaction_failure: Option<Arc<TransactionCause>>,
    failed: Option<FatalError>,
    closing: Option<Nanos>,
    finished: bool,
    /// Set within a step; emitted once at the end of the step.
    stale_metadata: bool,
    dropped: DropSummary,
    stats: SenderStats,
    ready: Vec<PartitionId>,
    served: Vec<PartitionId>,
}

impl Sender {
    /// Creates a sender without batches in flight.
    pub fn new(mut config: ProduceConfig, accumulator: SharedAccumulator, rng: Rng) -> Self {
        // Sequence numbers are useless unless the leader waits for its followers: a new leader would not know them.
        config.idempotent &= config.acks == -1;
        config.max_in_flight = config.max_in_flight.max(1);
        if config.idempotent {
            config.max_in_flight = config.max_in_flight.min(BROKER_DEDUP_WINDOW);
        }
        let backoff = Backoff::new(config.retry_backoff, config.retry_backoff_max);
        Self {
            config,
            accumulator,
            rng,
            compressor: Compressor::new(),
            partitions: Vec::new(),
            broker_queues: Vec::new(),
            requests: BTreeMap::new(),
            split_open_records: HashMap::new(),
            awaiting_write: Vec::new(),
            next_write_check: 0,
            producer_ids: ProducerIdManager::new(backoff),
            backing_off: BinaryHeap::new(),
            next_token: 0,
            next_node_check: None,
            next_idle_topic_check: None,
            next_tick: None,
            has_topics: false,
            transaction: 0,
            adds_partitions: false,
            wanted: Vec::new(),
            asked: HashMap::new(),
            transaction_failure: None,
            failed: None,
            closing: None,
            finished: false,
            stale_metadata: false,
            dropped: DropSummary::default(),
            stats: SenderStats::default(),
            ready: Vec::new(),
            served: Vec::new(),
        }
    }

    /// Returns the time of the next `Tick`; `None`: no timer is running.
    pub fn deadline(&self) -> Option<Nanos> {
        self.next_tick
    }

    /// Returns the counters since the start.
    pub fn stats(&self) -> SenderStats {
        self.stats
    }

    /// Handles one event and appends the resulting actions to `out`.
    pub fn step(&mut self, now: Nanos, event: SenderEvent, view: &impl ClusterView, out: &mut Vec<SenderAction>) {
        if self.finished {
            return;
        }
        match event {
            SenderEvent::Tick | SenderEvent::Drain | SenderEvent::Unmuted(_) => {}
            SenderEvent::Reply(reply) => self.on_reply(now, reply, out),
            SenderEvent::MetadataChanged => self.on_metadata(now, view, out),
            SenderEvent::NodeReady(node) | SenderEvent::NodeLost(node) => {
                if let Some(node) = self.broker_queues.iter_mut().find(|other| other.id == node) {
                    node.connect_requested_until = 0;
                }
            }
            SenderEvent::Close { deadline } => {
                lock(&self.accumulator).close(None);
                self.closing = Some(self.closing.map_or(deadline, |closing| closing.min(deadline)));
            }
            SenderEvent::Fatal(error) => self.on_fatal(now, error, out),
            SenderEvent::TransactionBegun => self.transaction += 1,
            SenderEvent::TransactionIdentity { identity, explicit } => self.on_identity(now, identity, explicit),
            SenderEvent::PartitionsAdded(partitions) => self.on_partitions_added(now, &partitions),
            SenderEvent::TransactionAborted(cause) => self.on_aborted(now, &cause, out),
        }
        self.release_written(now);
        self.end_backoffs(now);
        self.collect_ready(now);
        self.expire_batches(now, out);
        self.fail_overdue(now, out);
        if self.closing.is_some_and(|deadline| now >= deadline) {
            self.drop_all(now, &DropCause::Closed, out);
        }
        self.drain(now, view, out);
        self.finish_step(now, out);
    }

    /// Sets the sequence numbers as if that many records had been written.
    #[cfg(test)]
    pub(crate) fn set_next_sequence(&mut self, partition: usize, next: i32) {
        let identity = self.producer_ids.current.expect("known");
        let lane = &mut self.partitions[partition];
        (lane.producer_id, lane.next_sequence, lane.acked_sequence) = (identity, next, next);
    }

    /// Marks all partitions as if each had a batch written.
    #[cfg(test)]
    pub(in crate::producer) fn mark_proven(&mut self) {
        if let Some(identity) = self.producer_ids.current {
            for lane in &mut self.partitions {
                (lane.producer_id, lane.proven) = (identity, true);
            }
        }
    }

    /// Returns the number of queued partitions.
    #[cfg(test)]
    pub(in crate::producer) fn queued(&self) -> usize {
        self.broker_queues.iter().map(|node| node.queue.len()).sum()
    }

    fn on_reply(&mut self, now: Nanos, reply: Reply, out: &mut Vec<SenderAction>) {
        if self.producer_ids.is_pending(reply.token.id) {
            self.on_init_producer_id_response(now, reply, out);
        } else if let Some(request) = self.requests.remove(&reply.token.id) {
            self.on_produce_response(now, request, reply, out);
        }
    }

    fn on_metadata(&mut self, now: Nanos, view: &impl ClusterView, out: &mut Vec<SenderAction>) {
        let MetadataUpdate { arrived, refused, failed } = lock(&self.accumulator).update_metadata(view);
        self.partitions.extend(arrived.into_iter().map(PartitionState::new));
        for (id, code) in refused {
            self.drop_partition(now, id, &DropCause::Refused(code), out);
        }
        for (record, failure) in failed {
            self.fail_assignment(now, &record, failure, out);
        }
        for index in 0..self.partitions.len() {
            let Some(lane) = self.partitions.get_mut(index) else { continue };
            let leader = view.leader(&lane.tp).map_or(NO_NODE, |(node, _)| node);
            if lane.leader == leader {
                continue;
            }
            lane.leader = leader;
            lane.queued = false;
            // The backoff applied to the old leader.
            lane.not_before = 0;
            if leader != NO_NODE && !self.broker_queues.iter().any(|node| node.id == leader) {
                self.broker_queues.push(BrokerQueue::new(leader));
            }
            self.enqueue(now, PartitionId(u32::try_from(index).unwrap_or(u32::MAX)));
        }
    }

    /// Drops all batches: nothing will be sent any more.
    fn on_fatal(&mut self, now: Nanos, error: FatalError, out: &mut Vec<SenderAction>) {
        if self.failed.is_some() {
            return;
        }
        self.failed = Some(error.clone());
        lock(&self.accumulator).close(Some(error.clone()));
        self.drop_all(now, &DropCause::Fatal(error.clone()), out);
        out.push(SenderAction::Fatal(error));
    }

    /// Takes the ready partitions from the accumulator and queues them.
    fn collect_ready(&mut self, now: Nanos) {
        let mut ready = std::mem::take(&mut self.ready);
        lock(&self.accumulator).take_ready(now, &mut ready);
        for id in ready.drain(..) {
            if let Some(lane) = self.partition_mut(id) {
                lane.ready = true;
            }
            self.enqueue(now, id);
        }
        self.ready = ready;
    }

    fn end_backoffs(&mut self, now: Nanos) {
        while let Some(&Reverse((_, id))) = self.backing_off.peek().filter(|Reverse((at, _))| *at <= now) {
            self.backing_off.pop();
            if let Some(lane) = self.partition_mut(id) {
                lane.backing_off = false;
            }
            self.enqueue(now, id);
        }
    }

    /// Queues a partition at its leader, if it has a batch to send and is not in backoff.
    fn enqueue(&mut self, now: Nanos, id: PartitionId) {
        let Some(lane) = self.partitions.get_mut(id.0 as usize) else { return };
        if lane.queued || !lane.has_work() {
            return;
        }
        if lane.leader == NO_NODE {
            // The next metadata response with a leader queues the partition.
            self.stale_metadata = true;
            return;
        }
        if now < lane.not_before {
            if !lane.backing_off {
                lane.backing_off = true;
                self.backing_off.push(Reverse((lane.not_before, id)));
            }
            return;
        }
        let Some(node) = self.broker_queues.iter_mut().find(|node| node.id == lane.leader) else { return };
        lane.queued = true;
        node.queue.push_back(id);
    }

    fn enqueue_all(&mut self, now: Nanos) {
        for index in 0..self.partitions.len() {
            self.enqueue(now, PartitionId(u32::try_from(index).unwrap_or(u32::MAX)));
        }
    }

    fn partition_mut(&mut self, id: PartitionId) -> Option<&mut PartitionState> {
        self.partitions.get_mut(id.0 as usize)
    }

    fn next_token(&mut self) -> Token {
        let id = self.next_token;
        self.next_token = self.next_token.wrapping_add(1);
        Token { owner: RequestOwner::Produce, id }
    }

    /// Ends a step: emits what changed and sets the next tick.
    fn finish_step(&mut self, now: Nanos, out: &mut Vec<SenderAction>) {
        let mut accumulator = lock(&self.accumulator);
        if self.next_idle_topic_check.is_some_and(|look| now >= look) {
            self.next_idle_topic_check = accumulator.untrack_idle_topics(now);
        }
        self.stale_metadata |= accumulator.take_metadata_suspect();
        if accumulator.take_tracked_topics_changed() {
            self.has_topics = true;
            self.next_idle_topic_check = accumulator.untrack_idle_topics(now);
            out.push(SenderAction::TrackedTopicsChanged);
        }
        let signals = accumulator.take_wake_set();
        let settled = accumulator.is_complete();
        let batches = earliest(accumulator.next_linger(), accumulator.next_expiry());
        let batches = earliest(batches, accumulator.next_overdue());
        let asleep = self.backing_off.peek().map(|Reverse((at, _))| *at);
        let nodes = earliest(self.next_node_check, if self.has_topics { self.producer_ids.deadline() } else { None });
        let unwritten = (!self.awaiting_write.is_empty()).then_some(self.next_write_check);
        let own = earliest(earliest(self.next_idle_topic_check, self.closing), unwritten);
        self.next_tick = earliest(earliest(batches, asleep), earliest(nodes, own));
        if accumulator.has_ready() {
            self.next_tick = Some(now); // became ready after `collect_ready` of this step
        }
        accumulator.set_next_poll(self.next_tick);
        drop(accumulator);
        if self.has_topics && self.failed.is_none() {
            self.request_producer_id(now, out);
        }
        if signals.memory {
            out.push(SenderAction::MemoryAvailable);
        }
        if signals.flush {
            out.push(SenderAction::FlushCompleted);
        }
        if signals.metadata {
            out.push(SenderAction::MetadataAvailable);
        }
        if std::mem::take(&mut self.stale_metadata) {
            out.push(SenderAction::RefreshMetadata);
        }
        self.dropped.emit(out);
        self.emit_transaction(out);
        let settled = settled && (self.requests_may_be_dropped() || self.closing.is_some_and(|at| now >= at));
        if self.closing.is_some() && settled {
            self.finished = true;
            self.next_tick = None;
            out.push(SenderAction::Finished);
        }
    }
}
