//! Requests about offsets and groups, from the decoded request to the response.

use std::borrow::Cow;
use std::sync::Arc;

use grete_wire::messages::offset_commit::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use grete_wire::messages::offset_delete::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use grete_wire::messages::offset_fetch::{OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics};
use grete_wire::messages::*;
use grete_wire::{ApiKey, ErrorCode, SegmentedBuf};

use super::{GROUP, Harness};
use crate::group::api::{self, Lookup};
use crate::ids::TopicId;
use crate::message::{APIS, Request};

/// Broker with the topic `orders` of two partitions, which coordinates all groups but `elsewhere`.
struct Broker;

const ORDERS: TopicId = 77;

impl Lookup for Broker {
    fn topic_id(&self, name: &str) -> Option<TopicId> {
        (name == "orders").then_some(ORDERS)
    }

    fn topic_name(&self, id: TopicId) -> Option<Arc<str>> {
        (id == ORDERS).then(|| Arc::from("orders"))
    }

    fn partition_count(&self, topic: TopicId) -> i32 {
        if topic == ORDERS { 2 } else { 0 }
    }

    fn has_partition(&self, topic: &str, partition: i32) -> bool {
        topic == "orders" && (0..2).contains(&partition)
    }

    fn coordinator_error(&self, group: &str) -> Option<ErrorCode> {
        (group == "elsewhere").then_some(ErrorCode::NOT_COORDINATOR)
    }
}

/// Builds OffsetCommit of a consumer without membership. `topics`: name, id and partitions.
fn commit_request(group: &'static str, topics: &[(&'static str, TopicId, &[i32])]) -> OffsetCommitRequest<'static> {
    let topics = topics.iter().map(|(name, topic_id, indexes)| OffsetCommitRequestTopic {
        name: Cow::Borrowed(*name),
        topic_id: *topic_id,
        partitions: indexes
            .iter()
            .map(|index| OffsetCommitRequestPartition {
                partition_index: *index,
                committed_offset: 10 + i64::from(*index),
                committed_leader_epoch: 4,
                committed_metadata: None,
            })
            .collect(),
    });
    let group_id = Cow::Borrowed(group);
    OffsetCommitRequest { group_id, topics: topics.collect(), ..OffsetCommitRequest::default() }
}

/// Commits, checks that the response can be encoded, and returns the error codes.
fn commit(h: &mut Harness, version: i16, request: &OffsetCommitRequest<'_>) -> Vec<ErrorCode> {
    let now = h.now;
    let response = api::commit_offsets(&mut h.coordinator, now, version, request, &Broker, &mut h.effects);
    h.collect();
    response.encode(version, &mut Vec::new()).unwrap();
    let shape = |topics: &[OffsetCommitRequestTopic<'_>]| {
        topics.iter().map(|topic| (topic.name.to_string(), topic.topic_id, topic.partitions.len())).collect::<Vec<_>>()
    };
    let answered = response.topics.iter().map(|topic| (topic.name.to_string(), topic.topic_id, topic.partitions.len()));
    assert_eq!(answered.collect::<Vec<_>>(), shape(&request.topics));
    response.topics.iter().flat_map(|topic| topic.partitions.iter().map(|p| ErrorCode(p.error_code))).collect()
}

#[test]
fn commits_are_answered_partition_by_partition() {
    let mut h = Harness::new();
    let request = commit_request(GROUP, &[("payments", 0, &[0]), ("orders", 0, &[1, 2, 0])]);
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    for version in 2..=9 {
        assert_eq!(commit(&mut h, version, &request), [unknown, ErrorCode::NONE, unknown, ErrorCode::NONE]);
    }
    assert_eq!(h.committed(), Some(10));
}

#[test]
fn commits_name_topics_by_id_from_version_10_on() {
    let mut h = Harness::new();
    let request = commit_request(GROUP, &[("", 1, &[0]), ("", ORDERS, &[0, 5])]);
    let expected = [ErrorCode::UNKNOWN_TOPIC_ID, ErrorCode::NONE, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION];
    assert_eq!(commit(&mut h, 10, &request), expected);
    assert_eq!(h.committed(), Some(10));
}

#[test]
fn a_refused_commit_fails_for_all_known_partitions() {
    let mut h = Harness::new();
    let elsewhere = commit_request("elsewhere", &[("orders", 0, &[0, 1])]);
    assert_eq!(commit(&mut h, 9, &elsewhere), [ErrorCode::NOT_COORDINATOR; 2]);
    let mut request = commit_request(GROUP, &[("orders", 0, &[0, 1]), ("payments", 0, &[0])]);
    request.generation_id_or_member_epoch = 3;
    request.member_id = Cow::Borrowed("m");
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    let refused = ErrorCode::GROUP_ID_NOT_FOUND;
    assert_eq!(commit(&mut h, 9, &request), [refused, refused, unknown]);
}

