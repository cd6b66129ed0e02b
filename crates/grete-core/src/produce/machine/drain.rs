//! From ready partitions to requests.

use std::sync::Arc;

use grete_wire::api_key::ApiKey;
use grete_wire::produce::{ProduceBody, ProduceTopic};

use super::lane::Identity;
use super::piece::Piece;
use super::{ProduceMachine, lock, sequence, token};
use crate::ids::NodeId;
use crate::produce::accumulator::{Fresh, PartitionId};
use crate::produce::event::{ProduceAction, ProduceNotice};
use crate::request::{Channel, Outgoing, Request, Target};
use crate::time::{MILLI, Nanos, SECOND, earlier};
use crate::view::ClusterView;

/// How soon a muted node is looked at again, should nobody tell that it hears again.
const MUTED_LOOK: Nanos = SECOND;
/// How soon a connection that never came is asked for again.
const ASK_AGAIN: Nanos = SECOND;

/// A request that is not answered.
#[derive(Debug)]
pub(super) struct InFlight {
    pub node: NodeId,
    /// By topic and partition.
    pub pieces: Vec<Piece>,
    /// The topics' ids.
    pub ids: Vec<(u128, Arc<str>)>,
}

enum Next {
    Piece(Piece),
    /// There is one, and it does not fit this request any more.
    NoRoom,
    Nothing,
}

