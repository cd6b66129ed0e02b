//! Commits of offsets.

use grete_wire::{ApiKey, ErrorCode};

use super::harness::*;
use super::simulator::commit;
use crate::group::{CommitError, CommitOffset, GroupAction, GroupEvent, GroupLogEvent, GroupStats};
use crate::request::RequestError;
use crate::time::SECOND;

fn stable() -> Harness {
    let mut rig = Harness::new();
    rig.join(&[0, 1]);
    rig
}

#[test]
fn one_request_at_a_time_and_the_newest_offset_wins() {
    let mut rig = stable();
    rig.commit(1, &[(0, 10)]);
    let first = rig.take(ApiKey::OffsetCommit);
    assert_eq!(committed(&first), (1, vec![(0, 10)]));
    rig.commit(2, &[(0, 11), (1, 5)]);
    rig.commit(3, &[(0, 12)]);
    rig.sends_no(ApiKey::OffsetCommit);
    rig.answer_commit(&first, &[(0, ErrorCode::NONE)]);
    assert_eq!(rig.result(1), [(0, 10, Ok(()))]);
    let second = rig.take(ApiKey::OffsetCommit);
    assert_eq!(committed(&second), (1, vec![(0, 12), (1, 5)]));
    rig.answer_commit(&second, &[(0, ErrorCode::NONE), (1, ErrorCode::NONE)]);
    assert_eq!(rig.result(2), [(0, 12, Ok(())), (1, 5, Ok(()))]);
    assert_eq!(rig.result(3), [(0, 12, Ok(()))]);
    let stats = GroupStats { rebalances: 1, commits: 3, ..GroupStats::default() };
    assert_eq!(rig.group.stats(), stats, "offset 11 went along with 12");
}

/// P27: the retry of an old offset does not overwrite a newer one.
#[test]
fn p27_a_retry_never_overwrites_a_newer_commit() {
    for error in [None, Some(RequestError::TimedOut)] {
        let mut rig = stable();
        rig.commit(1, &[(0, 10), (1, 20)]);
        let first = rig.take(ApiKey::OffsetCommit);
        rig.commit(2, &[(0, 15)]);
        match error {
            None => {
                let busy = ErrorCode::COORDINATOR_LOAD_IN_PROGRESS;
                rig.answer_commit(&first, &[(0, busy), (1, busy)]);
            }
            Some(error) => {
                rig.fail(&first, error);
                rig.advance(SECOND);
                rig.locate(NODE);
            }
        }
        rig.advance(SECOND);
        let second = rig.take(ApiKey::OffsetCommit);
        assert_eq!(committed(&second), (1, vec![(0, 15), (1, 20)]));
        rig.answer_commit(&second, &[(0, ErrorCode::NONE), (1, ErrorCode::NONE)]);
        assert_eq!(rig.result(1), [(0, 15, Ok(())), (1, 20, Ok(()))]);
        assert_eq!(rig.result(2), [(0, 15, Ok(()))]);
        rig.pass_with_heartbeats(10 * SECOND);
        rig.sends_no(ApiKey::OffsetCommit);
    }
}

#[test]
fn a_commit_of_an_old_epoch_is_refused() {
    let mut rig = stable();
    let epoch = rig.epoch(0).unwrap();
    let offsets = vec![commit(&tp(0), 7, epoch - 1), commit(&tp(1), 8, epoch), commit(&tp(3), 9, epoch)];
    rig.step(GroupEvent::Commit { offsets, id: 1 });
    let sent = rig.take(ApiKey::OffsetCommit);
    assert_eq!(committed(&sent), (1, vec![(1, 8)]));
    rig.answer_commit(&sent, &[(1, ErrorCode::NONE)]);
    let stale = Err(CommitError::StaleAssignment);
    assert_eq!(rig.result(1), [(0, 7, stale.clone()), (3, 9, stale), (1, 8, Ok(()))]);
}

/// P28: until a revocation is acknowledged its partitions can be committed; after that, not even a retry commits.
#[test]
fn p28_commits_count_until_the_revocation_is_over_and_it_waits_for_those_under_way() {
    let mut rig = stable();
    rig.rebalance();
    rig.complete_rebalance(&[0]);
    let epoch = rig.epoch(1).unwrap();
    rig.commit(1, &[(1, 30)]);
    let sent = rig.take(ApiKey::OffsetCommit);
    assert_eq!(committed(&sent), (2, vec![(1, 30)]));
    rig.ack();
    rig.answer_commit(&sent, &[(1, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS)]);
    assert_eq!(rig.epoch(1), Some(epoch));
    rig.sends_no(ApiKey::JoinGroup);
    rig.pass_with_heartbeats(SECOND);
    let again = rig.take(ApiKey::OffsetCommit);
    rig.answer_commit(&again, &[(1, ErrorCode::NONE)]);
    assert_eq!(rig.result(1), [(1, 30, Ok(()))]);
    assert_eq!(rig.epoch(1), None);
    rig.take(ApiKey::JoinGroup);
    rig.step(GroupEvent::Commit { offsets: vec![commit(&tp(1), 31, epoch)], id: 2 });
    assert_eq!(rig.result(2), [(1, 31, Err(CommitError::StaleAssignment))]);
    let stats = rig.group.stats();
    assert_eq!((stats.commits, stats.commit_failures), (1, 0), "the offset belongs to the next owner: no failure");
    rig.pass_with_heartbeats(5 * SECOND);
    rig.sends_no(ApiKey::OffsetCommit);
}

