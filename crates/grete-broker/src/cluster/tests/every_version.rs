//! Every API that the brokers offer is answered in every version, with any content of the right form.

use grete_wire::messages::*;
use grete_wire::{ApiKey, WireError};

use super::harness::{Fixture, batch};
use crate::cluster::{BrokerAddress, ClusterConfig};
use crate::cluster::{Cluster, Release};

type Body = Box<dyn Fn(i16, &mut Vec<u8>) -> Result<(), WireError>>;

fn body<Q: grete_wire::KafkaRequest + 'static>(request: Q) -> (ApiKey, Body) {
    (Q::KEY, Box::new(move |version, out| request.encode_body(version, out)))
}

/// Requests about the topic `orders` and the group `billing`, in forms of which each version can encode one at least.
fn requests() -> Vec<(ApiKey, Body)> {
    let fetch = FetchTopic {
        topic: "orders".into(),
        partitions: vec![FetchPartition { partition_max_bytes: 1000, ..FetchPartition::default() }],
        ..FetchTopic::default()
    };
    let produce = TopicProduceData {
        name: "orders".into(),
        partition_data: vec![PartitionProduceData { index: 0, records: Some(batch(&["a"]).into()) }],
        ..TopicProduceData::default()
    };
    let list = |timestamp| ListOffsetsTopic {
        name: "orders".into(),
        partitions: vec![ListOffsetsPartition { timestamp, ..ListOffsetsPartition::default() }],
    };
    vec![
        body(ProduceRequest { acks: 1, topic_data: vec![produce], ..ProduceRequest::default() }),
        body(FetchRequest { topics: vec![fetch], ..FetchRequest::default() }),
        body(ListOffsetsRequest { topics: vec![list(-1), list(-2), list(0)], ..ListOffsetsRequest::default() }),
        body(MetadataRequest { topics: None, ..MetadataRequest::default() }),
        body(MetadataRequest::default()),
        body(OffsetCommitRequest { group_id: "billing".into(), ..OffsetCommitRequest::default() }),
        body(OffsetFetchRequest { group_id: "billing".into(), ..OffsetFetchRequest::default() }),
        body(OffsetFetchRequest {
            groups: vec![OffsetFetchRequestGroup { group_id: "billing".into(), ..OffsetFetchRequestGroup::default() }],
            ..OffsetFetchRequest::default()
        }),
        body(FindCoordinatorRequest { key: "billing".into(), ..FindCoordinatorRequest::default() }),
        body(FindCoordinatorRequest { coordinator_keys: vec!["t".into()], ..FindCoordinatorRequest::default() }),
        body(JoinGroupRequest {
            group_id: "billing".into(),
            session_timeout_ms: 10_000,
            ..JoinGroupRequest::default()
        }),
        body(HeartbeatRequest { group_id: "billing".into(), ..HeartbeatRequest::default() }),
        body(LeaveGroupRequest { group_id: "billing".into(), ..LeaveGroupRequest::default() }),
        body(SyncGroupRequest { group_id: "billing".into(), ..SyncGroupRequest::default() }),
        body(DescribeGroupsRequest { groups: vec!["billing".into()], ..DescribeGroupsRequest::default() }),
        body(ListGroupsRequest::default()),
        body(ConsumerGroupHeartbeatRequest {
            group_id: "billing".into(),
            member_id: "m".into(),
            rebalance_timeout_ms: 1000,
            subscribed_topic_names: Some(vec!["orders".into()]),
            topic_partitions: Some(Vec::new()),
            ..ConsumerGroupHeartbeatRequest::default()
        }),
        body(ConsumerGroupDescribeRequest { group_ids: vec!["billing".into()], ..Default::default() }),
        body(ShareGroupHeartbeatRequest {
            group_id: "tasks".into(),
            member_id: "m".into(),
            subscribed_topic_names: Some(vec!["orders".into()]),
            ..ShareGroupHeartbeatRequest::default()
        }),
        body(ShareGroupDescribeRequest { group_ids: vec!["tasks".into()], ..Default::default() }),
        body(ShareFetchRequest { group_id: Some("tasks".into()), member_id: Some("m".into()), ..Default::default() }),
        body(ShareAcknowledgeRequest { group_id: Some("tasks".into()), ..ShareAcknowledgeRequest::default() }),
        body(DescribeShareGroupOffsetsRequest::default()),
        body(AlterShareGroupOffsetsRequest { group_id: "tasks".into(), ..AlterShareGroupOffsetsRequest::default() }),
        body(DeleteShareGroupOffsetsRequest { group_id: "tasks".into(), ..Default::default() }),
        body(ApiVersionsRequest { client_software_name: "t".into(), client_software_version: "1".into() }),
        body(CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: "other".into(),
                num_partitions: 1,
                replication_factor: 1,
                ..CreatableTopic::default()
            }],
            ..CreateTopicsRequest::default()
        }),
        body(DeleteTopicsRequest { topic_names: vec!["orders".into()], ..DeleteTopicsRequest::default() }),
        body(DeleteTopicsRequest {
            topics: vec![DeleteTopicState { name: Some("orders".into()), topic_id: 0 }],
            ..DeleteTopicsRequest::default()
        }),
        body(DescribeAclsRequest { resource_type_filter: 1, operation: 1, permission_type: 1, ..Default::default() }),
        body(CreateAclsRequest {
            creations: vec![AclCreation { resource_type: 2, operation: 3, permission_type: 3, ..Default::default() }],
        }),
        body(DeleteAclsRequest {
            filters: vec![DeleteAclsFilter {
                resource_type_filter: 1,
                operation: 1,
                permission_type: 1,
                ..Default::default()
            }],
        }),
        body(DeleteRecordsRequest::default()),
        body(InitProducerIdRequest { transactional_id: None, ..InitProducerIdRequest::default() }),
        body(OffsetForLeaderEpochRequest {
            topics: vec![OffsetForLeaderTopic {
                topic: "orders".into(),
                partitions: vec![OffsetForLeaderPartition::default()],
            }],
            ..OffsetForLeaderEpochRequest::default()
        }),
        body(AddPartitionsToTxnRequest::default()),
        body(AddOffsetsToTxnRequest { transactional_id: "t".into(), ..AddOffsetsToTxnRequest::default() }),
        body(EndTxnRequest { transactional_id: "t".into(), ..EndTxnRequest::default() }),
        body(TxnOffsetCommitRequest { transactional_id: "t".into(), ..TxnOffsetCommitRequest::default() }),
        body(DescribeConfigsRequest {
            resources: vec![DescribeConfigsResource {
                resource_type: 2,
                resource_name: "orders".into(),
                configuration_keys: None,
            }],
            include_synonyms: true,
            ..DescribeConfigsRequest::default()
        }),
        body(AlterConfigsRequest::default()),
        body(DescribeLogDirsRequest { topics: None }),
        body(CreatePartitionsRequest::default()),
        body(DeleteGroupsRequest { groups_names: vec!["billing".into()] }),
        body(IncrementalAlterConfigsRequest::default()),
        body(OffsetDeleteRequest { group_id: "billing".into(), ..OffsetDeleteRequest::default() }),
        body(DescribeClusterRequest::default()),
        body(DescribeProducersRequest::default()),
        body(DescribeTransactionsRequest { transactional_ids: vec!["t".into()] }),
        body(ListTransactionsRequest::default()),
        body(WriteTxnMarkersRequest::default()),
        body(DescribeTopicPartitionsRequest::default()),
    ]
}

