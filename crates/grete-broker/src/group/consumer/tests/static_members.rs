//! Static members: the place of a member that left for a while, and instance ids that are in use.

use super::*;

fn with_instance<'a>(
    request: ConsumerGroupHeartbeatRequest<'a>,
    instance_id: &'a str,
) -> ConsumerGroupHeartbeatRequest<'a> {
    ConsumerGroupHeartbeatRequest { instance_id: Some(instance_id.into()), ..request }
}

#[test]
fn a_successor_gets_the_place_of_a_member_that_left_for_a_while() {
    let mut h = Harness::new();
    h.send(&with_instance(join("a", &["orders"]), "i")).unwrap();
    let response = h.send(&with_instance(beat("a", -2), "i")).unwrap();
    assert_eq!((response.member_id.as_deref(), response.member_epoch), (Some("a"), -2));
    assert_eq!(h.group(), (2, 2, "Reconciling"));
    assert_eq!(h.code(&with_instance(beat("a", 2), "i")), ErrorCode::FENCED_MEMBER_EPOCH);
    let response = h.send(&with_instance(join("b", &["orders"]), "i")).unwrap();
    assert_eq!((response.member_epoch, h.group()), (2, (2, 2, "Stable")), "no rebalance");
    assert_eq!(response.assignment.unwrap().topic_partitions[0].partitions, [0, 1, 2, 3]);
    assert_eq!(h.description().members.len(), 1);
    assert_eq!(h.code(&with_instance(beat("a", 2), "i")), ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(h.code(&with_instance(beat("b", 2), "i")), ErrorCode::NONE);
}

#[test]
fn an_instance_id_in_use_is_not_released() {
    let mut h = Harness::new();
    h.send(&with_instance(join("a", &["orders"]), "i")).unwrap();
    for id in ["b", "a"] {
        let refusal = h.send(&with_instance(join(id, &["orders"]), "i")).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::UNRELEASED_INSTANCE_ID);
        assert!(refusal.message.contains("stop it first"), "{}", refusal.message);
    }
    // A killed member comes back at once with its own id and epoch.
    let back = ConsumerGroupHeartbeatRequest { member_epoch: 2, ..with_instance(join("a", &["orders"]), "i") };
    assert!(h.send(&back).unwrap().assignment.is_some());
    assert_eq!(h.code(&with_instance(beat("a", 2), "unknown")), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(h.code(&with_instance(beat("a", -1), "unknown")), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(h.code(&with_instance(beat("b", -1), "i")), ErrorCode::FENCED_INSTANCE_ID);
}

#[test]
fn a_static_member_that_leaves_for_good_is_gone() {
    let mut h = Harness::new();
    h.send(&with_instance(join("a", &["orders"]), "i")).unwrap();
    h.send(&with_instance(beat("a", -1), "i")).unwrap();
    assert_eq!(h.group(), (3, 2, "Empty"));
    let response = h.send(&with_instance(join("b", &["orders"]), "i")).unwrap();
    assert_eq!(response.member_epoch, 4);
}

#[test]
fn the_place_is_kept_until_the_end_of_the_session() {
    let mut h = Harness::new();
    h.send(&with_instance(join("a", &["orders"]), "i")).unwrap();
    h.pass(44_000);
    h.send(&with_instance(beat("a", -2), "i")).unwrap();
    h.pass(999);
    assert_eq!(h.description().members.len(), 1);
    h.pass(1);
    assert_eq!(h.group(), (3, 2, "Empty"));
}

#[test]
fn a_successor_with_another_subscription_starts_a_rebalance() {
    let mut h = Harness::new();
    h.send(&with_instance(join("a", &["orders"]), "i")).unwrap();
    h.send(&with_instance(beat("a", -2), "i")).unwrap();
    let response = h.send(&with_instance(join("b", &["orders", "bills"]), "i")).unwrap();
    assert_eq!((response.member_epoch, h.group().0), (3, 3));
    let topics: Vec<_> = response.assignment.unwrap().topic_partitions.iter().map(|topic| topic.topic_id).collect();
    assert_eq!(topics, [ORDERS, BILLS]);
}
