//! Leaving a group.

use grete_wire::messages::{Coordinator, FindCoordinatorResponse, ShareGroupHeartbeatResponse};
use grete_wire::{ApiKey, ErrorCode};

use super::harness::*;
use crate::group::config::GroupProtocol;
use crate::group::{Assignor, CommitError, GroupConfig, GroupEvent};
use crate::request::{Channel, Request, RequestError};
use crate::time::SECOND;

fn leave(rig: &mut Harness, within: u64) {
    let deadline = rig.now + within;
    rig.step(GroupEvent::Leave { deadline, remain_in_group: true });
}

/// P16: LeaveGroup follows the revocation; heartbeats continue until then, and stop afterwards.
#[test]
fn p16_no_leave_before_everything_is_given_up() {
    let mut rig = Harness::new();
    rig.join(&[0, 1]);
    leave(&mut rig, 30 * SECOND);
    let (_, deadline) = rig.revocation();
    assert_eq!(deadline, rig.now + 29 * SECOND);
    rig.pass_with_heartbeats(10 * SECOND);
    rig.sends_no(ApiKey::LeaveGroup);
    // P28: offsets that are processed in time are committed.
    rig.commit(4, &[(0, 10), (1, 20)]);
    let commit = rig.take(ApiKey::OffsetCommit);
    rig.answer_commit(&commit, &[(0, ErrorCode::NONE), (1, ErrorCode::NONE)]);
    assert_eq!(rig.result(4), [(0, 10, Ok(())), (1, 20, Ok(()))]);
    rig.ack();
    let goodbye = rig.take(ApiKey::LeaveGroup);
    assert_eq!(goodbye.channel, Channel::Control);
    let Request::LeaveGroup(request) = &goodbye.request else { panic!() };
    assert_eq!(request.members[0].member_id, ID);
    rig.advance(5 * SECOND);
    rig.sends_no(ApiKey::Heartbeat);
    rig.refuse(&goodbye, ErrorCode::NONE);
    assert_eq!(rig.log_texts(), ["revoke 0 1", "left"]);
    assert_eq!((rig.group.state_name(), rig.group.deadline()), ("left", None));
}

#[test]
fn an_application_that_hangs_does_not_keep_us_in() {
    let mut rig = Harness::new();
    rig.join(&[0, 1]);
    leave(&mut rig, 8 * SECOND);
    rig.advance(7 * SECOND);
    assert_eq!(rig.log_texts(), ["revoke 0 1", "expired 0 1"]);
    let goodbye = rig.take(ApiKey::LeaveGroup);
    rig.fail(&goodbye, RequestError::Disconnected);
    rig.advance(SECOND - 1);
    assert!(rig.log_texts().is_empty());
    rig.advance(1);
    assert_eq!(rig.log_texts(), ["left"]);
}

#[test]
fn a_coordinator_that_is_gone_does_not_keep_us_in() {
    let mut rig = Harness::new();
    rig.start();
    leave(&mut rig, 8 * SECOND);
    assert_eq!(rig.log_texts(), ["left"]); // the coordinator never knew the member

    let mut rig = Harness::new();
    rig.join(&[]);
    let heartbeat = rig.next_heartbeat();
    rig.fail(&heartbeat, RequestError::Disconnected);
    leave(&mut rig, 8 * SECOND);
    rig.advance(8 * SECOND);
    assert_eq!(rig.log_texts(), ["left"]);
    rig.step(GroupEvent::Leave { deadline: rig.now, remain_in_group: true });
    assert_eq!(rig.log_texts(), ["left"]);
}

/// Leaving during a join: the join completes, because the revoked partitions' offsets are committed under its
/// generation.
#[test]
fn leaving_while_joining_loses_no_commit() {
    let mut rig = Harness::new();
    rig.join(&[0, 1]);
    rig.rebalance();
    let join = rig.take(ApiKey::JoinGroup);
    leave(&mut rig, 30 * SECOND);
    rig.commit(2, &[(0, 5), (1, 6)]);
    let commit = rig.take(ApiKey::OffsetCommit);
    rig.answer_commit(&commit, &[(0, ErrorCode::ILLEGAL_GENERATION), (1, ErrorCode::ILLEGAL_GENERATION)]);
    rig.answer_join(&join, Assignor::CooperativeSticky);
    let sync = rig.take(ApiKey::SyncGroup);
    rig.advance(SECOND);
    rig.assign(&sync, &[0, 1, 2]);
    let commit = rig.take(ApiKey::OffsetCommit);
    assert_eq!(committed(&commit), (2, vec![(0, 5), (1, 6)]));
    rig.answer_commit(&commit, &[(0, ErrorCode::NONE), (1, ErrorCode::NONE)]);
    assert_eq!(rig.result(2).len(), 2);
    rig.ack();
    rig.take(ApiKey::LeaveGroup);
    assert_eq!(rig.log_texts(), ["revoke 0 1"]);
}

/// The others rebalance while this member drains: they wait, and this member does not join again.
#[test]
fn leaving_begins_no_new_join() {
    let mut rig = Harness::new();
    rig.join(&[0]);
    leave(&mut rig, 30 * SECOND);
    rig.rebalance();
    rig.pass_with_heartbeats(10 * SECOND);
    rig.sends_no(ApiKey::JoinGroup);
    rig.commit(2, &[(0, 5)]);
    let sent = rig.take(ApiKey::OffsetCommit);
    assert_eq!(committed(&sent).0, 1);
    rig.ack();
    rig.sends_no(ApiKey::LeaveGroup);
    rig.answer_commit(&sent, &[(0, ErrorCode::NONE)]);
    rig.take(ApiKey::LeaveGroup);
}

