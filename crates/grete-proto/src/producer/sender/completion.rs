//! Completion of batches: sets the final result, wakes the waiters and releases the memory.

use std::sync::Arc;

use grete_wire::error::WireError;
use grete_wire::error_code::ErrorCode;

use super::Sender;
use super::batch::SendBatch;
use super::drop_summary::DropCause;
use crate::ids::{PartitionId, TopicPartition};
use crate::producer::accumulator::{AssignmentFailure, BatchOwner, UnassignedRecord, UnsentBatch, lock};
use crate::producer::batch_promise::{BatchPromise, Outcome, RunResult};
use crate::producer::error::{LastError, ProduceError};
use crate::producer::sender::event::{DropReason, SenderAction};
use crate::producer::transaction::TransactionCause;
use crate::request::NO_NODE;
use crate::time::{MILLI, Nanos};

/// Interval to check batches that wait for a socket.
const WRITE_CHECK_INTERVAL: Nanos = 5 * MILLI;
/// Up to this number of waiting batches, every step checks all of them.
const MAX_UNWRITTEN_SCAN: usize = 16;

impl Sender {
    /// Completes a batch with its final result. Has no effect if the batch is complete already.
    #[expect(clippy::too_many_arguments, reason = "what a settlement is made of")]
    pub(super) fn complete(
        &mut self,
        now: Nanos,
        piece: &mut SendBatch,
        outcome: Outcome,
        offset: Option<i64>,
        timestamp: Option<i64>,
        error: Option<ProduceError>,
        out: &mut Vec<SenderAction>,
    ) {
        if std::mem::replace(&mut piece.completed, true) {
            return;
        }
        let records = piece.batch.count();
        let error = error.map(Arc::new);
        self.note_failure(error.as_ref());
        let settlement = RunResult { outcome, offset, timestamp, error, at: now };
        self.count(outcome, records);
        let on_awaited = |promise| out.push(SenderAction::Completed(promise));
        match self.split_open_records.get_mut(&piece.number) {
            None => {
                lock(&self.accumulator).complete(piece.number, records, true);
                piece.promise.complete(settlement, on_awaited);
            }
            Some(left) => {
                *left = left.saturating_sub(records);
                let last = *left == 0;
                if last {
                    self.split_open_records.remove(&piece.number);
                }
                lock(&self.accumulator).complete(piece.number, records, last);
                piece.promise.complete_part(piece.first_index, records, settlement, last, on_awaited);
            }
        }
    }

    /// Completes a batch that was never sent.
    fn complete_unsent(
        &mut self,
        now: Nanos,
        fresh: UnsentBatch,
        error: ProduceError,
        why: &DropCause,
        out: &mut Vec<SenderAction>,
    ) {
        let (records, charge) = (fresh.builder.count(), fresh.charge());
        let UnsentBatch { number, promise: receipt, builder } = fresh;
        let outcome = why.outcome(false);
        self.count(outcome, records);
        let error = Arc::new(error);
        self.note_failure(Some(&error));
        let mut accumulator = lock(&self.accumulator);
        accumulator.complete(number, records, true);
        accumulator.release_batch(charge, Some(builder.into_buffer()));
        drop(accumulator);
        receipt.complete(failed(now, outcome, error), |promise| out.push(SenderAction::Completed(promise)));
    }

    /// Completes records that have waited too long for the metadata of their topics.
    pub(super) fn fail_overdue(&mut self, now: Nanos, out: &mut Vec<SenderAction>) {
        // The search for a similar name is done once for each topic: thousands of records may fail in one step.
        let mut searched: Option<(Arc<str>, Option<Arc<str>>)> = None;
        loop {
            let mut accumulator = lock(&self.accumulator);
            let Some((record, mut failure)) = accumulator.take_overdue(now) else { return };
            if let AssignmentFailure::NoTopic(similar) = &mut failure {
                let topic = record.promise.topic();
                let (_, found) = searched
                    .take_if(|(other, _)| other == topic)
                    .unwrap_or_else(|| (Arc::clone(topic), accumulator.similar_topic(topic).cloned()));
                similar.clone_from(&found);
                searched = Some((Arc::clone(topic), found));
            }
            drop(accumulator);
            self.fail_assignment(now, &record, failure, out);
        }
    }

