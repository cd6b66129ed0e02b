//! Requests of producers: `InitProducerId`, `AddPartitionsToTxn`, `AddOffsetsToTxn` and `EndTxn`.

use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::add_partitions_to_txn::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopic, AddPartitionsToTxnTopicResult,
};
use grete_wire::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
    EndTxnRequest, EndTxnResponse, InitProducerIdRequest, InitProducerIdResponse,
};

use crate::ids::{Millis, TopicPartition};
use crate::transaction::coordinator::{Initialized, Marker, TransactionChange, TransactionCoordinator};
use crate::transaction::state::Producer;

/// Answers `InitProducerId`. The marker is the one of an open transaction that this request aborted.
pub fn init_producer_id(
    coordinator: &mut TransactionCoordinator,
    now: Millis,
    version: i16,
    request: &InitProducerIdRequest<'_>,
    changes: &mut impl Extend<TransactionChange>,
) -> (InitProducerIdResponse, Option<Marker>) {
    let Initialized { result, marker } = match expected(request) {
        Err(error) => Initialized { result: Err(error), marker: None },
        Ok(expected) => {
            let id = request.transactional_id.as_deref();
            coordinator.init_producer_id(now, id, request.transaction_timeout_ms, expected, changes)
        }
    };
    let producer = result.unwrap_or(Producer::NONE);
    let error_code = result.err().map_or(0, |error| fenced_error(error, version < 4).0);
    let response = InitProducerIdResponse {
        error_code,
        producer_id: producer.id,
        producer_epoch: producer.epoch,
        ..Default::default()
    };
    (response, marker)
}

/// Returns the producer id and epoch that the producer has; both or none.
fn expected(request: &InitProducerIdRequest<'_>) -> Result<Option<Producer>, ErrorCode> {
    match (request.producer_id, request.producer_epoch) {
        (-1, -1) => Ok(None),
        (-1, _) | (_, -1) => Err(ErrorCode::INVALID_REQUEST),
        (id, epoch) => Ok(Some(Producer { id, epoch })),
    }
}

/// Answers `AddPartitionsToTxn`. `exists` returns whether the cluster has a partition: one unknown partition fails all
/// of its transaction.
pub fn add_partitions_to_txn(
    coordinator: &mut TransactionCoordinator,
    now: Millis,
    version: i16,
    request: &AddPartitionsToTxnRequest<'_>,
    exists: impl Fn(&TopicPartition) -> bool,
    changes: &mut impl Extend<TransactionChange>,
) -> AddPartitionsToTxnResponse<'static> {
    if version < 4 {
        let producer = Producer { id: request.v3_and_below_producer_id, epoch: request.v3_and_below_producer_epoch };
        let partitions = partitions(&request.v3_and_below_topics, |partition| exists(partition));
        let id = &request.v3_and_below_transactional_id;
        let added = add(coordinator, now, id, producer, partitions, changes);
        let results = topic_results(added, version < 2);
        return AddPartitionsToTxnResponse { results_by_topic_v3_and_below: results, ..Default::default() };
    }
    let mut results = Vec::with_capacity(request.transactions.len());
    for transaction in &request.transactions {
        let producer = Producer { id: transaction.producer_id, epoch: transaction.producer_epoch };
        let partitions = partitions(&transaction.topics, |partition| exists(partition));
        let id = transaction.transactional_id.as_ref();
        let added = if transaction.verify_only {
            verify(coordinator, id, producer, partitions)
        } else {
            add(coordinator, now, id, producer, partitions, changes)
        };
        results.push(AddPartitionsToTxnResult {
            transactional_id: id.to_string().into(),
            topic_results: topic_results(added, false),
        });
    }
    AddPartitionsToTxnResponse { results_by_transaction: results, ..Default::default() }
}

