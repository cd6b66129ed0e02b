//! Share groups in a cluster: sessions, waiting requests, leaders, connections, offsets, settings.

use grete_wire::messages::share_fetch::{AcknowledgementBatch, FetchPartition, FetchTopic};
use grete_wire::messages::{
    AlterShareGroupOffsetsRequest, ConsumerGroupHeartbeatRequest, DeleteGroupsRequest, DeleteShareGroupOffsetsRequest,
    DescribeConfigsRequest, DescribeConfigsResource, DescribeShareGroupOffsetsRequest, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterConfigsResource, IncrementalAlterConfigsRequestAlterableConfig,
    ListGroupsRequest, ShareAcknowledgeRequest, ShareFetchRequest, ShareFetchResponse, ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest, alter_share_group_offsets, delete_share_group_offsets, describe_share_group_offsets,
    share_acknowledge,
};
use grete_wire::{ApiKey, ErrorCode};

use super::super::harness::{Fixture, decode};
use crate::cluster::{Event, Release};
use crate::ids::{ConnId, TopicId};

const GROUP: &str = "tasks";
const LOCK_MS: i64 = 30_000;

/// Partition of a response: error, error of the acknowledgements, acquired ranges, bytes of records.
type Answer = (i16, i16, Vec<(i64, i64, i16)>, usize);

fn fixture(brokers: i32, partitions: i32) -> (Fixture, ConnId) {
    let mut fixture = Fixture::new(brokers);
    let conn = fixture.connect(1);
    fixture.create_topic(conn, "orders", partitions);
    configure(&mut fixture, conn, &[("share.auto.offset.reset", "earliest")]);
    (fixture, conn)
}

fn configure(fixture: &mut Fixture, conn: ConnId, settings: &[(&'static str, &'static str)]) -> i16 {
    let setting = |(name, value): &(&'static str, &'static str)| IncrementalAlterConfigsRequestAlterableConfig {
        name: (*name).into(),
        config_operation: 0,
        value: Some((*value).into()),
    };
    let resource = IncrementalAlterConfigsRequestAlterConfigsResource {
        resource_type: 32,
        resource_name: GROUP.into(),
        configs: settings.iter().map(setting).collect(),
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    fixture.call(conn, 1, &request, |response| response.responses[0].error_code)
}

fn heartbeat(epoch: i32) -> ShareGroupHeartbeatRequest<'static> {
    ShareGroupHeartbeatRequest {
        group_id: GROUP.into(),
        member_id: "a".into(),
        member_epoch: epoch,
        subscribed_topic_names: Some(vec!["orders".into()]),
        ..ShareGroupHeartbeatRequest::default()
    }
}

fn topic_id(fixture: &Fixture) -> TopicId {
    fixture.cluster.topics().get("orders").unwrap().id
}

fn request(
    fixture: &Fixture,
    member: &'static str,
    epoch: i32,
    partitions: &[i32],
    acks: &[(i64, i64, i8)],
) -> ShareFetchRequest<'static> {
    let batch = |(first_offset, last_offset, kind): &(i64, i64, i8)| AcknowledgementBatch {
        first_offset: *first_offset,
        last_offset: *last_offset,
        acknowledge_types: vec![*kind],
    };
    let partition = |index: &i32| FetchPartition {
        partition_index: *index,
        acknowledgement_batches: acks.iter().map(batch).collect(),
    };
    let topic = FetchTopic { topic_id: topic_id(fixture), partitions: partitions.iter().map(partition).collect() };
    ShareFetchRequest {
        group_id: Some(GROUP.into()),
        member_id: Some(member.into()),
        share_session_epoch: epoch,
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 1 << 20,
        max_records: 2,
        batch_size: 2,
        share_acquire_mode: 1,
        topics: if partitions.is_empty() { Vec::new() } else { vec![topic] },
        ..ShareFetchRequest::default()
    }
}