fn fetch(h: &Harness, version: i16, request: &OffsetFetchRequest<'_>) -> OffsetFetchResponse<'static> {
    let response = api::fetch_offsets(&h.coordinator, version, request, &Broker);
    response.encode(version, &mut Vec::new()).unwrap();
    response
}

#[test]
fn old_versions_fetch_the_offsets_of_one_group() {
    let mut h = Harness::new();
    commit(&mut h, 9, &commit_request(GROUP, &[("orders", 0, &[0])]));
    let topic = OffsetFetchRequestTopic { name: Cow::Borrowed("orders"), partition_indexes: vec![0, 1] };
    let group_id = Cow::Borrowed(GROUP);
    let request = OffsetFetchRequest { group_id, topics: Some(vec![topic]), ..OffsetFetchRequest::default() };
    for version in 1..=7 {
        let response = fetch(&h, version, &request);
        let partitions = response.topics[0].partitions.iter();
        let partitions = partitions.map(|p| (p.committed_offset, p.committed_leader_epoch, p.metadata.as_deref()));
        assert_eq!(partitions.collect::<Vec<_>>(), [(10, 4, Some("")), (-1, -1, Some(""))]);
    }
    let all = OffsetFetchRequest { topics: None, ..request.clone() };
    assert_eq!(fetch(&h, 7, &all).topics[0].partitions.len(), 1);
    let elsewhere = OffsetFetchRequest { group_id: Cow::Borrowed("elsewhere"), ..request };
    assert_eq!(fetch(&h, 2, &elsewhere).error_code, ErrorCode::NOT_COORDINATOR.0);
    let partitions = &fetch(&h, 1, &elsewhere).topics[0].partitions;
    assert_eq!(partitions[1].error_code, ErrorCode::NOT_COORDINATOR.0, "version 1 has errors of partitions only");
}

#[test]
fn new_versions_fetch_the_offsets_of_several_groups() {
    let mut h = Harness::new();
    commit(&mut h, 9, &commit_request(GROUP, &[("orders", 0, &[0])]));
    let by_name = |group: &'static str, name: &'static str, topic_id| OffsetFetchRequestGroup {
        group_id: Cow::Borrowed(group),
        topics: Some(vec![OffsetFetchRequestTopics {
            name: Cow::Borrowed(name),
            topic_id,
            partition_indexes: vec![0],
        }]),
        ..OffsetFetchRequestGroup::default()
    };
    let all = OffsetFetchRequestGroup { group_id: Cow::Borrowed(GROUP), topics: None, ..Default::default() };
    let groups =
        vec![by_name(GROUP, "orders", 0), by_name("none", "orders", 0), by_name("elsewhere", "orders", 0), all];
    let request = OffsetFetchRequest { groups, ..OffsetFetchRequest::default() };
    for version in 8..=9 {
        let response = fetch(&h, version, &request);
        let offset = |index: usize| response.groups[index].topics[0].partitions[0].committed_offset;
        assert_eq!([offset(0), offset(1), offset(3)], [10, -1, 10]);
        assert_eq!(response.groups[1].error_code, 0, "a group without offsets is no error");
        assert_eq!(response.groups[2].error_code, ErrorCode::NOT_COORDINATOR.0);
    }
    let all = OffsetFetchRequestGroup { group_id: Cow::Borrowed(GROUP), topics: None, ..Default::default() };
    let groups = vec![by_name(GROUP, "", ORDERS), by_name(GROUP, "", 1), all];
    let response = fetch(&h, 10, &OffsetFetchRequest { groups, ..OffsetFetchRequest::default() });
    assert_eq!(response.groups[0].topics[0].partitions[0].committed_offset, 10);
    assert_eq!(response.groups[1].topics[0].partitions[0].error_code, ErrorCode::UNKNOWN_TOPIC_ID.0);
    assert_eq!(response.groups[2].topics[0].topic_id, ORDERS);
}

#[test]
fn unstable_offsets_are_reported_if_the_client_requires_stable_ones() {
    let mut h = Harness::new();
    h.txn_commit(7, 5).unwrap();
    let topic = OffsetFetchRequestTopic { name: Cow::Borrowed("orders"), partition_indexes: vec![0, 1] };
    let group_id = Cow::Borrowed(GROUP);
    let mut request = OffsetFetchRequest { group_id, topics: Some(vec![topic]), ..OffsetFetchRequest::default() };
    assert_eq!(fetch(&h, 7, &request).topics[0].partitions[0].error_code, 0);
    request.require_stable = true;
    let partitions = &fetch(&h, 7, &request).topics[0].partitions;
    let codes = [partitions[0].error_code, partitions[1].error_code];
    assert_eq!(codes, [ErrorCode::UNSTABLE_OFFSET_COMMIT.0, 0]);
}

#[test]
fn offsets_are_deleted_partition_by_partition() {
    let mut h = Harness::new();
    commit(&mut h, 9, &commit_request(GROUP, &[("orders", 0, &[0, 1])]));
    let request = |group: &'static str| OffsetDeleteRequest {
        group_id: Cow::Borrowed(group),
        topics: vec![OffsetDeleteRequestTopic {
            name: Cow::Borrowed("orders"),
            partitions: [9, 0].map(|partition_index| OffsetDeleteRequestPartition { partition_index }).into(),
        }],
    };
    for (group, code) in [
        ("none", ErrorCode::GROUP_ID_NOT_FOUND),
        ("", ErrorCode::INVALID_GROUP_ID),
        ("elsewhere", ErrorCode::NOT_COORDINATOR),
    ] {
        let refused = api::delete_offsets(&mut h.coordinator, &request(group), &Broker, &mut h.effects);
        assert_eq!(ErrorCode(refused.error_code), code);
    }
    let response = api::delete_offsets(&mut h.coordinator, &request(GROUP), &Broker, &mut h.effects);
    let codes: Vec<_> = response.topics[0].partitions.iter().map(|p| ErrorCode(p.error_code)).collect();
    assert_eq!(codes, [ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::NONE]);
    assert_eq!(h.committed(), None);
}

