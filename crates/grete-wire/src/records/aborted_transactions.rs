//! Filter for `isolation.level=read_committed`: hides the batches of aborted transactions (KIP-98).

use super::control::{ControlType, control_batch_type};
use super::{BatchHeader, RecordError};

/// Aborted transaction. The broker lists those that overlap the fetched range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AbortedTransaction {
    /// Producer id of the transaction.
    pub producer_id: i64,
    /// First offset of the transaction in this partition.
    pub first_offset: i64,
}

/// Separates the batches of aborted transactions from the others. It must see every batch of the response, in order.
#[derive(Debug, Clone, Default)]
pub struct AbortedTransactionFilter {
    /// Transactions that are not reached yet, by descending first offset.
    upcoming: Vec<AbortedTransaction>,
    /// Producer ids inside an aborted transaction; few, so a list.
    active: Vec<i64>,
}

impl AbortedTransactionFilter {
    /// Creates a filter for one partition of a response. The list may have any order (Redpanda's does).
    pub fn new(mut aborted: Vec<AbortedTransaction>) -> Self {
        aborted.sort_unstable_by_key(|transaction| std::cmp::Reverse(transaction.first_offset));
        Self { upcoming: aborted, active: Vec::new() }
    }

    /// Returns whether the batch's records are delivered. Control batches never are, but must be passed to this method.
    /// The header is trusted: if a hidden batch is not decoded otherwise, check its CRC first.
    ///
    /// # Errors
    /// A control batch of an aborted producer is corrupt, so that the end of its transaction is unknown.
    pub fn is_visible(&mut self, header: &BatchHeader, batch: &[u8]) -> Result<bool, RecordError> {
        while let Some(transaction) = self.upcoming.pop_if(|next| next.first_offset <= header.base_offset) {
            if !self.active.contains(&transaction.producer_id) {
                self.active.push(transaction.producer_id);
            }
        }
        let aborted = self.active.iter().position(|&producer| producer == header.producer_id);
        if header.is_control() {
            // A marker without records, or one of a committed transaction, ends no aborted transaction.
            if let Some(index) = aborted
                && control_batch_type(batch, header)? == ControlType::Abort
            {
                self.active.swap_remove(index);
            }
            return Ok(false);
        }
        Ok(!(header.is_transactional() && aborted.is_some()))
    }
}
