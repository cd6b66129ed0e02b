//! Static members (KIP-345, KIP-814).

use grete_wire::ErrorCode;

use super::{Harness, Join};

/// Forms a stable group of static members `a` and `b`. Returns their member ids and the generation; `a` leads.
fn stable(h: &mut Harness) -> (String, String, i32) {
    let a = h.send_join(&Join { instance_id: Some("a"), ..Join::default() });
    let a = h.joined(a).expect("a static member needs no second request").member_id.to_string();
    assert!(a.starts_with("a-"), "{a}");
    let b = h.send_join(&Join { instance_id: Some("b"), ..Join::default() });
    let response = h.send_join(&Join { instance_id: Some("a"), member_id: &a, ..Join::default() });
    let generation = h.joined(response).unwrap().generation_id;
    let b = h.joined(b).unwrap().member_id.to_string();
    sync(h, &b, generation, &[]);
    let assigned = sync(h, &a, generation, &[(&a, b"for a"), (&b, b"for b")]);
    assert_eq!(assigned, Some((ErrorCode::NONE, b"for a".to_vec())));
    (a, b, generation)
}

fn sync(
    h: &mut Harness,
    member_id: &str,
    generation: i32,
    assignments: &[(&str, &[u8])],
) -> Option<(ErrorCode, Vec<u8>)> {
    let request = h.send_sync(member_id, generation, assignments);
    h.synced(request)
}

