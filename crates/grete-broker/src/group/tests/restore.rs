//! Restarts and moves of the coordinator.

use grete_wire::ErrorCode;

use super::{GROUP, GroupChange, GroupConfig, GroupCoordinator, Harness};

/// Replaces the coordinator by one that loads the stored changes.
fn restart(h: &mut Harness, config: GroupConfig) {
    let mut coordinator = GroupCoordinator::new(config, 2);
    for change in h.changes.clone() {
        coordinator.restore(change);
    }
    assert_eq!(coordinator.snapshot(), h.coordinator.snapshot());
    let mut again = GroupCoordinator::new(GroupConfig::default(), 3);
    for change in coordinator.snapshot() {
        again.restore(change);
    }
    assert_eq!(again.snapshot(), coordinator.snapshot(), "a snapshot restores itself");
    h.coordinator = coordinator;
}

#[test]
fn members_of_a_stable_group_survive_a_restart() {
    let mut h = Harness::new();
    let (ids, generation) = h.stable(2);
    h.commit(&ids[0], generation, 5).unwrap();
    restart(&mut h, GroupConfig::default());
    h.tick();
    assert_eq!((h.state().as_str(), h.committed()), ("Stable", Some(5)));
    assert_eq!(h.heartbeat(&ids[1], generation), ErrorCode::NONE);
    let request = h.send_sync(&ids[1], generation, &[]);
    assert_eq!(h.synced(request), Some((ErrorCode::NONE, ids[1].clone().into_bytes())));
    h.pass(10_000);
    assert_eq!(h.state(), "Empty", "the sessions began with the restart");
}

#[test]
fn a_rebalance_that_is_not_complete_is_lost() {
    let mut h = Harness::new();
    let (ids, generation) = h.stable(2);
    h.rejoin(&ids[0]);
    h.rejoin(&ids[1]);
    assert_eq!(h.state(), "CompletingRebalance");
    restart(&mut h, GroupConfig::default());
    h.tick();
    assert_eq!(h.heartbeat(&ids[0], generation), ErrorCode::NONE);
    assert_eq!(h.heartbeat(&ids[0], generation + 1), ErrorCode::ILLEGAL_GENERATION);
}

#[test]
fn open_transactions_survive_a_restart() {
    let mut h = Harness::new();
    h.commit("", -1, 1).unwrap();
    h.txn_commit(7, 2).unwrap();
    h.txn_commit(8, 3).unwrap();
    restart(&mut h, GroupConfig::default());
    h.coordinator.complete_transaction(8, true, &[], &mut h.effects);
    h.coordinator.complete_transaction(7, true, &[], &mut h.effects);
    h.collect();
    assert_eq!(h.committed(), Some(3), "the transaction that ended last has the older offset");
    restart(&mut h, GroupConfig::default());
    assert_eq!(h.committed(), Some(3));
}

#[test]
fn deletions_survive_a_restart() {
    let mut h = Harness::new();
    h.commit("", -1, 1).unwrap();
    h.coordinator.delete_group(GROUP, &mut h.effects).unwrap();
    h.collect();
    restart(&mut h, GroupConfig::default());
    assert_eq!(h.state(), "Dead");
}

#[test]
fn a_group_without_offsets_and_members_survives_a_restart() {
    let mut h = Harness::new();
    h.ask_member_id();
    restart(&mut h, GroupConfig::default());
    assert_eq!(h.state(), "Empty");
}

#[test]
fn a_restart_with_a_smaller_limit_shrinks_the_group() {
    let mut h = Harness::new();
    let (ids, _) = h.stable(3);
    restart(&mut h, GroupConfig { max_size: 2, ..GroupConfig::default() });
    h.tick();
    assert_eq!(h.state(), "PreparingRebalance");
    let requests: Vec<_> = ids.iter().map(|id| h.rejoin(id)).collect();
    assert_eq!(h.join_code(requests[2]), ErrorCode::GROUP_MAX_SIZE_REACHED);
}

#[test]
fn a_move_answers_waiting_requests() {
    let mut h = Harness::new();
    let (ids, generation) = h.stable(2);
    let waiting = h.rejoin(&ids[0]);
    h.coordinator.fail_over(h.now, |group| group != GROUP, &mut h.effects);
    h.collect();
    assert!(!h.is_answered(waiting), "another group has moved");
    h.coordinator.fail_over(h.now, |group| group == GROUP, &mut h.effects);
    h.collect();
    assert_eq!(h.join_code(waiting), ErrorCode::NOT_COORDINATOR);
    assert_eq!(h.state(), "Stable");
    assert_eq!(h.heartbeat(&ids[0], generation), ErrorCode::NONE);
    h.pass(9_999);
    assert_eq!(h.state(), "Stable");
    h.pass(1);
    assert_eq!(h.state(), "Empty", "the sessions began with the move");
}

#[test]
fn an_empty_group_has_no_leader_and_keeps_its_generation() {
    let mut h = Harness::new();
    let (ids, generation) = h.stable(1);
    h.leave(&ids[0]);
    let Some(GroupChange::Metadata { metadata, .. }) = h.coordinator.snapshot().pop() else { panic!("no metadata") };
    assert_eq!((metadata.leader, metadata.protocol, metadata.generation), (None, None, generation + 1));
    assert_eq!((metadata.protocol_type.as_deref(), metadata.state_since), (Some("consumer"), h.now));
    restart(&mut h, GroupConfig::default());
    let (_, after) = h.stable(1);
    assert_eq!(after, generation + 2, "generations do not repeat after a restart");
}
