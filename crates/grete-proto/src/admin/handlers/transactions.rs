//! ListTransactions, DescribeTransactions, DescribeProducers, InitProducerId and WriteTxnMarkers (KIP-664).

use std::sync::Arc;

use grete_wire::error_code::ErrorCode;
use grete_wire::messages::describe_producers::{ProducerState, TopicRequest};
use grete_wire::messages::describe_transactions::TransactionState;
use grete_wire::messages::write_txn_markers::{WritableTxnMarker, WritableTxnMarkerTopic};
use grete_wire::messages::{
    DescribeProducersRequest, DescribeProducersResponse, DescribeTransactionsRequest, DescribeTransactionsResponse,
    InitProducerIdRequest, InitProducerIdResponse, ListTransactionsRequest, ListTransactionsResponse,
    WriteTxnMarkersRequest, WriteTxnMarkersResponse,
};

use super::super::handler::{ApiHandler, ItemResult, ItemResults};
use super::super::reply::{AdminReply, PerItem};
use super::super::transaction_types::{
    AbortMarker, ActiveProducer, TransactionDescription, TransactionFilter, TransactionListing,
};
use super::items::{Broker, LoneTransactionalId, TransactionalId};
use super::util::{by_topic, owned};
use crate::cluster::Cluster;
use crate::ids::{NodeId, TopicPartition};
use crate::request::Request;

/// ListTransactions: the transactional ids that each of these brokers coordinates.
#[derive(Debug)]
pub(crate) struct ListTransactions {
    pub filter: TransactionFilter,
}

impl ApiHandler for ListTransactions {
    type Api = ListTransactionsRequest<'static>;
    type Item = Broker;
    type Value = Vec<TransactionListing>;

    const REPLY: fn(PerItem<Vec<TransactionListing>>) -> AdminReply = AdminReply::TransactionListings;

    fn build_request(&self, _items: &[&Broker], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        Request::from_message(ListTransactionsRequest {
            state_filters: self.filter.states.iter().map(|state| owned(state)).collect(),
            producer_id_filters: self.filter.producer_ids.clone(),
            ..Default::default()
        })
    }

    fn parse_response(&self, response: &ListTransactionsResponse<'_>, results: &mut ItemResults<'_, Self>) {
        if let Some(state) = response.unknown_state_filters.first() {
            let text = format!("the broker does not know the state {state}");
            return results.set_only(ItemResult::Code(ErrorCode::INVALID_REQUEST, Some(text)));
        }
        let coordinator = results.node();
        let listing = || {
            let listed = response.transaction_states.iter().map(|listed| TransactionListing {
                transactional_id: listed.transactional_id.to_string(),
                producer_id: listed.producer_id,
                state: listed.transaction_state.to_string(),
                coordinator,
            });
            listed.collect()
        };
        results.set_only(ItemResult::new(response.error_code, None, listing));
    }
}

#[derive(Debug)]
pub(crate) struct DescribeTransactions;

impl ApiHandler for DescribeTransactions {
    type Api = DescribeTransactionsRequest<'static>;
    type Item = TransactionalId;
    type Value = TransactionDescription;

    const REPLY: fn(PerItem<TransactionDescription>) -> AdminReply = AdminReply::TransactionDescriptions;

    fn build_request(&self, items: &[&TransactionalId], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let transactional_ids = items.iter().map(|id| owned(&id.0)).collect();
        Request::from_message(DescribeTransactionsRequest { transactional_ids })
    }

    fn parse_response(&self, response: &DescribeTransactionsResponse<'_>, results: &mut ItemResults<'_, Self>) {
        let node = results.node();
        for state in &response.transaction_states {
            results.set(&state.transactional_id, state.error_code, None, || described(state, node));
        }
    }
}

fn described(state: &TransactionState<'_>, coordinator: NodeId) -> TransactionDescription {
    let mut partitions = Vec::new();
    for topic in &state.topics {
        let name: Arc<str> = Arc::from(&*topic.topic);
        partitions.extend(topic.partitions.iter().map(|&index| TopicPartition::new(Arc::clone(&name), index)));
    }
    partitions.sort_unstable();
    TransactionDescription {
        transactional_id: state.transactional_id.to_string(),
        coordinator,
        state: state.transaction_state.to_string(),
        timeout_ms: state.transaction_timeout_ms,
        started_ms: Some(state.transaction_start_time_ms).filter(|&at| at >= 0),
        producer_id: state.producer_id,
        producer_epoch: state.producer_epoch,
        partitions,
    }
}

