//! Sans-IO producer: the cluster state machine and the sender, stepped as one.
//!
//! Callers append records to the [`Accumulator`], which they share with [`ProducerCore`]; records are not events. When
//! `append` returns [`AppendAction::Drain`], the caller steps the core with `Drain`. An action of one state machine can
//! be an event for the other, so all actions go through one queue until the queue is empty.
//!
//! Not obvious:
//! - Sequence numbers count records, not batches. A batch gets its number with the first send and keeps it. A batch
//!   that may have been written is sent again under the same number until a broker reports its outcome or its timeout
//!   expires.
//! - A batch completes for the user when `delivery.timeout.ms` expires, wherever the batch is. The sender still waits
//!   for the broker's response, because only that response determines the next sequence number.
//! - The state machines know nothing of processes. A producer id must not survive a fork. The layer above ensures that:
//!   it fences handles, so a forked child never steps the parent's state machines.

mod accumulator;
mod batch_promise;
mod config;
mod error;
mod event;
mod memory;
mod sender;
mod staged;
mod staged_run;
#[cfg(test)]
pub(crate) mod test_util;
#[cfg(test)]
mod tests;
mod transaction;
mod transaction_part;

use std::collections::VecDeque;

pub use crate::ids::{PartitionId, ProducerIdAndEpoch, TopicId};
pub use accumulator::{Accumulator, AppendAction, FlushToken, RecordAppendResult, SharedAccumulator, WaiterFutexes};
pub use batch_promise::{BatchPromise, Outcome, RecordResult};
pub use config::{ProduceConfig, ProducerCoreConfig};
pub use error::{AppendError, FatalError, LastError, ProduceError, TopicError};
pub use event::{ProducerAction, ProducerEvent, ProducerLogEvent};
pub use memory::{MemoryCore, MemoryLog, WrittenBatch};
pub use sender::Sender;
pub use sender::event::{DropReason, DroppedRecords, SenderAction, SenderEvent, SenderLogEvent, SenderStats};

pub use staged::{
    RefusedRecord, StagedCommit, StagedCommitResult, StagedOutputs, StagedRecord, StagedRecords, StagingBudget,
};

use transaction_part::TransactionPart;

pub use transaction::{
    CallId, GroupMetadata, RetryCause, TransactionAction, TransactionCall, TransactionCause, TransactionError,
    TransactionEvent, TransactionGate, TransactionLogEvent, TransactionManager, TransactionOffset,
};

use crate::cluster::{Cluster, ClusterAction, ClusterEvent, ClusterLogEvent};
use crate::request::{Channel, RequestOwner};
use crate::rng::Rng;
use crate::time::{Nanos, earliest};

/// Action of one of the two state machines, to be handled inside the core.
#[derive(Debug)]
enum Todo {
    Cluster(ClusterAction),
    Sender(SenderAction),
    Transaction(TransactionAction),
}

/// State machine of a whole producer: [`Cluster`] plus [`Sender`].
#[derive(Debug)]
pub struct ProducerCore {
    cluster: Cluster,
    sender: Sender,
    accumulator: SharedAccumulator,
    todo: VecDeque<Todo>,
    /// Leaders may have changed. Passed on once per step: one response can name a new leader for each of a thousand
    /// partitions.
    metadata_changed: bool,
    finished: bool,
    /// `None`: the producer has no `transactional.id`.
    transaction: Option<Box<TransactionPart>>,
    /// A run of staged records continues in this step.
    staged_turn: bool,
    cluster_actions: Vec<ClusterAction>,
    produce_actions: Vec<SenderAction>,
}