#[test]
fn a_restarted_follower_continues_without_a_rebalance() {
    let mut h = Harness::new();
    let (_, b, generation) = stable(&mut h);
    let request = h.send_join(&Join { instance_id: Some("b"), ..Join::default() });
    let response = h.joined(request).unwrap();
    let new = response.member_id.to_string();
    assert_eq!((response.generation_id, response.skip_assignment, response.members.len()), (generation, false, 0));
    assert_ne!(new, b);
    assert_eq!(h.state(), "Stable");
    assert_eq!(sync(&mut h, &new, generation, &[]), Some((ErrorCode::NONE, b"for b".to_vec())));
    assert_eq!(h.heartbeat_as(&b, Some("b"), generation), ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(h.heartbeat_as(&new, Some("b"), generation), ErrorCode::NONE);
    assert_eq!(h.heartbeat(&b, generation), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn a_restarted_leader_keeps_the_assignment() {
    let mut h = Harness::new();
    let (a, _, generation) = stable(&mut h);
    let request = h.send_join(&Join { instance_id: Some("a"), ..Join::default() });
    let response = h.joined(request).unwrap().clone();
    assert!(response.skip_assignment);
    assert_eq!((response.leader.as_ref(), response.members.len()), (response.member_id.as_ref(), 2));
    assert_eq!(response.generation_id, generation);
    let old = h.send_join(&Join { instance_id: Some("a"), version: 8, ..Join::default() });
    let old = h.joined(old).unwrap();
    assert!(!old.skip_assignment);
    assert_eq!(old.leader, response.member_id, "an old client learns the id that led before, and does not assign");
    assert_ne!(old.member_id, response.member_id);
    assert!(old.members.is_empty());
    assert_ne!(response.member_id, a);
}

#[test]
fn another_elected_protocol_needs_a_rebalance() {
    let mut h = Harness::new();
    let (..) = stable(&mut h);
    let request = h.send_join(&Join {
        instance_id: Some("b"),
        protocols: vec![("range", vec![]), ("sticky", vec![])],
        ..Join::default()
    });
    assert_eq!(h.joined(request).unwrap().error_code, 0, "range is elected as before");
    let mut h = Harness::new();
    let both = vec![("range", vec![]), ("sticky", vec![])];
    let sticky = vec![("sticky", vec![]), ("range", vec![])];
    let a = h.send_join(&Join { instance_id: Some("a"), protocols: both, ..Join::default() });
    let a = h.joined(a).unwrap().member_id.to_string();
    sync(&mut h, &a, 1, &[]);
    let request = h.send_join(&Join { instance_id: Some("a"), protocols: sticky, ..Join::default() });
    let response = h.joined(request).unwrap();
    assert_eq!((response.generation_id, response.protocol_name.as_deref()), (2, Some("sticky")));
}

#[test]
fn a_second_process_with_the_instance_id_fences_the_first() {
    let mut h = Harness::new();
    let (a, b, generation) = stable(&mut h);
    let open = h.send_join(&Join {
        instance_id: Some("a"),
        member_id: &a,
        protocols: vec![("range", vec![7])],
        ..Join::default()
    });
    assert_eq!(h.state(), "PreparingRebalance");
    let other = h.send_join(&Join { instance_id: Some("a"), ..Join::default() });
    assert_eq!(h.join_code(open), ErrorCode::FENCED_INSTANCE_ID);
    let again = h.send_join(&Join { instance_id: Some("a"), member_id: &a, ..Join::default() });
    assert_eq!(h.join_code(again), ErrorCode::FENCED_INSTANCE_ID);
    h.send_join(&Join { instance_id: Some("b"), member_id: &b, ..Join::default() });
    assert_eq!(h.joined(other).unwrap().generation_id, generation + 1);
}

#[test]
fn an_instance_that_restarts_during_the_assignment_starts_a_rebalance() {
    let mut h = Harness::new();
    let (a, b, generation) = stable(&mut h);
    h.send_join(&Join { instance_id: Some("a"), member_id: &a, ..Join::default() });
    h.send_join(&Join { instance_id: Some("b"), member_id: &b, ..Join::default() });
    assert_eq!(h.state(), "CompletingRebalance");
    let waiting = h.send_sync(&b, generation + 1, &[]);
    let request = h.send_join(&Join { instance_id: Some("b"), ..Join::default() });
    assert_eq!(h.synced(waiting).unwrap().0, ErrorCode::FENCED_INSTANCE_ID);
    assert!(!h.is_answered(request));
    assert_eq!(h.state(), "PreparingRebalance");
}

#[test]
fn absent_static_members_stay_until_their_session_ends() {
    let mut h = Harness::new();
    let (a, b, generation) = stable(&mut h);
    let joining = Join { instance_id: Some("a"), member_id: &a, ..Join::default() };
    let first = h.send_join(&joining);
    for _ in 0..12 {
        h.pass(5_000);
        h.heartbeat_as(&b, Some("b"), generation);
    }
    assert_eq!(h.joined(first).unwrap().members.len(), 2, "the rebalance timeout does not remove a static member");
    sync(&mut h, &a, generation + 1, &[(&a, b"x"), (&b, b"y")]);
    let request = h.send_join(&Join { instance_id: Some("b"), ..Join::default() });
    let new = h.joined(request).unwrap().member_id.to_string();
    assert_eq!(sync(&mut h, &new, generation + 1, &[]), Some((ErrorCode::NONE, b"y".to_vec())));
    h.pass(9_000);
    h.heartbeat_as(&a, Some("a"), generation + 1);
    h.pass(1_000);
    assert_eq!(h.state(), "PreparingRebalance", "the session of b has ended");
}

#[test]
fn the_rebalance_is_postponed_while_only_absent_static_members_are_there() {
    let mut h = Harness::new();
    let (a, b, generation) = stable(&mut h);
    assert_eq!(h.leave_all(5, &[(&a, Some("a"))]).members[0].error_code, 0);
    assert_eq!(h.state(), "PreparingRebalance");
    for _ in 0..13 {
        h.pass(5_000);
        h.heartbeat_as(&b, Some("b"), generation);
    }
    assert_eq!(h.state(), "PreparingRebalance", "b is alive, but it has not joined");
    let request = h.send_join(&Join { instance_id: Some("b"), member_id: &b, ..Join::default() });
    assert_eq!(h.joined(request).unwrap().generation_id, generation + 1);
}

#[test]
fn an_administrator_removes_static_members_by_instance_id() {
    let mut h = Harness::new();
    let (a, _, _) = stable(&mut h);
    let left = h.leave_all(5, &[("", Some("a")), ("", Some("c")), ("", None), ("wrong", Some("b"))]);
    let codes: Vec<_> = left.members.iter().map(|member| ErrorCode(member.error_code)).collect();
    let expected =
        [ErrorCode::NONE, ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::FENCED_INSTANCE_ID];
    assert_eq!(codes, expected);
    assert_eq!(left.members[0].group_instance_id.as_deref(), Some("a"));
    assert_eq!(h.heartbeat_as(&a, Some("a"), 2), ErrorCode::UNKNOWN_MEMBER_ID);
}
