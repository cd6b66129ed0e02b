//! Handling of produce responses.

use std::sync::Arc;

use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{PartitionProduceResponse, ProduceResponse};

use super::batch::{InFlightRequest, SendBatch};
use super::drop_summary::DropCause;
use super::partition::PartitionState;
use super::response_class::ResponseClass;
use super::{CONCURRENT_BACKOFF, Sender, sequence_arithmetic};
use crate::cluster::ClusterEvent;
use crate::ids::ProducerIdAndEpoch;
use crate::ids::TopicPartition;
use crate::producer::accumulator::lock;
use crate::producer::batch_promise::Outcome;
use crate::producer::error::LastError;
use crate::producer::sender::event::{SenderAction, SenderLogEvent};
use crate::request::{Reply, RequestError, Response};
use crate::time::Nanos;

/// Response for one partition.
#[derive(Debug)]
struct PartitionResponse {
    code: ErrorCode,
    offset: Option<i64>,
    timestamp: Option<i64>,
    message: Option<String>,
}

/// Batches to be retried after one response, for the log event.
#[derive(Debug, Default)]
struct RetrySummary {
    first: Option<(Arc<str>, i32, LastError)>,
    batches: u32,
    records: u64,
}

impl Sender {
    pub(super) fn on_produce_response(
        &mut self,
        now: Nanos,
        request: InFlightRequest,
        reply: Reply,
        out: &mut Vec<SenderAction>,
    ) {
        if let Some(node) = self.broker_queues.iter_mut().find(|node| node.id == request.node) {
            node.in_flight = node.in_flight.saturating_sub(1);
        }
        // Partitions that fail together are retried together.
        let jitter = self.rng.jitter(1000, 20);
        let mut retried = RetrySummary::default();
        let mut answers: Vec<Option<PartitionResponse>> = Vec::new();
        let request_error = match reply.result {
            Ok(response) => {
                self.decode_response(&request, &response, &mut answers, out).err().map(RequestError::Protocol)
            }
            Err(error) => Some(error),
        };
        answers.resize_with(request.batches.len(), || None);
        for (mut piece, answer) in request.batches.into_iter().zip(answers) {
            let id = piece.partition;
            let key = piece.key();
            if let Some(lane) = self.partition_mut(id) {
                lane.in_flight.retain(|&other| other != key);
            }
            match (answer, &request_error) {
                (Some(answer), _) => self.on_partition_response(now, piece, answer, jitter, &mut retried, out),
                (None, Some(RequestError::Unanswered)) => {
                    self.complete(now, &mut piece, Outcome::Unknown, None, None, None, out);
                    self.hold_until_written(now, piece);
                }
                // A response that cannot be decoded, or omits the batch, proves nothing. In particular, it does not
                // prove that the batch was too large.
                (None, trouble) => {
                    let (maybe, last) = match trouble {
                        Some(error) => (error.is_ambiguous(), LastError::Request(error.clone())),
                        None => (true, LastError::AwaitingResponse),
                    };
                    piece.maybe_written |= maybe;
                    piece.last_error = Some(last);
                    self.schedule_retry(now, piece, jitter, &mut retried);
                }
            }
            if self.partition_mut(id).is_some_and(|lane| lane.in_flight.is_empty()) {
                lock(&self.accumulator).mark_partition_idle(id);
            }
            self.enqueue(now, id);
        }
        // Partitions that `mark_partition_idle` has queued are collected in this same step.
        if let Some((topic, partition, cause)) = retried.first {
            let tp = TopicPartition { topic, partition };
            let RetrySummary { batches, records, .. } = retried;
            out.push(SenderAction::LogEvent(SenderLogEvent::Retried { tp, batches, records, cause }));
        }
    }

