use grete_wire::messages::delete_records::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult};
use grete_wire::messages::list_offsets::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use grete_wire::messages::{DeleteRecordsResponse, ListOffsetsRequest, ListOffsetsResponse};
use grete_wire::{ApiKey, ErrorCode, Reader};

use super::super::*;
use super::Harness;
use super::harness::refused;
use crate::ids::TopicPartition;
use crate::time::SECOND;

fn list(starts: &[(i32, OffsetSpec)]) -> Operation {
    let starts = starts.iter().map(|&(partition, when)| (TopicPartition::new("t", partition), when)).collect();
    Operation::ListOffsets { specs: starts, read_committed: false }
}

/// Responds to the next ListOffsets with `answer(partition, requested timestamp)`. Returns the broker and the requested
/// positions.
fn reply(rig: &mut Harness, answer: impl Fn(i32, i64) -> Result<i64, ErrorCode>) -> (i32, Vec<(i32, i64)>) {
    let (node, asked) = rig.next_request(ApiKey::ListOffsets);
    let question = ListOffsetsRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
    assert_eq!(question.isolation_level, 0);
    let topics = question.topics.iter();
    let flat: Vec<_> = topics.flat_map(|t| t.partitions.iter().map(|p| (p.partition_index, p.timestamp))).collect();
    let partition = |&(partition_index, timestamp): &(i32, i64)| {
        let answer = answer(partition_index, timestamp);
        ListOffsetsPartitionResponse {
            partition_index,
            error_code: answer.err().unwrap_or(ErrorCode::NONE).0,
            offset: answer.unwrap_or(-1),
            leader_epoch: 4,
            ..Default::default()
        }
    };
    let topic = ListOffsetsTopicResponse { name: "t".into(), partitions: flat.iter().map(partition).collect() };
    let body = ListOffsetsResponse { topics: vec![topic], ..Default::default() };
    rig.reply(&asked, |version, out| body.encode(version, out));
    (node, flat)
}

fn offset<E>(offset: i64) -> Result<ListedOffset, E> {
    Ok(ListedOffset { offset, leader_epoch: 4 })
}

#[test]
fn leaders_are_asked_for_their_partitions() {
    let mut rig = Harness::new(&[0, 1], &[("t", 1, &[(0, 0), (1, 0), (0, 0)])]);
    let id = rig.submit(list(&[(0, OffsetSpec::Earliest), (1, OffsetSpec::Latest), (2, OffsetSpec::Timestamp(99))]));
    let answer = |partition: i32, _| Ok(i64::from(partition) * 10);
    let mut seen = [reply(&mut rig, answer), reply(&mut rig, answer)];
    seen.sort();
    assert_eq!(seen, [(0, vec![(0, -2), (2, 99)]), (1, vec![(1, -1)])]);
    assert_eq!(rig.take_reply(id), AdminReply::Offsets(vec![offset(0), offset(10), offset(20)]));
    assert!(rig.operations.topics().is_empty(), "no operation needs the topic's leaders any more");
}

#[test]
fn a_partition_is_in_a_request_once_and_a_time_beyond_the_end_means_the_end() {
    let mut rig = Harness::new(&[0], &[("t", 1, &[(0, 0)])]);
    let id = rig.submit(list(&[(0, OffsetSpec::Timestamp(99)), (0, OffsetSpec::Earliest)]));
    let answer = |_, timestamp| {
        Ok(match timestamp {
            -1 => 50,
            -2 => 10,
            _ => -1,
        })
    };
    let rounds: Vec<_> = (0..3).map(|_| reply(&mut rig, answer).1).collect();
    assert_eq!(rounds, [[(0, 99)], [(0, -1)], [(0, -2)]]);
    assert_eq!(rig.take_reply(id), AdminReply::Offsets(vec![offset(50), offset(10)]));
}

#[test]
fn a_leader_that_has_moved_is_followed() {
    let mut rig = Harness::new(&[0, 1], &[("t", 1, &[(0, 0)])]);
    let id = rig.submit(list(&[(0, OffsetSpec::Latest)]));
    rig.fake.set_topic("t", 1, &[(1, 1)]);
    assert_eq!(reply(&mut rig, |_, _| Err(ErrorCode::NOT_LEADER_OR_FOLLOWER)).0, 0);
    rig.advance(2 * SECOND);
    assert_eq!(reply(&mut rig, |_, _| Ok(7)).0, 1);
    assert_eq!(rig.take_reply(id), AdminReply::Offsets(vec![offset(7)]));
}

