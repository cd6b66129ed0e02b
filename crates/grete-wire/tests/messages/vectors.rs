//! Bytes that Kafka's own classes wrote (`tests/vectors/Vectors.java`), against the same values built here.

use std::collections::BTreeMap;

use grete_wire::Reader;
use grete_wire::messages::{
    self, AbortedTransaction, ApiVersion, ApiVersionsResponse, ConsumerProtocolAssignment,
    ConsumerProtocolSubscription, FetchPartition, FetchRequest, FetchResponse, FetchTopic, FetchableTopicResponse,
    FinalizedFeatureKey, ForgottenTopic, JoinGroupRequest, JoinGroupRequestProtocol, MetadataResponse,
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic, OffsetFetchResponse,
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics, RequestHeader,
    SupportedFeatureKey, fetch,
};

const ID: u128 = 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10;

fn vectors() -> BTreeMap<(String, i16), Vec<u8>> {
    let lines = include_str!("../vectors/messages.txt").lines();
    lines
        .map(|line| {
            let mut words = line.split(' ');
            let (name, version, hex) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
            let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
            ((name.to_string(), version.parse().unwrap()), (0..hex.len()).step_by(2).map(byte).collect())
        })
        .collect()
}

macro_rules! agrees {
    ($vectors:ident, $name:ident, $version:literal, $message:expr) => {
        let bytes = $vectors.remove(&(stringify!($name).to_string(), $version)).expect("a vector of that name");
        let message: messages::$name = $message;
        let mut r = Reader::new(&bytes);
        assert_eq!(messages::$name::decode($version, &mut r).as_ref(), Ok(&message));
        assert_eq!(r.remaining(), 0);
        let mut out = Vec::new();
        message.encode($version, &mut out).unwrap();
        assert_eq!(out, bytes, "{} {}", stringify!($name), $version);
    };
}

#[test]
fn kafkas_own_bytes_are_read_and_written() {
    let mut vectors = vectors();
    let mut metadata = metadata();
    agrees!(vectors, MetadataResponse, 12, metadata.clone());
    metadata.topics[0].topic_id = 0;
    metadata.topics[0].topic_authorized_operations = i32::MIN;
    agrees!(vectors, MetadataResponse, 7, metadata);
    let mut join = join();
    agrees!(vectors, JoinGroupRequest, 9, join.clone());
    join.reason = None;
    agrees!(vectors, JoinGroupRequest, 5, join);
    agrees!(vectors, OffsetFetchResponse, 8, offsets());
    agrees!(vectors, FetchResponse, 16, fetched());
    agrees!(vectors, FetchRequest, 17, fetch());
    agrees!(vectors, ApiVersionsResponse, 4, api_versions());
    let api_keys = api_versions().api_keys;
    agrees!(vectors, ApiVersionsResponse, 0, ApiVersionsResponse { api_keys, ..Default::default() });
    let subscription = ConsumerProtocolSubscription {
        topics: vec!["a".into(), "b".into()],
        user_data: Some([9][..].into()),
        owned_partitions: vec![messages::ConsumerProtocolSubscriptionTopicPartition {
            topic: "a".into(),
            partitions: vec![0, 2],
        }],
        generation_id: 5,
        rack_id: Some("r".into()),
    };
    agrees!(vectors, ConsumerProtocolSubscription, 3, subscription);
    let assigned = messages::ConsumerProtocolAssignmentTopicPartition { topic: "a".into(), partitions: vec![1] };
    let assignment = ConsumerProtocolAssignment { assigned_partitions: vec![assigned], user_data: None };
    agrees!(vectors, ConsumerProtocolAssignment, 0, assignment);
    let header =
        RequestHeader { request_api_key: 3, request_api_version: 12, correlation_id: 6, client_id: Some("me".into()) };
    agrees!(vectors, RequestHeader, 2, header);
    assert!(vectors.is_empty(), "vectors that nothing looked at: {:?}", vectors.keys());
}

