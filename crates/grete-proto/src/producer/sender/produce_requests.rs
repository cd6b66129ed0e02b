//! Builds produce requests from the batches of ready partitions.

use std::sync::Arc;

use grete_wire::api::ApiKey;
use grete_wire::produce::{ProduceRequestBody, ProduceTopic};

use super::Sender;
use super::batch::{InFlightRequest, SendBatch};
use crate::cluster::view::ClusterView;
use crate::ids::NodeId;
use crate::ids::PartitionId;
use crate::ids::ProducerIdAndEpoch;
use crate::producer::accumulator::{UnsentBatch, lock};
use crate::producer::sender::event::{SenderAction, SenderLogEvent};
use crate::request::{Channel, OutboundRequest, Request, Target};
use crate::time::{MILLI, Nanos, SECOND, earliest};

/// Interval to check a muted node again, in case its `Unmuted` event is missed.
const MUTED_RECHECK: Nanos = SECOND;
/// Interval to request a connection again that did not become ready.
const CONNECT_RETRY_INTERVAL: Nanos = SECOND;

enum NextBatch {
    Batch(SendBatch),
    /// A batch is ready but does not fit this request.
    NoRoom,
    Nothing,
}

impl Sender {
    /// Sends what can be sent now. The cost depends only on the number of ready partitions.
    pub(super) fn drain(&mut self, now: Nanos, view: &impl ClusterView, out: &mut Vec<SenderAction>) {
        self.next_node_check = None;
        if self.failed.is_some() {
            return;
        }
        for at in 0..self.broker_queues.len() {
            while let Some(node) = self.broker_queues.get_mut(at) {
                if node.queue.is_empty() || node.in_flight >= self.config.max_in_flight {
                    break;
                }
                if view.api_version(node.id, Channel::Produce, ApiKey::Produce).is_none() {
                    if now >= node.connect_requested_until {
                        // The last connection request got no response: the node may be gone for good, with other
                        // leaders in its place.
                        self.stale_metadata |= node.connect_requested_until > 0;
                        node.connect_requested_until = now.saturating_add(CONNECT_RETRY_INTERVAL);
                        out.push(SenderAction::NeedNode(node.id));
                    }
                    self.next_node_check = earliest(self.next_node_check, Some(node.connect_requested_until));
                    break;
                }
                if view.is_muted(node.id, now) {
                    self.next_node_check = earliest(self.next_node_check, Some(now.saturating_add(MUTED_RECHECK)));
                    break;
                }
                let node = node.id;
                let pieces = self.fill(now, at, node, view, out);
                if !pieces.is_empty() {
                    self.send(at, node, pieces, view, out);
                }
            }
        }
    }

    /// Collects the next batches for a node, at most one per partition, up to the request size.
    fn fill(
        &mut self,
        now: Nanos,
        at: usize,
        node: NodeId,
        view: &impl ClusterView,
        out: &mut Vec<SenderAction>,
    ) -> Vec<SendBatch> {
        let (mut pieces, mut bytes) = (Vec::new(), 0_usize);
        let mut served = std::mem::take(&mut self.served);
        while let Some(id) = self.broker_queues.get_mut(at).and_then(|node| node.queue.pop_front()) {
            let Some(lane) = self.partition_mut(id).filter(|lane| lane.queued && lane.leader == node) else {
                continue; // queued at another leader by now, or queued here twice
            };
            lane.queued = false;
            lane.set_topic_id(view.topic_id(&lane.tp.topic).unwrap_or(0));
            let room = match pieces.is_empty() {
                true => usize::MAX,
                false => self.config.max_request_size.saturating_sub(bytes),
            };
            match self.next_batch(now, id, node, room, out) {
                NextBatch::Batch(piece) => {
                    bytes += piece.batch.len();
                    pieces.push(piece);
                    served.push(id);
                }
                NextBatch::Nothing => {}
                NextBatch::NoRoom => {
                    if let (Some(lane), Some(node)) =
                        (self.partitions.get_mut(id.0 as usize), self.broker_queues.get_mut(at))
                    {
                        lane.queued = true;
                        node.queue.push_front(id);
                    }
                    break;
                }
            }
        }
        for id in served.drain(..) {
            self.enqueue(now, id);
        }
        self.served = served;
        pieces
    }

