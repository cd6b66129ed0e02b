use std::sync::Arc;

use grete_wire::messages::consumer_group_describe::{
    Assignment, DescribedGroup as DescribedConsumerGroup, Member, TopicPartitions,
};
use grete_wire::messages::describe_groups::{DescribedGroup, DescribedGroupMember};
use grete_wire::messages::offset_commit::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use grete_wire::messages::offset_fetch::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use grete_wire::messages::{
    ConsumerGroupDescribeResponse, DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse,
    DescribeGroupsResponse, LeaveGroupRequest, LeaveGroupResponse, ListGroupsResponse, ListedGroup, MemberResponse,
    OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse,
};
use grete_wire::{ApiKey, ErrorCode, Reader};

use super::super::*;
use super::Harness;
use super::harness::refused;
use crate::connection::CloseReason;
use crate::group::consumer_protocol::encode_assignment;
use crate::ids::TopicPartition;
use crate::time::SECOND;

fn delete(groups: &[&str]) -> Operation {
    Operation::DeleteGroups { groups: groups.iter().map(|&group| Arc::from(group)).collect() }
}

/// Responds to the next DeleteGroups with this code for each group. Returns the broker and the groups.
fn reply_deleted(rig: &mut Harness, code: ErrorCode) -> (i32, Vec<String>) {
    let (node, asked) = rig.next_request(ApiKey::DeleteGroups);
    let question = DeleteGroupsRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
    let groups: Vec<String> = question.groups_names.iter().map(ToString::to_string).collect();
    let result = |group: &String| DeletableGroupResult { group_id: group.clone().into(), error_code: code.0 };
    let body = DeleteGroupsResponse { results: groups.iter().map(result).collect(), ..Default::default() };
    rig.reply(&asked, |version, out| body.encode(version, out));
    (node, groups)
}

#[test]
fn coordinators_are_looked_up_together_and_asked_for_what_is_theirs() {
    let mut rig = Harness::new(&[0, 1], &[]);
    let id = rig.submit(delete(&["a", "b"]));
    assert_eq!(rig.respond_with_coordinator(1, ErrorCode::NONE), ["a", "b"]);
    assert_eq!(reply_deleted(&mut rig, ErrorCode::NONE), (1, vec!["a".into(), "b".into()]));
    assert_eq!(rig.take_reply(id), AdminReply::Done(vec![Ok(()), Ok(())]));
}

