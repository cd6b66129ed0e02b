//! Descriptions and offsets of share groups (KIP-932).

use grete_wire::messages::alter_share_group_offsets::{
    AlterShareGroupOffsetsResponsePartition, AlterShareGroupOffsetsResponseTopic,
};
use grete_wire::messages::delete_share_group_offsets::DeleteShareGroupOffsetsResponseTopic;
use grete_wire::messages::describe_share_group_offsets::{
    DescribeShareGroupOffsetsResponseGroup, DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
};
use grete_wire::messages::{
    AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse, DescribeShareGroupOffsetsResponse, ShareGroupDescribeResponse,
    share_group_describe,
};
use grete_wire::primitives::Reader;
use grete_wire::{ApiKey, ErrorCode};

use super::super::*;
use super::Harness;
use crate::ids::TopicPartition;
use crate::time::SECOND;

#[test]
fn offsets_of_share_groups_are_unknown_where_the_broker_does_not_say() {
    let mut rig = Harness::new(&[0], &[]);
    let id = rig.submit(Operation::FetchShareOffsets { group: "g".into() });
    rig.respond_with_coordinator(0, ErrorCode::NONE);
    let partition = |partition_index, start_offset, lag, error_code| DescribeShareGroupOffsetsResponsePartition {
        partition_index,
        start_offset,
        lag,
        error_code,
        ..Default::default()
    };
    let denied = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
    let topic = DescribeShareGroupOffsetsResponseTopic {
        topic_name: "t".into(),
        partitions: vec![partition(0, 5, 2, 0), partition(1, -1, -1, 0), partition(2, 0, 0, denied.0)],
        ..Default::default()
    };
    let group =
        DescribeShareGroupOffsetsResponseGroup { group_id: "g".into(), topics: vec![topic], ..Default::default() };
    let body = DescribeShareGroupOffsetsResponse { groups: vec![group], ..Default::default() };
    let (_, asked) = rig.next_request(ApiKey::DescribeShareGroupOffsets);
    rig.reply(&asked, |version, out| body.encode(version, out));
    let tp = |partition| TopicPartition::new("t", partition);
    let found = vec![
        (tp(0), Ok(ShareOffset { start: Some(5), lag: Some(2) })),
        (tp(1), Ok(ShareOffset { start: None, lag: None })),
        (tp(2), Err(denied)),
    ];
    assert_eq!(rig.take_reply(id), AdminReply::ShareOffsets(vec![Ok(found)]));
}

#[test]
fn members_of_share_groups_have_partitions_in_common() {
    let mut rig = Harness::new(&[0], &[]);
    let id = rig.submit(Operation::DescribeGroups { groups: vec!["g".into()], protocol: GroupProtocol::Share });
    rig.respond_with_coordinator(0, ErrorCode::NONE);
    let member = |id: &'static str| share_group_describe::Member {
        member_id: id.into(),
        client_host: "/10.0.0.1".into(),
        assignment: share_group_describe::Assignment {
            topic_partitions: vec![share_group_describe::TopicPartitions {
                topic_name: "t".into(),
                partitions: vec![0],
                ..Default::default()
            }],
        },
        ..Default::default()
    };
    let group = share_group_describe::DescribedGroup {
        group_id: "g".into(),
        group_state: "Stable".into(),
        assignor_name: "simple".into(),
        members: vec![member("a"), member("b")],
        ..Default::default()
    };
    let body = ShareGroupDescribeResponse { groups: vec![group], ..Default::default() };
    let (_, asked) = rig.next_request(ApiKey::ShareGroupDescribe);
    rig.reply(&asked, |version, out| body.encode(version, out));
    let AdminReply::GroupDescriptions(results) = rig.take_reply(id) else { panic!("descriptions") };
    let found = results[0].as_ref().unwrap();
    assert_eq!((&*found.state, found.protocol.name(), &*found.assignor), ("Stable", "share", "simple"));
    let members: Vec<_> = found.members.iter().map(|member| (&*member.id, &*member.host, &member.partitions)).collect();
    let owned = vec![TopicPartition::new("t", 0)];
    assert_eq!(members, [("a", "10.0.0.1", &owned), ("b", "10.0.0.1", &owned)]);
}