    /// Completes a record that cannot be moved to a partition.
    pub(super) fn fail_assignment(
        &mut self,
        now: Nanos,
        record: &UnassignedRecord,
        failure: AssignmentFailure,
        out: &mut Vec<SenderAction>,
    ) {
        let topic = Arc::clone(record.promise.topic());
        let (error, reason) = match failure {
            AssignmentFailure::NoTopic(similar) => (
                ProduceError::MissingTopic { topic, similar },
                DropReason::Refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            ),
            AssignmentFailure::NoPartition(partition) => (
                ProduceError::UnknownTopic { topic, partition },
                DropReason::Refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            ),
            AssignmentFailure::Refused(code) => (self.refusal(topic, -1, code, None), DropReason::Refused(code)),
            AssignmentFailure::TimedOut(waited, last) => (
                ProduceError::MetadataTimeout { topic, waited, last: last.map(LastError::Code) },
                DropReason::NoMetadata,
            ),
            AssignmentFailure::Encode(cause) => {
                (ProduceError::Encode { topic, partition: -1, cause }, DropReason::Refused(ErrorCode::INVALID_RECORD))
            }
        };
        self.complete_unassigned(now, record, error, reason, out);
    }

    fn complete_unassigned(
        &mut self,
        now: Nanos,
        record: &UnassignedRecord,
        error: ProduceError,
        reason: DropReason,
        out: &mut Vec<SenderAction>,
    ) {
        let outcome = if reason == DropReason::Aborted { Outcome::Aborted } else { Outcome::NotWritten };
        self.count(outcome, 1);
        let error = Arc::new(error);
        self.note_failure(Some(&error));
        lock(&self.accumulator).release_unassigned(record);
        self.dropped.add(reason, &TopicPartition::new(Arc::clone(record.promise.topic()), -1), 1, false);
        record.promise.complete(failed(now, outcome, error), |promise| out.push(SenderAction::Completed(promise)));
    }

    /// Completes a batch that could not be encoded.
    #[expect(clippy::too_many_arguments, reason = "the parts of a batch that is gone")]
    pub(super) fn fail_unencodable(
        &mut self,
        now: Nanos,
        number: u64,
        receipt: &Arc<BatchPromise>,
        records: u32,
        charge: usize,
        cause: WireError,
        out: &mut Vec<SenderAction>,
    ) {
        self.count(Outcome::NotWritten, records);
        let mut accumulator = lock(&self.accumulator);
        accumulator.complete(number, records, true);
        accumulator.release_batch(charge, None);
        drop(accumulator);
        let (topic, partition) = (Arc::clone(receipt.topic()), receipt.partition());
        let error = Arc::new(ProduceError::Encode { topic, partition, cause });
        self.note_failure(Some(&error));
        receipt.complete(failed(now, Outcome::NotWritten, error), |promise| out.push(SenderAction::Completed(promise)));
    }

    /// Releases the memory of a batch that is not needed any more.
    pub(super) fn release_batch(&mut self, piece: SendBatch) {
        lock(&self.accumulator).release_batch(piece.charge, piece.batch.into_buffer());
    }

    /// Keeps the memory of a batch without a response (`acks=0`) until its socket has written it.
    pub(super) fn hold_until_written(&mut self, now: Nanos, piece: SendBatch) {
        if self.awaiting_write.is_empty() {
            self.next_write_check = now.saturating_add(WRITE_CHECK_INTERVAL);
        }
        self.awaiting_write.push(piece);
    }

    /// Releases batches without a response (`acks=0`) once their bytes are written. Until then they count as memory:
    /// otherwise a producer without acknowledgments could fill the process memory with unwritten batches.
    pub(super) fn release_written(&mut self, now: Nanos) {
        if self.awaiting_write.is_empty()
            || (self.awaiting_write.len() > MAX_UNWRITTEN_SCAN && now < self.next_write_check)
        {
            return;
        }
        self.next_write_check = now.saturating_add(WRITE_CHECK_INTERVAL);
        let is_written = |piece: &mut SendBatch| Arc::strong_count(piece.batch.bytes()) == 1;
        let written: Vec<SendBatch> = self.awaiting_write.extract_if(.., is_written).collect();
        for piece in written {
            self.release_batch(piece);
        }
    }