#[derive(Debug)]
pub(crate) struct DescribeProducers;

impl ApiHandler for DescribeProducers {
    type Api = DescribeProducersRequest<'static>;
    type Item = (TopicPartition, ());
    type Value = Vec<ActiveProducer>;

    const REPLY: fn(PerItem<Vec<ActiveProducer>>) -> AdminReply = AdminReply::Producers;

    fn build_request(&self, items: &[&Self::Item], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let partitions = items.iter().map(|(tp, ())| (tp, tp.partition));
        let topic = |(name, partition_indexes): (&Arc<str>, _)| TopicRequest { name: owned(name), partition_indexes };
        Request::from_message(DescribeProducersRequest { topics: by_topic(partitions, topic) })
    }

    fn parse_response(&self, response: &DescribeProducersResponse<'_>, results: &mut ItemResults<'_, Self>) {
        let producer = |state: &ProducerState| ActiveProducer {
            producer_id: state.producer_id,
            producer_epoch: state.producer_epoch,
            last_sequence: state.last_sequence,
            last_timestamp: state.last_timestamp,
            coordinator_epoch: state.coordinator_epoch,
            transaction_start: Some(state.current_txn_start_offset).filter(|&offset| offset >= 0),
        };
        for topic in &response.topics {
            let name: Arc<str> = Arc::from(&*topic.name);
            for partition in &topic.partitions {
                let tp = TopicPartition::new(Arc::clone(&name), partition.partition_index);
                let message = partition.error_message.as_deref();
                results.set(&tp, partition.error_code, message, || {
                    partition.active_producers.iter().map(producer).collect()
                });
            }
        }
    }
}

/// InitProducerId: a new epoch of each id, which aborts its open transaction and fences its producer.
#[derive(Debug)]
pub(crate) struct FenceProducers;

impl ApiHandler for FenceProducers {
    type Api = InitProducerIdRequest<'static>;
    type Item = LoneTransactionalId;
    type Value = ();

    const REPLY: fn(PerItem<()>) -> AdminReply = AdminReply::Done;

    fn build_request(&self, items: &[&LoneTransactionalId], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        Request::from_message(InitProducerIdRequest {
            transactional_id: items.first().map(|id| owned(&id.0)),
            // No record is written with the new epoch.
            transaction_timeout_ms: 1,
            producer_id: -1,
            producer_epoch: -1,
        })
    }

    fn parse_response(&self, response: &InitProducerIdResponse, results: &mut ItemResults<'_, Self>) {
        results.set_only(ItemResult::new(response.error_code, None, || ()));
    }
}

/// WriteTxnMarkers at the leader: aborts a transaction that no coordinator ends.
#[derive(Debug)]
pub(crate) struct AbortTransaction;

impl ApiHandler for AbortTransaction {
    type Api = WriteTxnMarkersRequest<'static>;
    type Item = (TopicPartition, AbortMarker);
    type Value = ();

    const REPLY: fn(PerItem<()>) -> AdminReply = AdminReply::Done;

    fn build_request(&self, items: &[&Self::Item], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let marker = |(tp, marker): &&Self::Item| WritableTxnMarker {
            producer_id: marker.producer_id,
            producer_epoch: marker.producer_epoch,
            transaction_result: false,
            topics: vec![WritableTxnMarkerTopic { name: owned(&tp.topic), partition_indexes: vec![tp.partition] }],
            coordinator_epoch: marker.coordinator_epoch,
            transaction_version: 0,
        };
        Request::from_message(WriteTxnMarkersRequest { markers: items.iter().map(marker).collect() })
    }

    fn parse_response(&self, response: &WriteTxnMarkersResponse<'_>, results: &mut ItemResults<'_, Self>) {
        for topic in response.markers.iter().flat_map(|marker| &marker.topics) {
            let name: Arc<str> = Arc::from(&*topic.name);
            for partition in &topic.partitions {
                let tp = TopicPartition::new(Arc::clone(&name), partition.partition_index);
                results.set(&tp, partition.error_code, None, || ());
            }
        }
    }
}
