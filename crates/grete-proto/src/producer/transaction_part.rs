//! Transactions in the producer core: passes events and actions between sender, accumulator and transaction manager.

use std::sync::Arc;

use super::accumulator::lock;
use super::config::ProduceConfig;
use super::error::FatalError;
use super::event::{ProducerAction, ProducerLogEvent};
use super::sender::event::SenderEvent;
use super::staged::StagedCommitResult;
use super::staged_run::{FIRST_STAGED_CALL, StagedRun};
use super::transaction::{
    CallId, TransactionAction, TransactionCause, TransactionError, TransactionEvent, TransactionGate,
    TransactionManager,
};
use super::{ProducerCore, Todo};
use crate::cluster::ClusterEvent;
use crate::rng::Rng;
use crate::time::{Nanos, earliest};

/// Transaction manager of a producer with a `transactional.id`, and what its close waits for.
#[derive(Debug)]
pub(super) struct TransactionPart {
    manager: TransactionManager,
    /// Level of `transaction.version` that the manager knows.
    version: i16,
    /// The sender has delivered or dropped all batches after a close.
    pub is_sender_finished: bool,
    /// Time at which the close gives the transaction up.
    pub close_deadline: Option<Nanos>,
    /// Commit of staged records in progress.
    pub run: Option<StagedRun>,
    next_call: CallId,
    actions: Vec<TransactionAction>,
}

impl TransactionPart {
    pub fn new(config: &ProduceConfig, rng: Rng) -> Self {
        Self {
            manager: TransactionManager::new(config, rng),
            version: 0,
            is_sender_finished: false,
            close_deadline: None,
            run: None,
            next_call: FIRST_STAGED_CALL,
            actions: Vec::new(),
        }
    }

    /// Returns an id for a call of a run.
    pub fn next_staged_call(&mut self) -> CallId {
        self.next_call = self.next_call.wrapping_add(1).max(FIRST_STAGED_CALL);
        self.next_call
    }

    pub fn deadline(&self) -> Option<Nanos> {
        let closes = if self.manager.is_at_rest() { None } else { self.close_deadline };
        earliest(self.manager.deadline(), closes)
    }

    /// Returns whether the producer may finish: no transaction is open, or the time of the close is over.
    pub fn may_finish(&self, now: Nanos) -> bool {
        let is_late = self.close_deadline.is_some_and(|deadline| now >= deadline);
        self.is_sender_finished && (self.manager.is_at_rest() || is_late)
    }
}

impl ProducerCore {
    pub(super) fn is_settled_awaited(&self) -> bool {
        self.transaction.as_ref().is_some_and(|part| part.manager.awaits_settled())
    }

    pub(super) fn has_staged_run(&self) -> bool {
        self.transaction.as_ref().is_some_and(|part| part.run.is_some())
    }

    /// Ends a run whose producer has failed. (A call of the run that waits has its result before.)
    pub(super) fn fail_staged(&mut self, error: &TransactionError, out: &mut Vec<ProducerAction>) {
        if let Some(run) = self.transaction.as_mut().and_then(|part| part.run.take()) {
            out.push(ProducerAction::StagedCommitDone(run.id(), StagedCommitResult::Failed(error.clone())));
        }
    }

    /// Steps the transaction manager, if there is one.
    pub(super) fn step_transaction(&mut self, now: Nanos, event: TransactionEvent) {
        let Some(part) = &mut self.transaction else { return };
        let version = self.cluster.transaction_version();
        if version != part.version {
            part.version = version;
            part.manager.step(now, TransactionEvent::Version(version), &mut part.actions);
        }
        part.manager.step(now, event, &mut part.actions);
        self.todo.extend(part.actions.drain(..).map(Todo::Transaction));
    }

    pub(super) fn on_transaction_action(
        &mut self,
        now: Nanos,
        action: TransactionAction,
        out: &mut Vec<ProducerAction>,
    ) {
        match action {
            TransactionAction::Send(outgoing) => self.cluster(now, ClusterEvent::Send(outgoing)),
            TransactionAction::LearnNode { node, host, port } => {
                self.cluster.learn_node(node, &host, port.into());
            }
            TransactionAction::Identity { identity, explicit } => {
                self.step_sender(now, SenderEvent::TransactionIdentity { identity, explicit });
            }
            TransactionAction::PartitionsAdded(partitions) => {
                self.step_sender(now, SenderEvent::PartitionsAdded(partitions));
            }
            TransactionAction::Gate(gate) => {
                let begins = gate == TransactionGate::Open;
                lock(&self.accumulator).set_gate(gate);
                self.step_sender(now, if begins { SenderEvent::TransactionBegun } else { SenderEvent::Drain });
            }
            TransactionAction::Drop(cause) => {
                lock(&self.accumulator).abort_transaction(&cause);
                self.step_sender(now, SenderEvent::TransactionAborted(cause));
            }
            TransactionAction::Flush => {
                lock(&self.accumulator).flush();
                self.step_sender(now, SenderEvent::Drain);
            }
            TransactionAction::Done(id, result) if id >= FIRST_STAGED_CALL => {
                self.on_staged_call(now, id, result, out);
            }
            TransactionAction::Done(id, result) => out.push(ProducerAction::TransactionDone(id, result)),
            TransactionAction::LogEvent(notice) => {
                out.push(ProducerAction::LogEvent(ProducerLogEvent::Transaction(notice)));
            }
            TransactionAction::Fatal(error) => {
                // The coordinator aborts the transaction, unless a commit may have been executed.
                if !matches!(error, TransactionError::CommitUnknown(_)) {
                    let cause = Arc::new(TransactionCause::ProducerFailed(Box::new(error.clone())));
                    lock(&self.accumulator).abort_transaction(&cause);
                }
                self.fail_staged(&error, out);
                self.step_sender(now, SenderEvent::Fatal(FatalError::Transaction(Box::new(error))));
            }
        }
    }
}