/// Returns the partitions of a request, each with `UNKNOWN_TOPIC_OR_PARTITION` if the cluster does not have it.
fn partitions(
    topics: &[AddPartitionsToTxnTopic<'_>],
    exists: impl Fn(&TopicPartition) -> bool,
) -> Vec<(TopicPartition, ErrorCode)> {
    let mut partitions = Vec::new();
    for topic in topics {
        let name: Arc<str> = topic.name.as_ref().into();
        partitions.extend(topic.partitions.iter().map(|&index| {
            let partition = TopicPartition::new(Arc::clone(&name), index);
            let error = if exists(&partition) { ErrorCode::NONE } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
            (partition, error)
        }));
    }
    partitions
}

/// Adds all partitions, or none.
fn add(
    coordinator: &mut TransactionCoordinator,
    now: Millis,
    id: &str,
    producer: Producer,
    mut partitions: Vec<(TopicPartition, ErrorCode)>,
    changes: &mut impl Extend<TransactionChange>,
) -> Vec<(TopicPartition, ErrorCode)> {
    let common = if partitions.iter().any(|(_, error)| *error != ErrorCode::NONE) {
        ErrorCode::OPERATION_NOT_ATTEMPTED
    } else {
        let all: Vec<TopicPartition> = partitions.iter().map(|(partition, _)| partition.clone()).collect();
        coordinator.add_partitions(now, id, producer, &all, changes).err().unwrap_or_default()
    };
    for (_, error) in partitions.iter_mut().filter(|(_, error)| *error == ErrorCode::NONE) {
        *error = common;
    }
    partitions
}

/// Verifies each partition, or none if the cluster does not have one of them.
fn verify(
    coordinator: &TransactionCoordinator,
    id: &str,
    producer: Producer,
    mut partitions: Vec<(TopicPartition, ErrorCode)>,
) -> Vec<(TopicPartition, ErrorCode)> {
    let has_unknown = partitions.iter().any(|(_, error)| *error != ErrorCode::NONE);
    for (partition, error) in partitions.iter_mut().filter(|(_, error)| *error == ErrorCode::NONE) {
        *error = match has_unknown {
            true => ErrorCode::OPERATION_NOT_ATTEMPTED,
            false => coordinator.verify_partition(id, producer, partition).err().unwrap_or_default(),
        };
    }
    partitions
}

/// Joins neighbors of the same topic to the form of the response.
fn topic_results(
    partitions: Vec<(TopicPartition, ErrorCode)>,
    is_old: bool,
) -> Vec<AddPartitionsToTxnTopicResult<'static>> {
    let result = |partition: &TopicPartition, error: ErrorCode| AddPartitionsToTxnPartitionResult {
        partition_index: partition.partition,
        partition_error_code: fenced_error(error, is_old).0,
    };
    (partitions.chunk_by(|(a, _), (b, _)| a.topic == b.topic))
        .filter_map(|chunk| {
            let (first, _) = chunk.first()?;
            Some(AddPartitionsToTxnTopicResult {
                name: first.topic.to_string().into(),
                results_by_partition: chunk.iter().map(|(partition, error)| result(partition, *error)).collect(),
            })
        })
        .collect()
}

/// Answers `AddOffsetsToTxn`.
pub fn add_offsets_to_txn(
    coordinator: &mut TransactionCoordinator,
    now: Millis,
    version: i16,
    request: &AddOffsetsToTxnRequest<'_>,
    changes: &mut impl Extend<TransactionChange>,
) -> AddOffsetsToTxnResponse {
    let producer = Producer { id: request.producer_id, epoch: request.producer_epoch };
    let added = coordinator.add_group(now, &request.transactional_id, producer, &request.group_id, changes);
    let error_code = added.err().map_or(0, |error| fenced_error(error, version < 2).0);
    AddOffsetsToTxnResponse { error_code, ..Default::default() }
}

/// Answers `EndTxn`. From version 5 on, each end raises the producer's epoch (KIP-890).
pub fn end_txn(
    coordinator: &mut TransactionCoordinator,
    now: Millis,
    version: i16,
    request: &EndTxnRequest<'_>,
    changes: &mut impl Extend<TransactionChange>,
) -> (EndTxnResponse, Option<Marker>) {
    let producer = Producer { id: request.producer_id, epoch: request.producer_epoch };
    let id = &request.transactional_id;
    match coordinator.end(now, id, producer, request.committed, version >= 5, changes) {
        Ok(ended) => {
            let Producer { id: producer_id, epoch: producer_epoch } = ended.producer;
            (EndTxnResponse { producer_id, producer_epoch, ..Default::default() }, ended.marker)
        }
        Err(error) => (EndTxnResponse { error_code: fenced_error(error, version < 2).0, ..Default::default() }, None),
    }
}

/// Returns the error that the client understands: old versions of a request do not have `PRODUCER_FENCED`.
fn fenced_error(error: ErrorCode, is_old: bool) -> ErrorCode {
    if is_old && error == ErrorCode::PRODUCER_FENCED { ErrorCode::INVALID_PRODUCER_EPOCH } else { error }
}