    fn next_batch(
        &mut self,
        now: Nanos,
        id: PartitionId,
        node: NodeId,
        room: usize,
        out: &mut Vec<SenderAction>,
    ) -> NextBatch {
        if self.config.transactional_id.is_some() && !self.is_added(id) {
            return NextBatch::Nothing; // `PartitionsAdded` queues the partition again
        }
        if !self.prepare_sequences(id, out) {
            return NextBatch::Nothing; // InitProducerId is pending; its response queues all partitions again
        }
        let idempotent = self.config.idempotent;
        let Some(lane) = self.partitions.get_mut(id.0 as usize) else { return NextBatch::Nothing };
        let waiting = !lane.in_flight.is_empty();
        // In the other cases a response must come first, and it queues the partition again. A response from the old
        // leader: no batch may overtake those in flight there. A response to the batches in flight: retries wait for
        // it. A response that frees an in-flight slot.
        let mut piece = if waiting && lane.in_flight_node != node {
            return NextBatch::Nothing;
        } else if !lane.retry.is_empty() {
            // Until the sequence numbers are repaired, only ambiguous batches are sent.
            let asked = |piece: &SendBatch| piece.is_ambiguous() || !(lane.needs_renumbering || lane.needs_new_epoch);
            let Some(index) = lane.retry.iter().position(asked).filter(|_| !waiting) else { return NextBatch::Nothing };
            if lane.retry.get(index).is_some_and(|piece| piece.batch.len() > room) {
                return NextBatch::NoRoom;
            }
            let Some(piece) = lane.retry.remove(index) else { return NextBatch::Nothing };
            self.stats.retries += 1;
            piece
        } else {
            lane.one_at_a_time &= waiting;
            let full = lane.one_at_a_time || (idempotent && lane.in_flight.len() >= lane.max_new_in_flight(now));
            if !lane.ready || lane.needs_renumbering || lane.needs_new_epoch || full {
                return NextBatch::Nothing;
            }
            let fresh = {
                let mut accumulator = lock(&self.accumulator);
                if accumulator.next_bytes(id) > room {
                    return NextBatch::NoRoom;
                }
                let (fresh, more) = accumulator.take_batch(id, now);
                lane.ready = more;
                fresh
            };
            match fresh.map(|fresh| self.encode(now, id, fresh, out)) {
                Some(Some(piece)) => piece,
                Some(None) => {
                    self.enqueue(now, id);
                    return NextBatch::Nothing;
                }
                None => return NextBatch::Nothing,
            }
        };
        let Some(lane) = self.partitions.get_mut(id.0 as usize) else { return NextBatch::Nothing };
        if piece.sequence.is_none() {
            lane.assign_sequence(&mut piece, idempotent);
        }
        piece.topic_id = lane.topic_id;
        lane.in_flight.push(piece.key());
        lane.in_flight_node = node;
        NextBatch::Batch(piece)
    }

    /// Encodes a batch. A batch that cannot be encoded completes with an error.
    fn encode(
        &mut self,
        now: Nanos,
        id: PartitionId,
        fresh: UnsentBatch,
        out: &mut Vec<SenderAction>,
    ) -> Option<SendBatch> {
        let charge = fresh.charge();
        let UnsentBatch { number, promise: receipt, builder } = fresh;
        let records = builder.count();
        match builder.finish(self.config.compression, self.config.compression_level, &mut self.compressor) {
            Ok(batch) => Some(SendBatch {
                batch: self.in_transaction(batch),
                partition: id,
                number,
                first_index: 0,
                promise: receipt,
                charge,
                sequence: None,
                topic_id: 0,
                maybe_written: false,
                ambiguous_ranges: Vec::new(),
                completed: false,
                last_error: None,
            }),
            Err(cause) => {
                self.fail_unencodable(now, number, &receipt, records, charge, cause, out);
                if self.partition_mut(id).is_some_and(|lane| lane.in_flight.is_empty()) {
                    lock(&self.accumulator).mark_partition_idle(id);
                }
                None
            }
        }
    }

