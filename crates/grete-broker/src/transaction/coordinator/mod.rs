//! The coordinator: all transactional ids, their timers, and the changes to store.

mod end;
mod init;
mod list;
mod participants;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::Millis;
use crate::transaction::state::{Transaction, TransactionState};

pub use end::{Ended, Marker};
pub use init::Initialized;
pub use list::TransactionFilter;

/// Settings of the coordinator. The defaults are Kafka's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionConfig {
    /// `transaction.max.timeout.ms`: longest timeout that a producer may ask for.
    pub max_timeout_ms: i32,
    /// `transactional.id.expiration.ms`: time without a change after which an id without an open transaction is removed.
    pub id_expiration_ms: Millis,
    /// Finalized level of the feature `transaction.version`: 0, 1 or 2. With 2, a fenced transaction raises the epoch as
    /// each other end does (KIP-890). The requests of a producer say for themselves which version they follow.
    pub version: i16,
}

impl Default for TransactionConfig {
    fn default() -> Self {
        Self { max_timeout_ms: 15 * 60 * 1000, id_expiration_ms: 7 * 24 * 60 * 60 * 1000, version: 2 }
    }
}

/// Change of the coordinator's durable state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransactionChange {
    /// A producer id was allocated; it is never used again.
    ProducerId(i64),
    /// New state of a transactional id.
    State {
        /// Transactional id.
        id: Arc<str>,
        /// Whole state.
        state: Box<Transaction>,
    },
    /// A transactional id expired.
    Removed {
        /// Transactional id.
        id: Arc<str>,
    },
}

/// Coordinator of all transactions, and source of all producer ids.
#[derive(Debug, Default)]
pub struct TransactionCoordinator {
    config: TransactionConfig,
    next_producer_id: i64,
    transactions: BTreeMap<Arc<str>, Transaction>,
    /// Time at which an open transaction is aborted, or an idle id removed. A prepared transaction has no timer.
    timers: BTreeSet<(Millis, Arc<str>)>,
}

impl TransactionCoordinator {
    /// Creates a coordinator without transactional ids.
    #[must_use]
    pub fn new(config: TransactionConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// Returns the settings.
    #[must_use]
    pub fn config(&self) -> &TransactionConfig {
        &self.config
    }

    /// Returns the state of a transactional id.
    #[must_use]
    pub fn transaction(&self, id: &str) -> Option<&Transaction> {
        self.transactions.get(id)
    }

    /// Applies a stored change. All changes in order give the durable state again.
    pub fn restore(&mut self, change: TransactionChange) {
        match change {
            TransactionChange::ProducerId(id) => {
                self.next_producer_id = self.next_producer_id.max(id.saturating_add(1));
            }
            TransactionChange::State { id, state } => self.put(id, *state),
            TransactionChange::Removed { id } => self.remove(&id),
        }
    }

    /// Returns the changes that give the durable state again, instead of all changes so far.
    #[must_use]
    pub fn snapshot(&self) -> Vec<TransactionChange> {
        let last = self.next_producer_id.checked_sub(1).filter(|id| *id >= 0);
        let state = |(id, state): (&Arc<str>, &Transaction)| TransactionChange::State {
            id: Arc::clone(id),
            state: Box::new(state.clone()),
        };
        last.map(TransactionChange::ProducerId).into_iter().chain(self.transactions.iter().map(state)).collect()
    }

    /// Returns the next time at which [`Self::tick`] has something to do; `None`: never.
    #[must_use]
    pub fn deadline(&self) -> Option<Millis> {
        self.timers.first().map(|&(at, _)| at)
    }

    /// Aborts the transactions that are open for too long, and removes the ids without a change for too long. Returns
    /// the markers of the aborted transactions.
    #[must_use = "the caller writes the markers"]
    pub fn tick(&mut self, now: Millis, changes: &mut impl Extend<TransactionChange>) -> Vec<Marker> {
        let mut markers = Vec::new();
        while self.timers.first().is_some_and(|&(at, _)| at <= now) {
            let Some((_, id)) = self.timers.pop_first() else { break };
            match self.transactions.get(&id) {
                Some(transaction) if transaction.state == TransactionState::Ongoing => {
                    let transaction = transaction.clone();
                    markers.push(self.fence(now, &id, transaction, changes));
                }
                _ => {
                    self.remove(&id);
                    changes.extend([TransactionChange::Removed { id }]);
                }
            }
        }
        markers
    }

    /// Allocates a producer id.
    fn allocate_producer_id(&mut self, changes: &mut impl Extend<TransactionChange>) -> i64 {
        let id = self.next_producer_id;
        self.next_producer_id = id.saturating_add(1);
        changes.extend([TransactionChange::ProducerId(id)]);
        id
    }

    /// Replaces the state of a transactional id, and stores the state.
    fn store(&mut self, id: &Arc<str>, state: Transaction, changes: &mut impl Extend<TransactionChange>) {
        self.put(Arc::clone(id), state.clone());
        changes.extend([TransactionChange::State { id: Arc::clone(id), state: Box::new(state) }]);
    }

    /// Returns the transactional id as the coordinator has it, so that its state shares the text.
    fn find(&self, id: &str) -> Option<(Arc<str>, &Transaction)> {
        self.transactions.get_key_value(id).map(|(id, transaction)| (Arc::clone(id), transaction))
    }

    fn put(&mut self, id: Arc<str>, state: Transaction) {
        if let Some(old) = self.transactions.get(&id) {
            self.timers.remove(&(self.due(old), Arc::clone(&id)));
        }
        if !state.state.is_prepared() {
            self.timers.insert((self.due(&state), Arc::clone(&id)));
        }
        self.transactions.insert(id, state);
    }

    fn remove(&mut self, id: &Arc<str>) {
        if let Some(old) = self.transactions.remove(id) {
            self.timers.remove(&(self.due(&old), Arc::clone(id)));
        }
    }

    fn due(&self, transaction: &Transaction) -> Millis {
        match transaction.state {
            // Kafka aborts a transaction that is older than its timeout, not as old.
            TransactionState::Ongoing => {
                transaction.started.saturating_add(Millis::from(transaction.timeout_ms)).saturating_add(1)
            }
            _ => transaction.updated.saturating_add(self.config.id_expiration_ms),
        }
    }
}
