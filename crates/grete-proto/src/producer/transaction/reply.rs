//! Replies to the requests of the transaction manager.

use std::sync::Arc;

use grete_wire::WireError;
use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{
    AddOffsetsToTxnResponse, AddPartitionsToTxnResponse, EndTxnResponse, FindCoordinatorResponse,
    InitProducerIdResponse, TxnOffsetCommitResponse,
};

use super::error::{TransactionCause, TransactionError};
use super::event::{RetryCause, TransactionAction, TransactionLogEvent};
use super::response_class::{RequestKind, ResponseClass, is_member_replaced};
use super::{CONCURRENT_BACKOFF, Pending, Phase, State, TransactionManager};
use crate::ids::NodeId;
use crate::ids::ProducerIdAndEpoch;
use crate::request::{Reply, RequestError, Response};
use crate::time::Nanos;

/// Decoded response.
#[derive(Debug, Default)]
struct Decoded {
    code: ErrorCode,
    /// Topic and partition, or group, of the error.
    place: Box<str>,
    /// Producer of InitProducerId and of EndTxn.
    producer: Option<ProducerIdAndEpoch>,
    /// Number of partitions in the response.
    partitions: usize,
    /// Node, host and port of a coordinator.
    node: Option<(NodeId, Arc<str>, u16)>,
}

impl TransactionManager {
    pub(super) fn on_reply(&mut self, now: Nanos, reply: Reply, out: &mut Vec<TransactionAction>) {
        let Some(pending) = self.pending.take_if(|pending| pending.token == reply.token.id) else { return };
        let kind = pending.kind;
        let decoded = match reply.result {
            Ok(response) => decode(kind, &response, self.coordinators.transactional_id(), &self.place_of(kind))
                .map(|decoded| self.checked(&pending, decoded))
                .map_err(RequestError::Protocol),
            Err(error) => Err(error),
        };
        match decoded {
            Ok(decoded) => self.on_response(now, pending, decoded, out),
            Err(error) => self.on_request_failed(now, pending, error, out),
        }
    }

    /// A response that omits partitions proves nothing about them: the request is repeated.
    fn checked(&self, pending: &Pending, mut decoded: Decoded) -> Decoded {
        let expected = match pending.kind {
            RequestKind::AddPartitions => pending.partitions.len(),
            RequestKind::CommitOffsets => self.contents.offsets.front().map_or(0, |front| front.offsets.len()),
            _ => 0,
        };
        if decoded.code == ErrorCode::NONE && decoded.partitions < expected {
            decoded.code = ErrorCode::REQUEST_TIMED_OUT;
        }
        decoded
    }

    /// Handles a request without a response: the coordinator may have executed it.
    fn on_request_failed(
        &mut self,
        now: Nanos,
        pending: Pending,
        error: RequestError,
        out: &mut Vec<TransactionAction>,
    ) {
        if matches!(error, RequestError::Unsupported { .. } | RequestError::Encode(_)) {
            return self.end(TransactionError::Unsupported(error), out);
        }
        self.contents.is_end_ambiguous |= pending.kind == RequestKind::Commit && error.is_ambiguous();
        self.forget_coordinator(pending.kind);
        self.retry(now, pending, RetryCause::Request(error), None, out);
    }

    /// Sends the request again later, if it is still needed.
    fn retry(
        &mut self,
        now: Nanos,
        pending: Pending,
        cause: RetryCause,
        limit: Option<Nanos>,
        out: &mut Vec<TransactionAction>,
    ) {
        let delay = self.backoff.next_delay(&mut self.rng);
        self.retry_at = now.saturating_add(limit.map_or(delay, |limit| delay.min(limit)));
        if matches!(self.state, State::Open | State::Committing { .. }) {
            let mut wanted = pending.partitions;
            wanted.append(&mut self.contents.wanted);
            self.contents.wanted = wanted;
        }
        if self.next_request().is_some() {
            let request = pending.kind.name();
            out.push(TransactionAction::LogEvent(TransactionLogEvent::Retried { request, cause }));
        }
    }

