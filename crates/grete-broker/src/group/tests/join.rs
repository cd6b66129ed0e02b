//! JoinGroup of dynamic members.

use grete_wire::ErrorCode;

use super::{GroupConfig, Harness, Join, subscription};

#[test]
fn a_new_dynamic_member_must_join_again_with_its_id() {
    let mut h = Harness::new();
    let id = h.ask_member_id();
    assert!(id.starts_with("app-") && id.len() == "app-".len() + 36, "{id}");
    assert_eq!(h.state(), "Empty");
    let request = h.rejoin(&id);
    let response = h.joined(request).unwrap();
    assert_eq!((response.error_code, response.generation_id), (0, 1));
    assert_eq!((response.leader.as_ref(), response.member_id.as_ref()), (&*id, &*id));
    assert_eq!(response.protocol_name.as_deref(), Some("range"));
    assert_eq!(response.protocol_type.as_deref(), Some("consumer"));
    assert_eq!(response.members.len(), 1);
    assert_eq!(response.members[0].metadata.as_ref(), subscription("orders"));
}

#[test]
fn an_old_client_joins_without_a_second_request() {
    let mut h = Harness::new();
    let request = h.send_join(&Join { version: 3, ..Join::default() });
    assert_eq!(h.join_code(request), ErrorCode::NONE);
    assert_eq!(h.state(), "CompletingRebalance");
}

