//! read_committed: which batches of a fetched partition an application may see (KIP-98).

use super::control::{ControlType, batch_type};
use super::{BatchHeader, RecordError};

/// A transaction that was aborted: the broker lists those that overlap the fetched range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AbortedTransaction {
    /// Whose.
    pub producer_id: i64,
    /// Where it starts in this partition.
    pub first_offset: i64,
}

/// Tells the batches of aborted transactions from the others. Needs every batch of the response, in order.
#[derive(Debug, Clone, Default)]
pub struct AbortedFilter {
    /// Not reached yet, by descending first offset.
    ahead: Vec<AbortedTransaction>,
    /// Producers inside an aborted transaction; few, so a list.
    active: Vec<i64>,
}

impl AbortedFilter {
    /// A filter for one response's partition; the list may come in any order (Redpanda's does).
    #[must_use]
    pub fn new(mut aborted: Vec<AbortedTransaction>) -> Self {
        aborted.sort_unstable_by_key(|transaction| std::cmp::Reverse(transaction.first_offset));
        Self { ahead: aborted, active: Vec::new() }
    }

    /// Whether the batch's records are to be delivered. Control batches never are, but must be shown. The header is
    /// believed: where a batch that is not admitted will not be decoded, either, check its CRC first.
    ///
    /// # Errors
    /// When a control batch of an aborted producer is corrupt: then nobody knows where its transaction ends.
    pub fn admits(&mut self, header: &BatchHeader, batch: &[u8]) -> Result<bool, RecordError> {
        while let Some(transaction) = self.ahead.pop_if(|next| next.first_offset <= header.base_offset) {
            if !self.active.contains(&transaction.producer_id) {
                self.active.push(transaction.producer_id);
            }
        }
        let aborted = self.active.iter().position(|&producer| producer == header.producer_id);
        if header.is_control() {
            // A lone marker, or one of a committed transaction, ends nothing.
            if let Some(index) = aborted
                && batch_type(batch, header)? == ControlType::Abort
            {
                self.active.swap_remove(index);
            }
            return Ok(false);
        }
        Ok(!(header.is_transactional() && aborted.is_some()))
    }
}
