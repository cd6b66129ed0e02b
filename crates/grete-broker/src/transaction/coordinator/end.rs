//! End of a transaction: the decision, the markers, and the completion.

use std::sync::Arc;

use grete_wire::ErrorCode;

use crate::ids::{Millis, TopicPartition};
use crate::transaction::state::{LAST_EPOCH, NO_EPOCH, Producer, Transaction, TransactionState};

use super::{TransactionChange, TransactionCoordinator};

/// Markers to write at the end of a transaction: one to the log of each partition, and the decision about the pending
/// offsets of each group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// Transactional id, for [`TransactionCoordinator::complete`].
    pub transactional_id: Arc<str>,
    /// Producer id of the control record.
    pub producer_id: i64,
    /// Producer epoch of the control record. Logs then refuse lower epochs.
    pub producer_epoch: i16,
    /// Coordinator epoch of the control record: always 0.
    pub coordinator_epoch: i32,
    /// Whether the transaction commits.
    pub commit: bool,
    /// Partitions of the transaction, sorted.
    pub partitions: Vec<TopicPartition>,
    /// Groups of the transaction, sorted.
    pub groups: Vec<Arc<str>>,
}

/// Outcome of [`TransactionCoordinator::end`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the caller writes the marker"]
pub struct Ended {
    /// Producer to continue with.
    pub producer: Producer,
    /// Marker to write; `None`: the request is a repeated one.
    pub marker: Option<Marker>,
}