    /// Drops batches whose `delivery.timeout.ms` expired.
    pub(super) fn expire_batches(&mut self, now: Nanos, out: &mut Vec<SenderAction>) {
        loop {
            let Some((number, owner)) = lock(&self.accumulator).expired(now) else { return };
            self.drop_incomplete(now, number, owner, &DropCause::Expired, out);
        }
    }

    /// Drops all batches.
    pub(super) fn drop_all(&mut self, now: Nanos, why: &DropCause, out: &mut Vec<SenderAction>) {
        loop {
            let Some((number, owner)) = lock(&self.accumulator).oldest() else { return };
            self.drop_incomplete(now, number, owner, why, out);
        }
    }

    fn drop_incomplete(
        &mut self,
        now: Nanos,
        number: u64,
        owner: BatchOwner,
        why: &DropCause,
        out: &mut Vec<SenderAction>,
    ) {
        match owner {
            BatchOwner::Partition(id) => self.drop_batch(now, number, id, why, out),
            BatchOwner::Topic(id) => {
                let record = lock(&self.accumulator).take_unassigned(id, Some(number));
                if let Some(record) = record {
                    let error = self.error(&record.promise, why, Some(LastError::NoMetadata));
                    self.complete_unassigned(now, &record, error, why.reason(), out);
                }
            }
        }
        // Removes the entry in every case, even if no batch was found.
        lock(&self.accumulator).complete(number, 0, true);
    }

    /// Drops the unsent batches of a partition. Batches in flight get their response.
    pub(super) fn drop_partition(&mut self, now: Nanos, id: PartitionId, why: &DropCause, out: &mut Vec<SenderAction>) {
        loop {
            let Some(fresh) = lock(&self.accumulator).remove_any(id) else { break };
            let error = self.error(&fresh.promise, why, None);
            self.record_drop(id, why, fresh.builder.count(), false);
            self.complete_unsent(now, fresh, error, why, out);
        }
        let pieces = self.partition_mut(id).map(|lane| std::mem::take(&mut lane.retry)).unwrap_or_default();
        for piece in pieces {
            self.drop_send_batch(now, piece, why, out);
        }
    }

    /// Drops a batch, wherever it is.
    fn drop_batch(&mut self, now: Nanos, number: u64, id: PartitionId, why: &DropCause, out: &mut Vec<SenderAction>) {
        let fresh = lock(&self.accumulator).remove(number, id);
        if let Some(fresh) = fresh {
            let error = self.error(&fresh.promise, why, self.blocking_error(id));
            self.record_drop(id, why, fresh.builder.count(), false);
            self.complete_unsent(now, fresh, error, why, out);
        } else {
            let mut pieces = Vec::new();
            if let Some(lane) = self.partition_mut(id) {
                while let Some(at) = lane.retry.iter().position(|piece| piece.number == number) {
                    pieces.extend(lane.retry.remove(at));
                }
            }
            for piece in pieces {
                self.drop_send_batch(now, piece, why, out);
            }
            self.drop_in_flight(now, number, id, why, out);
        }
    }

    fn drop_send_batch(&mut self, now: Nanos, mut piece: SendBatch, why: &DropCause, out: &mut Vec<SenderAction>) {
        let error = self.error(&piece.promise, why, piece.last_error.clone());
        let outcome = why.outcome(piece.is_ambiguous());
        self.record_drop(piece.partition, why, piece.batch.count(), piece.is_ambiguous());
        self.complete(now, &mut piece, outcome, None, None, Some(error), out);
        if piece.sequence.is_some() {
            self.requeue(piece); // its sequence numbers must be resolved
        } else {
            self.release_batch(piece);
        }
    }

    /// Completes a batch in flight for the user. The request continues, because its response determines the next
    /// sequence number.
    fn drop_in_flight(
        &mut self,
        now: Nanos,
        number: u64,
        id: PartitionId,
        why: &DropCause,
        out: &mut Vec<SenderAction>,
    ) {
        if self.partition_mut(id).is_none_or(|lane| lane.in_flight.iter().all(|&(other, _)| other != number)) {
            return;
        }
        let tokens: Vec<u32> = self.requests.keys().copied().collect();
        for token in tokens {
            let Some(mut request) = self.requests.remove(&token) else { continue };
            for piece in request.batches.iter_mut().filter(|piece| piece.number == number && !piece.completed) {
                let error = self.error(&piece.promise, why, Some(LastError::AwaitingResponse));
                self.record_drop(id, why, piece.batch.count(), true);
                self.complete(now, piece, why.outcome(true), None, None, Some(error), out);
            }
            self.requests.insert(token, request);
        }
    }