    fn forget_coordinator(&mut self, kind: RequestKind) {
        match kind {
            RequestKind::FindCoordinator | RequestKind::FindGroupCoordinator => {}
            RequestKind::CommitOffsets => {
                if let Some(front) = self.contents.offsets.front() {
                    self.coordinators.forget_group(&front.group.group_id);
                }
            }
            _ => self.coordinators.forget_transaction(),
        }
    }

    fn on_response(&mut self, now: Nanos, pending: Pending, decoded: Decoded, out: &mut Vec<TransactionAction>) {
        let (kind, code) = (pending.kind, decoded.code);
        // An attempt whose response was lost may have added nothing: there is no transaction to abort.
        let has_nothing = kind == RequestKind::Abort && code == ErrorCode::INVALID_TXN_STATE;
        let class = match has_nothing && self.is_explicit() && !self.contents.is_confirmed {
            true => ResponseClass::Done,
            false => ResponseClass::from_code(kind, code),
        };
        // With `transaction.version` 2, the epoch after a timeout is the one after this transaction: the coordinator takes
        // the commit for the repetition of one that became an abort. An abort gets the new epoch.
        let is_refused_commit = kind == RequestKind::Commit && code == ErrorCode::INVALID_TXN_STATE;
        if is_refused_commit
            && !self.contents.is_end_ambiguous
            && let Some(cause) = self.timed_out(now, code)
        {
            return self.fail(cause, out);
        }
        // A coordinator that loses its place, or its replicas, may have written the commit: NOT_COORDINATOR and
        // COORDINATOR_NOT_AVAILABLE are what Kafka answers when the append fails, too.
        self.contents.is_end_ambiguous |=
            kind == RequestKind::Commit && class.is_retried() && code != ErrorCode::COORDINATOR_LOAD_IN_PROGRESS;
        match class {
            ResponseClass::Done => {
                self.retry_at = 0;
                self.backoff.reset();
                self.on_done(now, pending, decoded, out);
            }
            ResponseClass::Retry => self.retry(now, pending, RetryCause::Code(code), None, out),
            ResponseClass::RetrySoon => {
                self.retry(now, pending, RetryCause::Code(code), Some(CONCURRENT_BACKOFF), out);
            }
            ResponseClass::FindAgain => {
                self.forget_coordinator(kind);
                self.retry(now, pending, RetryCause::Code(code), None, out);
            }
            ResponseClass::Abortable | ResponseClass::AbortableWithoutEnd => {
                self.contents.skips_end |= class == ResponseClass::AbortableWithoutEnd;
                self.on_abortable(kind, code, decoded.place, out);
            }
            ResponseClass::Fenced => {
                let error = self.fenced(now, code);
                self.end(error, out);
            }
            ResponseClass::Unauthorized => {
                let transactional_id = Arc::clone(&self.transactional_id);
                self.end(TransactionError::Unauthorized { transactional_id, code }, out);
            }
            ResponseClass::Fatal => {
                let transactional_id = Arc::clone(&self.transactional_id);
                self.end(TransactionError::Refused { transactional_id, request: kind.name(), code }, out);
            }
        }
    }

    fn on_abortable(&mut self, kind: RequestKind, code: ErrorCode, place: Box<str>, out: &mut Vec<TransactionAction>) {
        // A commit that a lost response leaves open, and that the coordinator now refuses: the outcome is unknown.
        if kind == RequestKind::Commit && self.contents.is_end_ambiguous {
            let transactional_id = Arc::clone(&self.transactional_id);
            return self.end(TransactionError::Refused { transactional_id, request: kind.name(), code }, out);
        }
        let cause = match self.contents.offsets.front() {
            Some(front) if is_member_replaced(code) => {
                TransactionCause::MemberReplaced { group: Arc::clone(&front.group.group_id), code }
            }
            _ => TransactionCause::Refused { request: kind.name(), code, place },
        };
        self.fail(Arc::new(cause), out);
    }