#[test]
fn start_offsets_are_set_again_while_the_coordinator_loads() {
    let mut rig = Harness::new(&[0], &[]);
    let offsets = vec![(TopicPartition::new("t", 0), 5), (TopicPartition::new("t", 1), 6)];
    let id = rig.submit(Operation::AlterShareOffsets { group: "g".into(), offsets });
    rig.respond_with_coordinator(0, ErrorCode::NONE);
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    for code in [ErrorCode::COORDINATOR_LOAD_IN_PROGRESS, unknown] {
        let (_, asked) = rig.next_request(ApiKey::AlterShareGroupOffsets);
        let request = AlterShareGroupOffsetsRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
        let starts = request.topics[0].partitions.iter().map(|one| (one.partition_index, one.start_offset));
        assert_eq!((&*request.group_id, starts.collect::<Vec<_>>()), ("g", vec![(0, 5), (1, 6)]));
        let partition = |(partition_index, code): (i32, ErrorCode)| AlterShareGroupOffsetsResponsePartition {
            partition_index,
            error_code: code.0,
            error_message: None,
        };
        let topic = AlterShareGroupOffsetsResponseTopic {
            topic_name: "t".into(),
            partitions: [(0, ErrorCode::NONE), (1, code)].map(partition).to_vec(),
            ..Default::default()
        };
        let body = AlterShareGroupOffsetsResponse { responses: vec![topic], ..Default::default() };
        rig.reply(&asked, |version, out| body.encode(version, out));
        rig.advance(SECOND);
    }
    let found = vec![(TopicPartition::new("t", 0), Ok(())), (TopicPartition::new("t", 1), Err(unknown))];
    assert_eq!(rig.take_reply(id), AdminReply::Partitions(vec![Ok(found)]));
}

#[test]
fn a_group_with_members_keeps_its_start_offsets() {
    let mut rig = Harness::new(&[0], &[]);
    let offsets = vec![(TopicPartition::new("t", 0), 5)];
    let id = rig.submit(Operation::AlterShareOffsets { group: "g".into(), offsets });
    rig.respond_with_coordinator(0, ErrorCode::NONE);
    let (_, asked) = rig.next_request(ApiKey::AlterShareGroupOffsets);
    let body = AlterShareGroupOffsetsResponse {
        error_code: ErrorCode::NON_EMPTY_GROUP.0,
        error_message: Some("has members".into()),
        ..Default::default()
    };
    rig.reply(&asked, |version, out| body.encode(version, out));
    let refused = AdminError::Refused { code: ErrorCode::NON_EMPTY_GROUP, message: Some("has members".into()) };
    assert_eq!(rig.take_reply(id), AdminReply::Partitions(vec![Err(refused)]));
}

#[test]
fn offsets_of_a_share_group_are_deleted_by_topic() {
    let mut rig = Harness::new(&[0], &[]);
    let [first, second, gone] = [("t", 0), ("t", 1), ("gone", 0)].map(|(topic, at)| TopicPartition::new(topic, at));
    let partitions = vec![first.clone(), second.clone(), gone.clone()];
    let id = rig.submit(Operation::DeleteShareOffsets { group: "g".into(), partitions });
    rig.respond_with_coordinator(0, ErrorCode::NONE);
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    for code in [ErrorCode::COORDINATOR_LOAD_IN_PROGRESS, ErrorCode::NONE] {
        let (_, asked) = rig.next_request(ApiKey::DeleteShareGroupOffsets);
        let request = DeleteShareGroupOffsetsRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
        let names: Vec<_> = request.topics.iter().map(|topic| &*topic.topic_name).collect();
        assert_eq!((&*request.group_id, names), ("g", vec!["gone", "t"]));
        let topic = |(topic_name, code): (&'static str, ErrorCode)| DeleteShareGroupOffsetsResponseTopic {
            topic_name: topic_name.into(),
            error_code: code.0,
            ..Default::default()
        };
        let responses = [("t", code), ("gone", unknown), ("other", code)].map(topic).to_vec();
        let body = DeleteShareGroupOffsetsResponse { responses, ..Default::default() };
        rig.reply(&asked, |version, out| body.encode(version, out));
        rig.advance(SECOND);
    }
    let found = vec![(first, Ok(())), (second, Ok(())), (gone, Err(unknown))];
    assert_eq!(rig.take_reply(id), AdminReply::Partitions(vec![Ok(found)]));
}
