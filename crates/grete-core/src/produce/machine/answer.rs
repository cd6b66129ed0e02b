//! What brokers say of batches.

use std::sync::Arc;

use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{PartitionProduceResponse, ProduceResponse};

use super::drain::InFlight;
use super::lane::{Identity, Lane};
use super::piece::Piece;
use super::settle::{Why, refusal};
use super::verdict::Verdict;
use super::{ProduceMachine, lock, sequence};
use crate::ids::TopicPartition;
use crate::produce::error::LastError;
use crate::produce::event::{ProduceAction, ProduceNotice};
use crate::produce::receipt::Outcome;
use crate::request::{Reply, RequestError, Response};
use crate::time::Nanos;

/// An answer about one partition.
#[derive(Debug)]
struct Answer {
    code: ErrorCode,
    offset: Option<i64>,
    timestamp: Option<i64>,
    message: Option<String>,
}

/// What is sent again after one reply.
#[derive(Debug, Default)]
struct Retried {
    first: Option<(Arc<str>, i32, LastError)>,
    batches: u32,
    records: u64,
}

impl ProduceMachine {
    pub(super) fn on_answer(&mut self, now: Nanos, request: InFlight, reply: Reply, out: &mut Vec<ProduceAction>) {
        if let Some(node) = self.nodes.iter_mut().find(|node| node.id == request.node) {
            node.in_flight = node.in_flight.saturating_sub(1);
        }
        // Partitions that fail together are sent again together.
        let jitter = self.rng.jitter(1000, 20);
        let mut retried = Retried::default();
        let mut answers: Vec<Option<Answer>> = Vec::new();
        let trouble = match reply.result {
            Ok(response) => self.read(&request, &response, &mut answers, out).err().map(RequestError::Protocol),
            Err(error) => Some(error),
        };
        answers.resize_with(request.pieces.len(), || None);
        for (mut piece, answer) in request.pieces.into_iter().zip(answers) {
            let id = piece.lane;
            let key = piece.key();
            if let Some(lane) = self.lane(id) {
                lane.flight.retain(|&other| other != key);
            }
            match (answer, &trouble) {
                (Some(answer), _) => self.on_verdict(now, piece, answer, jitter, &mut retried, out),
                (None, Some(RequestError::Unanswered)) => {
                    self.settle(now, &mut piece, Outcome::Unknown, None, None, None, out);
                    self.keep_unwritten(now, piece);
                }
                // An answer that cannot be read, or does not speak of the batch, says nothing: least of all that the
                // batch was too large.
                (None, trouble) => {
                    let (maybe, last) = match trouble {
                        Some(error) => (error.may_have_happened(), LastError::Request(error.clone())),
                        None => (true, LastError::Unanswered),
                    };
                    piece.maybe |= maybe;
                    piece.last = Some(last);
                    self.again(now, piece, jitter, &mut retried);
                }
            }
            if self.lane(id).is_some_and(|lane| lane.flight.is_empty()) {
                lock(&self.accumulator).idle(id);
            }
            self.enqueue(now, id);
        }
        // Whom `idle` has announced is heard of in this very step.
        if let Some((topic, partition, cause)) = retried.first {
            let tp = TopicPartition { topic, partition };
            let Retried { batches, records, .. } = retried;
            out.push(ProduceAction::Notice(ProduceNotice::Retried { tp, batches, records, cause }));
        }
    }

    /// Finds the answer to each batch. What the broker says of others is ignored.
    fn read(
        &mut self,
        request: &InFlight,
        response: &Response,
        answers: &mut Vec<Option<Answer>>,
        out: &mut Vec<ProduceAction>,
    ) -> Result<(), grete_wire::WireError> {
        let decoded = response.decode(ProduceResponse::decode)?;
        answers.resize_with(request.pieces.len(), || None);
        if decoded.throttle_time_ms > 0 {
            out.push(ProduceAction::Throttled { node: request.node, millis: decoded.throttle_time_ms });
        }
        let by_id = response.version >= 13;
        for topic in &decoded.responses {
            let known = |(id, name): &&(u128, Arc<str>)| match by_id {
                true => *id == topic.topic_id,
                false => **name == *topic.name,
            };
            let Some((_, name)) = request.ids.iter().find(known) else { continue };
            for part in &topic.partition_responses {
                let place =
                    |piece: &Piece| (&**piece.receipt.topic(), piece.receipt.partition()).cmp(&(name, part.index));
                let Ok(index) = request.pieces.binary_search_by(place) else { continue };
                let (Some(answer), Some(piece)) = (answers.get_mut(index), request.pieces.get(index)) else { continue };
                if answer.is_none() {
                    *answer = Some(Answer {
                        code: ErrorCode(part.error_code),
                        offset: Some(part.base_offset).filter(|&offset| offset >= 0),
                        timestamp: Some(part.log_append_time_ms).filter(|&timestamp| timestamp >= 0),
                        message: part.error_message.as_deref().map(str::to_owned),
                    });
                    self.hint(piece, part, &decoded, out);
                }
            }
        }
        Ok(())
    }