#[test]
fn who_has_left_may_come_again() {
    let mut rig = Harness::new();
    rig.join(&[0]);
    leave(&mut rig, 30 * SECOND);
    rig.ack();
    let goodbye = rig.take(ApiKey::LeaveGroup);
    rig.refuse(&goodbye, ErrorCode::NONE);
    rig.commit(6, &[(0, 1)]);
    assert_eq!(rig.result(6), [(0, 1, Err(CommitError::StaleAssignment))]);
    rig.start();
    let join = rig.take(ApiKey::JoinGroup);
    assert_eq!((&*join_request(&join).member_id, claim(&join)), ("", (vec![], -1)));
}

/// An App's group, whose ACL is missing: a close asks once more, and waits for nothing that the ACL would have to allow.
#[test]
fn a_close_waits_for_no_acl() {
    const MISSING: ErrorCode = ErrorCode::GROUP_AUTHORIZATION_FAILED;
    let refused = |code| Err(CommitError::Refused(code));
    let app = || {
        let mut rig =
            Harness::with(GroupConfig { retry_authorization_failures: true, ..Harness::new().group.config().clone() });
        rig.join(&[0]);
        rig.commit(1, &[(0, 5)]);
        rig
    };
    let close = |rig: &mut Harness| {
        rig.step(GroupEvent::Closing);
        rig.sends_no(ApiKey::LeaveGroup);
    };

    // The commit waits for its next attempt, which comes at once.
    for missing in [MISSING, ErrorCode::TOPIC_AUTHORIZATION_FAILED] {
        let mut rig = app();
        let commit = rig.take(ApiKey::OffsetCommit);
        rig.answer_commit(&commit, &[(0, missing)]);
        assert!(!rig.is_done(1));
        close(&mut rig);
        let last = rig.take(ApiKey::OffsetCommit);
        rig.answer_commit(&last, &[(0, missing)]);
        assert_eq!(rig.result(1), [(0, 5, refused(missing))]);
        leave(&mut rig, 30 * SECOND);
        rig.ack();
        let goodbye = rig.take(ApiKey::LeaveGroup);
        rig.refuse(&goodbye, missing);
        assert_eq!(rig.log_texts(), ["revoke 0", "left"]);
    }

    // The ACL is back: the offset is stored.
    let mut rig = app();
    let commit = rig.take(ApiKey::OffsetCommit);
    rig.answer_commit(&commit, &[(0, MISSING)]);
    close(&mut rig);
    let last = rig.take(ApiKey::OffsetCommit);
    rig.answer_commit(&last, &[(0, ErrorCode::NONE)]);
    assert_eq!(rig.result(1), [(0, 5, Ok(()))]);

    // No coordinator, and its lookup is refused, too.
    let mut rig = app();
    let commit = rig.take(ApiKey::OffsetCommit);
    rig.fail(&commit, RequestError::Disconnected);
    rig.advance(SECOND);
    let lookup = rig.take(ApiKey::FindCoordinator);
    let refusal = Coordinator { key: "g".into(), error_code: MISSING.0, ..Coordinator::default() };
    let answer = FindCoordinatorResponse { coordinators: vec![refusal], ..FindCoordinatorResponse::default() };
    rig.answer(&lookup, |version, out| answer.encode(version, out));
    close(&mut rig);
    assert_eq!(rig.result(1), [(0, 5, refused(MISSING))]);
    leave(&mut rig, 30 * SECOND);
    rig.ack();
    assert_eq!(rig.log_texts(), ["revoke 0", "left"]);
}

/// Other members of a share group wait for nothing that a member has: it does not wait for long either.
#[test]
fn a_member_of_a_share_group_does_not_wait_for_long() {
    let mut rig = Harness::with(GroupConfig { protocol: GroupProtocol::Share, ..GroupConfig::new("g") });
    rig.start();
    rig.locate(1);
    let joining = rig.take(ApiKey::ShareGroupHeartbeat);
    let answer = ShareGroupHeartbeatResponse {
        member_epoch: 1,
        heartbeat_interval_ms: 5000,
        ..ShareGroupHeartbeatResponse::default()
    };
    rig.answer(&joining, |version, body| answer.encode(version, body));
    leave(&mut rig, 30 * SECOND);
    rig.take(ApiKey::ShareGroupHeartbeat);
    rig.log_texts();
    rig.advance(5 * SECOND - 1);
    assert!(rig.log_texts().is_empty());
    rig.advance(1);
    assert_eq!(rig.log_texts(), ["left"]);
}

/// A share group refuses a member without a topic; such a member waits, and joins with its first one.
#[test]
fn a_member_of_a_share_group_joins_with_its_first_topic() {
    let mut rig = Harness::with(GroupConfig { protocol: GroupProtocol::Share, ..GroupConfig::new("g") });
    rig.step(GroupEvent::Subscribe { topics: Vec::new() });
    rig.locate(1);
    rig.advance(10 * SECOND);
    rig.sends_no(ApiKey::ShareGroupHeartbeat);
    rig.step(GroupEvent::Subscribe { topics: vec!["t".into()] });
    rig.take(ApiKey::ShareGroupHeartbeat);
}