fn metadata() -> MetadataResponse<'static> {
    MetadataResponse {
        throttle_time_ms: 7,
        brokers: vec![
            MetadataResponseBroker { node_id: 1, host: "one".into(), port: 9092, rack: Some("a".into()) },
            MetadataResponseBroker { node_id: 2, host: "two".into(), port: 19092, rack: None },
        ],
        cluster_id: Some("cluster".into()),
        controller_id: 2,
        topics: vec![MetadataResponseTopic {
            name: Some("orders".into()),
            topic_id: ID,
            partitions: vec![MetadataResponsePartition {
                partition_index: 3,
                leader_id: 2,
                leader_epoch: 9,
                replica_nodes: vec![1, 2],
                isr_nodes: vec![2],
                offline_replicas: vec![1],
                ..Default::default()
            }],
            topic_authorized_operations: 264,
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn join() -> JoinGroupRequest<'static> {
    JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms: 45_000,
        rebalance_timeout_ms: 300_000,
        member_id: "m-1".into(),
        group_instance_id: Some("static".into()),
        protocol_type: "consumer".into(),
        protocols: vec![
            JoinGroupRequestProtocol { name: "range".into(), metadata: [1, 2, 3][..].into() },
            JoinGroupRequestProtocol { name: "cooperative-sticky".into(), metadata: [][..].into() },
        ],
        reason: Some("because".into()),
    }
}

fn offsets() -> OffsetFetchResponse<'static> {
    let partitions = vec![
        OffsetFetchResponsePartitions {
            partition_index: 3,
            committed_offset: 1 << 40,
            committed_leader_epoch: 9,
            metadata: Some("note".into()),
            error_code: 0,
        },
        OffsetFetchResponsePartitions {
            partition_index: 4,
            committed_offset: -1,
            committed_leader_epoch: -1,
            metadata: None,
            error_code: 88,
        },
    ];
    let topics = vec![OffsetFetchResponseTopics { name: "orders".into(), topic_id: 0, partitions }];
    let groups = vec![OffsetFetchResponseGroup { group_id: "g".into(), topics, error_code: 14 }];
    OffsetFetchResponse { throttle_time_ms: 1, groups, ..Default::default() }
}

fn fetched() -> FetchResponse<'static> {
    let partition = fetch::PartitionData {
        partition_index: 3,
        error_code: 6,
        high_watermark: 100,
        last_stable_offset: 90,
        log_start_offset: 10,
        diverging_epoch: fetch::EpochEndOffset { epoch: 8, end_offset: 50 },
        current_leader: fetch::LeaderIdAndEpoch { leader_id: 2, leader_epoch: 10 },
        aborted_transactions: Some(vec![AbortedTransaction { producer_id: 7, first_offset: 42 }]),
        preferred_read_replica: 1,
        records: Some([10, 20, 30][..].into()),
        ..Default::default()
    };
    FetchResponse {
        throttle_time_ms: 5,
        session_id: 1_234_567,
        responses: vec![FetchableTopicResponse { topic_id: ID, partitions: vec![partition], ..Default::default() }],
        node_endpoints: vec![fetch::NodeEndpoint { node_id: 2, host: "two".into(), port: 19092, rack: None }],
        ..Default::default()
    }
}

fn fetch() -> FetchRequest<'static> {
    let partition = FetchPartition {
        partition: 3,
        current_leader_epoch: 9,
        fetch_offset: 1 << 33,
        last_fetched_epoch: 8,
        partition_max_bytes: 1_048_576,
        ..Default::default()
    };
    FetchRequest {
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 52_428_800,
        isolation_level: 1,
        session_id: 77,
        session_epoch: 3,
        topics: vec![FetchTopic { topic_id: ID, partitions: vec![partition], ..Default::default() }],
        forgotten_topics_data: vec![ForgottenTopic { topic_id: ID, partitions: vec![5, 6], ..Default::default() }],
        rack_id: "a".into(),
        ..Default::default()
    }
}

fn api_versions() -> ApiVersionsResponse<'static> {
    ApiVersionsResponse {
        api_keys: vec![ApiVersion { api_key: 3, min_version: 0, max_version: 13 }],
        supported_features: vec![SupportedFeatureKey { name: "kraft.version".into(), min_version: 0, max_version: 1 }],
        finalized_features_epoch: 99,
        finalized_features: vec![FinalizedFeatureKey {
            name: "metadata.version".into(),
            max_version_level: 27,
            min_version_level: 7,
        }],
        zk_migration_ready: true,
        ..Default::default()
    }
}
