//! The way from one owner of a partition to the next.

use super::*;

#[test]
fn a_partition_moves_after_its_owner_has_given_it_up() {
    let mut h = Harness::new();
    let mut a = Client::join(&mut h, "a", &["orders"]);
    let mut b = Client::join(&mut h, "b", &["orders"]);
    assert_eq!((b.epoch, b.count(), h.group()), (3, 0, (3, 3, "Reconciling")));
    let response = h.send(&beat("a", 2)).unwrap();
    assert_eq!(response.member_epoch, 2, "the epoch stays until the partitions are given up");
    let left: Vec<i32> = response.assignment.unwrap().topic_partitions[0].partitions.clone();
    assert_eq!(left.len(), 2);
    // The client still has them, or does not say.
    b.beat(&mut h).unwrap();
    a.owned = BTreeMap::from([(ORDERS, vec![0, 1, 2, 3])]);
    let request = ConsumerGroupHeartbeatRequest { topic_partitions: Some(a.owned()), ..beat("a", 2) };
    assert_eq!(h.send(&request).unwrap().member_epoch, 2);
    assert_eq!(h.send(&beat("a", 2)).unwrap().member_epoch, 2);
    b.beat(&mut h).unwrap();
    assert_eq!(b.count(), 0);
    a.owned = BTreeMap::from([(ORDERS, left)]);
    a.beat(&mut h).unwrap();
    assert_eq!(a.epoch, 3);
    b.beat(&mut h).unwrap();
    assert_eq!((b.count(), h.group()), (2, (3, 3, "Stable")));
}

#[test]
fn no_partition_ever_has_two_owners() {
    let mut h = Harness::new();
    let mut a = Client::join(&mut h, "a", &["orders", "bills"]);
    let mut b = Client::join(&mut h, "b", &["orders", "bills"]);
    let mut c = Client::join(&mut h, "c", &["orders"]);
    for round in 0..6 {
        for client in [&mut c, &mut a, &mut b] {
            client.beat(&mut h).unwrap();
        }
        let mut seen = std::collections::BTreeSet::new();
        for described in h.description().members {
            for (topic, owned) in [&described.member.assigned, &described.member.revoking].into_iter().flatten() {
                for partition in owned.keys() {
                    assert!(seen.insert((*topic, *partition)), "round {round}: {topic}-{partition} has two owners");
                }
            }
        }
    }
    assert_eq!(h.group().2, "Stable");
    assert_eq!([a.count(), b.count(), c.count()], [2, 2, 2]);
    for described in h.description().members {
        assert_eq!(keys(&described.member.assigned), described.target);
    }
}

#[test]
fn partitions_of_a_member_that_leaves_are_free_at_once() {
    let mut h = Harness::new();
    let mut a = Client::join(&mut h, "a", &["orders"]);
    let mut b = Client::join(&mut h, "b", &["orders"]);
    settle(&mut h, &mut [&mut a, &mut b]);
    let response = h.send(&beat("b", -1)).unwrap();
    assert_eq!((response.member_epoch, response.heartbeat_interval_ms, response.assignment), (-1, 0, None));
    assert_eq!(h.group(), (4, 3, "Assigning"));
    a.beat(&mut h).unwrap();
    assert_eq!((a.epoch, a.count(), h.group()), (4, 4, (4, 4, "Stable")));
    assert_eq!(h.code(&beat("b", 3)), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(h.code(&beat("b", -1)), ErrorCode::UNKNOWN_MEMBER_ID);
    h.send(&beat("a", -1)).unwrap();
    assert_eq!(h.group(), (5, 4, "Empty"));
}

#[test]
fn the_assignment_waits_for_its_interval() {
    let mut config = GroupConfig::default();
    config.consumer.assignment_interval_ms = 1000;
    let mut h = Harness::with(config);
    let mut a = Client::join(&mut h, "a", &["orders"]);
    let mut b = Client::join(&mut h, "b", &["orders"]);
    assert_eq!((h.group(), b.epoch), ((3, 2, "Assigning"), 2));
    h.pass(999);
    a.beat(&mut h).unwrap();
    assert_eq!(h.group(), (3, 2, "Assigning"));
    h.pass(1);
    settle(&mut h, &mut [&mut a, &mut b]);
    assert_eq!((a.count(), b.count()), (2, 2));
}

#[test]
fn most_members_choose_the_assignor() {
    let mut h = Harness::new();
    let with = |id, assignor: &'static str| ConsumerGroupHeartbeatRequest {
        server_assignor: Some(assignor.into()),
        ..join(id, &["orders"])
    };
    assert_eq!(h.code(&join("a", &["orders"])), ErrorCode::NONE);
    assert_eq!(h.description().assignor, "uniform");
    h.send(&with("b", "range")).unwrap();
    assert_eq!(h.description().assignor, "range");
    h.send(&with("c", "uniform")).unwrap();
    h.send(&with("d", "uniform")).unwrap();
    assert_eq!(h.description().assignor, "uniform");
}