impl ProduceMachine {
    /// Sends what can be sent now: work for ready partitions only.
    pub(super) fn drain(&mut self, now: Nanos, view: &impl ClusterView, out: &mut Vec<ProduceAction>) {
        self.node_look = None;
        if self.failed.is_some() {
            return;
        }
        for at in 0..self.nodes.len() {
            while let Some(node) = self.nodes.get_mut(at) {
                if node.queue.is_empty() || node.in_flight >= self.config.max_in_flight {
                    break;
                }
                if view.api_version(node.id, Channel::Produce, ApiKey::Produce).is_none() {
                    if now >= node.asked_until {
                        // Nobody answered the last time: perhaps the node is gone for good, and others lead.
                        self.stale_metadata |= node.asked_until > 0;
                        node.asked_until = now.saturating_add(ASK_AGAIN);
                        out.push(ProduceAction::NeedNode(node.id));
                    }
                    self.node_look = earlier(self.node_look, Some(node.asked_until));
                    break;
                }
                if view.is_muted(node.id, now) {
                    self.node_look = earlier(self.node_look, Some(now.saturating_add(MUTED_LOOK)));
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

    /// The next batches for a node, one of each partition, as many as fit a request.
    fn fill(
        &mut self,
        now: Nanos,
        at: usize,
        node: NodeId,
        view: &impl ClusterView,
        out: &mut Vec<ProduceAction>,
    ) -> Vec<Piece> {
        let (mut pieces, mut bytes) = (Vec::new(), 0_usize);
        let mut served = std::mem::take(&mut self.served);
        while let Some(id) = self.nodes.get_mut(at).and_then(|node| node.queue.pop_front()) {
            let Some(lane) = self.lane(id).filter(|lane| lane.queued && lane.leader == node) else {
                continue; // it has gone to another leader's queue since, or is back here twice
            };
            lane.queued = false;
            lane.found(view.topic_id(&lane.tp.topic).unwrap_or(0));
            let room = match pieces.is_empty() {
                true => usize::MAX,
                false => self.config.max_request_size.saturating_sub(bytes),
            };
            match self.next_piece(now, id, node, room, out) {
                Next::Piece(piece) => {
                    bytes += piece.batch.len();
                    pieces.push(piece);
                    served.push(id);
                }
                Next::Nothing => {}
                Next::NoRoom => {
                    if let (Some(lane), Some(node)) = (self.lanes.get_mut(id.0 as usize), self.nodes.get_mut(at)) {
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

    fn next_piece(
        &mut self,
        now: Nanos,
        id: PartitionId,
        node: NodeId,
        room: usize,
        out: &mut Vec<ProduceAction>,
    ) -> Next {
        if !self.put_numbers_right(id, out) {
            return Next::Nothing; // an identity is on its way, and brings all partitions back here
        }
        let idempotent = self.config.idempotent;
        let Some(lane) = self.lanes.get_mut(id.0 as usize) else { return Next::Nothing };
        let waiting = !lane.flight.is_empty();
        // Else an answer has to come first, and brings the partition back here: from the old leader, so that nothing
        // overtakes what is there; to what is on its way, before anything is sent again; or it makes way for one more.
        let mut piece = if waiting && lane.flight_node != node {
            return Next::Nothing;
        } else if !lane.retry.is_empty() {
            // Until the numbers are put right, only what is ambiguous is asked about.
            let asked = |piece: &Piece| piece.is_doubtful() || !(lane.hole || lane.broken);
            let Some(index) = lane.retry.iter().position(asked).filter(|_| !waiting) else { return Next::Nothing };
            if lane.retry.get(index).is_some_and(|piece| piece.batch.len() > room) {
                return Next::NoRoom;
            }
            let Some(piece) = lane.retry.remove(index) else { return Next::Nothing };
            self.stats.retries += 1;
            piece
        } else {
            lane.careful &= waiting;
            let full = lane.careful || (idempotent && lane.flight.len() >= lane.window(now));
            if !lane.ready || lane.hole || lane.broken || full {
                return Next::Nothing;
            }
            let fresh = {
                let mut accumulator = lock(&self.accumulator);
                if accumulator.next_bytes(id) > room {
                    return Next::NoRoom;
                }
                let (fresh, more) = accumulator.take(id, now);
                lane.ready = more;
                fresh
            };
            match fresh.map(|fresh| self.encode(now, id, fresh, out)) {
                Some(Some(piece)) => piece,
                Some(None) => {
                    self.enqueue(now, id);
                    return Next::Nothing;
                }
                None => return Next::Nothing,
            }
        };
        let Some(lane) = self.lanes.get_mut(id.0 as usize) else { return Next::Nothing };
        if piece.sequence.is_none() {
            let Identity { id, epoch } = lane.identity;
            let base = if idempotent { lane.next } else { -1 };
            lane.next = sequence::after(lane.next, piece.batch.count());
            piece.batch.stamp(id, epoch, base);
            piece.sequence = Some(base);
        }
        piece.topic_id = lane.topic_id;
        lane.flight.push(piece.key());
        lane.flight_node = node;
        Next::Piece(piece)
    }

    /// Ends a batch; one that cannot be made is settled at once.
    fn encode(&mut self, now: Nanos, id: PartitionId, fresh: Fresh, out: &mut Vec<ProduceAction>) -> Option<Piece> {
        let charge = fresh.charge();
        let Fresh { number, receipt, builder } = fresh;
        let records = builder.count();
        match builder.finish(self.config.compression, self.config.level, &mut self.compressor) {
            Ok(batch) => Some(Piece {
                lane: id,
                number,
                first: 0,
                receipt,
                batch,
                charge,
                sequence: None,
                topic_id: 0,
                maybe: false,
                doubts: Vec::new(),
                told: false,
                last: None,
            }),
            Err(cause) => {
                self.settle_unmade(now, number, &receipt, records, charge, cause, out);
                if self.lane(id).is_some_and(|lane| lane.flight.is_empty()) {
                    lock(&self.accumulator).idle(id);
                }
                None
            }
        }
    }

    /// Gives the partition an identity, another one, or its numbers anew, where that is wanted and nothing of it is
    /// ambiguous. False if it has to wait for an identity.
    fn put_numbers_right(&mut self, id: PartitionId, out: &mut Vec<ProduceAction>) -> bool {
        let Some(lane) = self.lanes.get_mut(id.0 as usize) else { return false };
        if !self.config.idempotent {
            (lane.hole, lane.gap, lane.broken) = (false, None, false);
            return true;
        }
        if lane.is_ambiguous() {
            return true;
        }
        if lane.broken && self.identities.current == Some(lane.identity) {
            self.identities.bump();
            if let Some(Identity { id, epoch }) = self.identities.current {
                out.push(ProduceAction::Notice(ProduceNotice::Identity { producer_id: id, epoch }));
            }
        }
        match self.identities.current {
            Some(current) if current != lane.identity => lane.adopt(current),
            None if lane.broken || lane.identity == Identity::NONE => return false,
            _ if lane.hole => lane.renumber(),
            _ => {}
        }
        true
    }

    fn send(
        &mut self,
        at: usize,
        node: NodeId,
        mut pieces: Vec<Piece>,
        view: &impl ClusterView,
        out: &mut Vec<ProduceAction>,
    ) {
        let place = |piece: &Piece| (Arc::clone(piece.receipt.topic()), piece.receipt.partition());
        if pieces.len() > 1 {
            pieces.sort_by_cached_key(place);
        }
        let mut topics: Vec<ProduceTopic> = Vec::new();
        for piece in &pieces {
            let name = piece.receipt.topic();
            let batch = (piece.receipt.partition(), Arc::clone(piece.batch.bytes()));
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
        let body = ProduceBody { transactional_id: None, acks: self.config.acks, timeout_ms, topics };
        let id = self.next_token();
        self.stats.requests += 1;
        self.requests.insert(id, InFlight { node, pieces, ids });
        if let Some(node) = self.nodes.get_mut(at) {
            node.in_flight += 1;
        }
        out.push(ProduceAction::Send(Outgoing {
            target: Target::Node(node),
            channel: Channel::Produce,
            request: Request::Produce(body),
            token: token(id),
            timeout: self.config.request_timeout,
        }));
    }
}