#[test]
fn a_commit_refused_by_eviction_evicts_the_member() {
    for code in [ErrorCode::ILLEGAL_GENERATION, ErrorCode::UNKNOWN_MEMBER_ID] {
        let mut rig = stable();
        rig.commit(0, &[(0, 10), (1, 20)]);
        let sent = rig.take(ApiKey::OffsetCommit);
        rig.answer_commit(&sent, &[(0, code), (1, code)]);
        let fenced = Err(CommitError::Fenced(code));
        assert_eq!(rig.result(0), [(0, 10, fenced.clone()), (1, 20, fenced)]);
        let failed_commits = rig.actions.iter().filter_map(|action| match action {
            GroupAction::LogEvent(GroupLogEvent::CommitFailed { tp, others, .. }) => Some((tp.partition, *others)),
            _ => None,
        });
        assert_eq!(failed_commits.collect::<Vec<_>>(), [(0, 1)], "one line for both");
        assert_eq!(rig.log_texts(), ["lost 0 1"]);
        let stats = GroupStats { rebalances: 1, lost_partitions: 2, commits: 0, commit_failures: 2 };
        assert_eq!(rig.group.stats(), stats);
        assert_eq!(claim(&rig.take(ApiKey::JoinGroup)), (vec![], -1));
    }
}

#[test]
fn what_the_broker_refuses_for_good_is_not_tried_again() {
    let mut rig = stable();
    rig.commit(1, &[(0, 10), (1, 20)]);
    let sent = rig.take(ApiKey::OffsetCommit);
    rig.answer_commit(&sent, &[(0, ErrorCode::OFFSET_METADATA_TOO_LARGE), (1, ErrorCode::NONE)]);
    let refused = Err(CommitError::Refused(ErrorCode::OFFSET_METADATA_TOO_LARGE));
    assert_eq!(rig.result(1), [(0, 10, refused), (1, 20, Ok(()))]);
    rig.pass_with_heartbeats(5 * SECOND);
    rig.sends_no(ApiKey::OffsetCommit);
}

#[test]
fn what_the_answer_leaves_out_is_not_stored() {
    let mut rig = stable();
    rig.commit(1, &[(0, 10), (1, 20)]);
    let sent = rig.take(ApiKey::OffsetCommit);
    rig.answer_commit(&sent, &[(1, ErrorCode::NONE)]);
    assert!(!rig.is_done(1));
    rig.advance(SECOND);
    let again = rig.take(ApiKey::OffsetCommit);
    assert_eq!(committed(&again), (1, vec![(0, 10)]));
}

#[test]
fn a_commit_is_tried_for_a_minute_and_says_why_it_failed() {
    let mut rig = stable();
    rig.commit(1, &[(0, 10)]);
    for _ in 0..61 {
        if let Some(sent) = rig.try_take(ApiKey::OffsetCommit) {
            rig.answer_commit(&sent, &[(0, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)]);
        }
        rig.pass_with_heartbeats(SECOND);
    }
    let results = rig.result(1);
    assert!(
        matches!(&results[0].2, Err(CommitError::TimedOut(why)) if why.contains("UNKNOWN_TOPIC_OR_PARTITION")),
        "{results:?}"
    );
}

/// The offsets of a deleted topic are of no use, and other partitions wait for the next generation.
#[test]
fn a_topic_that_the_coordinator_does_not_know_holds_up_no_revocation_for_long() {
    let mut rig = stable();
    rig.step(GroupEvent::Leave { deadline: rig.now + 60 * SECOND, remain_in_group: false });
    let since = rig.now;
    rig.commit(1, &[(0, 10), (1, 20)]);
    rig.ack();
    while !rig.is_done(1) {
        assert!(rig.now - since < 7 * SECOND, "it still waits");
        if let Some(sent) = rig.try_take(ApiKey::OffsetCommit) {
            let known = committed(&sent).1.into_iter().filter(|(partition, _)| *partition == 1);
            let known = known.map(|(partition, _)| (partition, ErrorCode::NONE));
            let all: Vec<_> = [(0, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)].into_iter().chain(known).collect();
            rig.answer_commit(&sent, &all);
        }
        rig.pass_with_heartbeats(SECOND / 4);
    }
    assert!(rig.now - since >= 5 * SECOND);
    let results = rig.result(1);
    let refused = |result: &Result<(), CommitError>| matches!(result, Err(CommitError::Refused(_)));
    assert_eq!(results.iter().map(|one| (one.0, refused(&one.2))).collect::<Vec<_>>(), [(1, false), (0, true)]);
    rig.take(ApiKey::LeaveGroup);
}

