//! The way out.

use grete_wire::{ApiKey, ErrorCode};

use super::rig::*;
use crate::group::{Assignor, CommitError, GroupEvent};
use crate::request::{Channel, Request, RequestError};
use crate::time::SECOND;

fn leave(rig: &mut Rig, within: u64) {
    let deadline = rig.now + within;
    rig.step(GroupEvent::Leave { deadline });
}

/// P16: LeaveGroup comes after the revocation, not before; heartbeats go on until then, and not after.
#[test]
fn p16_no_leave_before_everything_is_given_up() {
    let mut rig = Rig::new();
    rig.join(&[0, 1]);
    leave(&mut rig, 30 * SECOND);
    let (_, deadline) = rig.revocation();
    assert_eq!(deadline, rig.now + 29 * SECOND);
    rig.pass_with_heartbeats(10 * SECOND);
    rig.sends_no(ApiKey::LeaveGroup);
    // P28: what is finished in time is committed.
    rig.commit(4, &[(0, 10), (1, 20)]);
    let commit = rig.take(ApiKey::OffsetCommit);
    rig.answer_commit(&commit, &[(0, ErrorCode::NONE), (1, ErrorCode::NONE)]);
    assert_eq!(rig.result(4), [(0, 10, Ok(())), (1, 20, Ok(()))]);
    rig.ack();
    let goodbye = rig.take(ApiKey::LeaveGroup);
    assert_eq!(goodbye.channel, Channel::Control);
    let Request::LeaveGroup(request) = &goodbye.request else { panic!() };
    assert_eq!(request.members[0].member_id, ID);
    rig.pass(5 * SECOND);
    rig.sends_no(ApiKey::Heartbeat);
    rig.refuse(&goodbye, ErrorCode::NONE);
    assert_eq!(rig.news(), ["revoke 0 1", "left"]);
    assert_eq!((rig.machine.state_name(), rig.machine.deadline()), ("left", None));
}

#[test]
fn an_application_that_hangs_does_not_keep_us_in() {
    let mut rig = Rig::new();
    rig.join(&[0, 1]);
    leave(&mut rig, 8 * SECOND);
    rig.pass(7 * SECOND);
    assert_eq!(rig.news(), ["revoke 0 1", "expired 0 1"]);
    let goodbye = rig.take(ApiKey::LeaveGroup);
    rig.fail(&goodbye, RequestError::Disconnected);
    rig.pass(SECOND - 1);
    assert!(rig.news().is_empty());
    rig.pass(1);
    assert_eq!(rig.news(), ["left"]);
}

#[test]
fn a_coordinator_that_is_gone_does_not_keep_us_in() {
    let mut rig = Rig::new();
    rig.start();
    leave(&mut rig, 8 * SECOND);
    assert_eq!(rig.news(), ["left"]); // it never knew us

    let mut rig = Rig::new();
    rig.join(&[]);
    let heartbeat = rig.next_heartbeat();
    rig.fail(&heartbeat, RequestError::Disconnected);
    leave(&mut rig, 8 * SECOND);
    rig.pass(8 * SECOND);
    assert_eq!(rig.news(), ["left"]);
    rig.step(GroupEvent::Leave { deadline: rig.now });
    assert_eq!(rig.news(), ["left"]);
}

/// Leaving in the middle of a join: the join is completed, because what is being revoked is committed under it.
#[test]
fn leaving_while_joining_loses_no_commit() {
    let mut rig = Rig::new();
    rig.join(&[0, 1]);
    rig.rebalance();
    let join = rig.take(ApiKey::JoinGroup);
    leave(&mut rig, 30 * SECOND);
    rig.commit(2, &[(0, 5), (1, 6)]);
    let commit = rig.take(ApiKey::OffsetCommit);
    rig.answer_commit(&commit, &[(0, ErrorCode::ILLEGAL_GENERATION), (1, ErrorCode::ILLEGAL_GENERATION)]);
    rig.let_in(&join, Assignor::CooperativeSticky);
    let sync = rig.take(ApiKey::SyncGroup);
    rig.pass(SECOND);
    rig.assign(&sync, &[0, 1, 2]);
    let commit = rig.take(ApiKey::OffsetCommit);
    assert_eq!(committed(&commit), (2, vec![(0, 5), (1, 6)]));
    rig.answer_commit(&commit, &[(0, ErrorCode::NONE), (1, ErrorCode::NONE)]);
    assert_eq!(rig.result(2).len(), 2);
    rig.ack();
    rig.take(ApiKey::LeaveGroup);
    assert_eq!(rig.news(), ["revoke 0 1"]);
}

/// Others rebalance while we drain: they wait, we do not join any more.
#[test]
fn leaving_begins_no_new_join() {
    let mut rig = Rig::new();
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
    let mut rig = Rig::new();
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
