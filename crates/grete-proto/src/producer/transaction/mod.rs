//! Transaction manager: the transactions of one producer (KIP-98), without I/O.
//!
//! ```text
//! Uninitialized --init--> Initializing --> Ready --begin--> Open --commit--> Committing --> Ready
//!                              ^                             |                   |
//!                              | another epoch is needed     | error             | error before EndTxn
//!                              |                             v                   v
//!                              +------------- Ready <---- Aborting <--abort-- Failed
//! ```
//!
//! Not obvious:
//! - One request is in flight at a time, so that their order at the coordinator is that of sending.
//! - The accumulator refuses records outside of `Open`, under its own lock. No record can join a transaction that ends.
//! - A transaction ends only when no batch is in flight (`Settled`). A late batch would otherwise arrive after the
//!   marker, and open the transaction again.
//! - Once EndTxn for a commit was sent, only its answer counts: the producer repeats the commit and never aborts
//!   (KAFKA-17754).
//! - The finalized feature `transaction.version` selects the protocol, not the versions of the APIs (P40). With 2,
//!   brokers add partitions and groups by themselves, and each EndTxn returns another epoch (KIP-890). The protocol
//!   changes between transactions only, and with a new epoch.

mod call;
mod coordinator;
mod error;
mod event;
mod reply;
mod request;
mod response_class;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

pub use error::{TransactionCause, TransactionError};
pub use event::{
    CallId, GroupMetadata, RetryCause, TransactionAction, TransactionCall, TransactionEvent, TransactionGate,
    TransactionLogEvent, TransactionOffset,
};

use self::coordinator::Coordinators;
use self::response_class::RequestKind;
use crate::backoff::Backoff;
use crate::ids::ProducerIdAndEpoch;
use crate::ids::{NodeId, TopicPartition};
use crate::producer::config::ProduceConfig;
use crate::rng::Rng;
use crate::time::{MILLI, Nanos};

/// First level of `transaction.version` at which brokers add partitions by themselves (KIP-890).
const IMPLICIT_VERSION: i16 = 2;

/// Longest wait while the markers of the transaction before are written, which takes milliseconds.
const CONCURRENT_BACKOFF: Nanos = 20 * MILLI;

/// Phase of the end of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Batches are in flight.
    Settling,
    /// EndTxn is due or in flight.
    Ending,
    /// InitProducerId is due or in flight: the epoch has lost sequence numbers.
    RaisingEpoch,
}

#[derive(Debug)]
enum State {
    Uninitialized,
    /// A producer id or epoch is requested, for the calls; `true`: the call begins a transaction.
    Initializing(Vec<(CallId, bool)>),
    Ready,
    Open,
    /// The transaction can only be aborted.
    Failed(Arc<TransactionCause>),
    Committing {
        phase: Phase,
        calls: Vec<CallId>,
    },
    /// `true`: the call commits, so it gets the cause as its error.
    Aborting {
        phase: Phase,
        cause: Arc<TransactionCause>,
        calls: Vec<(CallId, bool)>,
    },
    /// The producer cannot continue.
    Ended(TransactionError),
}

/// Offsets that a call makes part of the transaction.
#[derive(Debug)]
struct OffsetsCall {
    call: CallId,
    group: Arc<GroupMetadata>,
    offsets: Vec<TransactionOffset>,
}

/// Request in flight.
#[derive(Debug)]
struct Pending {
    token: u32,
    kind: RequestKind,
    /// Partitions of AddPartitionsToTxn.
    partitions: Vec<TopicPartition>,
}

/// State of the open transaction.
#[derive(Debug, Default)]
struct Contents {
    /// Partitions to add.
    wanted: Vec<TopicPartition>,
    offsets: VecDeque<OffsetsCall>,
    /// Groups that AddOffsetsToTxn has added.
    groups: BTreeSet<Arc<str>>,
    /// A coordinator may have the transaction, so that EndTxn is needed.
    is_started: bool,
    /// A coordinator certainly has the transaction.
    is_confirmed: bool,
    /// An EndTxn for a commit may have been executed, although no answer says so.
    is_end_ambiguous: bool,
    /// The coordinator does not know the producer id: it would refuse EndTxn.
    skips_end: bool,
    /// Sequence numbers were lost.
    has_gap: bool,
    began_at: Nanos,
}

