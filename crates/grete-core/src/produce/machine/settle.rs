//! Settling: what becomes of a record is final, its waiters are woken, its bytes are free.

use std::sync::Arc;

use grete_wire::error::WireError;
use grete_wire::error_code::ErrorCode;

use super::piece::Piece;
use super::{ProduceMachine, lock};
use crate::produce::accumulator::{Fresh, PartitionId};
use crate::produce::error::{FatalError, LastError, ProduceError};
use crate::produce::event::{GiveUp, ProduceAction};
use crate::produce::receipt::{Outcome, Receipt, Settlement};
use crate::request::NO_NODE;
use crate::time::{MILLI, Nanos};

/// How often it is looked at what waits for a socket.
const UNWRITTEN_LOOK: Nanos = 5 * MILLI;
/// So many are looked at with every step.
const FEW: usize = 16;

/// Why records are given up.
#[derive(Debug, Clone)]
pub(super) enum Why {
    /// `delivery.timeout.ms` is over.
    Expired,
    /// The producer is closed, and its time is over.
    Closed,
    /// The producer has failed.
    Fatal(FatalError),
    /// The topic cannot be written to.
    Refused(ErrorCode),
}

impl ProduceMachine {
    /// The final word on a piece. Nothing happens if that has been said before.
    #[expect(clippy::too_many_arguments, reason = "what a settlement is made of")]
    pub(super) fn settle(
        &mut self,
        now: Nanos,
        piece: &mut Piece,
        outcome: Outcome,
        offset: Option<i64>,
        timestamp: Option<i64>,
        error: Option<ProduceError>,
        out: &mut Vec<ProduceAction>,
    ) {
        if std::mem::replace(&mut piece.told, true) {
            return;
        }
        let records = piece.batch.count();
        let settlement = Settlement { outcome, offset, timestamp, error: error.map(Arc::new), at: now };
        self.count(outcome, records);
        let heard = match self.splits.get_mut(&piece.number) {
            None => {
                lock(&self.accumulator).settle(piece.number, records, true);
                piece.receipt.settle(settlement)
            }
            Some(left) => {
                *left = left.saturating_sub(records);
                let last = *left == 0;
                if last {
                    self.splits.remove(&piece.number);
                }
                lock(&self.accumulator).settle(piece.number, records, last);
                piece.receipt.settle_part(piece.first, records, settlement, last)
            }
        };
        if heard {
            out.push(ProduceAction::Settled(Arc::clone(&piece.receipt)));
        }
    }

    /// The final word on a batch that was never sent.
    fn settle_fresh(&mut self, now: Nanos, fresh: Fresh, error: ProduceError, out: &mut Vec<ProduceAction>) {
        let (records, charge) = (fresh.builder.count(), fresh.charge());
        let Fresh { number, receipt, builder } = fresh;
        self.count(Outcome::NotWritten, records);
        let mut accumulator = lock(&self.accumulator);
        accumulator.settle(number, records, true);
        accumulator.give(charge, Some(builder.into_buffer()));
        drop(accumulator);
        if receipt.settle(not_written(now, error)) {
            out.push(ProduceAction::Settled(receipt));
        }
    }

    /// The final word on a batch that could not be made.
    #[expect(clippy::too_many_arguments, reason = "the parts of a batch that is gone")]
    pub(super) fn settle_unmade(
        &mut self,
        now: Nanos,
        number: u64,
        receipt: &Arc<Receipt>,
        records: u32,
        charge: usize,
        cause: WireError,
        out: &mut Vec<ProduceAction>,
    ) {
        self.count(Outcome::NotWritten, records);
        let mut accumulator = lock(&self.accumulator);
        accumulator.settle(number, records, true);
        accumulator.give(charge, None);
        drop(accumulator);
        let (topic, partition) = (Arc::clone(receipt.topic()), receipt.partition());
        if receipt.settle(not_written(now, ProduceError::Encode { topic, partition, cause })) {
            out.push(ProduceAction::Settled(Arc::clone(receipt)));
        }
    }