#[test]
fn an_empty_commit_is_done_at_once() {
    let mut rig = stable();
    rig.commit(1, &[]);
    assert_eq!(rig.result(1), []);
    rig.sends_no(ApiKey::OffsetCommit);
}

/// A standalone consumer may commit only to a group without members.
#[test]
fn standalone_commits_to_a_live_group_are_refused_and_nothing_is_lost() {
    let mut rig = Harness::new();
    rig.step(GroupEvent::Assigned { tps: tps(&[0]), epoch: 5, fetch_offsets: false });
    rig.commit(1, &[(0, 3)]);
    rig.locate(NODE);
    let sent = rig.take(ApiKey::OffsetCommit);
    rig.answer_commit(&sent, &[(0, ErrorCode::UNKNOWN_MEMBER_ID)]);
    assert_eq!(rig.result(1), [(0, 3, Err(CommitError::HasMembers(ErrorCode::UNKNOWN_MEMBER_ID)))]);
    assert!(rig.log_texts().is_empty());
    rig.sends_no(ApiKey::JoinGroup);
}

fn with_text(rig: &Harness, partition: i32, offset: i64, text: &str) -> CommitOffset {
    let epoch = rig.epoch(partition).unwrap();
    CommitOffset { metadata: text.to_owned(), ..commit(&tp(partition), offset, epoch) }
}

#[test]
fn the_text_goes_with_its_offset() {
    let mut rig = stable();
    let offsets = vec![with_text(&rig, 0, 10, "old"), with_text(&rig, 1, 5, "")];
    rig.step(GroupEvent::Commit { offsets, id: 1 });
    let first = rig.take(ApiKey::OffsetCommit);
    assert_eq!((committed(&first).1, metadata(&first)), (vec![(0, 10), (1, 5)], vec!["old".to_owned(), String::new()]));
    // The newer commit wins with its own metadata, though its offset is the same.
    rig.step(GroupEvent::Commit { offsets: vec![with_text(&rig, 0, 10, "new")], id: 2 });
    rig.fail(&first, RequestError::TimedOut);
    rig.advance(SECOND);
    rig.locate(NODE);
    rig.advance(SECOND);
    let second = rig.take(ApiKey::OffsetCommit);
    assert_eq!(
        (committed(&second).1, metadata(&second)),
        (vec![(0, 10), (1, 5)], vec!["new".to_owned(), String::new()])
    );
}

/// A broker with a small `offset.metadata.max.bytes`: the offset is stored without the metadata.
#[test]
fn a_text_that_is_too_long_is_left_out_from_then_on() {
    let mut rig = stable();
    let offsets = vec![with_text(&rig, 0, 10, "long"), with_text(&rig, 1, 5, "x")];
    rig.step(GroupEvent::Commit { offsets, id: 1 });
    let first = rig.take(ApiKey::OffsetCommit);
    rig.answer_commit(&first, &[(0, ErrorCode::OFFSET_METADATA_TOO_LARGE), (1, ErrorCode::NONE)]);
    assert!(!rig.is_done(1));
    rig.advance(SECOND);
    let second = rig.take(ApiKey::OffsetCommit);
    assert_eq!((committed(&second).1, metadata(&second)), (vec![(0, 10)], vec![String::new()]));
    rig.answer_commit(&second, &[(0, ErrorCode::NONE)]);
    assert_eq!(rig.result(1), [(1, 5, Ok(())), (0, 10, Ok(()))]);
    rig.step(GroupEvent::Commit { offsets: vec![with_text(&rig, 0, 11, "long")], id: 2 });
    let third = rig.take(ApiKey::OffsetCommit);
    assert_eq!(metadata(&third), [String::new()]);
    let is_metadata_log = |action: &&GroupAction| {
        matches!(action, GroupAction::LogEvent(GroupLogEvent::CommitMetadataRejected { bytes: 4 }))
    };
    assert_eq!(rig.actions.iter().filter(is_metadata_log).count(), 1);
    // Without metadata there is nothing to leave out.
    rig.answer_commit(&third, &[(0, ErrorCode::OFFSET_METADATA_TOO_LARGE)]);
    assert!(matches!(rig.result(2)[..], [(0, 11, Err(CommitError::Refused(ErrorCode::OFFSET_METADATA_TOO_LARGE)))]));
}
