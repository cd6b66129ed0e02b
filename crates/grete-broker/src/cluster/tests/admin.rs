//! Requests of admin clients to several brokers.

use std::collections::BTreeSet;

use grete_wire::ErrorCode;
use grete_wire::messages::describe_producers::TopicRequest;
use grete_wire::messages::{
    ApiVersionsRequest, CreatableTopic, CreateTopicsRequest, DescribeProducersRequest, DescribeTransactionsRequest,
    InitProducerIdRequest, ListTransactionsRequest,
};

use super::harness::Fixture;

#[test]
fn every_replica_describes_producers() {
    let mut fixture = Fixture::new(3);
    let conn = fixture.connect(1);
    let topic =
        CreatableTopic { name: "orders".into(), num_partitions: 1, replication_factor: 2, ..CreatableTopic::default() };
    let request = CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() };
    fixture.call(conn, 7, &request, |response| assert_eq!(response.topics[0].error_code, 0));
    let request =
        DescribeProducersRequest { topics: vec![TopicRequest { name: "orders".into(), partition_indexes: vec![0] }] };
    let codes: Vec<i16> = (1..=3)
        .map(|broker| {
            let conn = fixture.connect(broker);
            fixture.call(conn, 0, &request, |response| response.topics[0].partitions[0].error_code)
        })
        .collect();
    assert_eq!(codes, [0, 0, ErrorCode::NOT_LEADER_OR_FOLLOWER.0]);
}

#[test]
fn each_transactional_id_is_listed_and_described_by_its_coordinator() {
    let mut fixture = Fixture::new(3);
    let ids: Vec<String> = (0..10).map(|number| format!("shop-{number}")).collect();
    for id in &ids {
        let conn = fixture.connect(fixture.cluster.coordinator(id).unwrap());
        let request = InitProducerIdRequest {
            transactional_id: Some(id.into()),
            transaction_timeout_ms: 1000,
            ..InitProducerIdRequest::default()
        };
        fixture.call(conn, 4, &request, |response| assert_eq!(response.error_code, 0));
    }
    let mut listed = Vec::new();
    for broker in 1..=3 {
        let conn = fixture.connect(broker);
        let own: BTreeSet<String> = fixture.call(conn, 1, &ListTransactionsRequest::default(), |response| {
            response.transaction_states.iter().map(|listed| listed.transactional_id.to_string()).collect()
        });
        let request =
            DescribeTransactionsRequest { transactional_ids: ids.iter().map(|id| id.as_str().into()).collect() };
        let described: Vec<i16> = fixture.call(conn, 0, &request, |response| {
            response.transaction_states.iter().map(|described| described.error_code).collect()
        });
        for (id, code) in ids.iter().zip(described) {
            let expected = if own.contains(id) { ErrorCode::NONE } else { ErrorCode::NOT_COORDINATOR };
            assert_eq!(code, expected.0, "{id} at broker {broker}");
        }
        listed.extend(own);
    }
    listed.sort();
    assert_eq!(listed, ids);
}

#[test]
fn levels_of_features_have_a_range() {
    let mut fixture = Fixture::new(1);
    let conn = fixture.connect(1);
    let request = ApiVersionsRequest { client_software_name: "tester".into(), client_software_version: "1".into() };
    fixture.call(conn, 4, &request, |response| {
        let ranges: Vec<_> = response
            .supported_features
            .iter()
            .map(|feature| (&*feature.name, feature.min_version, feature.max_version))
            .collect();
        let newer = [("group.version", 0, 1), ("share.version", 0, 1)];
        assert_eq!(ranges, [[("metadata.version", 7, 30), ("transaction.version", 0, 2)], newer].concat());
    });
}