impl ProducerCore {
    /// Creates a producer core. It does not connect before the first step.
    pub fn new(config: ProducerCoreConfig, accumulator: SharedAccumulator, mut rng: Rng) -> Self {
        let transactional = config.produce.transactional_id.is_some();
        Self {
            cluster: Cluster::new(config.cluster, rng.split()),
            transaction: transactional.then(|| Box::new(TransactionPart::new(&config.produce, rng.split()))),
            sender: Sender::new(config.produce, SharedAccumulator::clone(&accumulator), rng.split()),
            accumulator,
            todo: VecDeque::new(),
            metadata_changed: false,
            finished: false,
            staged_turn: false,
            cluster_actions: Vec::new(),
            produce_actions: Vec::new(),
        }
    }

    /// Handles one event and every internal action that follows from it; appends the actions for the caller to `out`.
    pub fn step(&mut self, now: Nanos, event: ProducerEvent, out: &mut Vec<ProducerAction>) {
        if self.finished {
            return;
        }
        match event {
            ProducerEvent::Tick => {
                self.cluster(now, ClusterEvent::Tick);
                self.step_sender(now, SenderEvent::Tick);
                self.step_transaction(now, TransactionEvent::Tick);
            }
            ProducerEvent::Connected(conn) => self.cluster(now, ClusterEvent::Connected(conn)),
            ProducerEvent::Frame(conn, frame) => self.cluster(now, ClusterEvent::Frame(conn, frame)),
            ProducerEvent::Closed(conn, reason) => self.cluster(now, ClusterEvent::Closed(conn, reason)),
            ProducerEvent::Gss(conn, result) => self.cluster(now, ClusterEvent::Gss(conn, result)),
            ProducerEvent::Drain => self.step_sender(now, SenderEvent::Drain),
            ProducerEvent::Close { deadline } => {
                // First, so that the records of an open transaction are dropped instead of sent.
                self.step_transaction(now, TransactionEvent::Close);
                self.handle_actions(now, out);
                self.step_sender(now, SenderEvent::Close { deadline });
                if let Some(part) = &mut self.transaction {
                    part.close_deadline = Some(part.close_deadline.map_or(deadline, |earlier| earlier.min(deadline)));
                }
            }
            ProducerEvent::Transaction(id, call) => self.step_transaction(now, TransactionEvent::Call(id, call)),
            ProducerEvent::CommitStaged(commit) => self.begin_staged(now, *commit),
        }
        self.handle_actions(now, out);
        if self.transaction.as_ref().is_some_and(|part| part.may_finish(now)) {
            self.finished = true;
            out.push(ProducerAction::Finished);
        }
    }

    /// Handles internal actions until there are none.
    fn handle_actions(&mut self, now: Nanos, out: &mut Vec<ProducerAction>) {
        loop {
            match self.todo.pop_front() {
                Some(Todo::Cluster(action)) => self.on_cluster(now, action, out),
                Some(Todo::Sender(action)) => self.on_sender_action(now, action, out),
                Some(Todo::Transaction(action)) => self.on_transaction_action(now, action, out),
                None if std::mem::take(&mut self.metadata_changed) => {
                    self.step_sender(now, SenderEvent::MetadataChanged)
                }
                None if std::mem::take(&mut self.staged_turn) => self.continue_staged(now),
                None if self.is_settled_awaited() && self.sender.is_settled() => {
                    let gap = self.sender.has_sequence_gap();
                    self.step_transaction(now, TransactionEvent::Settled { gap });
                }
                None => break,
            }
        }
    }

    /// Returns the latest time of the next `Tick`; `None`: no timer is running.
    pub fn deadline(&self) -> Option<Nanos> {
        let own = earliest(self.cluster.deadline(), self.sender.deadline());
        match &self.transaction {
            None => own,
            Some(part) => earliest(own, part.deadline()),
        }
    }

    /// Returns the counters since the start.
    pub fn stats(&self) -> SenderStats {
        self.sender.stats()
    }

    fn cluster(&mut self, now: Nanos, event: ClusterEvent) {
        self.cluster.step(now, event, &mut self.cluster_actions);
        self.todo.extend(self.cluster_actions.drain(..).map(Todo::Cluster));
    }

