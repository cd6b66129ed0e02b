//! SyncGroup.

use std::borrow::Cow;

use grete_wire::ErrorCode;
use grete_wire::messages::SyncGroupRequest;

use super::{GROUP, Harness};

/// Brings two members into a generation without an assignment. Returns the leader, the follower and the generation.
fn completing(h: &mut Harness) -> (String, String, i32) {
    let (ids, _) = h.stable(2);
    h.rejoin(&ids[1]);
    let leader = h.rejoin(&ids[0]);
    h.rejoin(&ids[1]);
    let generation = h.joined(leader).unwrap().generation_id;
    assert_eq!(h.state(), "CompletingRebalance");
    (ids[0].clone(), ids[1].clone(), generation)
}

#[test]
fn followers_wait_for_the_leader() {
    let mut h = Harness::new();
    let (leader, follower, generation) = completing(&mut h);
    let waiting = h.send_sync(&follower, generation, &[]);
    assert!(!h.is_answered(waiting));
    let own = h.send_sync(&leader, generation, &[(&follower, b"right"), ("unknown", b"lost")]);
    assert_eq!(h.synced(waiting), Some((ErrorCode::NONE, b"right".to_vec())));
    assert_eq!(h.synced(own), Some((ErrorCode::NONE, vec![])), "the leader left itself out");
    assert_eq!(h.state(), "Stable");
    let late = h.send_sync(&follower, generation, &[]);
    assert_eq!(h.synced(late), Some((ErrorCode::NONE, b"right".to_vec())), "a stable group repeats the assignment");
}

#[test]
fn wrong_claims_are_refused() {
    let mut h = Harness::new();
    let unknown_group = h.send_sync("m", 1, &[]);
    assert_eq!(h.synced(unknown_group).unwrap().0, ErrorCode::UNKNOWN_MEMBER_ID);
    let (leader, _, generation) = completing(&mut h);
    let unknown_member = h.send_sync("m", generation, &[]);
    assert_eq!(h.synced(unknown_member).unwrap().0, ErrorCode::UNKNOWN_MEMBER_ID);
    let old = h.send_sync(&leader, generation - 1, &[]);
    assert_eq!(h.synced(old).unwrap().0, ErrorCode::ILLEGAL_GENERATION);
    let claim = |protocol_type: Option<&'static str>, protocol_name: Option<&'static str>| SyncGroupRequest {
        group_id: Cow::Borrowed(GROUP),
        generation_id: generation,
        member_id: Cow::Owned(leader.clone()),
        protocol_type: protocol_type.map(Cow::Borrowed),
        protocol_name: protocol_name.map(Cow::Borrowed),
        ..SyncGroupRequest::default()
    };
    for wrong in
        [claim(Some("connect"), Some("range")), claim(Some("consumer"), Some("sticky")), claim(Some("consumer"), None)]
    {
        let request = h.send_sync_request(&wrong);
        assert_eq!(h.synced(request).unwrap().0, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    }
    let right = h.send_sync_request(&claim(Some("consumer"), Some("range")));
    assert_eq!(h.synced(right).unwrap().0, ErrorCode::NONE);
}

#[test]
fn a_new_rebalance_sends_waiting_followers_back() {
    let mut h = Harness::new();
    let (leader, follower, generation) = completing(&mut h);
    let waiting = h.send_sync(&follower, generation, &[]);
    assert_eq!(h.leave(&leader), ErrorCode::NONE);
    assert_eq!(h.synced(waiting).unwrap().0, ErrorCode::REBALANCE_IN_PROGRESS);
    let during = h.send_sync(&follower, generation, &[]);
    assert_eq!(h.synced(during).unwrap().0, ErrorCode::REBALANCE_IN_PROGRESS);
    let request = h.rejoin(&follower);
    assert_eq!(h.joined(request).unwrap().leader.as_ref(), follower, "the follower leads now");
}

#[test]
fn members_without_sync_are_removed_after_the_rebalance_timeout() {
    let mut h = Harness::new();
    let (leader, follower, generation) = completing(&mut h);
    let waiting = h.send_sync(&follower, generation, &[]);
    for _ in 0..11 {
        h.pass(5_000);
        assert_eq!(h.heartbeat(&leader, generation), ErrorCode::NONE, "the leader is alive, but does not assign");
    }
    assert!(!h.is_answered(waiting));
    h.pass(5_000);
    assert_eq!(h.synced(waiting).unwrap().0, ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(h.heartbeat(&leader, generation), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn a_sync_on_another_connection_replaces_the_waiting_one() {
    let mut h = Harness::new();
    let (leader, follower, generation) = completing(&mut h);
    let first = h.send_sync(&follower, generation, &[]);
    let second = h.send_sync(&follower, generation, &[]);
    assert_eq!(h.synced(first).unwrap().0, ErrorCode::REBALANCE_IN_PROGRESS);
    h.send_sync(&leader, generation, &[(&follower, b"x")]);
    assert_eq!(h.synced(second), Some((ErrorCode::NONE, b"x".to_vec())));
}

#[test]
fn a_member_that_leaves_while_it_waits_is_answered() {
    let mut h = Harness::new();
    let (_, follower, generation) = completing(&mut h);
    let waiting = h.send_sync(&follower, generation, &[]);
    h.leave(&follower);
    assert_eq!(h.synced(waiting).unwrap().0, ErrorCode::UNKNOWN_MEMBER_ID);
}