/// State machine of the transactions of one producer; see the module documentation.
#[derive(Debug)]
pub struct TransactionManager {
    transactional_id: Arc<str>,
    timeout: Nanos,
    request_timeout: Nanos,
    rng: Rng,
    state: State,
    /// Level of `transaction.version` that the cluster has finalized.
    cluster_version: i16,
    /// Level that the current epoch is used with.
    version: i16,
    identity: Option<ProducerIdAndEpoch>,
    coordinators: Coordinators,
    pending: Option<Pending>,
    next_token: u32,
    retry_at: Nanos,
    backoff: Backoff,
    contents: Contents,
    /// Result of a commit that no call has received.
    unreported: Option<Result<(), TransactionError>>,
    is_closing: bool,
}

impl TransactionManager {
    /// Creates a manager that sends nothing before the first call. `config` must have a `transactional.id`.
    pub fn new(config: &ProduceConfig, rng: Rng) -> Self {
        let transactional_id = config.transactional_id.clone().unwrap_or_default();
        Self {
            coordinators: Coordinators::new(Arc::clone(&transactional_id)),
            transactional_id,
            timeout: config.transaction_timeout,
            request_timeout: config.request_timeout,
            rng,
            state: State::Uninitialized,
            cluster_version: 0,
            version: 0,
            identity: None,
            pending: None,
            next_token: 0,
            retry_at: 0,
            backoff: Backoff::new(config.retry_backoff, config.retry_backoff_max),
            contents: Contents::default(),
            unreported: None,
            is_closing: false,
        }
    }

    /// Handles one event and appends the resulting actions to `out`.
    pub fn step(&mut self, now: Nanos, event: TransactionEvent, out: &mut Vec<TransactionAction>) {
        match event {
            TransactionEvent::Tick => {}
            TransactionEvent::Version(version) => self.cluster_version = version,
            TransactionEvent::Call(id, call) => self.on_call(now, id, call, out),
            TransactionEvent::PartitionsWanted(partitions) => self.on_partitions_wanted(partitions, out),
            TransactionEvent::BatchFailed(cause) => self.on_batch_failed(now, cause, out),
            TransactionEvent::Settled { gap } => self.on_settled(gap),
            TransactionEvent::Reply(reply) => self.on_reply(now, reply, out),
            TransactionEvent::Close => self.on_close(out),
        }
        self.advance(now, out);
    }

    /// Returns the time of the next `Tick`; `None`: no timer is running.
    pub fn deadline(&self) -> Option<Nanos> {
        (self.pending.is_none() && self.next_request().is_some()).then_some(self.retry_at)
    }

    /// Returns whether `Settled` is needed to continue.
    pub fn awaits_settled(&self) -> bool {
        matches!(
            self.state,
            State::Committing { phase: Phase::Settling, .. } | State::Aborting { phase: Phase::Settling, .. }
        )
    }

    /// Returns whether the producer may close: no transaction is open.
    pub fn is_at_rest(&self) -> bool {
        matches!(self.state, State::Uninitialized | State::Ready | State::Ended(_))
    }

    fn is_explicit(&self) -> bool {
        self.version < IMPLICIT_VERSION
    }

    /// Returns the request to send next, unless one is in flight.
    fn next_request(&self) -> Option<RequestKind> {
        match &self.state {
            State::Initializing(_) | State::Aborting { phase: Phase::RaisingEpoch, .. } => {
                Some(RequestKind::InitProducerId)
            }
            State::Open | State::Committing { phase: Phase::Settling | Phase::Ending, .. } => {
                if !self.contents.wanted.is_empty() {
                    return Some(RequestKind::AddPartitions);
                }
                match self.contents.offsets.front() {
                    Some(front) if self.is_explicit() && !self.contents.groups.contains(&front.group.group_id) => {
                        Some(RequestKind::AddOffsets)
                    }
                    Some(_) => Some(RequestKind::CommitOffsets),
                    None => matches!(self.state, State::Committing { phase: Phase::Ending, .. })
                        .then_some(RequestKind::Commit),
                }
            }
            State::Aborting { phase: Phase::Ending, .. } => Some(RequestKind::Abort),
            _ => None,
        }
    }