fn answers(response: &ShareFetchResponse<'_>) -> Result<Vec<Answer>, ErrorCode> {
    if response.error_code != 0 {
        return Err(ErrorCode(response.error_code));
    }
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    let answer = |data: &grete_wire::messages::share_fetch::PartitionData<'_>| {
        let acquired = data.acquired_records.iter();
        let acquired = acquired.map(|range| (range.first_offset, range.last_offset, range.delivery_count)).collect();
        (data.error_code, data.acknowledge_error_code, acquired, data.records.len())
    };
    Ok(partitions.map(answer).collect())
}

fn fetch(fixture: &mut Fixture, conn: ConnId, request: &ShareFetchRequest<'static>) -> Result<Vec<Answer>, ErrorCode> {
    fixture.call(conn, 2, request, |response| answers(&response))
}

/// Returns the answers that came on a connection since the last call.
fn received(fixture: &mut Fixture, conn: ConnId) -> Vec<Result<Vec<Answer>, ErrorCode>> {
    let frames = fixture.received(conn);
    frames.iter().map(|frame| decode::<ShareFetchRequest<'_>, _>(2, frame, |response| answers(&response))).collect()
}

/// Returns the acquired ranges of the only partition of an answer.
fn acquired(answers: Result<Vec<Answer>, ErrorCode>) -> Vec<(i64, i64, i16)> {
    let answers = answers.unwrap();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!((answers[0].0, answers[0].1), (0, 0));
    answers[0].2.clone()
}

fn acknowledge(
    fixture: &mut Fixture,
    conn: ConnId,
    member: &'static str,
    epoch: i32,
    (first_offset, last_offset, kind): (i64, i64, i8),
) -> Result<i16, ErrorCode> {
    let batch = share_acknowledge::AcknowledgementBatch { first_offset, last_offset, acknowledge_types: vec![kind] };
    let partition =
        share_acknowledge::AcknowledgePartition { partition_index: 0, acknowledgement_batches: vec![batch] };
    let request = ShareAcknowledgeRequest {
        group_id: Some(GROUP.into()),
        member_id: Some(member.into()),
        share_session_epoch: epoch,
        is_renew_ack: kind == 4,
        topics: vec![share_acknowledge::AcknowledgeTopic { topic_id: topic_id(fixture), partitions: vec![partition] }],
    };
    fixture.call(conn, 2, &request, |response| match response.error_code {
        0 => Ok(response.responses[0].partitions[0].error_code),
        code => Err(ErrorCode(code)),
    })
}

#[test]
fn two_members_share_a_partition_and_acknowledge() {
    let (mut fixture, conn) = fixture(1, 1);
    let other = fixture.connect(1);
    fixture.produce(conn, "orders", 0, &["a", "b", "c"]);
    let first = request(&fixture, "a", 0, &[0], &[]);
    let answer = fetch(&mut fixture, conn, &first).unwrap();
    assert_eq!(answer[0].2, [(0, 1, 1)]);
    assert!(answer[0].3 > 60, "the batch comes whole");
    let first = request(&fixture, "b", 0, &[0], &[]);
    assert_eq!(acquired(fetch(&mut fixture, other, &first)), [(2, 2, 1)]);
    // One record is accepted, the other is given back, and comes at once with its second delivery.
    let next = request(&fixture, "a", 1, &[0], &[(0, 0, 1), (1, 1, 2)]);
    assert_eq!(acquired(fetch(&mut fixture, conn, &next)), [(1, 1, 2)]);
    assert_eq!(acknowledge(&mut fixture, other, "b", 1, (2, 2, 3)), Ok(0));
    assert_eq!(acknowledge(&mut fixture, other, "b", 2, (2, 2, 1)), Ok(ErrorCode::INVALID_RECORD_STATE.0));
    assert_eq!(acknowledge(&mut fixture, other, "b", 9, (2, 2, 1)), Err(ErrorCode::INVALID_SHARE_SESSION_EPOCH));
    assert_eq!(acknowledge(&mut fixture, other, "c", 1, (2, 2, 1)), Err(ErrorCode::SHARE_SESSION_NOT_FOUND));
    let wrong = request(&fixture, "d", 0, &[0], &[(0, 0, 1)]);
    assert_eq!(fetch(&mut fixture, other, &wrong), Err(ErrorCode::INVALID_REQUEST));
}

#[test]
fn a_request_waits_for_records_that_are_produced_released_or_whose_lock_ends() {
    let (mut fixture, conn) = fixture(1, 1);
    let (other, writer) = (fixture.connect(1), fixture.connect(1));
    let first = request(&fixture, "a", 0, &[0], &[]);
    fixture.send(conn, 2, &first);
    assert_eq!(received(&mut fixture, conn), []);
    fixture.produce(writer, "orders", 0, &["a", "b"]);
    assert_eq!(acquired(received(&mut fixture, conn).remove(0)), [(0, 1, 1)]);
    // Another member waits, and gets what the first one gives back.
    let waiting = request(&fixture, "b", 0, &[0], &[]);
    fixture.send(other, 2, &waiting);
    assert_eq!(acknowledge(&mut fixture, conn, "a", 1, (0, 0, 2)), Ok(0));
    assert_eq!(acquired(received(&mut fixture, other).remove(0)), [(0, 0, 2)]);
    let waiting = ShareFetchRequest { max_wait_ms: 60_000, ..request(&fixture, "b", 1, &[0], &[(0, 0, 1)]) };
    fixture.send(other, 2, &waiting);
    fixture.advance(LOCK_MS - 1);
    assert_eq!(received(&mut fixture, other), []);
    fixture.advance(1);
    assert_eq!(acquired(received(&mut fixture, other).remove(0)), [(1, 1, 2)]);
    let empty = request(&fixture, "b", 2, &[], &[]);
    fixture.send(other, 2, &empty);
    fixture.advance(499);
    assert_eq!(received(&mut fixture, other), []);
    fixture.advance(1);
    assert_eq!(received(&mut fixture, other), [Ok(vec![])]);
}

#[test]
fn a_renewed_lock_ends_later() {
    let (mut fixture, conn) = fixture(1, 1);
    fixture.produce(conn, "orders", 0, &["a"]);
    let first = request(&fixture, "a", 0, &[0], &[]);
    fetch(&mut fixture, conn, &first).unwrap();
    fixture.advance(LOCK_MS - 1);
    assert_eq!(acknowledge(&mut fixture, conn, "a", 1, (0, 0, 4)), Ok(0));
    fixture.advance(LOCK_MS - 1);
    assert_eq!(acknowledge(&mut fixture, conn, "a", 2, (0, 0, 1)), Ok(0));
}

#[test]
fn the_end_of_a_connection_gives_its_records_back() {
    let (mut fixture, conn) = fixture(1, 1);
    let other = fixture.connect(1);
    fixture.produce(conn, "orders", 0, &["a", "b"]);
    let first = request(&fixture, "a", 0, &[0], &[]);
    fetch(&mut fixture, conn, &first).unwrap();
    let waiting = request(&fixture, "b", 0, &[0], &[]);
    fixture.send(other, 2, &waiting);
    fixture.step(Event::Closed { conn });
    assert_eq!(acquired(received(&mut fixture, other).remove(0)), [(0, 1, 2)]);
}

#[test]
fn the_end_of_a_session_acknowledges_and_gives_the_rest_back() {
    let (mut fixture, conn) = fixture(1, 1);
    let other = fixture.connect(1);
    fixture.produce(conn, "orders", 0, &["a", "b"]);
    let first = request(&fixture, "a", 0, &[0], &[]);
    fetch(&mut fixture, conn, &first).unwrap();
    assert_eq!(acknowledge(&mut fixture, conn, "a", -1, (0, 0, 1)), Ok(0));
    let first = request(&fixture, "b", 0, &[0], &[]);
    assert_eq!(acquired(fetch(&mut fixture, other, &first)), [(1, 1, 2)]);
    let last = request(&fixture, "b", -1, &[0], &[(1, 1, 1)]);
    assert_eq!(fetch(&mut fixture, other, &last), Ok(vec![(0, 0, vec![], 0)]));
    assert_eq!(fetch(&mut fixture, other, &last), Err(ErrorCode::SHARE_SESSION_NOT_FOUND));
}

#[test]
fn a_request_that_another_one_of_its_session_overtakes_is_refused() {
    let (mut fixture, conn) = fixture(1, 1);
    let second = fixture.connect(1);
    let first = request(&fixture, "a", 0, &[0], &[]);
    fixture.send(conn, 2, &first);
    assert_eq!(acknowledge(&mut fixture, second, "a", 1, (0, 0, 1)), Ok(ErrorCode::INVALID_REQUEST.0));
    fixture.produce(second, "orders", 0, &["a"]);
    assert_eq!(received(&mut fixture, conn), [Err(ErrorCode::INVALID_SHARE_SESSION_EPOCH)]);
}

#[test]
fn another_leader_is_named_and_knows_no_locks() {
    let (mut fixture, _) = fixture(2, 1);
    let leader = fixture.cluster.topics().get("orders").unwrap().partitions[0].leader.unwrap();
    let (old, new) = (fixture.connect(leader), fixture.connect(3 - leader));
    fixture.produce(old, "orders", 0, &["a", "b"]);
    let first = request(&fixture, "a", 0, &[0], &[]);
    assert_eq!(acquired(fetch(&mut fixture, old, &first)), [(0, 1, 1)]);
    let waiting = request(&fixture, "b", 0, &[0], &[]);
    let other = fixture.connect(leader);
    fixture.send(other, 2, &waiting);
    fixture.cluster.move_leader("orders", 0, 3 - leader).unwrap();
    fixture.step(Event::Tick);
    let moved = ErrorCode::NOT_LEADER_OR_FOLLOWER.0;
    assert_eq!(received(&mut fixture, other), [Ok(vec![(moved, 0, vec![], 0)])]);
    assert_eq!(acknowledge(&mut fixture, old, "a", 1, (0, 0, 1)), Ok(moved));
    let next = request(&fixture, "a", 2, &[], &[]);
    fixture.call(old, 2, &next, |response| {
        let data = &response.responses[0].partitions[0];
        assert_eq!((data.error_code, data.current_leader.leader_id), (moved, 3 - leader));
        assert_eq!(response.node_endpoints[0].node_id, 3 - leader);
    });
    let first = request(&fixture, "b", 0, &[0], &[]);
    assert_eq!(acquired(fetch(&mut fixture, new, &first)), [(0, 1, 1)]);
}

#[test]
fn a_topic_that_is_deleted_ends_its_requests_and_states() {
    let (mut fixture, conn) = fixture(1, 1);
    let other = fixture.connect(1);
    fixture.produce(conn, "orders", 0, &["a"]);
    let first = request(&fixture, "a", 0, &[0], &[]);
    fetch(&mut fixture, conn, &first).unwrap();
    let waiting = request(&fixture, "b", 0, &[0], &[]);
    fixture.send(other, 2, &waiting);
    fixture.cluster.delete_topic("orders");
    fixture.step(Event::Tick);
    assert_eq!(received(&mut fixture, other), [Ok(vec![(ErrorCode::UNKNOWN_TOPIC_ID.0, 0, vec![], 0)])]);
    assert!(fixture.cluster.snapshot().iter().all(|change| !format!("{change:?}").contains("start")));
}

#[test]
fn a_restart_keeps_what_is_done() {
    let (mut fixture, conn) = fixture(1, 1);
    fixture.produce(conn, "orders", 0, &["a", "b", "c"]);
    let first = request(&fixture, "a", 0, &[0], &[]);
    fetch(&mut fixture, conn, &first).unwrap();
    acknowledge(&mut fixture, conn, "a", 1, (1, 1, 1)).unwrap();
    let mut restarted = Fixture::new(1);
    fixture.changes.iter().for_each(|change| restarted.cluster.restore(change));
    assert_eq!(restarted.cluster.snapshot(), fixture.cluster.snapshot());
    let conn = restarted.connect(1);
    let first = request(&restarted, "a", 0, &[0], &[]);
    assert_eq!(acquired(fetch(&mut restarted, conn, &first)), [(0, 0, 1), (2, 2, 1)]);
}

#[test]
fn offsets_are_described_set_and_deleted() {
    let (mut fixture, conn) = fixture(1, 2);
    fixture.produce(conn, "orders", 0, &["a", "b", "c"]);
    fixture.call(conn, 1, &heartbeat(0), |response| assert_eq!(response.error_code, 0));
    let first = request(&fixture, "a", 0, &[0], &[]);
    fetch(&mut fixture, conn, &first).unwrap();
    acknowledge(&mut fixture, conn, "a", 1, (1, 1, 1)).unwrap();
    let described = |fixture: &mut Fixture| {
        let group = describe_share_group_offsets::DescribeShareGroupOffsetsRequestGroup {
            group_id: GROUP.into(),
            topics: None,
        };
        let request = DescribeShareGroupOffsetsRequest { groups: vec![group] };
        fixture.call(conn, 1, &request, |response| {
            let partitions = response.groups[0].topics.iter().flat_map(|topic| &topic.partitions);
            partitions.map(|found| (found.partition_index, found.start_offset, found.lag)).collect::<Vec<_>>()
        })
    };
    assert_eq!(described(&mut fixture), [(0, 0, 2)]);
    let alter = AlterShareGroupOffsetsRequest {
        group_id: GROUP.into(),
        topics: vec![alter_share_group_offsets::AlterShareGroupOffsetsRequestTopic {
            topic_name: "orders".into(),
            partitions: vec![alter_share_group_offsets::AlterShareGroupOffsetsRequestPartition {
                partition_index: 0,
                start_offset: 2,
            }],
        }],
    };
    fixture.call(conn, 0, &alter, |response| assert_eq!(response.error_code, ErrorCode::NON_EMPTY_GROUP.0));
    fixture.call(conn, 1, &heartbeat(-1), |response| assert_eq!(response.member_epoch, -1));
    fixture.call(conn, 0, &alter, |response| assert_eq!(response.responses[0].partitions[0].error_code, 0));
    assert_eq!(described(&mut fixture), [(0, 2, 1)]);
    let delete = DeleteShareGroupOffsetsRequest {
        group_id: GROUP.into(),
        topics: vec![delete_share_group_offsets::DeleteShareGroupOffsetsRequestTopic { topic_name: "orders".into() }],
    };
    fixture.call(conn, 0, &delete, |response| assert_eq!(response.responses[0].error_code, 0));
    assert_eq!(described(&mut fixture), []);
}

#[test]
fn groups_are_listed_described_and_deleted_with_the_others() {
    let (mut fixture, conn) = fixture(1, 2);
    fixture.call(conn, 1, &heartbeat(0), |response| assert_eq!(response.member_epoch, 1));
    let list = ListGroupsRequest { types_filter: vec!["Share".into()], ..ListGroupsRequest::default() };
    fixture.call(conn, 5, &list, |response| {
        let group = &response.groups[0];
        assert_eq!((&*group.group_id, &*group.group_state, &*group.group_type), (GROUP, "Stable", "share"));
    });
    let describe = ShareGroupDescribeRequest { group_ids: vec![GROUP.into(), "none".into()], ..Default::default() };
    fixture.call(conn, 1, &describe, |response| {
        let group = &response.groups[0];
        assert_eq!((group.error_code, &*group.group_state, &*group.assignor_name), (0, "Stable", "simple"));
        assert_eq!(group.members[0].assignment.topic_partitions[0].partitions, [0, 1]);
        assert_eq!(response.groups[1].error_code, ErrorCode::GROUP_ID_NOT_FOUND.0);
    });
    assert_eq!(fixture.cluster.groups(), [(GROUP.to_owned(), "Stable".to_owned())]);
    let consumer = ConsumerGroupHeartbeatRequest {
        group_id: GROUP.into(),
        member_id: "c".into(),
        rebalance_timeout_ms: 1_000,
        subscribed_topic_names: Some(vec!["orders".into()]),
        topic_partitions: Some(Vec::new()),
        ..ConsumerGroupHeartbeatRequest::default()
    };
    let not_found = ErrorCode::GROUP_ID_NOT_FOUND.0;
    fixture.call(conn, 1, &consumer, |response| assert_eq!(response.error_code, not_found));
    let other = ConsumerGroupHeartbeatRequest { group_id: "billing".into(), ..consumer };
    fixture.call(conn, 1, &other, |response| assert_eq!(response.error_code, 0));
    let share = ShareGroupHeartbeatRequest { group_id: "billing".into(), ..heartbeat(0) };
    fixture.call(conn, 1, &share, |response| {
        assert_eq!(response.error_code, not_found);
        assert_eq!(response.error_message.as_deref(), Some("Group billing is not a share group."));
    });
    let delete = DeleteGroupsRequest { groups_names: vec![GROUP.into(), "none".into()] };
    let errors = |fixture: &mut Fixture| {
        fixture.call(conn, 2, &delete, |response| {
            response.results.iter().map(|result| ErrorCode(result.error_code)).collect::<Vec<_>>()
        })
    };
    assert_eq!(errors(&mut fixture), [ErrorCode::NON_EMPTY_GROUP, ErrorCode::GROUP_ID_NOT_FOUND]);
    fixture.cluster.expire_session(GROUP, "a", &mut Vec::new()).unwrap();
    assert_eq!(errors(&mut fixture), [ErrorCode::NONE, ErrorCode::GROUP_ID_NOT_FOUND]);
}

#[test]
fn settings_of_groups_are_checked_and_described() {
    let (mut fixture, conn) = fixture(1, 1);
    let invalid = ErrorCode::INVALID_CONFIG.0;
    assert_eq!(configure(&mut fixture, conn, &[("share.record.lock.duration.ms", "15000")]), 0);
    assert_eq!(configure(&mut fixture, conn, &[("share.record.lock.duration.ms", "1")]), invalid);
    assert_eq!(configure(&mut fixture, conn, &[("share.colour", "1")]), invalid);
    let resource = DescribeConfigsResource { resource_type: 32, resource_name: GROUP.into(), configuration_keys: None };
    let request = DescribeConfigsRequest { resources: vec![resource], ..DescribeConfigsRequest::default() };
    fixture.call(conn, 4, &request, |response| {
        let value = |name: &str| {
            let found = response.results[0].configs.iter().find(|config| config.name == name).unwrap();
            (found.value.as_deref().unwrap_or_default().to_owned(), found.config_source)
        };
        assert_eq!(value("share.record.lock.duration.ms"), ("15000".to_owned(), 8));
        assert_eq!(value("share.auto.offset.reset"), ("earliest".to_owned(), 8));
        assert_eq!(value("share.delivery.count.limit"), ("5".to_owned(), 5));
    });
}

#[test]
fn a_new_group_begins_where_its_settings_say() {
    let (mut fixture, conn) = fixture(1, 1);
    configure(&mut fixture, conn, &[("share.auto.offset.reset", "latest")]);
    fixture.produce(conn, "orders", 0, &["a"]);
    let first = ShareFetchRequest { max_wait_ms: 0, ..request(&fixture, "a", 0, &[0], &[]) };
    assert_eq!(fetch(&mut fixture, conn, &first), Ok(vec![(0, 0, vec![], 0)]), "the first response names all");
    fixture.produce(conn, "orders", 0, &["b"]);
    let next = request(&fixture, "a", 1, &[], &[]);
    assert_eq!(acquired(fetch(&mut fixture, conn, &next)), [(1, 1, 1)]);
}

#[test]
fn older_releases_have_no_share_groups() {
    for release in [Release::V3_3, Release::V3_9, Release::V4_1] {
        assert_eq!(release.versions(ApiKey::ShareFetch), None);
    }
    assert_eq!(Release::V4_3.versions(ApiKey::ShareFetch), Some(1..=2));
}