#[test]
fn groups_are_described_listed_and_deleted() {
    let mut h = Harness::new();
    commit(&mut h, 9, &commit_request(GROUP, &[("orders", 0, &[0])]));
    let listed = api::list_groups(&h.coordinator, &ListGroupsRequest::default(), &Broker);
    assert_eq!(listed.groups.len(), 1);
    let names = || ["orders", "elsewhere", "none", "none"].map(Cow::Borrowed).to_vec();
    let request = DescribeGroupsRequest { groups: names(), include_authorized_operations: true };
    let described = api::describe_groups(&h.coordinator, 6, &request, &Broker);
    let codes: Vec<_> = described.groups.iter().map(|group| ErrorCode(group.error_code)).collect();
    let missing = ErrorCode::GROUP_ID_NOT_FOUND;
    assert_eq!(codes, [ErrorCode::NONE, ErrorCode::NOT_COORDINATOR, missing, missing]);
    assert_eq!(described.groups[0].authorized_operations, 3400);
    let request = DeleteGroupsRequest { groups_names: names() };
    let deleted = api::delete_groups(&mut h.coordinator, &request, &Broker, &mut h.effects);
    let codes: Vec<_> = deleted.results.iter().map(|group| ErrorCode(group.error_code)).collect();
    assert_eq!(codes, [ErrorCode::NONE, ErrorCode::NOT_COORDINATOR, missing]);
}

#[test]
fn every_request_about_groups_can_be_refused_in_every_version() {
    let request = |api: ApiKey| {
        Some(match api {
            ApiKey::JoinGroup => Request::JoinGroup(JoinGroupRequest::default()),
            ApiKey::SyncGroup => Request::SyncGroup(SyncGroupRequest::default()),
            ApiKey::Heartbeat => Request::Heartbeat(HeartbeatRequest::default()),
            ApiKey::LeaveGroup => Request::LeaveGroup(LeaveGroupRequest::default()),
            ApiKey::OffsetCommit => Request::OffsetCommit(commit_request(GROUP, &[("orders", 1, &[0])])),
            ApiKey::OffsetFetch => Request::OffsetFetch(OffsetFetchRequest::default()),
            ApiKey::OffsetDelete => Request::OffsetDelete(OffsetDeleteRequest::default()),
            ApiKey::ListGroups => Request::ListGroups(ListGroupsRequest::default()),
            ApiKey::DescribeGroups => {
                let groups = vec![Cow::Borrowed(GROUP)];
                Request::DescribeGroups(DescribeGroupsRequest { groups, ..DescribeGroupsRequest::default() })
            }
            ApiKey::ConsumerGroupHeartbeat => Request::ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest::default()),
            ApiKey::ConsumerGroupDescribe => {
                let group_ids = vec![Cow::Borrowed(GROUP)];
                let request = ConsumerGroupDescribeRequest { group_ids, ..ConsumerGroupDescribeRequest::default() };
                Request::ConsumerGroupDescribe(request)
            }
            ApiKey::DeleteGroups => Request::DeleteGroups(DeleteGroupsRequest { groups_names: vec!["g".into()] }),
            _ => return None,
        })
    };
    let mut refused = 0;
    for api in APIS {
        let Some(request) = request(*api) else { continue };
        for version in api.valid() {
            let response = api::error_response(version, &request, ErrorCode::NOT_COORDINATOR).unwrap();
            assert_eq!(response.api(), *api);
            response.encode(version, &mut SegmentedBuf::default()).unwrap();
            refused += 1;
        }
    }
    assert!(refused > 50, "{refused}");
    assert!(api::error_response(0, &Request::Metadata(MetadataRequest::default()), ErrorCode::NONE).is_none());
}