    /// A broker that leads no more says who does (KIP-951).
    fn hint(
        &mut self,
        piece: &Piece,
        part: &PartitionProduceResponse<'_>,
        decoded: &ProduceResponse<'_>,
        out: &mut Vec<ProduceAction>,
    ) {
        let (leader, epoch) = (part.current_leader.leader_id, part.current_leader.leader_epoch);
        if part.error_code == 0 || leader < 0 || epoch < 0 {
            return;
        }
        let endpoint = decoded.node_endpoints.iter().find(|endpoint| endpoint.node_id == leader);
        let endpoint = endpoint.map(|endpoint| (endpoint.host.to_string(), endpoint.port));
        if let Some(lane) = self.lane(piece.lane) {
            out.push(ProduceAction::LeaderHint { tp: lane.tp.clone(), leader, epoch, endpoint });
        }
    }

    fn on_verdict(
        &mut self,
        now: Nanos,
        mut piece: Piece,
        answer: Answer,
        jitter: u64,
        retried: &mut Retried,
        out: &mut Vec<ProduceAction>,
    ) {
        let Answer { code, offset, timestamp, message } = answer;
        let mut verdict = Verdict::of(code, self.config.acks);
        if !self.config.idempotent && matches!(verdict, Verdict::OutOfOrder | Verdict::Forgotten | Verdict::Fenced) {
            verdict = Verdict::Refused { maybe: true }; // it has nothing that could be out of order
        }
        self.stale_metadata |= code.wants_metadata();
        let Some(lane) = self.lanes.get_mut(piece.lane.0 as usize) else { return };
        match verdict {
            Verdict::Written | Verdict::Duplicate => {
                lane.acknowledge(now, &piece);
                if self.config.idempotent && verdict == Verdict::Written {
                    lane.clear_doubts(&piece);
                }
                self.settle(now, &mut piece, Outcome::Written, offset, timestamp, None, out);
                self.drop_piece(piece);
            }
            Verdict::Again { maybe } => {
                piece.maybe |= maybe;
                piece.last = Some(LastError::Code(code));
                self.again(now, piece, jitter, retried);
            }
            Verdict::OutOfOrder => {
                piece.last = Some(LastError::Code(code));
                if lane.gap.is_some_and(|gap| gap < piece.key()) {
                    // Nothing can be written behind a gap, and nothing was by an earlier attempt. But an attempt whose
                    // answer never came may still lie with the broker: it would fill the gap if that were closed by
                    // other numbers, and only another epoch keeps it out.
                    lane.broken |= piece.is_doubtful();
                    piece.maybe = false;
                    piece.doubts.clear();
                }
                if !piece.is_doubtful() && (lane.hole || lane.broken || lane.has_earlier(piece.key())) {
                    self.requeue(piece);
                } else {
                    // Nothing of ours is missing: the broker has lost records, or has them and has forgotten. Of
                    // several batches whose answers were lost, a leader that starts again from a snapshot knows the
                    // last one only.
                    self.lost_track(now, piece, code, message, jitter, retried, out);
                }
            }
            Verdict::Forgotten => {
                piece.last = Some(LastError::Code(code));
                self.lost_track(now, piece, code, message, jitter, retried, out);
            }
            Verdict::Fenced => {
                piece.last = Some(LastError::Code(code));
                if self.identities.current == Some(lane.identity) {
                    // A higher epoch of ours may be too low as well.
                    self.identities.current = None;
                }
                self.lost_track(now, piece, code, message, jitter, retried, out);
            }
            Verdict::TooLarge => {
                // Of this attempt: another leader, or the same one a moment ago, may have had another limit. Halves
                // keep the numbers, and so nothing is written twice.
                if piece.batch.count() > 1 && !piece.told {
                    self.split(now, piece, code, out);
                } else {
                    self.refuse(now, piece, code, message, out);
                }
            }
            Verdict::Refused { maybe } => {
                piece.maybe |= maybe;
                self.refuse(now, piece, code, message, out);
            }
        }
    }