    /// Nobody needs the piece any more.
    pub(super) fn drop_piece(&mut self, piece: Piece) {
        lock(&self.accumulator).give(piece.charge, piece.batch.into_buffer());
    }

    /// A batch that nobody will speak of again has been handed to its socket.
    pub(super) fn keep_unwritten(&mut self, now: Nanos, piece: Piece) {
        if self.unwritten.is_empty() {
            self.unwritten_look = now.saturating_add(UNWRITTEN_LOOK);
        }
        self.unwritten.push(piece);
    }

    /// Frees what brokers do not answer (`acks=0`) once nobody holds it any more: until then it waits for a socket, and
    /// that a producer is never told of its outcome must not mean that it can fill the memory with it.
    pub(super) fn drop_written(&mut self, now: Nanos) {
        if self.unwritten.is_empty() || (self.unwritten.len() > FEW && now < self.unwritten_look) {
            return;
        }
        self.unwritten_look = now.saturating_add(UNWRITTEN_LOOK);
        let is_written = |piece: &mut Piece| Arc::strong_count(piece.batch.bytes()) == 1;
        let written: Vec<Piece> = self.unwritten.extract_if(.., is_written).collect();
        for piece in written {
            self.drop_piece(piece);
        }
    }

    /// Gives up what has waited for too long.
    pub(super) fn expire(&mut self, now: Nanos, out: &mut Vec<ProduceAction>) {
        loop {
            let Some((number, id)) = lock(&self.accumulator).expired(now) else { return };
            self.give_up(now, number, id, &Why::Expired, out);
        }
    }

    /// Gives up everything.
    pub(super) fn give_up_all(&mut self, now: Nanos, why: &Why, out: &mut Vec<ProduceAction>) {
        loop {
            let Some((number, id)) = lock(&self.accumulator).oldest() else { return };
            self.give_up(now, number, id, why, out);
        }
    }

    /// Gives up what a partition has to send. What is on its way will be answered.
    pub(super) fn give_up_partition(&mut self, now: Nanos, id: PartitionId, why: &Why, out: &mut Vec<ProduceAction>) {
        loop {
            let Some(fresh) = lock(&self.accumulator).remove_any(id) else { break };
            let error = self.error(&fresh.receipt, why, None);
            self.tell(id, why, fresh.builder.count(), false);
            self.settle_fresh(now, fresh, error, out);
        }
        let pieces = self.lane(id).map(|lane| std::mem::take(&mut lane.retry)).unwrap_or_default();
        for piece in pieces {
            self.give_up_piece(now, piece, why, out);
        }
    }

    /// Settles a batch, wherever it is.
    fn give_up(&mut self, now: Nanos, number: u64, id: PartitionId, why: &Why, out: &mut Vec<ProduceAction>) {
        let fresh = lock(&self.accumulator).remove(number, id);
        if let Some(fresh) = fresh {
            let error = self.error(&fresh.receipt, why, self.obstacle(id));
            self.tell(id, why, fresh.builder.count(), false);
            self.settle_fresh(now, fresh, error, out);
        } else {
            let mut pieces = Vec::new();
            if let Some(lane) = self.lane(id) {
                while let Some(at) = lane.retry.iter().position(|piece| piece.number == number) {
                    pieces.extend(lane.retry.remove(at));
                }
            }
            for piece in pieces {
                self.give_up_piece(now, piece, why, out);
            }
            self.give_up_in_flight(now, number, id, why, out);
        }
        // Whatever was found: it is not looked at again.
        lock(&self.accumulator).settle(number, 0, true);
    }

    fn give_up_piece(&mut self, now: Nanos, mut piece: Piece, why: &Why, out: &mut Vec<ProduceAction>) {
        let error = self.error(&piece.receipt, why, piece.last.clone());
        let outcome = if piece.is_doubtful() { Outcome::Unknown } else { Outcome::NotWritten };
        self.tell(piece.lane, why, piece.batch.count(), piece.is_doubtful());
        self.settle(now, &mut piece, outcome, None, None, Some(error), out);
        if piece.sequence.is_some() {
            self.requeue(piece); // for its numbers' sake
        } else {
            self.drop_piece(piece);
        }
    }