    /// Finds the response for each batch. Responses for other partitions are ignored.
    fn decode_response(
        &mut self,
        request: &InFlightRequest,
        response: &Response,
        answers: &mut Vec<Option<PartitionResponse>>,
        out: &mut Vec<SenderAction>,
    ) -> Result<(), grete_wire::WireError> {
        let decoded = response.decode(ProduceResponse::decode)?;
        answers.resize_with(request.batches.len(), || None);
        if decoded.throttle_time_ms > 0 {
            out.push(SenderAction::Cluster(ClusterEvent::Throttled {
                node: request.node,
                millis: decoded.throttle_time_ms,
            }));
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
                    |piece: &SendBatch| (&**piece.promise.topic(), piece.promise.partition()).cmp(&(name, part.index));
                let Ok(index) = request.batches.binary_search_by(place) else { continue };
                let (Some(answer), Some(piece)) = (answers.get_mut(index), request.batches.get(index)) else {
                    continue;
                };
                if answer.is_none() {
                    *answer = Some(PartitionResponse {
                        code: ErrorCode(part.error_code),
                        offset: Some(part.base_offset).filter(|&offset| offset >= 0),
                        timestamp: Some(part.log_append_time_ms).filter(|&timestamp| timestamp >= 0),
                        message: part.error_message.as_deref().map(str::to_owned),
                    });
                    self.emit_leader_hint(piece, part, &decoded, out);
                }
            }
        }
        Ok(())
    }

    /// Emits the new leader that a former leader reports (KIP-951).
    fn emit_leader_hint(
        &mut self,
        piece: &SendBatch,
        part: &PartitionProduceResponse<'_>,
        decoded: &ProduceResponse<'_>,
        out: &mut Vec<SenderAction>,
    ) {
        let (leader, epoch) = (part.current_leader.leader_id, part.current_leader.leader_epoch);
        if part.error_code == 0 || leader < 0 || epoch < 0 {
            return;
        }
        let endpoint = decoded.node_endpoints.iter().find(|endpoint| endpoint.node_id == leader);
        let endpoint = endpoint.map(|endpoint| (endpoint.host.to_string(), endpoint.port));
        if let Some(lane) = self.partition_mut(piece.partition) {
            out.push(SenderAction::Cluster(ClusterEvent::LeaderHint { tp: lane.tp.clone(), leader, epoch, endpoint }));
        }
    }

    fn on_partition_response(
        &mut self,
        now: Nanos,
        mut piece: SendBatch,
        answer: PartitionResponse,
        jitter: u64,
        retried: &mut RetrySummary,
        out: &mut Vec<SenderAction>,
    ) {
        let PartitionResponse { code, offset, timestamp, message } = answer;
        let mut class = ResponseClass::from_code(code, self.config.acks);
        if !self.config.idempotent
            && matches!(class, ResponseClass::OutOfOrder | ResponseClass::UnknownProducer | ResponseClass::Fenced)
        {
            class = ResponseClass::Fatal { maybe_written: true }; // without idempotence no sequence can be out of order
        }
        let is_transactional = self.config.transactional_id.is_some();
        if is_transactional && matches!(class, ResponseClass::UnknownProducer | ResponseClass::Fenced) {
            // The coordinator assigns epochs: the transaction is aborted, and another epoch follows.
            class = ResponseClass::Fatal { maybe_written: false };
        }
        self.stale_metadata |= code.requires_metadata_refresh();
        let Some(lane) = self.partitions.get_mut(piece.partition.0 as usize) else { return };
        match class {
            ResponseClass::Written | ResponseClass::Duplicate => {
                lane.acknowledge(now, &piece);
                if self.config.idempotent && class == ResponseClass::Written {
                    lane.clear_ambiguity(&piece);
                }
                self.complete(now, &mut piece, Outcome::Written, offset, timestamp, None, out);
                self.release_batch(piece);
            }
            ResponseClass::Retriable { maybe_written: maybe } => {
                piece.maybe_written |= maybe;
                piece.last_error = Some(LastError::Code(code));
                let id = piece.partition;
                self.schedule_retry(now, piece, jitter, retried);
                if code == ErrorCode::CONCURRENT_TRANSACTIONS
                    && let Some(lane) = self.partition_mut(id)
                {
                    // The markers of the transaction before are written within milliseconds.
                    lane.failures = 0;
                    lane.not_before = lane.not_before.min(now.saturating_add(CONCURRENT_BACKOFF));
                }
            }
            ResponseClass::OutOfOrder => {
                piece.last_error = Some(LastError::Code(code));
                if lane.first_unwritten.is_some_and(|gap| gap < piece.key()) {
                    // No broker writes a batch after a gap, so no earlier attempt was written. But an attempt without a
                    // response may still be queued at the broker. It would fill the gap if the gap were closed by new
                    // numbers. Only a new epoch fences it.
                    lane.needs_new_epoch |= piece.is_ambiguous();
                    piece.maybe_written = false;
                    piece.ambiguous_ranges.clear();
                }
                if !piece.is_ambiguous()
                    && (lane.needs_renumbering || lane.needs_new_epoch || lane.has_earlier_unresolved(piece.key()))
                {
                    self.requeue(piece);
                } else {
                    // No earlier batch of this producer is missing: the broker has lost records, or has written them
                    // and lost the producer's state. If several batches had their responses lost, a leader that
                    // restarts from a snapshot knows only the last one.
                    self.on_sequence_lost(now, piece, code, message, jitter, retried, out);
                }
            }
            ResponseClass::UnknownProducer => {
                piece.last_error = Some(LastError::Code(code));
                self.on_sequence_lost(now, piece, code, message, jitter, retried, out);
            }
            ResponseClass::Fenced => {
                piece.last_error = Some(LastError::Code(code));
                if self.producer_ids.current == Some(lane.producer_id) {
                    // A higher epoch of this producer may be too low as well.
                    self.producer_ids.current = None;
                }
                self.on_sequence_lost(now, piece, code, message, jitter, retried, out);
            }
            ResponseClass::TooLarge => {
                // The limit applied to this attempt: another leader, or the same one a moment ago, may have had another
                // limit. Halves keep the sequence numbers, so no record is written twice.
                if piece.batch.count() > 1 && !piece.completed {
                    self.split(now, piece, code, out);
                } else {
                    self.reject_batch(now, piece, code, message, out);
                }
            }
            ResponseClass::Fatal { maybe_written: maybe } => {
                piece.maybe_written |= maybe;
                self.reject_batch(now, piece, code, message, out);
            }
        }
    }

    /// Handles a broker that does not continue at the partition's sequence number. A refused batch is retried under a
    /// new epoch. If an earlier attempt may have been written, the batch fails instead, because a retry could write it
    /// twice.
    #[expect(clippy::too_many_arguments, reason = "passed through")]
    fn on_sequence_lost(
        &mut self,
        now: Nanos,
        piece: SendBatch,
        code: ErrorCode,
        message: Option<String>,
        jitter: u64,
        retried: &mut RetrySummary,
        out: &mut Vec<SenderAction>,
    ) {
        if let Some(lane) = self.partition_mut(piece.partition) {
            lane.needs_new_epoch = true;
        }
        if piece.is_ambiguous() || self.config.transactional_id.is_some() {
            self.reject_batch(now, piece, code, message, out);
        } else {
            self.schedule_retry(now, piece, jitter, retried);
        }
    }

    /// Queues a batch for retry and starts the backoff.
    fn schedule_retry(&mut self, now: Nanos, piece: SendBatch, jitter: u64, retried: &mut RetrySummary) {
        let (initial, max) = (self.config.retry_backoff, self.config.retry_backoff_max);
        if let Some(lane) = self.partition_mut(piece.partition) {
            let doubled = initial.saturating_mul(1_u64.checked_shl(lane.failures).unwrap_or(u64::MAX)).min(max);
            lane.failures = lane.failures.saturating_add(1).min(62);
            let wait = u128::from(doubled) * u128::from(jitter) / 1000;
            lane.not_before = now.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX));
        }
        if piece.completed {
            return self.requeue(piece);
        }
        retried.batches += 1;
        retried.records += u64::from(piece.batch.count());
        if retried.first.is_none()
            && let Some(cause) = piece.last_error.clone()
        {
            retried.first = Some((Arc::clone(piece.promise.topic()), piece.promise.partition(), cause));
        }
        self.requeue(piece);
    }

    /// Queues a batch for retry. A batch that is complete for the user is not retried: only the outcome of its sequence
    /// numbers still matters.
    pub(super) fn requeue(&mut self, piece: SendBatch) {
        let Some(lane) = self.partitions.get_mut(piece.partition.0 as usize) else { return };
        if !piece.completed {
            return lane.requeue(piece);
        }
        lane.on_batch_failed(&piece);
        self.release_batch(piece);
    }

    /// Completes the batch with an error.
    fn reject_batch(
        &mut self,
        now: Nanos,
        mut piece: SendBatch,
        code: ErrorCode,
        message: Option<String>,
        out: &mut Vec<SenderAction>,
    ) {
        let Some(lane) = self.partitions.get_mut(piece.partition.0 as usize) else { return };
        lane.on_batch_failed(&piece);
        let outcome = if piece.is_ambiguous() { Outcome::Unknown } else { Outcome::NotWritten };
        if !piece.completed {
            self.record_drop(piece.partition, &DropCause::Refused(code), piece.batch.count(), piece.is_ambiguous());
        }
        let error = self.rejection_error(&piece, code, message);
        self.complete(now, &mut piece, outcome, None, None, Some(error), out);
        self.release_batch(piece);
    }

    /// Splits a batch into halves that keep its sequence numbers.
    fn split(&mut self, now: Nanos, piece: SendBatch, code: ErrorCode, out: &mut Vec<SenderAction>) {
        let halves = piece.batch.split().ok().and_then(|(first, second)| {
            let mut half = |builder: grete_wire::records::BatchBuilder| {
                let charge = builder.capacity();
                let mut batch = builder
                    .finish(self.config.compression, self.config.compression_level, &mut self.compressor)
                    .ok()?;
                if self.config.transactional_id.is_some() {
                    batch.set_transactional();
                }
                Some((batch, charge))
            };
            Some((half(first)?, half(second)?))
        });
        let Some(((first, first_charge), (second, second_charge))) = halves else {
            return self.reject_batch(now, piece, code, None, out);
        };
        self.stats.splits += 1;
        self.split_open_records.entry(piece.number).or_insert(piece.batch.count());
        let tp = TopicPartition::new(Arc::clone(piece.promise.topic()), piece.promise.partition());
        out.push(SenderAction::LogEvent(SenderLogEvent::Split { tp, records: piece.batch.count(), code }));
        lock(&self.accumulator).recharge(piece.charge, first_charge.saturating_add(second_charge));
        let mut doubts = piece.ambiguous_ranges.clone();
        doubts.extend(piece.maybe_written.then(|| piece.range()));
        let SendBatch {
            partition: id, number, first_index: place, promise: receipt, sequence, last_error: last, ..
        } = piece;
        let Some(PartitionState { producer_id: ProducerIdAndEpoch { id: producer, epoch }, .. }) =
            self.partitions.get(id.0 as usize)
        else {
            return;
        };
        let (producer, epoch) = (*producer, *epoch);
        let cut = first.count();
        let following = match self.config.idempotent {
            true => sequence.map(|base| sequence_arithmetic::wrapping_add(base, cut)),
            false => sequence,
        };
        let halves = [(first, first_charge, place, sequence), (second, second_charge, place + cut, following)];
        for (mut batch, charge, first, sequence) in halves {
            if let Some(base) = sequence {
                batch.set_producer_info(producer, epoch, base);
            }
            let (receipt, last) = (Arc::clone(&receipt), last.clone());
            let half = SendBatch {
                partition: id,
                number,
                first_index: first,
                promise: receipt,
                batch,
                charge,
                sequence,
                topic_id: 0,
                maybe_written: false,
                ambiguous_ranges: doubts.clone(),
                completed: false,
                last_error: last,
            };
            self.requeue(half);
        }
    }
}
