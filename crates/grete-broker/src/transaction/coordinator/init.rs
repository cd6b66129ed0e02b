//! `InitProducerId`: allocates producer ids, begins epochs, and fences the producer before.

use std::sync::Arc;

use grete_wire::ErrorCode;

use crate::ids::Millis;
use crate::transaction::state::{LAST_EPOCH, NO_EPOCH, Producer, Transaction, TransactionState};

use super::end::Marker;
use super::{TransactionChange, TransactionCoordinator};

/// Outcome of [`TransactionCoordinator::init_producer_id`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the caller writes the marker"]
pub struct Initialized {
    /// Producer with its epoch, or the error to answer.
    pub result: Result<Producer, ErrorCode>,
    /// Marker of the open transaction that this request aborted. The producer asks again and then gets its epoch.
    pub marker: Option<Marker>,
}

impl TransactionCoordinator {
    /// Returns a producer id and epoch. Without a transactional id, each call allocates a producer id.
    ///
    /// `expected` is the producer's current id and epoch, if it has one: it raises its own epoch (KIP-360). With an open
    /// transaction, the call fences its producer, aborts the transaction and answers `CONCURRENT_TRANSACTIONS`, as
    /// Kafka does.
    pub fn init_producer_id(
        &mut self,
        now: Millis,
        transactional_id: Option<&str>,
        timeout_ms: i32,
        expected: Option<Producer>,
        changes: &mut impl Extend<TransactionChange>,
    ) -> Initialized {
        let Some(name) = transactional_id else {
            let id = self.allocate_producer_id(changes);
            return Initialized { result: Ok(Producer { id, epoch: 0 }), marker: None };
        };
        let fail = |error| Initialized { result: Err(error), marker: None };
        if name.is_empty() {
            return fail(ErrorCode::INVALID_REQUEST);
        }
        if !(1..=self.config.max_timeout_ms).contains(&timeout_ms) {
            return fail(ErrorCode::INVALID_TRANSACTION_TIMEOUT);
        }
        let (id, mut transaction) = match self.find(name) {
            Some((id, transaction)) => (id, transaction.clone()),
            None => (Arc::from(name), Transaction::new(self.allocate_producer_id(changes), timeout_ms, now)),
        };
        if expected.is_some_and(|expected| !is_known(&transaction, expected)) {
            return fail(ErrorCode::PRODUCER_FENCED);
        }
        match transaction.state {
            TransactionState::PrepareCommit | TransactionState::PrepareAbort => {
                fail(ErrorCode::CONCURRENT_TRANSACTIONS)
            }
            TransactionState::Ongoing => {
                let marker = self.fence(now, &id, transaction, changes);
                Initialized { result: Err(ErrorCode::CONCURRENT_TRANSACTIONS), marker: Some(marker) }
            }
            TransactionState::Empty | TransactionState::CompleteCommit | TransactionState::CompleteAbort => {
                let Some((producer, previous_epoch)) = self.next_epoch(&transaction, expected, changes) else {
                    return fail(ErrorCode::PRODUCER_FENCED);
                };
                transaction.initialize(now, producer, previous_epoch, timeout_ms);
                self.store(&id, transaction, changes);
                Initialized { result: Ok(producer), marker: None }
            }
        }
    }

    /// Returns the producer of the next epoch, and the epoch before it; `None`: the expected producer is fenced.
    fn next_epoch(
        &mut self,
        transaction: &Transaction,
        expected: Option<Producer>,
        changes: &mut impl Extend<TransactionChange>,
    ) -> Option<(Producer, i16)> {
        let current = transaction.producer;
        let previous_epoch = match expected {
            None => NO_EPOCH,
            Some(expected) if current.epoch == NO_EPOCH || expected.epoch == current.epoch => current.epoch,
            // The producer repeats a request whose response was lost.
            Some(expected) if expected.epoch == transaction.previous_epoch => {
                return Some((current, transaction.previous_epoch));
            }
            // Kafka 4.3 answers UNKNOWN_SERVER_ERROR here if the epochs are used up, because of an exception.
            Some(_) => return None,
        };
        if transaction.is_exhausted() {
            let id = self.allocate_producer_id(changes);
            return Some((Producer { id, epoch: 0 }, previous_epoch));
        }
        Some((Producer { id: current.id, epoch: current.epoch.saturating_add(1) }, previous_epoch))
    }
}

/// Returns whether a producer may raise its own epoch, as far as its id says.
fn is_known(transaction: &Transaction, expected: Producer) -> bool {
    // A new transactional id: the old one has expired, and the producer continues with the new producer id.
    transaction.producer.epoch == NO_EPOCH
        || expected.id == transaction.producer.id
        // The producer repeats a request that changed its producer id, because its epochs were used up.
        || (expected.id == transaction.previous_producer_id && expected.epoch >= LAST_EPOCH)
}
