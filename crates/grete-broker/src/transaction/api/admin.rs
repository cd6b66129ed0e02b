//! Requests of admin clients: `ListTransactions` and `DescribeTransactions`.

use grete_wire::ErrorCode;
use grete_wire::messages::describe_transactions::{TopicData, TransactionState as DescribedTransaction};
use grete_wire::messages::list_transactions::TransactionState as ListedTransaction;
use grete_wire::messages::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, ListTransactionsRequest, ListTransactionsResponse,
};

use crate::ids::{Millis, TopicPartition};
use crate::transaction::coordinator::{TransactionCoordinator, TransactionFilter};
use crate::transaction::state::{Transaction, TransactionState};

/// Answers `ListTransactions` for the transactional ids that the broker coordinates. A pattern of transactional ids (version 2, KIP-1152) is not supported and gets
/// `UNSUPPORTED_VERSION`: offer the versions up to 1.
#[must_use]
pub fn list_transactions(
    coordinator: &TransactionCoordinator,
    now: Millis,
    request: &ListTransactionsRequest<'_>,
    is_coordinated: impl Fn(&str) -> bool,
) -> ListTransactionsResponse<'static> {
    if request.transactional_id_pattern.as_ref().is_some_and(|pattern| !pattern.is_empty()) {
        return ListTransactionsResponse { error_code: ErrorCode::UNSUPPORTED_VERSION.0, ..Default::default() };
    }
    let mut states = Vec::new();
    let mut unknown = Vec::new();
    for name in &request.state_filters {
        match TransactionState::ALL.into_iter().find(|state| state.name() == name) {
            Some(state) => states.push(state),
            None => unknown.push(name.to_string().into()),
        }
    }
    let filter = TransactionFilter {
        states: (!request.state_filters.is_empty()).then_some(states),
        producer_ids: request.producer_id_filters.clone(),
        longer_than_ms: Some(request.duration_filter),
    };
    let coordinated = coordinator.list(now, &filter).filter(|(id, _)| is_coordinated(id));
    let listed = coordinated.map(|(id, transaction)| ListedTransaction {
        transactional_id: id.to_string().into(),
        producer_id: transaction.producer.id,
        transaction_state: transaction.state.name().into(),
    });
    ListTransactionsResponse {
        unknown_state_filters: unknown,
        transaction_states: listed.collect(),
        ..Default::default()
    }
}

/// Answers `DescribeTransactions`: NOT_COORDINATOR for ids that another broker coordinates. Groups are not named: Kafka has a partition of `__consumer_offsets` in their place.
#[must_use]
pub fn describe_transactions(
    coordinator: &TransactionCoordinator,
    request: &DescribeTransactionsRequest<'_>,
    is_coordinated: impl Fn(&str) -> bool,
) -> DescribeTransactionsResponse<'static> {
    let described = request.transactional_ids.iter().map(|id| {
        let failed = |error: ErrorCode| DescribedTransaction {
            error_code: error.0,
            transactional_id: id.to_string().into(),
            ..Default::default()
        };
        match coordinator.transaction(id) {
            _ if id.is_empty() => failed(ErrorCode::INVALID_REQUEST),
            _ if !is_coordinated(id) => failed(ErrorCode::NOT_COORDINATOR),
            None => failed(ErrorCode::TRANSACTIONAL_ID_NOT_FOUND),
            Some(transaction) => describe(id, transaction),
        }
    });
    DescribeTransactionsResponse { transaction_states: described.collect(), ..Default::default() }
}

fn describe(id: &str, transaction: &Transaction) -> DescribedTransaction<'static> {
    let partitions: Vec<&TopicPartition> = transaction.partitions.iter().collect();
    let topics = partitions.chunk_by(|a, b| a.topic == b.topic).filter_map(|chunk| {
        Some(TopicData {
            topic: chunk.first()?.topic.to_string().into(),
            partitions: chunk.iter().map(|partition| partition.partition).collect(),
        })
    });
    DescribedTransaction {
        error_code: ErrorCode::NONE.0,
        transactional_id: id.to_string().into(),
        transaction_state: transaction.state.name().into(),
        transaction_timeout_ms: transaction.timeout_ms,
        transaction_start_time_ms: transaction.started,
        producer_id: transaction.producer.id,
        producer_epoch: transaction.producer.epoch,
        topics: topics.collect(),
    }
}
