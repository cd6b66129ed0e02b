//! Lists transactional ids by state, producer id and duration.

use crate::ids::Millis;
use crate::transaction::state::{Transaction, TransactionState};

use super::TransactionCoordinator;

/// Transactional ids to list. The default selects all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TransactionFilter {
    /// States; `None`: all.
    pub states: Option<Vec<TransactionState>>,
    /// Producer ids; empty: all.
    pub producer_ids: Vec<i64>,
    /// Selects transactions that began more than this many milliseconds ago; `None` or negative: all. An id without a
    /// transaction counts as old, as in Kafka.
    pub longer_than_ms: Option<Millis>,
}

impl TransactionFilter {
    fn selects(&self, now: Millis, transaction: &Transaction) -> bool {
        self.states.as_ref().is_none_or(|states| states.contains(&transaction.state))
            && (self.producer_ids.is_empty() || self.producer_ids.contains(&transaction.producer.id))
            && (self.longer_than_ms).is_none_or(|longer| longer < 0 || now.saturating_sub(transaction.started) > longer)
    }
}

impl TransactionCoordinator {
    /// Returns the transactional ids that the filter selects, sorted.
    pub fn list<'a>(
        &'a self,
        now: Millis,
        filter: &'a TransactionFilter,
    ) -> impl Iterator<Item = (&'a str, &'a Transaction)> {
        let selected = self.transactions.iter().filter(move |(_, transaction)| filter.selects(now, transaction));
        selected.map(|(id, transaction)| (id.as_ref(), transaction))
    }
}