    /// The user's time is over, the broker's is not: its answer tells which number comes next.
    fn give_up_in_flight(&mut self, now: Nanos, number: u64, id: PartitionId, why: &Why, out: &mut Vec<ProduceAction>) {
        if self.lane(id).is_none_or(|lane| lane.flight.iter().all(|&(other, _)| other != number)) {
            return;
        }
        let tokens: Vec<u32> = self.requests.keys().copied().collect();
        for token in tokens {
            let Some(mut request) = self.requests.remove(&token) else { continue };
            for piece in request.pieces.iter_mut().filter(|piece| piece.number == number && !piece.told) {
                let error = self.error(&piece.receipt, why, Some(LastError::Unanswered));
                self.tell(id, why, piece.batch.count(), true);
                self.settle(now, piece, Outcome::Unknown, None, None, Some(error), out);
            }
            self.requests.insert(token, request);
        }
    }

    /// What keeps a partition's batches from being sent.
    fn obstacle(&self, id: PartitionId) -> Option<LastError> {
        let lane = self.lanes.get(id.0 as usize)?;
        if lane.leader == NO_NODE {
            return Some(LastError::NoLeader);
        }
        if let Some(head) = lane.retry.front() {
            return head.last.clone();
        }
        if self.config.idempotent && self.identities.current.is_none() {
            return Some(LastError::NoIdentity);
        }
        let unreachable = self.nodes.iter().any(|node| node.id == lane.leader && node.asked_until > 0);
        unreachable.then_some(LastError::NotConnected(lane.leader))
    }

    fn error(&self, receipt: &Receipt, why: &Why, last: Option<LastError>) -> ProduceError {
        let (topic, partition) = (Arc::clone(receipt.topic()), receipt.partition());
        match why {
            Why::Expired => match last {
                Some(LastError::Code(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID)) => {
                    ProduceError::UnknownTopic { topic, partition }
                }
                last => ProduceError::DeliveryTimeout { topic, partition, timeout: self.config.delivery_timeout, last },
            },
            Why::Closed => ProduceError::Closed { topic, partition, last },
            Why::Fatal(cause) => ProduceError::Fatal { topic, partition, cause: cause.clone() },
            Why::Refused(code) => of_code(topic, partition, *code, None),
        }
    }

    /// Tells of records that are given up.
    pub(super) fn tell(&mut self, id: PartitionId, why: &Why, records: u32, unknown: bool) {
        let Some(lane) = self.lanes.get(id.0 as usize) else { return };
        let why = match why {
            Why::Expired => GiveUp::Expired,
            Why::Closed => GiveUp::Closed,
            Why::Fatal(_) => GiveUp::Fatal,
            Why::Refused(code) => GiveUp::Refused(*code),
        };
        self.losses.add(why, id, &lane.tp, records, unknown);
    }

    fn count(&mut self, outcome: Outcome, records: u32) {
        let counter = match outcome {
            Outcome::Written => &mut self.stats.written,
            Outcome::NotWritten => &mut self.stats.not_written,
            Outcome::Unknown => &mut self.stats.unknown,
        };
        *counter += u64::from(records);
    }
}

fn not_written(now: Nanos, error: ProduceError) -> Settlement {
    let error = Some(Arc::new(error));
    Settlement { outcome: Outcome::NotWritten, offset: None, timestamp: None, error, at: now }
}

/// What a broker's refusal means to the user.
pub(super) fn refusal(piece: &Piece, code: ErrorCode, message: Option<String>) -> ProduceError {
    let (topic, partition) = (Arc::clone(piece.receipt.topic()), piece.receipt.partition());
    match code {
        ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE => {
            ProduceError::TooLarge { topic, partition, bytes: piece.batch.len(), code }
        }
        code => of_code(topic, partition, code, message),
    }
}

fn of_code(topic: Arc<str>, partition: i32, code: ErrorCode, message: Option<String>) -> ProduceError {
    match code {
        ErrorCode::TOPIC_AUTHORIZATION_FAILED
        | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
        | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED => ProduceError::Authorization { topic, partition, code },
        code => ProduceError::Broker { topic, partition, code, message },
    }
}