    fn on_done(&mut self, now: Nanos, pending: Pending, decoded: Decoded, out: &mut Vec<TransactionAction>) {
        match pending.kind {
            RequestKind::FindCoordinator | RequestKind::FindGroupCoordinator => {
                let Some((node, host, port)) = decoded.node else { return };
                out.push(TransactionAction::LearnNode { node, host, port });
                if pending.kind == RequestKind::FindCoordinator {
                    self.coordinators.set_transaction(node);
                } else if let Some(front) = self.contents.offsets.front() {
                    self.coordinators.set_group(Arc::clone(&front.group.group_id), node);
                }
            }
            RequestKind::InitProducerId => self.on_initialized(now, decoded.producer, out),
            RequestKind::AddPartitions => {
                self.contents.is_confirmed = true;
                if matches!(self.state, State::Open | State::Committing { .. }) {
                    out.push(TransactionAction::PartitionsAdded(pending.partitions));
                }
            }
            RequestKind::AddOffsets => {
                self.contents.is_confirmed = true;
                if let Some(front) = self.contents.offsets.front() {
                    self.contents.groups.insert(Arc::clone(&front.group.group_id));
                }
            }
            RequestKind::CommitOffsets => {
                self.contents.is_confirmed = true;
                if let Some(front) = self.contents.offsets.pop_front() {
                    out.push(TransactionAction::Done(front.call, Ok(())));
                }
            }
            RequestKind::Commit => {
                self.adopt_epoch(decoded.producer, out);
                self.on_committed(out);
            }
            RequestKind::Abort => {
                let has_new_epoch = self.adopt_epoch(decoded.producer, out);
                match &mut self.state {
                    State::Aborting { phase, .. } if self.contents.has_gap && !has_new_epoch => {
                        *phase = Phase::RaisingEpoch;
                    }
                    _ => self.on_aborted(out),
                }
            }
        }
    }

    /// Adopts the producer id and epoch of an EndTxn response. Returns false if it has none (before version 5).
    fn adopt_epoch(&mut self, producer: Option<ProducerIdAndEpoch>, out: &mut Vec<TransactionAction>) -> bool {
        let Some(identity) = producer.filter(|_| !self.is_explicit()) else { return false };
        self.identity = Some(identity);
        out.push(TransactionAction::Identity { identity, explicit: false });
        true
    }

    fn on_initialized(&mut self, now: Nanos, producer: Option<ProducerIdAndEpoch>, out: &mut Vec<TransactionAction>) {
        // Ended meanwhile, by a close or an error of the sender.
        if !matches!(self.state, State::Initializing(_) | State::Aborting { phase: Phase::RaisingEpoch, .. }) {
            return;
        }
        let Some(identity) = producer else {
            // A response without a valid id or epoch: retry.
            self.retry_at = now.saturating_add(self.backoff.next_delay(&mut self.rng));
            return;
        };
        self.identity = Some(identity);
        self.version = self.cluster_version;
        let (explicit, version) = (self.is_explicit(), self.version);
        out.push(TransactionAction::Identity { identity, explicit });
        let ProducerIdAndEpoch { id: producer_id, epoch } = identity;
        let event = TransactionLogEvent::Initialized { producer_id, epoch, version };
        out.push(TransactionAction::LogEvent(event));
        match &mut self.state {
            State::Initializing(calls) => {
                let calls = std::mem::take(calls);
                self.state = State::Ready;
                for (id, begins) in calls {
                    let result = match begins {
                        true if matches!(self.state, State::Open) => Err(TransactionError::AlreadyOpen),
                        true => {
                            self.open(now, out);
                            Ok(())
                        }
                        false => Ok(()),
                    };
                    out.push(TransactionAction::Done(id, result));
                }
            }
            _ => self.on_aborted(out),
        }
    }
}

