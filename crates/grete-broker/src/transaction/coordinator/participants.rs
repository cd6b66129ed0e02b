//! Partitions and groups of a transaction: `AddPartitionsToTxn`, `AddOffsetsToTxn`, and the verification (KIP-890).

use std::sync::Arc;

use grete_wire::ErrorCode;

use crate::ids::{Millis, TopicPartition};
use crate::transaction::state::{Producer, Transaction, TransactionState};

use super::{TransactionChange, TransactionCoordinator};

impl TransactionCoordinator {
    /// Adds partitions to the open transaction, or opens one.
    ///
    /// # Errors
    /// - `INVALID_REQUEST`: the transactional id is empty.
    /// - `INVALID_PRODUCER_ID_MAPPING`: the transactional id is unknown or has another producer id.
    /// - `PRODUCER_FENCED`: the epoch is not the current one.
    /// - `CONCURRENT_TRANSACTIONS`: the markers of the previous transaction are not written yet.
    pub fn add_partitions(
        &mut self,
        now: Millis,
        transactional_id: &str,
        producer: Producer,
        partitions: &[TopicPartition],
        changes: &mut impl Extend<TransactionChange>,
    ) -> Result<(), ErrorCode> {
        let (id, transaction) = self.owned(transactional_id, producer)?;
        let is_open = transaction.state == TransactionState::Ongoing;
        if is_open && partitions.iter().all(|partition| transaction.partitions.contains(partition)) {
            return Ok(());
        }
        let mut transaction = transaction.clone();
        transaction.open(now);
        transaction.partitions.extend(partitions.iter().cloned());
        self.store(&id, transaction, changes);
        Ok(())
    }

    /// Adds the offsets of a group to the open transaction, or opens one.
    ///
    /// # Errors
    /// As [`Self::add_partitions`].
    pub fn add_group(
        &mut self,
        now: Millis,
        transactional_id: &str,
        producer: Producer,
        group: &str,
        changes: &mut impl Extend<TransactionChange>,
    ) -> Result<(), ErrorCode> {
        let (id, transaction) = self.owned(transactional_id, producer)?;
        if transaction.state == TransactionState::Ongoing && transaction.groups.contains(group) {
            return Ok(());
        }
        let mut transaction = transaction.clone();
        transaction.open(now);
        transaction.groups.insert(Arc::from(group));
        self.store(&id, transaction, changes);
        Ok(())
    }

    /// Verifies that a partition is part of the producer's transaction.
    ///
    /// # Errors
    /// As [`Self::add_partitions`], and `TRANSACTION_ABORTABLE`: the partition is not part of the transaction.
    pub fn verify_partition(
        &self,
        transactional_id: &str,
        producer: Producer,
        partition: &TopicPartition,
    ) -> Result<(), ErrorCode> {
        let (_, transaction) = self.owned(transactional_id, producer)?;
        if transaction.partitions.contains(partition) { Ok(()) } else { Err(ErrorCode::TRANSACTION_ABORTABLE) }
    }

    /// Verifies that a group's offsets are part of the producer's transaction. Kafka verifies the group's partition of
    /// `__consumer_offsets`, so that a group passes there if another group of the same partition is part of it.
    ///
    /// # Errors
    /// As [`Self::verify_partition`].
    pub fn verify_group(&self, transactional_id: &str, producer: Producer, group: &str) -> Result<(), ErrorCode> {
        let (_, transaction) = self.owned(transactional_id, producer)?;
        if transaction.groups.contains(group) { Ok(()) } else { Err(ErrorCode::TRANSACTION_ABORTABLE) }
    }

    /// Returns whether a transaction of the producer is open, whatever its transactional id. Reads all ids.
    #[must_use]
    pub fn has_ongoing(&self, producer: Producer) -> bool {
        self.transactions.values().any(|open| open.state == TransactionState::Ongoing && open.producer == producer)
    }

    /// Returns the transaction if the producer is its current one and may write.
    fn owned(&self, transactional_id: &str, producer: Producer) -> Result<(Arc<str>, &Transaction), ErrorCode> {
        if transactional_id.is_empty() {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        let (id, transaction) = self.find(transactional_id).ok_or(ErrorCode::INVALID_PRODUCER_ID_MAPPING)?;
        if transaction.producer.id != producer.id {
            Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING)
        } else if transaction.producer.epoch != producer.epoch {
            Err(ErrorCode::PRODUCER_FENCED)
        } else if transaction.state.is_prepared() {
            Err(ErrorCode::CONCURRENT_TRANSACTIONS)
        } else {
            Ok((id, transaction))
        }
    }
}
