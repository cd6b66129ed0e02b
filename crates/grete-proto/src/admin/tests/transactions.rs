use std::sync::Arc;

use grete_wire::messages::describe_producers::{PartitionResponse, ProducerState, TopicResponse};
use grete_wire::messages::describe_transactions::{TopicData, TransactionState as DescribedTransaction};
use grete_wire::messages::list_transactions::TransactionState as ListedTransaction;
use grete_wire::messages::write_txn_markers::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use grete_wire::messages::{
    DescribeProducersResponse, DescribeTransactionsRequest, DescribeTransactionsResponse, FindCoordinatorRequest,
    InitProducerIdRequest, InitProducerIdResponse, ListTransactionsRequest, ListTransactionsResponse,
    WriteTxnMarkersRequest, WriteTxnMarkersResponse,
};
use grete_wire::{ApiKey, ErrorCode, Reader};

use super::super::*;
use super::Harness;
use super::harness::refused;
use crate::ids::TopicPartition;
use crate::time::SECOND;

fn ids(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|&name| Arc::from(name)).collect()
}

#[test]
fn each_broker_lists_what_it_coordinates() {
    let mut rig = Harness::new(&[0, 1], &[]);
    let filter = TransactionFilter { states: vec!["Ongoing".into()], producer_ids: vec![7] };
    let id = rig.submit(Operation::ListTransactions { nodes: vec![0, 1], filter });
    for _ in 0..2 {
        let (node, asked) = rig.next_request(ApiKey::ListTransactions);
        let request = ListTransactionsRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
        assert_eq!((&*request.state_filters[0], &*request.producer_id_filters), ("Ongoing", &[7][..]));
        let listed = ListedTransaction {
            transactional_id: format!("pay-{node}").into(),
            producer_id: 7,
            transaction_state: "Ongoing".into(),
        };
        let body = ListTransactionsResponse { transaction_states: vec![listed], ..Default::default() };
        rig.reply(&asked, |version, out| body.encode(version, out));
    }
    let listing = |coordinator| TransactionListing {
        transactional_id: format!("pay-{coordinator}"),
        producer_id: 7,
        state: "Ongoing".into(),
        coordinator,
    };
    assert_eq!(rig.take_reply(id), AdminReply::TransactionListings(vec![Ok(vec![listing(0)]), Ok(vec![listing(1)])]));
}

#[test]
fn a_state_that_brokers_do_not_know_is_named() {
    let mut rig = Harness::new(&[0], &[]);
    let filter = TransactionFilter { states: vec!["Open".into()], producer_ids: Vec::new() };
    let id = rig.submit(Operation::ListTransactions { nodes: vec![0], filter });
    let (_, asked) = rig.next_request(ApiKey::ListTransactions);
    let body = ListTransactionsResponse { unknown_state_filters: vec!["Open".into()], ..Default::default() };
    rig.reply(&asked, |version, out| body.encode(version, out));
    let message = Some("the broker does not know the state Open".to_owned());
    let error = AdminError::Refused { code: ErrorCode::INVALID_REQUEST, message };
    assert_eq!(rig.take_reply(id), AdminReply::TransactionListings(vec![Err(error)]));
}

/// Responds to the next FindCoordinator, which must be for transactional ids.
fn respond_with_coordinator(rig: &mut Harness, node: i32) -> Vec<String> {
    let asked = &rig.fake.requests[0];
    assert_eq!(asked.api, ApiKey::FindCoordinator);
    let request = FindCoordinatorRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
    assert_eq!(request.key_type, 1, "a coordinator of transactions");
    rig.respond_with_coordinator(node, ErrorCode::NONE)
}

#[test]
fn the_coordinator_of_the_transactional_id_describes_it() {
    let mut rig = Harness::new(&[0, 1], &[]);
    let id = rig.submit(Operation::DescribeTransactions { ids: ids(&["a", "b"]) });
    assert_eq!(respond_with_coordinator(&mut rig, 1), ["a", "b"]);
    let (node, asked) = rig.next_request(ApiKey::DescribeTransactions);
    let request = DescribeTransactionsRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
    assert_eq!((node, request.transactional_ids.len()), (1, 2));
    let described = DescribedTransaction {
        transactional_id: "a".into(),
        transaction_state: "Ongoing".into(),
        transaction_timeout_ms: 9000,
        transaction_start_time_ms: 5,
        producer_id: 7,
        producer_epoch: 3,
        topics: vec![TopicData { topic: "t".into(), partitions: vec![1, 0] }],
        ..Default::default()
    };
    let missing = DescribedTransaction {
        error_code: ErrorCode::TRANSACTIONAL_ID_NOT_FOUND.0,
        transactional_id: "b".into(),
        ..Default::default()
    };
    let body = DescribeTransactionsResponse { transaction_states: vec![described, missing], ..Default::default() };
    rig.reply(&asked, |version, out| body.encode(version, out));
    let found = TransactionDescription {
        transactional_id: "a".into(),
        coordinator: 1,
        state: "Ongoing".into(),
        timeout_ms: 9000,
        started_ms: Some(5),
        producer_id: 7,
        producer_epoch: 3,
        partitions: vec![TopicPartition::new("t", 0), TopicPartition::new("t", 1)],
    };
    let expected = vec![Ok(found), refused(ErrorCode::TRANSACTIONAL_ID_NOT_FOUND)];
    assert_eq!(rig.take_reply(id), AdminReply::TransactionDescriptions(expected));
}