#[test]
fn a_coordinator_that_has_moved_is_looked_up_again() {
    let mut rig = Harness::new(&[0, 1], &[]);
    let id = rig.submit(delete(&["a"]));
    rig.respond_with_coordinator(0, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    assert!(!rig.has_request(ApiKey::FindCoordinator), "not without a pause");
    rig.advance(SECOND);
    rig.respond_with_coordinator(0, ErrorCode::NONE);
    assert_eq!(reply_deleted(&mut rig, ErrorCode::NOT_COORDINATOR).0, 0);
    rig.advance(SECOND);
    rig.respond_with_coordinator(1, ErrorCode::NONE);
    // Still the coordinator, only not ready: no reason for another lookup.
    assert_eq!(reply_deleted(&mut rig, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS).0, 1);
    rig.advance(SECOND);
    assert!(!rig.has_request(ApiKey::FindCoordinator));
    assert_eq!(reply_deleted(&mut rig, ErrorCode::NON_EMPTY_GROUP).0, 1);
    assert_eq!(rig.take_reply(id), AdminReply::Done(vec![refused(ErrorCode::NON_EMPTY_GROUP)]));
}

#[test]
fn a_coordinator_that_dies_is_looked_up_again() {
    let mut rig = Harness::new(&[0, 1], &[]);
    let id = rig.submit(delete(&["a"]));
    rig.respond_with_coordinator(0, ErrorCode::NONE);
    rig.fake.kill("b0", 9092);
    rig.advance(SECOND);
    rig.respond_with_coordinator(1, ErrorCode::NONE);
    // The request was sent to the coordinator that died, and may have been executed.
    assert_eq!(reply_deleted(&mut rig, ErrorCode::GROUP_ID_NOT_FOUND).0, 1);
    assert_eq!(rig.take_reply(id), AdminReply::Done(vec![Ok(())]));
}

#[test]
fn a_group_that_is_not_ours_to_see_is_refused_by_the_lookup() {
    let mut rig = Harness::new(&[0], &[]);
    let id = rig.submit(delete(&["a"]));
    rig.respond_with_coordinator(0, ErrorCode::GROUP_AUTHORIZATION_FAILED);
    assert_eq!(rig.take_reply(id), AdminReply::Done(vec![refused(ErrorCode::GROUP_AUTHORIZATION_FAILED)]));
}

#[test]
fn the_end_of_the_time_names_the_coordinator() {
    let mut rig = Harness::new(&[0], &[]);
    let id = rig.submit_with_timeout(delete(&["a"]), 3 * SECOND);
    rig.advance(3 * SECOND);
    let waited_for = "the coordinator of group a".to_owned();
    assert_eq!(rig.take_reply(id), AdminReply::Done(vec![Err(AdminError::TimedOut { waited_for, last: None })]));
}

/// Responds to the next LeaveGroup with these codes. Returns the instance ids of the members.
fn reply_removed(rig: &mut Harness, codes: &[ErrorCode]) -> Vec<String> {
    let (_, asked) = rig.next_request(ApiKey::LeaveGroup);
    let question = LeaveGroupRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
    assert!(question.group_id == "g" && question.members.iter().all(|member| member.member_id.is_empty()));
    let names = question.members.iter().map(|member| member.group_instance_id.as_deref().unwrap().to_owned());
    let names: Vec<String> = names.collect();
    let result = |(name, code): (&String, &ErrorCode)| MemberResponse {
        group_instance_id: Some(name.clone().into()),
        error_code: code.0,
        ..Default::default()
    };
    let body = LeaveGroupResponse { members: names.iter().zip(codes).map(result).collect(), ..Default::default() };
    rig.reply(&asked, |version, out| body.encode(version, out));
    names
}

#[test]
fn static_members_are_removed_by_instance_id_and_unknown_ones_are_reported() {
    let mut rig = Harness::new(&[0, 1], &[]);
    let remove = Operation::RemoveMembers { group: "g".into(), instances: vec!["i".into(), "j".into()] };
    let id = rig.submit(remove);
    assert_eq!(rig.respond_with_coordinator(1, ErrorCode::NONE), ["g"]);
    assert_eq!(reply_removed(&mut rig, &[ErrorCode::NONE, ErrorCode::UNKNOWN_MEMBER_ID]), ["i", "j"]);
    assert_eq!(rig.take_reply(id), AdminReply::Done(vec![Ok(()), refused(ErrorCode::UNKNOWN_MEMBER_ID)]));

    // The response is lost: members that are unknown in the retry were removed by the first attempt.
    let mut rig = Harness::new(&[0, 1], &[]);
    let id = rig.submit(Operation::RemoveMembers { group: "g".into(), instances: vec!["i".into()] });
    rig.respond_with_coordinator(0, ErrorCode::NONE);
    rig.fake.kill("b0", 9092);
    rig.advance(SECOND);
    rig.respond_with_coordinator(1, ErrorCode::NONE);
    assert_eq!(reply_removed(&mut rig, &[ErrorCode::UNKNOWN_MEMBER_ID]), ["i"]);
    assert_eq!(rig.take_reply(id), AdminReply::Done(vec![Ok(())]));
}

fn listed(groups: &[(&str, &str)], error: ErrorCode) -> ListGroupsResponse<'static> {
    let group = |&(group, kind): &(&str, &str)| ListedGroup {
        group_id: group.to_owned().into(),
        protocol_type: "consumer".into(),
        group_state: "Stable".into(),
        group_type: kind.to_owned().into(),
    };
    ListGroupsResponse { error_code: error.0, groups: groups.iter().map(group).collect(), ..Default::default() }
}