    fn step_sender(&mut self, now: Nanos, event: SenderEvent) {
        self.sender.step(now, event, &self.cluster, &mut self.produce_actions);
        self.todo.extend(self.produce_actions.drain(..).map(Todo::Sender));
    }

    fn on_cluster(&mut self, now: Nanos, action: ClusterAction, out: &mut Vec<ProducerAction>) {
        match action {
            ClusterAction::Transport(action) => out.push(ProducerAction::Transport(action)),
            ClusterAction::Reply(reply) if reply.token.owner == RequestOwner::Produce => {
                self.step_sender(now, SenderEvent::Reply(reply));
            }
            ClusterAction::Reply(reply) if reply.token.owner == RequestOwner::Transaction => {
                self.step_transaction(now, TransactionEvent::Reply(reply));
            }
            ClusterAction::Reply(_) => {}
            // A response without changes may confirm once more that a topic does not exist.
            ClusterAction::MetadataChanged | ClusterAction::MetadataRefreshed => self.metadata_changed = true,
            ClusterAction::NodeReady { node, channel: Channel::Produce } => {
                self.step_sender(now, SenderEvent::NodeReady(node));
            }
            ClusterAction::NodeLost { node, channel: Channel::Produce } => {
                self.step_sender(now, SenderEvent::NodeLost(node));
            }
            ClusterAction::NodeReady { .. } | ClusterAction::NodeLost { .. } => {}
            ClusterAction::Unmuted { node } => self.step_sender(now, SenderEvent::Unmuted(node)),
            ClusterAction::LogEvent(ClusterLogEvent::Fatal(fault)) => {
                self.step_sender(now, SenderEvent::Fatal(FatalError::Unusable(fault)));
            }
            ClusterAction::LogEvent(notice) => out.push(ProducerAction::LogEvent(ProducerLogEvent::Cluster(notice))),
        }
    }

    fn on_sender_action(&mut self, now: Nanos, action: SenderAction, out: &mut Vec<ProducerAction>) {
        match action {
            SenderAction::Send(outgoing) => self.cluster(now, ClusterEvent::Send(outgoing)),
            SenderAction::NeedNode(node) => self.cluster(now, ClusterEvent::NeedNode(node, Channel::Produce)),
            SenderAction::RefreshMetadata => self.cluster(now, ClusterEvent::RefreshMetadata),
            SenderAction::TrackedTopicsChanged => {
                let topics = accumulator::lock(&self.accumulator).tracked_topics();
                self.cluster(now, ClusterEvent::SetTopics(topics));
                // A topic that was untracked and tracked again at the same moment is already known: no response will
                // report it.
                self.metadata_changed = true;
            }
            SenderAction::Cluster(event) => self.cluster(now, event),
            SenderAction::Completed(receipt) => out.push(ProducerAction::Completed(receipt)),
            SenderAction::MemoryAvailable => {
                self.staged_turn |= self.has_staged_run();
                out.push(ProducerAction::MemoryAvailable);
            }
            SenderAction::FlushCompleted => {
                self.staged_turn |= self.has_staged_run();
                out.push(ProducerAction::FlushCompleted);
            }
            SenderAction::MetadataAvailable => out.push(ProducerAction::MetadataAvailable),
            SenderAction::PartitionsWanted(partitions) => {
                self.step_transaction(now, TransactionEvent::PartitionsWanted(partitions));
            }
            SenderAction::BatchFailed(cause) => self.step_transaction(now, TransactionEvent::BatchFailed(cause)),
            SenderAction::LogEvent(notice) => out.push(ProducerAction::LogEvent(ProducerLogEvent::Sender(notice))),
            SenderAction::Fatal(error) => {
                self.fail_staged(&TransactionError::Closed, out);
                out.push(ProducerAction::Fatal(error));
            }
            SenderAction::Finished => match &mut self.transaction {
                // The transaction ends first.
                Some(part) => part.is_sender_finished = true,
                None => {
                    self.finished = true;
                    out.push(ProducerAction::Finished);
                }
            },
        }
    }
}