    /// Returns the error that currently prevents the partition's batches from being sent.
    fn blocking_error(&self, id: PartitionId) -> Option<LastError> {
        let lane = self.partitions.get(id.0 as usize)?;
        if lane.leader == NO_NODE {
            return Some(LastError::NoLeader);
        }
        if let Some(head) = lane.retry.front() {
            return head.last_error.clone();
        }
        if self.config.idempotent && self.producer_ids.current.is_none() {
            return Some(LastError::NoProducerId);
        }
        let unreachable =
            self.broker_queues.iter().any(|node| node.id == lane.leader && node.connect_requested_until > 0);
        unreachable.then_some(LastError::NotConnected(lane.leader))
    }

    /// Converts a broker's error code into the error for the user.
    pub(super) fn rejection_error(&self, piece: &SendBatch, code: ErrorCode, message: Option<String>) -> ProduceError {
        let (topic, partition) = (Arc::clone(piece.promise.topic()), piece.promise.partition());
        match code {
            ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE => {
                ProduceError::TooLarge { topic, partition, bytes: piece.batch.len(), code }
            }
            code => self.refusal(topic, partition, code, message),
        }
    }

    fn refusal(&self, topic: Arc<str>, partition: i32, code: ErrorCode, message: Option<String>) -> ProduceError {
        match code {
            ErrorCode::TOPIC_AUTHORIZATION_FAILED
            | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
            | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED => {
                ProduceError::Authorization { topic, partition, code, user: self.config.principal.user() }
            }
            code => ProduceError::Broker { topic, partition, code, message },
        }
    }

    fn error(&self, receipt: &BatchPromise, why: &DropCause, last: Option<LastError>) -> ProduceError {
        let (topic, partition) = (Arc::clone(receipt.topic()), receipt.partition());
        match why {
            DropCause::Expired => match last {
                Some(LastError::Code(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID)) => {
                    ProduceError::UnknownTopic { topic, partition }
                }
                last => ProduceError::DeliveryTimeout { topic, partition, timeout: self.config.delivery_timeout, last },
            },
            DropCause::Closed => ProduceError::Closed { topic, partition, last },
            DropCause::Fatal(cause) => ProduceError::Fatal { topic, partition, cause: cause.clone() },
            DropCause::Refused(code) => self.refusal(topic, partition, *code, None),
            DropCause::Aborted(cause) => ProduceError::Aborted { topic, partition, cause: Arc::clone(cause) },
        }
    }

    /// Remembers the first error of a transaction's records, for the transaction manager.
    fn note_failure(&mut self, error: Option<&Arc<ProduceError>>) {
        if self.config.transactional_id.is_some()
            && self.transaction_failure.is_none()
            && let Some(error) = error
            && !matches!(**error, ProduceError::Aborted { .. } | ProduceError::Fatal { .. })
        {
            self.transaction_failure =
                Some(Arc::new(TransactionCause::Undelivered { message: error.to_string().into(), code: error.code() }));
        }
    }

    /// Adds dropped records to the log summary of this step.
    pub(super) fn record_drop(&mut self, id: PartitionId, why: &DropCause, records: u32, unknown: bool) {
        let Some(lane) = self.partitions.get(id.0 as usize) else { return };
        self.dropped.add(why.reason(), &lane.tp, records, unknown);
    }

    fn count(&mut self, outcome: Outcome, records: u32) {
        let counter = match outcome {
            Outcome::Written => &mut self.stats.written,
            Outcome::NotWritten => &mut self.stats.not_written,
            Outcome::Unknown => &mut self.stats.unknown,
            Outcome::Aborted => &mut self.stats.aborted,
        };
        *counter += u64::from(records);
    }
}

fn failed(now: Nanos, outcome: Outcome, error: Arc<ProduceError>) -> RunResult {
    RunResult { outcome, offset: None, timestamp: None, error: Some(error), at: now }
}