#[test]
fn groups_are_listed_at_every_broker_and_a_departed_broker_is_an_error() {
    let mut rig = Harness::new(&[0, 1, 2], &[]);
    let id = rig.submit(Operation::ListGroups { nodes: vec![0, 1, 2], states: Vec::new() });
    let mut silent = None;
    for _ in 0..3 {
        let (node, asked) = rig.next_request(ApiKey::ListGroups);
        match node {
            0 => {
                let body = listed(&[("a", "classic")], ErrorCode::NONE);
                rig.reply(&asked, |version, out| body.encode(version, out));
            }
            1 => {
                let body = listed(&[], ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
                rig.reply(&asked, |version, out| body.encode(version, out));
            }
            _ => silent = Some(asked.conn),
        }
    }
    rig.fake.brokers.remove(&2);
    rig.fake.down.insert(("b2".into(), 9092));
    rig.fake.hang_up(silent.unwrap(), CloseReason::Eof);
    for conn in rig.fake.open.clone().into_iter().filter(|(_, address)| &*address.0 == "b2").map(|(conn, _)| conn) {
        rig.fake.hang_up(conn, CloseReason::Eof);
    }
    rig.advance(3 * SECOND);
    let (node, asked) = rig.next_request(ApiKey::ListGroups);
    assert_eq!(node, 1);
    let body = listed(&[("b", "consumer")], ErrorCode::NONE);
    rig.reply(&asked, |version, out| body.encode(version, out));
    rig.advance(3 * SECOND);
    let AdminReply::GroupListings(results) = rig.take_reply(id) else { panic!("groups") };
    assert_eq!(results[0].as_ref().unwrap()[0].group, "a");
    assert_eq!(results[1].as_ref().unwrap()[0].kind, "consumer");
    assert_eq!(results[2], Err(AdminError::NoBroker(2)));
}

fn describe(group: &str, protocol: GroupProtocol) -> Operation {
    Operation::DescribeGroups { groups: vec![group.into()], protocol }
}

#[test]
fn members_of_a_classic_group_show_what_they_have() {
    let mut rig = Harness::new(&[0], &[]);
    let id = rig.submit(describe("g", GroupProtocol::Classic));
    rig.respond_with_coordinator(0, ErrorCode::NONE);
    let (_, asked) = rig.next_request(ApiKey::DescribeGroups);
    let mine = [TopicPartition::new("t", 1), TopicPartition::new("t", 0)];
    let member = |id: &'static str, bytes: Vec<u8>| DescribedGroupMember {
        member_id: id.into(),
        client_id: "c".into(),
        client_host: "/10.0.0.1".into(),
        member_assignment: bytes.into(),
        ..Default::default()
    };
    let group = DescribedGroup {
        group_id: "g".into(),
        group_state: "Stable".into(),
        protocol_type: "consumer".into(),
        protocol_data: "range".into(),
        members: vec![member("m", encode_assignment(&mine).unwrap()), member("broken", vec![1, 2, 3])],
        ..Default::default()
    };
    let body = DescribeGroupsResponse { groups: vec![group], ..Default::default() };
    rig.reply(&asked, |version, out| body.encode(version, out));
    let AdminReply::GroupDescriptions(results) = rig.take_reply(id) else { panic!("described") };
    let found = results[0].as_ref().unwrap();
    assert_eq!((found.state.as_str(), found.assignor.as_str(), found.coordinator), ("Stable", "range", 0));
    assert_eq!(found.members[0].partitions, [TopicPartition::new("t", 0), TopicPartition::new("t", 1)]);
    assert_eq!((found.members[0].host.as_str(), found.members[1].partitions.len()), ("10.0.0.1", 0));
}

/// Before version 6, the coordinator describes an unknown group as dead.
#[test]
fn a_dead_group_does_not_exist() {
    let mut rig = Harness::new(&[0], &[]);
    let id = rig.submit(describe("g", GroupProtocol::Classic));
    rig.respond_with_coordinator(0, ErrorCode::NONE);
    let (_, asked) = rig.next_request(ApiKey::DescribeGroups);
    let group = DescribedGroup { group_id: "g".into(), group_state: "Dead".into(), ..Default::default() };
    let body = DescribeGroupsResponse { groups: vec![group], ..Default::default() };
    rig.reply(&asked, |version, out| body.encode(version, out));
    assert_eq!(rig.take_reply(id), AdminReply::GroupDescriptions(vec![refused(ErrorCode::GROUP_ID_NOT_FOUND)]));
}

#[test]
fn members_of_a_group_of_the_new_protocol_show_what_they_have() {
    let mut rig = Harness::new(&[0], &[]);
    let id = rig.submit(describe("g", GroupProtocol::Consumer));
    rig.respond_with_coordinator(0, ErrorCode::NONE);
    let (_, asked) = rig.next_request(ApiKey::ConsumerGroupDescribe);
    let topic = |name: &'static str, partitions: &[i32]| TopicPartitions {
        topic_name: name.into(),
        partitions: partitions.to_vec(),
        ..Default::default()
    };
    let assignment = Assignment { topic_partitions: vec![topic("u", &[1, 0]), topic("t", &[7])] };
    let member = Member { member_id: "m".into(), assignment, ..Default::default() };
    let group = DescribedConsumerGroup {
        group_id: "g".into(),
        group_state: "Stable".into(),
        assignor_name: "uniform".into(),
        members: vec![member],
        ..Default::default()
    };
    let body = ConsumerGroupDescribeResponse { groups: vec![group], ..Default::default() };
    rig.reply(&asked, |version, out| body.encode(version, out));
    let AdminReply::GroupDescriptions(results) = rig.take_reply(id) else { panic!("described") };
    let found = results[0].as_ref().unwrap();
    assert_eq!((found.protocol.name(), found.assignor.as_str()), ("consumer", "uniform"));
    let tp = |topic: &str, partition| TopicPartition::new(topic, partition);
    assert_eq!(found.members[0].partitions, [tp("t", 7), tp("u", 0), tp("u", 1)]);
}

