//! Ends of sessions, and members that do not give up their partitions.

use super::*;

#[test]
fn a_member_without_heartbeats_is_fenced_at_the_end_of_its_session() {
    let mut h = Harness::new();
    let mut a = Client::join(&mut h, "a", &["orders"]);
    let mut b = Client::join(&mut h, "b", &["orders"]);
    settle(&mut h, &mut [&mut a, &mut b]);
    h.pass(44_999);
    a.beat(&mut h).unwrap();
    h.pass(1);
    assert_eq!(h.group(), (4, 3, "Assigning"));
    assert_eq!(h.code(&beat("b", 3)), ErrorCode::UNKNOWN_MEMBER_ID);
    a.beat(&mut h).unwrap();
    assert_eq!(a.count(), 4);
}

#[test]
fn a_member_that_keeps_its_partitions_is_fenced_after_its_rebalance_timeout() {
    let mut config = GroupConfig::default();
    config.consumer.session_timeout_ms = 1_000_000;
    let mut h = Harness::with(config);
    let mut a = Client::join(&mut h, "a", &["orders"]);
    let mut b = Client::join(&mut h, "b", &["orders"]);
    h.send(&beat("a", 2)).unwrap();
    h.pass(59_999);
    h.send(&beat("a", 2)).unwrap();
    b.beat(&mut h).unwrap();
    assert_eq!(b.count(), 0);
    h.pass(1);
    assert_eq!(a.beat(&mut h).unwrap_err().code, ErrorCode::UNKNOWN_MEMBER_ID);
    b.beat(&mut h).unwrap();
    assert_eq!((b.count(), h.group().2), (4, "Stable"));
}

#[test]
fn partitions_that_are_given_up_in_time_end_the_timer() {
    let mut config = GroupConfig::default();
    config.consumer.session_timeout_ms = 1_000_000;
    let mut h = Harness::with(config);
    let mut a = Client::join(&mut h, "a", &["orders"]);
    let mut b = Client::join(&mut h, "b", &["orders"]);
    h.pass(1000);
    settle(&mut h, &mut [&mut a, &mut b]);
    h.pass(100_000);
    settle(&mut h, &mut [&mut a, &mut b]);
    assert_eq!((a.count(), b.count()), (2, 2));
}