#[test]
fn leaders_describe_producers_and_write_markers() {
    let mut rig = Harness::new(&[0, 1], &[("t", 1, &[(1, 0)])]);
    let tp = TopicPartition::new("t", 0);
    let id = rig.submit(Operation::DescribeProducers { partitions: vec![tp.clone()] });
    let (node, asked) = rig.next_request(ApiKey::DescribeProducers);
    assert_eq!(node, 1);
    let state = ProducerState {
        producer_id: 7,
        producer_epoch: 3,
        last_sequence: 4,
        last_timestamp: 5,
        coordinator_epoch: -1,
        current_txn_start_offset: 2,
    };
    let partition = PartitionResponse { partition_index: 0, active_producers: vec![state], ..Default::default() };
    let topic = TopicResponse { name: "t".into(), partitions: vec![partition] };
    let body = DescribeProducersResponse { topics: vec![topic], ..Default::default() };
    rig.reply(&asked, |version, out| body.encode(version, out));
    let producer = ActiveProducer {
        producer_id: 7,
        producer_epoch: 3,
        last_sequence: 4,
        last_timestamp: 5,
        coordinator_epoch: -1,
        transaction_start: Some(2),
    };
    assert_eq!(rig.take_reply(id), AdminReply::Producers(vec![Ok(vec![producer])]));

    let marker = AbortMarker { producer_id: 7, producer_epoch: 3, coordinator_epoch: 0 };
    let id = rig.submit(Operation::AbortTransaction { partition: tp, marker });
    // A leader that has moved is asked again elsewhere.
    for code in [ErrorCode::NOT_LEADER_OR_FOLLOWER, ErrorCode::INVALID_PRODUCER_EPOCH] {
        let (node, asked) = rig.next_request(ApiKey::WriteTxnMarkers);
        let request = WriteTxnMarkersRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
        let sent = &request.markers[0];
        assert_eq!((node, sent.producer_id, sent.producer_epoch, sent.transaction_result), (1, 7, 3, false));
        let partition = WritableTxnMarkerPartitionResult { partition_index: 0, error_code: code.0 };
        let topic = WritableTxnMarkerTopicResult { name: "t".into(), partitions: vec![partition] };
        let markers = vec![WritableTxnMarkerResult { producer_id: 7, topics: vec![topic] }];
        let body = WriteTxnMarkersResponse { markers };
        rig.reply(&asked, |version, out| body.encode(version, out));
        rig.advance(SECOND);
    }
    assert_eq!(rig.take_reply(id), AdminReply::Done(vec![refused(ErrorCode::INVALID_PRODUCER_EPOCH)]));
}

#[test]
fn each_id_is_fenced_by_a_request_of_its_own_and_waits_for_an_end_under_way() {
    let mut rig = Harness::new(&[0], &[]);
    let id = rig.submit(Operation::FenceProducers { ids: ids(&["a", "b"]) });
    assert_eq!(respond_with_coordinator(&mut rig, 0), ["a", "b"]);
    let mut fenced = Vec::new();
    for code in [ErrorCode::CONCURRENT_TRANSACTIONS, ErrorCode::NONE, ErrorCode::NONE] {
        let (_, asked) = rig.next_request(ApiKey::InitProducerId);
        let request = InitProducerIdRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
        assert_eq!((request.producer_id, request.producer_epoch), (-1, -1));
        fenced.push(request.transactional_id.unwrap().to_string());
        let body = InitProducerIdResponse { error_code: code.0, ..Default::default() };
        rig.reply(&asked, |version, out| body.encode(version, out));
        rig.advance(SECOND);
        if !rig.has_request(ApiKey::InitProducerId) && rig.has_request(ApiKey::FindCoordinator) {
            respond_with_coordinator(&mut rig, 0);
        }
    }
    fenced.sort();
    assert!(fenced == ["a", "a", "b"] || fenced == ["a", "b", "b"], "{fenced:?}");
    assert_eq!(rig.take_reply(id), AdminReply::Done(vec![Ok(()), Ok(())]));
}