impl TransactionCoordinator {
    /// Commits or aborts the open transaction.
    ///
    /// `bump_epoch` is set from version 5 of `EndTxn` on (KIP-890): each end raises the epoch, so that the producer's
    /// late batches are fenced, and an abort without a transaction is legal.
    ///
    /// # Errors
    /// - `INVALID_REQUEST`: the transactional id is empty.
    /// - `INVALID_PRODUCER_ID_MAPPING`: the transactional id is unknown or has another producer id.
    /// - `PRODUCER_FENCED`: the epoch is not the current one.
    /// - `CONCURRENT_TRANSACTIONS`: this end is decided, but its markers are not written yet.
    /// - `INVALID_TXN_STATE`: there is no transaction, or the transaction has ended the other way.
    pub fn end(
        &mut self,
        now: Millis,
        transactional_id: &str,
        producer: Producer,
        commit: bool,
        bump_epoch: bool,
        changes: &mut impl Extend<TransactionChange>,
    ) -> Result<Ended, ErrorCode> {
        if transactional_id.is_empty() {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        let (id, transaction) = self.find(transactional_id).ok_or(ErrorCode::INVALID_PRODUCER_ID_MAPPING)?;
        let is_new = if bump_epoch {
            decide_with_epochs(transaction, producer, commit)?
        } else {
            decide(transaction, producer, commit)?
        };
        let mut transaction = transaction.clone();
        if !is_new {
            let producer = if bump_epoch { transaction.producer } else { producer };
            return Ok(Ended { producer, marker: None });
        }
        if bump_epoch {
            self.bump_epoch(&mut transaction, changes);
        }
        transaction.prepare(now, commit);
        let marker = marker(&id, &transaction);
        // The new producer id counts from the completion on, but the client sends nothing before.
        let producer = match transaction.next_producer_id {
            next if next >= 0 => Producer { id: next, epoch: 0 },
            _ => transaction.producer,
        };
        self.store(&id, transaction, changes);
        Ok(Ended { producer, marker: Some(marker) })
    }

    /// Ends a transaction whose markers are written. Other ids and states are ignored.
    pub fn complete(&mut self, now: Millis, transactional_id: &str, changes: &mut impl Extend<TransactionChange>) {
        if let Some((id, transaction)) = self.find(transactional_id) {
            let mut transaction = transaction.clone();
            if transaction.complete(now) {
                self.store(&id, transaction, changes);
            }
        }
    }

    /// Returns the markers of all transactions that are decided and not complete, by id. After a restart, the caller
    /// writes them again.
    #[must_use]
    pub fn prepared(&self) -> Vec<Marker> {
        let prepared = self.transactions.iter().filter(|(_, transaction)| transaction.state.is_prepared());
        prepared.map(|(id, transaction)| marker(id, transaction)).collect()
    }

    /// Aborts an open transaction and raises the epoch above the one that its producer has.
    pub(super) fn fence(
        &mut self,
        now: Millis,
        id: &Arc<str>,
        mut transaction: Transaction,
        changes: &mut impl Extend<TransactionChange>,
    ) -> Marker {
        if self.config.version >= 2 {
            self.bump_epoch(&mut transaction, changes);
        } else {
            transaction.bump_epoch();
            transaction.previous_epoch = NO_EPOCH;
        }
        transaction.prepare(now, false);
        let marker = marker(id, &transaction);
        self.store(id, transaction, changes);
        marker
    }

    /// Raises the epoch. The last epoch is for the markers only, and a new producer id follows.
    fn bump_epoch(&mut self, transaction: &mut Transaction, changes: &mut impl Extend<TransactionChange>) {
        if transaction.is_exhausted() {
            transaction.next_producer_id = self.allocate_producer_id(changes);
        }
        transaction.bump_epoch();
    }
}

/// Returns whether the end is new; `false`: a repeated request. For producers that keep their epoch.
fn decide(transaction: &Transaction, producer: Producer, commit: bool) -> Result<bool, ErrorCode> {
    if transaction.producer.id != producer.id {
        return Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
    }
    if transaction.producer.epoch != producer.epoch {
        return Err(ErrorCode::PRODUCER_FENCED);
    }
    match (transaction.state, commit) {
        (TransactionState::Ongoing, _) => Ok(true),
        (TransactionState::CompleteCommit, true) | (TransactionState::CompleteAbort, false) => Ok(false),
        (TransactionState::PrepareCommit, true) | (TransactionState::PrepareAbort, false) => {
            Err(ErrorCode::CONCURRENT_TRANSACTIONS)
        }
        _ => Err(ErrorCode::INVALID_TXN_STATE),
    }
}

/// Returns whether the end is new; `false`: a repeated request. For producers whose epoch each end raises: a repeated
/// request has the epoch before.
fn decide_with_epochs(transaction: &Transaction, producer: Producer, commit: bool) -> Result<bool, ErrorCode> {
    let current = transaction.producer;
    let changed_id =
        transaction.previous_producer_id == producer.id && producer.epoch == LAST_EPOCH && current.epoch == 0;
    let is_repeated = changed_id || i32::from(current.epoch) == i32::from(producer.epoch) + 1;
    if current.id != producer.id && !changed_id {
        return Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
    }
    let is_valid = match transaction.state {
        TransactionState::Ongoing | TransactionState::Empty => current.epoch == producer.epoch,
        TransactionState::PrepareCommit | TransactionState::PrepareAbort => is_repeated && !changed_id,
        TransactionState::CompleteCommit | TransactionState::CompleteAbort => {
            is_repeated || current.epoch == producer.epoch
        }
    };
    if !is_valid {
        return Err(ErrorCode::PRODUCER_FENCED);
    }
    match (transaction.state, commit) {
        (TransactionState::Ongoing, _) | (TransactionState::Empty, false) => Ok(true),
        (TransactionState::CompleteCommit, true) | (TransactionState::CompleteAbort, false) if is_repeated => Ok(false),
        (TransactionState::CompleteCommit | TransactionState::CompleteAbort, false) if !is_repeated => Ok(true),
        (TransactionState::PrepareCommit, true) | (TransactionState::PrepareAbort, false) => {
            Err(ErrorCode::CONCURRENT_TRANSACTIONS)
        }
        _ => Err(ErrorCode::INVALID_TXN_STATE),
    }
}

fn marker(id: &Arc<str>, transaction: &Transaction) -> Marker {
    Marker {
        transactional_id: Arc::clone(id),
        producer_id: transaction.producer.id,
        producer_epoch: transaction.producer.epoch,
        coordinator_epoch: 0,
        commit: transaction.state == TransactionState::PrepareCommit,
        partitions: transaction.partitions.iter().cloned().collect(),
        groups: transaction.groups.iter().cloned().collect(),
    }
}
