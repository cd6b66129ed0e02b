//! Epochs of members and of the group, and requests that are not valid.

use super::*;

#[test]
fn the_first_member_gets_all_partitions_at_once() {
    let mut h = Harness::new();
    let response = h.send(&join("a", &["orders"])).unwrap();
    assert_eq!((response.member_epoch, response.heartbeat_interval_ms), (2, 5000));
    assert_eq!(response.member_id.as_deref(), Some("a"));
    let assigned = &response.assignment.unwrap().topic_partitions;
    assert_eq!((assigned[0].topic_id, assigned[0].partitions.as_slice()), (ORDERS, [0, 1, 2, 3].as_slice()));
    assert_eq!(h.group(), (2, 2, "Stable"));
    // A heartbeat without news has no assignment.
    assert_eq!(h.send(&beat("a", 2)).unwrap().assignment, None);
}

#[test]
fn clients_of_version_0_get_their_member_id() {
    let mut h = Harness::new();
    let first = h.send_version(0, &join("", &["orders"])).unwrap().member_id.unwrap();
    let second = h.send_version(0, &join("", &["orders"])).unwrap().member_id.unwrap();
    assert_ne!(first, second);
    assert_eq!(first.len(), 22);
    assert_eq!(h.description().members.len(), 2);
    assert_eq!(h.send_version(1, &join("", &["orders"])).unwrap_err().code, ErrorCode::INVALID_REQUEST);
}

#[test]
fn members_with_a_wrong_epoch_are_fenced() {
    let mut h = Harness::new();
    assert_eq!(h.code(&beat("a", 2)), ErrorCode::GROUP_ID_NOT_FOUND);
    Client::join(&mut h, "a", &["orders"]);
    assert_eq!(h.code(&beat("b", 2)), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(h.code(&beat("a", 3)), ErrorCode::FENCED_MEMBER_EPOCH);
    Client::join(&mut h, "b", &["orders"]);
    assert_eq!(h.code(&beat("b", 2)), ErrorCode::FENCED_MEMBER_EPOCH, "b has epoch 2");
    assert_eq!(h.code(&beat("b", 3)), ErrorCode::NONE);
}

#[test]
fn the_epoch_before_is_valid_while_the_response_may_be_lost() {
    let mut h = Harness::new();
    let mut a = Client::join(&mut h, "a", &["orders"]);
    let mut b = Client::join(&mut h, "b", &["orders"]);
    settle(&mut h, &mut [&mut a, &mut b]);
    let known = h.description().members[0].member.clone();
    assert_eq!((known.epoch, known.previous_epoch), (3, 2));
    let with = |owned: Vec<i32>| ConsumerGroupHeartbeatRequest {
        topic_partitions: Some(vec![ConsumerGroupHeartbeatRequestTopicPartitions {
            topic_id: ORDERS,
            partitions: owned,
        }]),
        ..beat("a", 2)
    };
    let assigned: Vec<i32> = known.assigned[&ORDERS].keys().copied().collect();
    assert_eq!(h.send(&with(assigned.clone())).unwrap().member_epoch, 3);
    assert_eq!(h.code(&with(vec![0, 1, 2, 3])), ErrorCode::FENCED_MEMBER_EPOCH, "partitions that b has");
    assert_eq!(h.code(&beat("a", 2)), ErrorCode::FENCED_MEMBER_EPOCH, "it does not say what it has");
}

#[test]
fn a_member_that_lost_all_joins_again_with_epoch_0() {
    let mut h = Harness::new();
    Client::join(&mut h, "a", &["orders"]);
    // The epoch before was 0.
    let response = h.send(&join("a", &["orders"])).unwrap();
    assert_eq!((response.member_epoch, h.group().0), (2, 2));
    assert!(response.assignment.is_some());
}

#[test]
fn requests_are_checked() {
    let mut h = Harness::new();
    let valid = join("a", &["orders"]);
    let invalid = [
        ConsumerGroupHeartbeatRequest { group_id: "".into(), ..valid.clone() },
        ConsumerGroupHeartbeatRequest { instance_id: Some("".into()), ..valid.clone() },
        ConsumerGroupHeartbeatRequest { rack_id: Some("".into()), ..valid.clone() },
        ConsumerGroupHeartbeatRequest { rebalance_timeout_ms: -1, ..valid.clone() },
        ConsumerGroupHeartbeatRequest { topic_partitions: None, ..valid.clone() },
        ConsumerGroupHeartbeatRequest { subscribed_topic_names: None, ..valid.clone() },
        beat("a", -2),
        beat("a", -3),
    ];
    for request in &invalid {
        assert_eq!(h.code(request), ErrorCode::INVALID_REQUEST, "{request:?}");
    }
    let unknown = ConsumerGroupHeartbeatRequest { server_assignor: Some("sticky".into()), ..valid.clone() };
    let refusal = h.send(&unknown).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::UNSUPPORTED_ASSIGNOR);
    assert!(refusal.message.contains("uniform or range"), "{}", refusal.message);
    let regex = ConsumerGroupHeartbeatRequest { subscribed_topic_regex: Some("ord.*".into()), ..valid.clone() };
    let refusal = h.send(&regex).unwrap_err();
    assert_eq!(refusal.code, ErrorCode::INVALID_REGULAR_EXPRESSION);
    assert!(refusal.message.contains("by their names"), "{}", refusal.message);
    assert!(h.coordinator.list(&[], &[]).is_empty(), "refused requests create no group");
    let empty = ConsumerGroupHeartbeatRequest { subscribed_topic_regex: Some("".into()), ..valid };
    assert_eq!(h.code(&empty), ErrorCode::NONE);
}

#[test]
fn a_full_group_accepts_its_own_members_only() {
    let mut config = GroupConfig::default();
    config.consumer.max_size = 1;
    let mut h = Harness::with(config);
    let mut a = Client::join(&mut h, "a", &["orders"]);
    assert_eq!(h.code(&join("b", &["orders"])), ErrorCode::GROUP_MAX_SIZE_REACHED);
    a.beat(&mut h).unwrap();
    assert_eq!(h.code(&beat("a", -1)), ErrorCode::NONE);
    assert_eq!(h.code(&join("b", &["orders"])), ErrorCode::NONE);
}