    /// Performs what has become possible: ends without a request, and the next request.
    fn advance(&mut self, now: Nanos, out: &mut Vec<TransactionAction>) {
        if self.pending.is_some() {
            return;
        }
        match &mut self.state {
            State::Committing { phase: Phase::Ending, .. }
                if !self.contents.is_started && self.contents.offsets.is_empty() =>
            {
                self.on_committed(out);
            }
            State::Aborting { phase, .. } if *phase == Phase::Ending && !self.contents.is_started => {
                if self.contents.has_gap {
                    *phase = Phase::RaisingEpoch;
                } else {
                    self.on_aborted(out);
                }
            }
            State::Aborting { phase, .. } if *phase == Phase::Ending && self.contents.skips_end => {
                *phase = Phase::RaisingEpoch;
            }
            _ => {}
        }
        if let Some(kind) = self.next_request().filter(|_| now >= self.retry_at) {
            self.send(kind, out);
        }
    }

    fn on_partitions_wanted(&mut self, partitions: Vec<TopicPartition>, out: &mut Vec<TransactionAction>) {
        if !matches!(self.state, State::Open | State::Committing { phase: Phase::Settling, .. }) {
            return;
        }
        self.contents.is_started = true;
        if self.is_explicit() {
            self.contents.wanted.extend(partitions);
        } else {
            // The first batch adds the partition.
            out.push(TransactionAction::PartitionsAdded(partitions));
        }
    }

    fn on_settled(&mut self, gap: bool) {
        self.contents.has_gap |= gap;
        match &mut self.state {
            State::Committing { phase, .. } | State::Aborting { phase, .. } if *phase == Phase::Settling => {
                *phase = Phase::Ending;
            }
            _ => {}
        }
    }

    fn on_close(&mut self, out: &mut Vec<TransactionAction>) {
        self.is_closing = true;
        match &self.state {
            State::Open | State::Failed(_) => self.begin_abort(Arc::new(TransactionCause::Closed), Vec::new(), out),
            State::Initializing(calls) => {
                let calls: Vec<CallId> = calls.iter().map(|(id, _)| *id).collect();
                self.state = State::Ended(TransactionError::Closed);
                out.extend(calls.into_iter().map(|id| TransactionAction::Done(id, Err(TransactionError::Closed))));
            }
            _ => {}
        }
    }

    /// Opens a transaction.
    fn open(&mut self, now: Nanos, out: &mut Vec<TransactionAction>) {
        self.contents = Contents { began_at: now, ..Contents::default() };
        self.unreported = None;
        self.state = State::Open;
        out.push(TransactionAction::Gate(TransactionGate::Open));
    }

    /// Makes the open transaction one that can only be aborted. A commit that was not sent becomes an abort.
    fn fail(&mut self, cause: Arc<TransactionCause>, out: &mut Vec<TransactionAction>) {
        let calls = match &mut self.state {
            State::Open => None,
            State::Committing { calls, .. } => Some(std::mem::take(calls)),
            _ => return,
        };
        out.push(TransactionAction::LogEvent(TransactionLogEvent::Failed(Arc::clone(&cause))));
        self.state = State::Failed(Arc::clone(&cause));
        match calls {
            None => {
                self.give_up_contents(&cause, out);
                out.push(TransactionAction::Gate(TransactionGate::Failed(Arc::clone(&cause))));
                out.push(TransactionAction::Drop(cause));
            }
            Some(calls) => self.begin_abort(cause, calls.into_iter().map(|id| (id, true)).collect(), out),
        }
    }

    /// Begins to abort for the calls.
    fn begin_abort(
        &mut self,
        cause: Arc<TransactionCause>,
        calls: Vec<(CallId, bool)>,
        out: &mut Vec<TransactionAction>,
    ) {
        self.give_up_contents(&cause, out);
        // The request that failed must not delay the abort by its backoff.
        self.retry_at = 0;
        self.state = State::Aborting { phase: Phase::Settling, cause: Arc::clone(&cause), calls };
        out.push(TransactionAction::Gate(TransactionGate::Ending));
        out.push(TransactionAction::Drop(cause));
    }

