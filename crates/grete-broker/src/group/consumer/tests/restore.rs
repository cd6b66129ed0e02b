//! Restarts and moves of the coordinator.

use super::*;

/// Replaces the coordinator by one that loads the stored changes.
fn restart(h: &mut Harness) {
    let load = |changes: Vec<GroupChange>| {
        let mut coordinator = GroupCoordinator::new(GroupConfig::default(), 2);
        changes.into_iter().for_each(|change| coordinator.restore(change));
        coordinator
    };
    let coordinator = load(h.changes.clone());
    assert_eq!(coordinator.snapshot(), h.coordinator.snapshot());
    assert_eq!(load(coordinator.snapshot()).snapshot(), coordinator.snapshot(), "a snapshot restores itself");
    h.coordinator = coordinator;
    h.pass(0);
}

#[test]
fn members_and_assignments_survive_a_restart_at_any_time() {
    let mut h = Harness::new();
    let mut a = Client::join(&mut h, "a", &["orders"]);
    restart(&mut h);
    let mut b = Client::join(&mut h, "b", &["orders", "bills"]);
    restart(&mut h);
    for _ in 0..4 {
        a.beat(&mut h).unwrap();
        restart(&mut h);
        b.beat(&mut h).unwrap();
        restart(&mut h);
    }
    assert_eq!((a.count(), b.count(), h.group()), (3, 3, (3, 3, "Stable")));
    h.send(&beat("a", -1)).unwrap();
    restart(&mut h);
    b.beat(&mut h).unwrap();
    assert_eq!(b.count(), 6);
}

#[test]
fn the_place_of_a_static_member_survives_a_restart() {
    let mut h = Harness::new();
    let with_instance = |request| ConsumerGroupHeartbeatRequest { instance_id: Some("i".into()), ..request };
    h.send(&with_instance(join("a", &["orders"]))).unwrap();
    h.send(&with_instance(beat("a", -2))).unwrap();
    restart(&mut h);
    assert_eq!(h.send(&with_instance(join("b", &["orders"]))).unwrap().member_epoch, 2);
    restart(&mut h);
    assert_eq!(h.code(&with_instance(beat("b", 2))), ErrorCode::NONE);
}

#[test]
fn sessions_and_timers_begin_again_after_a_restart() {
    let mut h = Harness::new();
    Client::join(&mut h, "a", &["orders"]);
    let mut b = Client::join(&mut h, "b", &["orders"]);
    h.send(&beat("a", 2)).unwrap();
    h.pass(40_000);
    restart(&mut h);
    h.pass(44_999);
    assert_eq!(h.description().members.len(), 2);
    b.beat(&mut h).unwrap();
    h.pass(1);
    assert_eq!(h.description().members.len(), 1, "a sent no heartbeat");
}

#[test]
fn a_move_of_the_coordinator_keeps_the_group() {
    let mut h = Harness::new();
    let mut a = Client::join(&mut h, "a", &["orders"]);
    let mut b = Client::join(&mut h, "b", &["orders"]);
    settle(&mut h, &mut [&mut a, &mut b]);
    h.pass(40_000);
    h.coordinator.fail_over(h.now, |_| true, &mut h.effects);
    h.pass(40_000);
    settle(&mut h, &mut [&mut a, &mut b]);
    assert_eq!(h.group(), (3, 3, "Stable"));
}

#[test]
fn deleted_groups_stay_deleted() {
    let mut h = Harness::new();
    Client::join(&mut h, "a", &["orders"]);
    h.send(&beat("a", -1)).unwrap();
    h.coordinator.delete_group(GROUP, &mut h.effects).unwrap();
    h.collect();
    restart(&mut h);
    assert!(h.coordinator.describe_consumer(GROUP).is_none());
    Client::join(&mut h, "b", &["orders"]);
    restart(&mut h);
    assert_eq!(h.group(), (2, 2, "Stable"));
}