#[test]
fn a_partition_without_a_leader_is_waited_for_by_name() {
    let mut rig = Harness::new(&[0], &[("t", 1, &[(0, 0), (-1, 0)])]);
    let id = rig.submit_with_timeout(list(&[(0, OffsetSpec::Latest), (1, OffsetSpec::Latest)]), 5 * SECOND);
    rig.advance(SECOND);
    reply(&mut rig, |_, _| Ok(7));
    rig.advance(4 * SECOND);
    let AdminReply::Offsets(results) = rig.take_reply(id) else { panic!("offsets") };
    assert_eq!(results[0], offset(7));
    let said = results[1].as_ref().unwrap_err().to_string();
    assert_eq!(said, "waited for a leader of t[1]; last error: LEADER_NOT_AVAILABLE");
}

#[test]
fn what_does_not_exist_is_looked_for_once_more_and_then_said_so() {
    let mut rig = Harness::new(&[0], &[("t", 1, &[(0, 0)])]);
    let none = Operation::ListOffsets {
        specs: vec![(TopicPartition::new("none", 0), OffsetSpec::Latest)],
        read_committed: false,
    };
    let (unknown, beyond) = (rig.submit(none), rig.submit(list(&[(5, OffsetSpec::Latest)])));
    let before = rig.fake.metadata_requests.len();
    rig.advance(5 * SECOND);
    assert!(rig.fake.metadata_requests.len() <= before + 4, "not in a tight loop");
    assert_eq!(rig.take_reply(unknown), AdminReply::Offsets(vec![refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)]));
    assert_eq!(rig.take_reply(beyond), AdminReply::Offsets(vec![Err(AdminError::NoPartition { count: 1 })]));
}

/// Metadata of another topic is no proof that the missing topic does not exist.
#[test]
fn only_newer_metadata_says_that_something_is_not_there() {
    let mut rig = Harness::new(&[0], &[("t", 1, &[(0, 0)])]);
    let id = rig.submit(list(&[(0, OffsetSpec::Latest), (1, OffsetSpec::Latest)]));
    rig.fake.set_topic("t", 1, &[(0, 0), (0, 0)]);
    assert_eq!(reply(&mut rig, |_, _| Ok(7)).1, [(0, -1)]);
    assert!(rig.replies.is_empty());
    rig.advance(SECOND);
    assert_eq!(reply(&mut rig, |_, _| Ok(8)).1, [(1, -1)]);
    assert_eq!(rig.take_reply(id), AdminReply::Offsets(vec![offset(7), offset(8)]));
}

/// Another client has just created the topic, so older metadata lacks it.
#[test]
fn what_appears_meanwhile_is_found() {
    let mut rig = Harness::new(&[0], &[]);
    let id = rig.submit(list(&[(0, OffsetSpec::Latest)]));
    rig.fake.set_topic("t", 1, &[(0, 0)]);
    rig.advance(SECOND);
    reply(&mut rig, |_, _| Ok(0));
    assert_eq!(rig.take_reply(id), AdminReply::Offsets(vec![offset(0)]));
}

#[test]
fn records_are_deleted_at_the_leader() {
    let mut rig = Harness::new(&[0, 1], &[("t", 1, &[(1, 0)])]);
    let before = vec![(TopicPartition::new("t", 0), 5)];
    let id = rig.submit(Operation::DeleteRecords { before });
    let (node, asked) = rig.next_request(ApiKey::DeleteRecords);
    assert_eq!(node, 1);
    let partition = DeleteRecordsPartitionResult { partition_index: 0, low_watermark: 5, error_code: 0 };
    let topic = DeleteRecordsTopicResult { name: "t".into(), partitions: vec![partition] };
    let body = DeleteRecordsResponse { topics: vec![topic], ..Default::default() };
    rig.reply(&asked, |version, out| body.encode(version, out));
    assert_eq!(rig.take_reply(id), AdminReply::LowWatermarks(vec![Ok(5)]));
}