#[test]
fn requests_are_checked_before_the_group() {
    let mut h = Harness::new();
    for session_ms in [5_999, 1_800_001, -1] {
        let request = h.send_join(&Join { session_ms, ..Join::default() });
        assert_eq!(h.join_code(request), ErrorCode::INVALID_SESSION_TIMEOUT);
    }
    let request = h.rejoin("unknown");
    assert_eq!(h.join_code(request), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(h.state(), "Dead", "a refused member creates no group");
}

#[test]
fn members_without_a_common_protocol_are_refused() {
    let mut h = Harness::new();
    let empty = h.send_join(&Join { protocols: vec![], ..Join::default() });
    assert_eq!(h.join_code(empty), ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    h.stable(2);
    let other = h.send_join(&Join { protocols: vec![("sticky", vec![])], ..Join::default() });
    assert_eq!(h.join_code(other), ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    let connect = h.send_join(&Join { protocol_type: "connect", ..Join::default() });
    assert_eq!(h.join_code(connect), ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
}

#[test]
fn the_members_vote_for_a_protocol_that_all_support() {
    let mut h = Harness::new();
    let lists: [&[&str]; 3] = [&["a", "b", "c"], &["c", "b"], &["b", "c"]];
    let ids: Vec<String> = lists.iter().map(|_| h.ask_member_id_of("a b c")).collect();
    let mut last = None;
    // The first round lets the members in one after the other, the second one has all of them.
    for _ in 0..2 {
        for (id, names) in ids.iter().zip(lists) {
            let protocols = names.iter().map(|name| (*name, vec![1])).collect();
            last = Some(h.send_join(&Join { member_id: id, protocols, ..Join::default() }));
        }
    }
    let response = h.joined(last.unwrap()).expect("all members have joined");
    assert_eq!(response.protocol_name.as_deref(), Some("b"), "two of three prefer b to c, and one does not support a");
}

#[test]
fn a_second_member_starts_a_rebalance_that_the_first_one_must_join() {
    let mut h = Harness::new();
    let (ids, generation) = h.stable(1);
    let second = h.ask_member_id();
    assert_eq!(h.state(), "Stable", "an id alone changes nothing");
    let request = h.rejoin(&second);
    assert_eq!(h.state(), "PreparingRebalance");
    assert!(!h.is_answered(request));
    assert_eq!(h.heartbeat(&ids[0], generation), ErrorCode::REBALANCE_IN_PROGRESS);
    let first = h.rejoin(&ids[0]);
    let (leader, follower) = (h.joined(first).unwrap(), h.joined(request).unwrap());
    assert_eq!((leader.generation_id, follower.generation_id), (generation + 1, generation + 1));
    assert_eq!((leader.members.len(), follower.members.len()), (2, 0), "only the leader gets the members");
    assert_eq!(leader.leader, follower.leader);
}

#[test]
fn the_rebalance_waits_for_assigned_member_ids() {
    let mut h = Harness::new();
    let (ids, _) = h.stable(1);
    let pending = h.ask_member_id();
    let request = h.rejoin(&ids[0]);
    assert!(!h.is_answered(request), "a member id was assigned, but its owner has not joined");
    h.pass(10_000);
    assert_eq!(h.join_code(request), ErrorCode::NONE, "the session of the assigned id has ended");
    let late = h.rejoin(&pending);
    assert_eq!(h.join_code(late), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn members_that_miss_the_rebalance_timeout_are_removed() {
    let mut h = Harness::new();
    let (ids, generation) = h.stable(2);
    let request = h.rejoin(&ids[0]);
    for _ in 0..11 {
        h.pass(5_000);
        assert_eq!(h.heartbeat(&ids[1], generation), ErrorCode::REBALANCE_IN_PROGRESS, "heartbeats keep the session");
        assert!(!h.is_answered(request));
    }
    h.pass(5_000);
    assert_eq!(h.joined(request).unwrap().members.len(), 1);
    assert_eq!(h.heartbeat(&ids[1], generation), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn a_follower_that_repeats_its_join_gets_the_current_generation() {
    let mut h = Harness::new();
    let (ids, generation) = h.stable(2);
    let request = h.rejoin(&ids[1]);
    assert_eq!(h.joined(request).unwrap().generation_id, generation);
    assert_eq!(h.state(), "Stable");
    let changed = h.send_join(&Join {
        member_id: &ids[1],
        protocols: vec![("range", subscription("payments"))],
        ..Join::default()
    });
    assert!(!h.is_answered(changed), "another subscription starts a rebalance");
    assert_eq!(h.state(), "PreparingRebalance");
}

#[test]
fn a_repeated_join_during_the_assignment_is_answered_at_once() {
    let mut h = Harness::new();
    let id = h.ask_member_id();
    h.rejoin(&id);
    let again = h.rejoin(&id);
    let response = h.joined(again).unwrap();
    assert_eq!((response.generation_id, response.members.len()), (1, 1));
    let changed = h.send_join(&Join { member_id: &id, protocols: vec![("range", vec![9])], ..Join::default() });
    assert_eq!(h.joined(changed).unwrap().generation_id, 2, "other metadata needs another generation");
}

#[test]
fn a_join_on_another_connection_replaces_the_waiting_one() {
    let mut h = Harness::new();
    let (ids, _) = h.stable(2);
    let first = h.rejoin(&ids[0]);
    let second = h.rejoin(&ids[0]);
    assert_eq!(h.join_code(first), ErrorCode::REBALANCE_IN_PROGRESS);
    h.rejoin(&ids[1]);
    assert_eq!(h.join_code(second), ErrorCode::NONE);
}

#[test]
fn the_first_rebalance_is_delayed_for_more_members() {
    let config = GroupConfig { initial_rebalance_delay_ms: 3_000, ..GroupConfig::default() };
    let mut h = Harness::with(config);
    let first = h.ask_member_id();
    let first = h.rejoin(&first);
    h.pass(2_000);
    let second = h.ask_member_id();
    let second = h.rejoin(&second);
    h.pass(1_000);
    assert!(!h.is_answered(first), "the new member extends the delay");
    h.pass(3_000);
    let responses = [h.joined(first).unwrap(), h.joined(second).unwrap()];
    assert_eq!(responses.map(|response| response.generation_id), [1, 1]);
    assert_eq!(responses.iter().map(|response| response.members.len()).sum::<usize>(), 2);
}

#[test]
fn a_full_group_refuses_members() {
    let mut h = Harness::with(GroupConfig { max_size: 2, ..GroupConfig::default() });
    let (ids, generation) = h.stable(2);
    let request = h.send_join(&Join::default());
    assert_eq!(h.join_code(request), ErrorCode::GROUP_MAX_SIZE_REACHED);
    assert_eq!(h.heartbeat(&ids[0], generation), ErrorCode::NONE);
    h.leave(&ids[1]);
    h.ask_member_id();
}

#[test]
fn old_versions_get_no_null_protocol() {
    let mut h = Harness::new();
    h.stable(1);
    for version in 0..=9 {
        let request = h.send_join(&Join { version, member_id: "unknown", ..Join::default() });
        let mut bytes = Vec::new();
        h.joined(request).unwrap().encode(version, &mut bytes).unwrap();
    }
}

impl Harness {
    /// Asks for a member id with the protocols in a text.
    fn ask_member_id_of(&mut self, names: &str) -> String {
        let protocols = names.split(' ').map(|name| (name, vec![1])).collect();
        let request = self.send_join(&Join { protocols, ..Join::default() });
        assert_eq!(self.join_code(request), ErrorCode::MEMBER_ID_REQUIRED);
        self.joined(request).unwrap().member_id.to_string()
    }
}

#[test]
fn the_log_counts_members_with_the_right_plural() {
    for (count, line) in
        [(1, "group orders: generation 1 has 1 member"), (2, "group orders: generation 1 has 2 members")]
    {
        let mut h = Harness::new();
        // Both members join before the first generation.
        h.coordinator.config_mut().initial_rebalance_delay_ms = 1000;
        for _ in 0..count {
            h.send_join(&Join { version: 0, ..Join::default() });
        }
        h.pass(2_000);
        assert!(h.effects.log.iter().any(|logged| logged == line), "{:?}", h.effects.log);
    }
}