    /// Gives up requests that were not sent.
    fn give_up_contents(&mut self, cause: &Arc<TransactionCause>, out: &mut Vec<TransactionAction>) {
        self.contents.wanted.clear();
        for OffsetsCall { call, .. } in self.contents.offsets.drain(..) {
            out.push(TransactionAction::Done(call, Err(TransactionError::Failed(Arc::clone(cause)))));
        }
    }

    fn on_committed(&mut self, out: &mut Vec<TransactionAction>) {
        if let State::Committing { calls, .. } = std::mem::replace(&mut self.state, State::Ready) {
            self.report(calls.into_iter().map(|id| (id, Ok(()))), Ok(()), out);
        }
        self.backoff.reset();
        out.push(TransactionAction::Gate(TransactionGate::Closed));
        out.push(TransactionAction::LogEvent(TransactionLogEvent::Committed));
    }

    fn on_aborted(&mut self, out: &mut Vec<TransactionAction>) {
        if let State::Aborting { calls, cause, .. } = std::mem::replace(&mut self.state, State::Ready) {
            let aborted = || Err(TransactionError::Aborted(Arc::clone(&cause)));
            let results = calls.into_iter().map(|(id, commits)| (id, if commits { aborted() } else { Ok(()) }));
            self.report(results, aborted(), out);
            out.push(TransactionAction::LogEvent(TransactionLogEvent::Aborted(cause)));
        }
        self.backoff.reset();
        out.push(TransactionAction::Gate(TransactionGate::Closed));
    }

    /// Completes the calls that wait for the end; without one, keeps the result for the next call.
    fn report(
        &mut self,
        results: impl Iterator<Item = (CallId, Result<(), TransactionError>)>,
        unreported: Result<(), TransactionError>,
        out: &mut Vec<TransactionAction>,
    ) {
        let before = out.len();
        out.extend(results.map(|(id, result)| TransactionAction::Done(id, result)));
        self.unreported = (out.len() == before).then_some(unreported);
    }

    /// Ends the producer.
    fn end(&mut self, error: TransactionError, out: &mut Vec<TransactionAction>) {
        // A commit that may have been written is not known as failed.
        let is_uncertain = self.contents.is_end_ambiguous && matches!(self.state, State::Committing { .. });
        let error = if is_uncertain { TransactionError::CommitUnknown(Box::new(error)) } else { error };
        let mut calls: Vec<CallId> = self.contents.offsets.drain(..).map(|offsets| offsets.call).collect();
        match std::mem::replace(&mut self.state, State::Ended(error.clone())) {
            State::Initializing(waiting) | State::Aborting { calls: waiting, .. } => {
                calls.extend(waiting.into_iter().map(|(id, _)| id));
            }
            State::Committing { calls: waiting, .. } => calls.extend(waiting),
            State::Ended(first) => self.state = State::Ended(first),
            State::Uninitialized | State::Ready | State::Open | State::Failed(_) => {}
        }
        out.extend(calls.into_iter().map(|id| TransactionAction::Done(id, Err(error.clone()))));
        out.push(TransactionAction::Fatal(error));
    }

    /// Returns the error of a producer that another one has replaced.
    fn fenced(&self, now: Nanos, code: grete_wire::error_code::ErrorCode) -> TransactionError {
        let is_open = !matches!(self.state, State::Uninitialized | State::Initializing(_) | State::Ready);
        TransactionError::Fenced {
            transactional_id: Arc::clone(&self.transactional_id),
            code,
            open: is_open.then(|| now.saturating_sub(self.contents.began_at)),
            timeout: self.timeout,
        }
    }

    /// Returns the cause of a transaction that was open for longer than the coordinator lets it be; `None`: it was not.
    fn timed_out(&self, now: Nanos, code: grete_wire::error_code::ErrorCode) -> Option<Arc<TransactionCause>> {
        let (open, timeout) = (now.saturating_sub(self.contents.began_at), self.timeout);
        (open >= timeout).then(|| Arc::new(TransactionCause::TimedOut { open, timeout, code }))
    }

    /// Returns the node of the coordinator that a request goes to; `None`: it must be looked up.
    fn coordinator_of(&self, kind: RequestKind) -> Option<NodeId> {
        match kind {
            RequestKind::CommitOffsets => {
                let group = self.contents.offsets.front().map(|front| &front.group.group_id)?;
                self.coordinators.group(group)
            }
            _ => self.coordinators.transaction(),
        }
    }
}
