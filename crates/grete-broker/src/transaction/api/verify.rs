//! Coordinator's part of `Produce` and `TxnOffsetCommit` (KIP-890): the partition or group is part of the transaction,
//! or becomes one.

use grete_wire::ErrorCode;
use grete_wire::messages::txn_offset_commit::{TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic};
use grete_wire::messages::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};

use crate::ids::{Millis, TopicPartition};
use crate::transaction::coordinator::{TransactionChange, TransactionCoordinator};
use crate::transaction::state::Producer;

/// First version of `Produce` whose partitions become part of the transaction. One version before has
/// `TRANSACTION_ABORTABLE`.
const PRODUCE_ADDS: i16 = 12;
/// First version of `TxnOffsetCommit` whose group becomes part of the transaction.
const COMMIT_ADDS: i16 = 5;

/// Adds the partition of a transactional batch to the transaction, or verifies that the partition was added. To be
/// called before each append of a transactional batch.
///
/// # Errors
/// Error code of the partition's response: the batch must not be appended.
pub fn before_append(
    coordinator: &mut TransactionCoordinator,
    now: Millis,
    version: i16,
    transactional_id: &str,
    producer: Producer,
    partition: &TopicPartition,
    changes: &mut impl Extend<TransactionChange>,
) -> Result<(), ErrorCode> {
    let result = if version >= PRODUCE_ADDS {
        coordinator.add_partitions(now, transactional_id, producer, std::slice::from_ref(partition), changes)
    } else {
        coordinator.verify_partition(transactional_id, producer, partition)
    };
    result.map_err(|error| match verification_error(error, version >= PRODUCE_ADDS - 1) {
        // Old producers do not repeat a batch after this error, but after NOT_ENOUGH_REPLICAS.
        ErrorCode::CONCURRENT_TRANSACTIONS if version < PRODUCE_ADDS => ErrorCode::NOT_ENOUGH_REPLICAS,
        error => error,
    })
}

/// Adds the group of a transactional commit to the transaction, or verifies that the group was added. To be called
/// before the group coordinator stores the offsets.
///
/// # Errors
/// Error code of all partitions in the response: the offsets must not be stored.
pub fn before_txn_offset_commit(
    coordinator: &mut TransactionCoordinator,
    now: Millis,
    version: i16,
    request: &TxnOffsetCommitRequest<'_>,
    changes: &mut impl Extend<TransactionChange>,
) -> Result<(), ErrorCode> {
    let producer = Producer { id: request.producer_id, epoch: request.producer_epoch };
    let id = request.transactional_id.as_ref();
    let result = if version >= COMMIT_ADDS {
        coordinator.add_group(now, id, producer, &request.group_id, changes)
    } else {
        coordinator.verify_group(id, producer, &request.group_id)
    };
    result.map_err(|error| verification_error(error, version >= COMMIT_ADDS - 1))
}

/// Returns the response to `TxnOffsetCommit` with an error code for each partition.
pub fn txn_offset_commit_response(
    request: &TxnOffsetCommitRequest<'_>,
    mut error_of: impl FnMut(&str, i32) -> ErrorCode,
) -> TxnOffsetCommitResponse<'static> {
    let topics = request.topics.iter().map(|topic| TxnOffsetCommitResponseTopic {
        name: topic.name.to_string().into(),
        partitions: (topic.partitions.iter())
            .map(|partition| TxnOffsetCommitResponsePartition {
                partition_index: partition.partition_index,
                error_code: error_of(&topic.name, partition.partition_index).0,
            })
            .collect(),
    });
    TxnOffsetCommitResponse { topics: topics.collect(), ..Default::default() }
}

/// Returns the error of a verification as partition leaders and group coordinators answer it.
fn verification_error(error: ErrorCode, has_abortable: bool) -> ErrorCode {
    match error {
        ErrorCode::PRODUCER_FENCED => ErrorCode::INVALID_PRODUCER_EPOCH,
        ErrorCode::TRANSACTION_ABORTABLE if !has_abortable => ErrorCode::INVALID_TXN_STATE,
        error => error,
    }
}
