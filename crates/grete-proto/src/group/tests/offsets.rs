//! Committed offsets as start positions. P14: an error never counts as "no commit".

use std::borrow::Cow;

use grete_wire::messages::{
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use grete_wire::{ApiKey, ErrorCode};

use super::harness::*;
use crate::group::{GroupAction, GroupConfig, GroupEvent, GroupLogEvent, TransactionResult};
use crate::request::{Request, RequestError};
use crate::time::{MILLI, SECOND};

fn positions(rig: &mut Harness) -> Vec<(i32, Option<i64>)> {
    let actions = std::mem::take(&mut rig.actions);
    let found = actions.into_iter().filter_map(|action| match action {
        GroupAction::Position { tp, start, .. } => Some((tp.partition, start)),
        _ => None,
    });
    found.collect()
}

/// Partitions 0 and 1 are assigned; the lookup of their offsets is in flight.
fn asking() -> Harness {
    let mut rig = Harness::new();
    rig.join(&[]);
    rig.rebalance();
    rig.complete_rebalance(&[0, 1]);
    rig
}

/// A member that considers its session expired may come back with the same id and in the same generation. Then the
/// coordinator takes the offset of the transaction in flight, although the partition was lost meanwhile: a position from
/// before would let the same records be processed and committed twice.
#[test]
fn a_position_waits_for_the_end_of_the_transaction_in_flight() {
    for result in [TransactionResult::Committed, TransactionResult::Aborted("the group was not reached".into())] {
        let mut rig = Harness::with(GroupConfig { transactional: true, ..GroupConfig::new("g") });
        rig.join(&[0, 1]);
        rig.commit(0, &[(0, 5)]);
        let begun = rig.actions.iter().find_map(|action| match action {
            GroupAction::CommitTransaction { number, .. } => Some(*number),
            _ => None,
        });
        let number = begun.expect("a transaction");
        rig.advance(45 * SECOND);
        assert!(rig.log_texts().contains(&"lost 0 1".to_owned()));
        rig.generation -= 1;
        rig.complete_rebalance(&[0, 1]);
        let asked = |rig: &mut Harness| {
            let asked = rig.take(ApiKey::OffsetFetch);
            let Request::OffsetFetch(request) = &asked.request else { unreachable!() };
            (request.groups[0].topics.as_ref().unwrap()[0].partition_indexes.clone(), asked)
        };
        let (partitions, request) = asked(&mut rig);
        assert_eq!(partitions, [1], "{result:?}");
        rig.answer_offsets(&request, ErrorCode::NONE, &[(1, 3, ErrorCode::NONE)]);
        rig.pass_with_heartbeats(5 * SECOND);
        rig.sends_no(ApiKey::OffsetFetch);
        rig.step(GroupEvent::TransactionDone { number, result });
        let (partitions, request) = asked(&mut rig);
        assert_eq!(partitions, [0]);
        rig.answer_offsets(&request, ErrorCode::NONE, &[(0, 5, ErrorCode::NONE)]);
        assert_eq!(positions(&mut rig), [(1, Some(3)), (0, Some(5))]);
    }
}

#[test]
fn a_commit_is_a_position_and_none_is_none() {
    let mut rig = asking();
    let asked = rig.take(ApiKey::OffsetFetch);
    let Request::OffsetFetch(request) = &asked.request else { panic!() };
    assert!(request.require_stable);
    rig.answer_offsets(&asked, ErrorCode::NONE, &[(0, 0, ErrorCode::NONE), (1, -1, ErrorCode::NONE)]);
    assert_eq!(positions(&mut rig), [(0, Some(0)), (1, None)]);
    rig.advance(2 * SECOND);
    rig.sends_no(ApiKey::OffsetFetch);
}

#[test]
fn p14_an_error_never_means_that_there_is_no_commit() {
    for code in [
        ErrorCode::UNSTABLE_OFFSET_COMMIT,
        ErrorCode::STALE_MEMBER_EPOCH,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode::UNKNOWN_SERVER_ERROR,
    ] {
        let mut rig = asking();
        let asked = rig.take(ApiKey::OffsetFetch);
        rig.answer_offsets(&asked, ErrorCode::NONE, &[(0, -1, code), (1, 5, ErrorCode::NONE)]);
        assert_eq!(positions(&mut rig), [(1, Some(5))]);
        rig.advance(SECOND);
        rig.load(&[(0, 9)]);
        assert_eq!(positions(&mut rig), [(0, Some(9))]);
    }
}

#[test]
fn p14_neither_does_an_error_of_the_whole_answer() {
    for code in [ErrorCode::COORDINATOR_LOAD_IN_PROGRESS, ErrorCode::STALE_MEMBER_EPOCH, ErrorCode::UNKNOWN_MEMBER_ID] {
        let mut rig = asking();
        let asked = rig.take(ApiKey::OffsetFetch);
        rig.answer_offsets(&asked, code, &[(0, -1, ErrorCode::NONE), (1, -1, ErrorCode::NONE)]);
        assert_eq!(positions(&mut rig), []);
        rig.advance(SECOND);
        rig.load(&[(0, 9)]);
        assert_eq!(positions(&mut rig), [(0, Some(9)), (1, None)]);
    }
    let mut rig = asking();
    let asked = rig.take(ApiKey::OffsetFetch);
    rig.answer_offsets(&asked, ErrorCode::NOT_COORDINATOR, &[]);
    rig.advance(SECOND);
    rig.locate(8);
    rig.load(&[(0, 9)]);
    assert_eq!(positions(&mut rig), [(0, Some(9)), (1, None)]);
}

#[test]
fn p14_a_partition_that_the_answer_leaves_out_is_asked_for_again() {
    let mut rig = asking();
    let asked = rig.take(ApiKey::OffsetFetch);
    rig.answer_offsets(&asked, ErrorCode::NONE, &[(1, 5, ErrorCode::NONE)]);
    assert_eq!(positions(&mut rig), [(1, Some(5))]);
    rig.sends_no(ApiKey::OffsetFetch);
    rig.advance(SECOND);
    rig.load(&[(0, 3)]);
    assert_eq!(positions(&mut rig), [(0, Some(3))]);
}

/// P15 (KAFKA-20765): a lasting error is retried with growing backoff.
#[test]
fn p15_a_refusal_that_stays_does_not_spin() {
    let mut rig = asking();
    let mut asked = 0;
    for _ in 0..600 {
        rig.advance(100 * MILLI);
        if let Some(fetch) = rig.try_take(ApiKey::OffsetFetch) {
            asked += 1;
            rig.answer_offsets(&fetch, ErrorCode::STALE_MEMBER_EPOCH, &[]);
        }
        if let Some(heartbeat) = rig.try_take(ApiKey::Heartbeat) {
            rig.refuse(&heartbeat, ErrorCode::NONE);
        }
    }
    assert!((45..90).contains(&asked), "{asked} requests in a minute");
}

#[test]
fn a_lost_answer_is_asked_for_again() {
    let mut rig = asking();
    let asked = rig.take(ApiKey::OffsetFetch);
    rig.fail(&asked, RequestError::TimedOut);
    rig.advance(SECOND);
    rig.locate(NODE);
    rig.advance(SECOND);
    rig.load(&[(0, 3), (1, 4)]);
    assert_eq!(positions(&mut rig), [(0, Some(3)), (1, Some(4))]);
}

#[test]
fn a_topic_that_may_not_be_read_is_fatal() {
    let mut rig = asking();
    rig.log_texts();
    let asked = rig.take(ApiKey::OffsetFetch);
    rig.answer_offsets(&asked, ErrorCode::NONE, &[(0, -1, ErrorCode::TOPIC_AUTHORIZATION_FAILED)]);
    assert_eq!(
        rig.log_texts(),
        [
            "lost 0 1",
            "fatal not allowed to read topic t: the client needs Read on topic t: grete acls create --allow-principal User:NAME --operation Read --topic t"
        ]
    );
}

/// Checks `assign` with a group id: positions and commits without a join.
#[test]
fn standalone_loads_and_commits_without_joining() {
    let mut rig = Harness::new();
    rig.step(GroupEvent::Assigned { tps: tps(&[0]), epoch: 50, fetch_offsets: false });
    assert!(rig.sent.is_empty(), "no request is due, so no coordinator is needed");
    rig.step(GroupEvent::Assigned { tps: tps(&[1]), epoch: 51, fetch_offsets: true });
    rig.locate(NODE);
    rig.load(&[(1, 8)]);
    assert_eq!(positions(&mut rig), [(1, Some(8))]);
    rig.commit(1, &[(0, 3), (1, 9)]);
    let commit = rig.take(ApiKey::OffsetCommit);
    assert_eq!(committed(&commit), (-1, vec![(0, 3), (1, 9)]));
    rig.answer_commit(&commit, &[(0, ErrorCode::NONE), (1, ErrorCode::NONE)]);
    assert_eq!(rig.result(1).len(), 2);
    rig.advance(100 * SECOND);
    rig.sends_no(ApiKey::Heartbeat);
    rig.sends_no(ApiKey::JoinGroup);
    assert_eq!((rig.group.state_name(), rig.group.deadline()), ("standalone", None));
    // Commits in flight complete before the group is left.
    rig.commit(2, &[(0, 4)]);
    rig.step(GroupEvent::Leave { deadline: rig.now + 5 * SECOND, remain_in_group: true });
    assert!(!rig.log_texts().contains(&"left".to_owned()));
    let commit = rig.take(ApiKey::OffsetCommit);
    rig.answer_commit(&commit, &[(0, ErrorCode::NONE)]);
    assert_eq!(rig.result(2), [(0, 4, Ok(()))]);
    let complains = |action: &GroupAction| matches!(action, GroupAction::LogEvent(GroupLogEvent::Lost { .. }));
    assert!(!rig.actions.iter().any(complains), "partitions given up on purpose are not lost");
    assert_eq!(rig.log_texts(), ["lost 0 1", "left"]);
}

#[test]
fn the_text_that_was_stored_with_an_offset_comes_back_with_it() {
    let mut rig = asking();
    let asked = rig.take(ApiKey::OffsetFetch);
    let partition = |partition_index, committed_offset, metadata: Option<&'static str>| OffsetFetchResponsePartitions {
        partition_index,
        committed_offset,
        metadata: metadata.map(Cow::Borrowed),
        ..OffsetFetchResponsePartitions::default()
    };
    // Metadata without an offset is ignored.
    let partitions = vec![partition(0, 7, Some("beside 7")), partition(1, -1, Some("stray"))];
    let name = Cow::Borrowed("t");
    let topics = vec![OffsetFetchResponseTopics { name, partitions, ..OffsetFetchResponseTopics::default() }];
    let group_id = Cow::Borrowed("g");
    let groups = vec![OffsetFetchResponseGroup { group_id, topics, ..OffsetFetchResponseGroup::default() }];
    let answer = OffsetFetchResponse { groups, ..OffsetFetchResponse::default() };
    rig.answer(&asked, |version, out| answer.encode(version, out));
    let found = rig.actions.iter().filter_map(|action| match action {
        GroupAction::Position { start, metadata, .. } => Some((*start, metadata.as_str())),
        _ => None,
    });
    assert_eq!(found.collect::<Vec<_>>(), [(Some(7), "beside 7"), (None, "")]);
}