fn fetched(partitions: &[(i32, i64, ErrorCode)]) -> OffsetFetchResponse<'static> {
    let partition =
        |&(partition_index, committed_offset, code): &(i32, i64, ErrorCode)| OffsetFetchResponsePartitions {
            partition_index,
            committed_offset,
            committed_leader_epoch: 3,
            error_code: code.0,
            ..Default::default()
        };
    let topic = OffsetFetchResponseTopics {
        name: "t".into(),
        partitions: partitions.iter().map(partition).collect(),
        ..Default::default()
    };
    let group = OffsetFetchResponseGroup { group_id: "g".into(), topics: vec![topic], ..Default::default() };
    OffsetFetchResponse { groups: vec![group], ..Default::default() }
}

#[test]
fn committed_offsets_are_those_that_the_answer_names() {
    let mut rig = Harness::new(&[0], &[]);
    let id = rig.submit(Operation::FetchOffsets { group: "g".into(), partitions: None, stable: false });
    rig.respond_with_coordinator(0, ErrorCode::NONE);
    let (_, asked) = rig.next_request(ApiKey::OffsetFetch);
    let question = OffsetFetchRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
    assert_eq!((question.groups[0].topics.as_ref(), question.require_stable), (None, false));
    let body =
        fetched(&[(0, 5, ErrorCode::NONE), (1, -1, ErrorCode::NONE), (2, -1, ErrorCode::TOPIC_AUTHORIZATION_FAILED)]);
    rig.reply(&asked, |version, out| body.encode(version, out));
    let tp = |partition| TopicPartition::new("t", partition);
    let found = vec![
        (tp(0), Ok(Some(CommittedOffset { offset: 5, leader_epoch: 3 }))),
        (tp(1), Ok(None)),
        (tp(2), Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED)),
    ];
    assert_eq!(rig.take_reply(id), AdminReply::Committed(vec![Ok(found)]));
}

/// P14: a partition that the response omits, or with a pending transaction, does not count as "nothing committed".
#[test]
fn an_answer_that_does_not_answer_is_asked_for_again() {
    let mut rig = Harness::new(&[0], &[]);
    let partitions = Some(vec![TopicPartition::new("t", 0), TopicPartition::new("t", 1)]);
    let id = rig.submit(Operation::FetchOffsets { group: "g".into(), partitions, stable: true });
    for body in [
        fetched(&[(0, 5, ErrorCode::NONE)]),
        fetched(&[(0, 5, ErrorCode::NONE), (1, -1, ErrorCode::UNSTABLE_OFFSET_COMMIT)]),
        OffsetFetchResponse::default(),
        fetched(&[(0, 5, ErrorCode::NONE), (1, 6, ErrorCode::NONE)]),
    ] {
        assert!(rig.replies.is_empty());
        if rig.has_request(ApiKey::FindCoordinator) {
            rig.respond_with_coordinator(0, ErrorCode::NONE);
        }
        let (_, asked) = rig.next_request(ApiKey::OffsetFetch);
        rig.reply(&asked, |version, out| body.encode(version, out));
        rig.advance(2 * SECOND);
    }
    let AdminReply::Committed(results) = rig.take_reply(id) else { panic!("committed") };
    assert_eq!(results[0].as_ref().unwrap().len(), 2);
}

#[test]
fn offsets_are_committed_by_no_member_and_all_again_while_the_coordinator_loads() {
    let mut rig = Harness::new(&[0], &[]);
    let offsets = vec![(TopicPartition::new("t", 0), 5), (TopicPartition::new("t", 1), 6)];
    let id = rig.submit(Operation::CommitOffsets { group: "g".into(), offsets });
    rig.respond_with_coordinator(0, ErrorCode::NONE);
    for code in [ErrorCode::COORDINATOR_LOAD_IN_PROGRESS, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION] {
        let (_, asked) = rig.next_request(ApiKey::OffsetCommit);
        let question = OffsetCommitRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
        assert_eq!((question.generation_id_or_member_epoch, &*question.member_id), (-1, ""));
        assert_eq!(question.topics[0].partitions.len(), 2);
        let partition = |(partition_index, code): (i32, ErrorCode)| OffsetCommitResponsePartition {
            partition_index,
            error_code: code.0,
        };
        let topic = OffsetCommitResponseTopic {
            name: "t".into(),
            partitions: [(0, ErrorCode::NONE), (1, code)].map(partition).to_vec(),
            ..Default::default()
        };
        let body = OffsetCommitResponse { topics: vec![topic], ..Default::default() };
        rig.reply(&asked, |version, out| body.encode(version, out));
        rig.advance(SECOND);
    }
    let tp = |partition| TopicPartition::new("t", partition);
    let found = vec![(tp(0), Ok(())), (tp(1), Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))];
    assert_eq!(rig.take_reply(id), AdminReply::Partitions(vec![Ok(found)]));
}