    /// The broker does not go on from where we are. What it refused is sent under another identity, unless an earlier
    /// attempt may have been written: then it would be written twice.
    #[expect(clippy::too_many_arguments, reason = "passed through")]
    fn lost_track(
        &mut self,
        now: Nanos,
        piece: Piece,
        code: ErrorCode,
        message: Option<String>,
        jitter: u64,
        retried: &mut Retried,
        out: &mut Vec<ProduceAction>,
    ) {
        if let Some(lane) = self.lane(piece.lane) {
            lane.broken = true;
        }
        if piece.is_doubtful() {
            self.refuse(now, piece, code, message, out);
        } else {
            self.again(now, piece, jitter, retried);
        }
    }

    /// To be sent again, after a while.
    fn again(&mut self, now: Nanos, piece: Piece, jitter: u64, retried: &mut Retried) {
        let (initial, max) = (self.config.retry_backoff, self.config.retry_backoff_max);
        if let Some(lane) = self.lane(piece.lane) {
            let doubled = initial.saturating_mul(1_u64.checked_shl(lane.failures).unwrap_or(u64::MAX)).min(max);
            lane.failures = lane.failures.saturating_add(1).min(62);
            let wait = u128::from(doubled) * u128::from(jitter) / 1000;
            lane.not_before = now.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX));
        }
        if piece.told {
            return self.requeue(piece);
        }
        retried.batches += 1;
        retried.records += u64::from(piece.batch.count());
        if retried.first.is_none()
            && let Some(cause) = piece.last.clone()
        {
            retried.first = Some((Arc::clone(piece.receipt.topic()), piece.receipt.partition(), cause));
        }
        self.requeue(piece);
    }

    /// Back in line; unless the user has been told already: then all that counts is what became of its numbers.
    pub(super) fn requeue(&mut self, piece: Piece) {
        let Some(lane) = self.lanes.get_mut(piece.lane.0 as usize) else { return };
        if !piece.told {
            return lane.requeue(piece);
        }
        lane.give_up(&piece);
        self.drop_piece(piece);
    }

    /// The records fail.
    fn refuse(
        &mut self,
        now: Nanos,
        mut piece: Piece,
        code: ErrorCode,
        message: Option<String>,
        out: &mut Vec<ProduceAction>,
    ) {
        let Some(lane) = self.lanes.get_mut(piece.lane.0 as usize) else { return };
        lane.give_up(&piece);
        let outcome = if piece.is_doubtful() { Outcome::Unknown } else { Outcome::NotWritten };
        if !piece.told {
            self.tell(piece.lane, &Why::Refused(code), piece.batch.count(), piece.is_doubtful());
        }
        let error = refusal(&piece, code, message);
        self.settle(now, &mut piece, outcome, None, None, Some(error), out);
        self.drop_piece(piece);
    }

    /// Halves that go on under the same numbers.
    fn split(&mut self, now: Nanos, piece: Piece, code: ErrorCode, out: &mut Vec<ProduceAction>) {
        let halves = piece.batch.split().ok().and_then(|(first, second)| {
            let mut half = |builder: grete_wire::records::BatchBuilder| {
                let charge = builder.capacity();
                let batch = builder.finish(self.config.compression, self.config.level, &mut self.compressor).ok()?;
                Some((batch, charge))
            };
            Some((half(first)?, half(second)?))
        });
        let Some(((first, first_charge), (second, second_charge))) = halves else {
            return self.refuse(now, piece, code, None, out);
        };
        self.stats.splits += 1;
        self.splits.entry(piece.number).or_insert(piece.batch.count());
        let tp = TopicPartition::new(Arc::clone(piece.receipt.topic()), piece.receipt.partition());
        out.push(ProduceAction::Notice(ProduceNotice::Split { tp, records: piece.batch.count(), code }));
        lock(&self.accumulator).recharge(piece.charge, first_charge.saturating_add(second_charge));
        let mut doubts = piece.doubts.clone();
        doubts.extend(piece.maybe.then(|| piece.range()));
        let Piece { lane: id, number, first: place, receipt, sequence, last, .. } = piece;
        let Some(Lane { identity: Identity { id: producer, epoch }, .. }) = self.lanes.get(id.0 as usize) else {
            return;
        };
        let (producer, epoch) = (*producer, *epoch);
        let cut = first.count();
        let following = match self.config.idempotent {
            true => sequence.map(|base| sequence::after(base, cut)),
            false => sequence,
        };
        let halves = [(first, first_charge, place, sequence), (second, second_charge, place + cut, following)];
        for (mut batch, charge, first, sequence) in halves {
            if let Some(base) = sequence {
                batch.stamp(producer, epoch, base);
            }
            let (receipt, last) = (Arc::clone(&receipt), last.clone());
            let half = Piece {
                lane: id,
                number,
                first,
                receipt,
                batch,
                charge,
                sequence,
                topic_id: 0,
                maybe: false,
                doubts: doubts.clone(),
                told: false,
                last,
            };
            self.requeue(half);
        }
    }
}
