//! Sessions, heartbeats and LeaveGroup.

use grete_wire::ErrorCode;

use super::{Harness, Join};

#[test]
fn heartbeats_are_checked_and_keep_the_session() {
    let mut h = Harness::new();
    assert_eq!(h.heartbeat("m", 1), ErrorCode::UNKNOWN_MEMBER_ID);
    let (ids, generation) = h.stable(1);
    for _ in 0..5 {
        h.pass(9_999);
        assert_eq!(h.heartbeat(&ids[0], generation), ErrorCode::NONE);
    }
    assert_eq!(h.heartbeat(&ids[0], generation + 1), ErrorCode::ILLEGAL_GENERATION);
    assert_eq!(h.heartbeat_as(&ids[0], Some("i"), generation), ErrorCode::UNKNOWN_MEMBER_ID);
    h.pass(10_000);
    assert_eq!(h.heartbeat(&ids[0], generation), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(h.state(), "Empty");
}

#[test]
fn the_end_of_a_session_rebalances_the_others() {
    let mut h = Harness::new();
    let (ids, generation) = h.stable(3);
    h.pass(6_000);
    h.heartbeat(&ids[0], generation);
    h.heartbeat(&ids[1], generation);
    h.pass(4_000);
    assert_eq!(h.state(), "PreparingRebalance");
    let first = h.rejoin(&ids[0]);
    h.rejoin(&ids[1]);
    assert_eq!(h.joined(first).unwrap().members.len(), 2);
}

#[test]
fn waiting_members_need_no_heartbeat() {
    let mut h = Harness::new();
    let (ids, generation) = h.stable(2);
    let waiting = h.rejoin(&ids[0]);
    for _ in 0..10 {
        h.pass(5_000);
        h.heartbeat(&ids[1], generation);
    }
    assert!(!h.is_answered(waiting));
    h.rejoin(&ids[1]);
    assert_eq!(h.join_code(waiting), ErrorCode::NONE, "the session did not end during 50 s without a heartbeat");
    h.pass(10_000);
    assert_eq!(h.state(), "Empty", "a new session began with the response");
}

#[test]
fn a_new_member_is_removed_after_five_minutes_without_a_rebalance() {
    let mut h = Harness::new();
    let (ids, generation) = h.stable(1);
    let (id, rebalance_ms) = (h.ask_member_id(), 600_000);
    let waiting = h.send_join(&Join { member_id: &id, rebalance_ms, ..Join::default() });
    for _ in 0..59 {
        h.pass(5_000);
        h.heartbeat(&ids[0], generation);
    }
    assert!(!h.is_answered(waiting));
    h.pass(5_000);
    assert_eq!(h.join_code(waiting), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn a_member_that_leaves_rebalances_the_others() {
    let mut h = Harness::new();
    let (ids, generation) = h.stable(2);
    assert_eq!(h.leave(&ids[1]), ErrorCode::NONE);
    assert_eq!(h.leave(&ids[1]), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(h.heartbeat(&ids[0], generation), ErrorCode::REBALANCE_IN_PROGRESS);
    let request = h.rejoin(&ids[0]);
    assert_eq!(h.joined(request).unwrap().generation_id, generation + 1);
    assert_eq!(h.leave(&ids[0]), ErrorCode::NONE);
    assert_eq!(h.state(), "Empty");
}

#[test]
fn old_versions_report_the_member_error_at_the_top() {
    let mut h = Harness::new();
    let (ids, _) = h.stable(1);
    let unknown = h.leave_all(2, &[("m", None)]);
    assert_eq!((unknown.error_code, unknown.members.len()), (ErrorCode::UNKNOWN_MEMBER_ID.0, 0));
    let left = h.leave_all(0, &[(&ids[0], None)]);
    assert_eq!((left.error_code, left.members.len()), (0, 0));
    assert_eq!(h.state(), "Empty");
}

#[test]
fn an_assigned_member_id_can_leave() {
    let mut h = Harness::new();
    let (ids, _) = h.stable(1);
    let pending = h.ask_member_id();
    let waiting = h.rejoin(&ids[0]);
    assert_eq!(h.leave(&pending), ErrorCode::NONE);
    assert_eq!(h.join_code(waiting), ErrorCode::NONE, "the rebalance no longer waits for the assigned id");
}

#[test]
fn the_assignment_begins_a_session_that_ended_while_the_member_waited() {
    let mut h = Harness::new();
    let (ids, _) = h.stable(2);
    h.rejoin(&ids[1]);
    let leader = h.rejoin(&ids[0]);
    h.rejoin(&ids[1]);
    let generation = h.joined(leader).unwrap().generation_id;
    let waiting = h.send_sync(&ids[1], generation, &[]);
    for _ in 0..3 {
        h.pass(5_000);
        h.heartbeat(&ids[0], generation);
    }
    h.send_sync(&ids[0], generation, &[]);
    assert_eq!(h.synced(waiting).unwrap().0, ErrorCode::NONE);
    h.pass(5_000);
    h.heartbeat(&ids[0], generation);
    h.pass(4_999);
    assert_eq!(h.state(), "Stable");
    h.pass(1);
    assert_eq!(h.state(), "PreparingRebalance", "the follower sent no heartbeat after the assignment");
}