    /// Assigns a producer id, a new epoch or new sequence numbers to the partition, if needed and no batch is
    /// ambiguous. Returns false if the partition must wait for a producer id.
    fn prepare_sequences(&mut self, id: PartitionId, out: &mut Vec<SenderAction>) -> bool {
        let Some(lane) = self.partitions.get_mut(id.0 as usize) else { return false };
        if !self.config.idempotent {
            (lane.needs_renumbering, lane.first_unwritten, lane.needs_new_epoch) = (false, None, false);
            return true;
        }
        if lane.is_ambiguous() {
            return true;
        }
        if self.config.transactional_id.is_some() {
            return match self.producer_ids.current {
                None => false,
                Some(current) if current != lane.producer_id => {
                    lane.adopt_producer_id(current);
                    true
                }
                // The transaction has failed. The coordinator assigns another epoch after the abort.
                Some(_) => !(lane.needs_renumbering || lane.needs_new_epoch),
            };
        }
        if lane.needs_new_epoch && self.producer_ids.current == Some(lane.producer_id) {
            self.producer_ids.bump_epoch();
            if let Some(ProducerIdAndEpoch { id, epoch }) = self.producer_ids.current {
                out.push(SenderAction::LogEvent(SenderLogEvent::ProducerIdAssigned { producer_id: id, epoch }));
            }
        }
        match self.producer_ids.current {
            Some(current) if current != lane.producer_id => lane.adopt_producer_id(current),
            None if lane.needs_new_epoch || lane.producer_id == ProducerIdAndEpoch::NONE => return false,
            _ if lane.needs_renumbering => lane.renumber(),
            _ => {}
        }
        true
    }

    fn send(
        &mut self,
        at: usize,
        node: NodeId,
        mut pieces: Vec<SendBatch>,
        view: &impl ClusterView,
        out: &mut Vec<SenderAction>,
    ) {
        let place = |piece: &SendBatch| (Arc::clone(piece.promise.topic()), piece.promise.partition());
        if pieces.len() > 1 {
            pieces.sort_by_cached_key(place);
        }
        let mut topics: Vec<ProduceTopic> = Vec::new();
        for piece in &pieces {
            let name = piece.promise.topic();
            let batch = (piece.promise.partition(), Arc::clone(piece.batch.bytes()));
            self.stats.batches += 1;
            self.stats.bytes += piece.batch.len() as u64;
            match topics.last_mut().filter(|topic| topic.name == *name) {
                Some(topic) => topic.partitions.push(batch),
                None => topics.push(ProduceTopic {
                    name: Arc::clone(name),
                    id: view.topic_id(name).unwrap_or(0),
                    partitions: vec![batch],
                }),
            }
        }
        let ids = topics.iter().map(|topic| (topic.id, Arc::clone(&topic.name))).collect();
        let timeout_ms = i32::try_from(self.config.request_timeout / MILLI).unwrap_or(i32::MAX);
        let body = ProduceRequestBody {
            transactional_id: self.config.transactional_id.clone(),
            has_added_partitions: self.adds_partitions,
            acks: self.config.acks,
            timeout_ms,
            topics,
        };
        let token = self.next_token();
        self.stats.requests += 1;
        self.requests.insert(token.id, InFlightRequest { node, batches: pieces, ids });
        if let Some(node) = self.broker_queues.get_mut(at) {
            node.in_flight += 1;
        }
        out.push(SenderAction::Send(OutboundRequest {
            target: Target::Node(node),
            channel: Channel::Produce,
            request: Request::Produce(body),
            token,
            timeout: self.config.request_timeout,
        }));
    }
}