#[test]
fn every_offered_version_is_answered() {
    let requests = requests();
    for &api in ApiKey::ALL {
        let Some(offered) = Fixture::new(1).cluster.offered_versions(api) else { continue };
        for version in offered {
            let mut answered = 0;
            for (_, body) in requests.iter().filter(|(of, _)| *of == api) {
                let mut fixture = Fixture::new(1);
                let conn = fixture.connect(1);
                assert_eq!(fixture.create_topic(conn, "orders", 2), 0);
                assert_eq!(fixture.produce(conn, "orders", 0, &["a", "b"]), (0, 0));
                if fixture.send_body(conn, version, api, |out| body(version, out)).is_ok() {
                    fixture.advance(10_000);
                    assert_eq!(fixture.received(conn).len(), 1, "{api} {version}: {:?}", fixture.actions);
                    answered += 1;
                }
            }
            assert!(answered > 0, "no request of {api} version {version} is tried");
        }
    }
}

#[test]
fn versions_that_are_not_offered_close_the_connection() {
    let mut fixture = Fixture::new(1);
    let conn = fixture.connect(1);
    let request = MetadataRequest::default();
    fixture.send_body(conn, 99, ApiKey::Metadata, |out| request.encode(9, out)).unwrap();
    assert!(fixture.is_closed(conn));
    assert!(fixture.logged()[0].contains("Metadata version 99 was requested"), "{:?}", fixture.logged());
    // ApiVersions is the exception, so that a newer client learns what there is (KIP-511).
    let conn = fixture.connect(1);
    fixture.send_body(conn, 99, ApiKey::ApiVersions, |_| Ok(())).unwrap();
    let frame = fixture.received(conn).remove(0);
    super::harness::decode::<ApiVersionsRequest<'_>, _>(0, &frame, |response| {
        assert_eq!((response.error_code, response.api_keys.len()), (35, 1));
    });
}

#[test]
fn hostile_frames_close_the_connection_and_nothing_else() {
    let mut fixture = Fixture::new(1);
    let good = fixture.connect(1);
    for bytes in [&b""[..], b"\0", b"\0\x03\0\x09\0\0\0\x07\xff\xff", &[0xff; 64], b"\0\x12\0\x03\0\0\0\x07\0\x7f"] {
        let conn = fixture.connect(1);
        fixture.step(crate::cluster::Event::Frame { conn, frame: bytes.to_vec().into() });
        assert!(fixture.is_closed(conn), "{bytes:?}");
    }
    assert_eq!(fixture.create_topic(good, "orders", 1), 0);
}

#[test]
fn an_older_release_offers_less() {
    let config = |release| {
        let address = BrokerAddress { id: 1, host: "h".into(), port: 1, rack: None };
        let mut config = ClusterConfig::new(vec![address]);
        config.release = release;
        Cluster::new(config)
    };
    let newest = |release, api| config(release).offered_versions(api).map(|versions| *versions.end());
    assert_eq!(newest(Release::V3_9, ApiKey::Fetch), Some(17));
    assert_eq!(newest(Release::LATEST, ApiKey::Fetch), Some(18));
}