/// Decodes a response. A response for several partitions has the error that matters most.
fn decode(kind: RequestKind, response: &Response, transactional_id: &str, group: &str) -> Result<Decoded, WireError> {
    let mut decoded = Decoded { place: group.into(), ..Decoded::default() };
    match kind {
        RequestKind::FindCoordinator | RequestKind::FindGroupCoordinator => {
            let answer = response.decode(FindCoordinatorResponse::decode)?;
            let key = if kind == RequestKind::FindCoordinator { transactional_id } else { group };
            // A response without the key: look again.
            decoded.code = ErrorCode::COORDINATOR_NOT_AVAILABLE;
            if let Some(found) = answer.coordinators.iter().find(|found| *found.key == *key) {
                decoded.code = ErrorCode(found.error_code);
                decoded.node =
                    u16::try_from(found.port).ok().map(|port| (found.node_id, Arc::from(&*found.host), port));
                if decoded.code == ErrorCode::NONE && decoded.node.is_none() {
                    decoded.code = ErrorCode::COORDINATOR_NOT_AVAILABLE;
                }
            }
        }
        RequestKind::InitProducerId => {
            let answer = response.decode(InitProducerIdResponse::decode)?;
            decoded.code = ErrorCode(answer.error_code);
            decoded.producer = producer(answer.producer_id, answer.producer_epoch);
        }
        RequestKind::AddPartitions => {
            let answer = response.decode(AddPartitionsToTxnResponse::decode)?;
            for topic in &answer.results_by_topic_v3_and_below {
                for result in &topic.results_by_partition {
                    let code = ErrorCode(result.partition_error_code);
                    worst(kind, &mut decoded, code, || format!("{}[{}]", topic.name, result.partition_index));
                }
            }
        }
        RequestKind::AddOffsets => {
            decoded.code = ErrorCode(response.decode(AddOffsetsToTxnResponse::decode)?.error_code);
        }
        RequestKind::CommitOffsets => {
            let answer = response.decode(TxnOffsetCommitResponse::decode)?;
            for topic in &answer.topics {
                for result in &topic.partitions {
                    let code = ErrorCode(result.error_code);
                    worst(kind, &mut decoded, code, || {
                        format!("group {group}, {}[{}]", topic.name, result.partition_index)
                    });
                }
            }
        }
        RequestKind::Commit | RequestKind::Abort => {
            let answer = response.decode(EndTxnResponse::decode)?;
            decoded.code = ErrorCode(answer.error_code);
            if response.version > 4 {
                decoded.producer = producer(answer.producer_id, answer.producer_epoch);
            }
        }
    }
    Ok(decoded)
}

/// Keeps the code with the gravest consequence. Partitions that were only not attempted say nothing.
fn worst(kind: RequestKind, decoded: &mut Decoded, code: ErrorCode, place: impl FnOnce() -> String) {
    let rank = |code: ErrorCode| match ResponseClass::from_code(kind, code) {
        _ if code == ErrorCode::OPERATION_NOT_ATTEMPTED => 1,
        ResponseClass::Done => 0,
        ResponseClass::RetrySoon => 2,
        ResponseClass::Retry => 3,
        ResponseClass::FindAgain => 4,
        ResponseClass::Abortable => 5,
        ResponseClass::AbortableWithoutEnd => 6,
        ResponseClass::Fatal => 7,
        ResponseClass::Unauthorized => 8,
        ResponseClass::Fenced => 9,
    };
    decoded.partitions += 1;
    if rank(code) > rank(decoded.code) {
        (decoded.code, decoded.place) = (code, place().into());
    }
}

fn producer(id: i64, epoch: i16) -> Option<ProducerIdAndEpoch> {
    (id >= 0 && epoch >= 0).then_some(ProducerIdAndEpoch { id, epoch })
}
