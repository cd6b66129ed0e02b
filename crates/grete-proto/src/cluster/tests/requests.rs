//! Tests of requests to any broker, and of the guarantee of one reply per request.

use grete_wire::messages::{HeartbeatRequest, HeartbeatResponse};

use super::super::test_cluster::FakeCluster;
use super::super::*;
use crate::request::{NO_NODE, Request, RequestError, Target, Token};
use crate::time::{MILLI, SECOND};

fn heartbeat() -> Request {
    Request::Heartbeat(HeartbeatRequest::default())
}

#[test]
fn to_any_broker_before_any_is_ready_waits_for_the_first() {
    let mut fake = FakeCluster::new(&[("boot", 9092)]);
    fake.brokers.insert(0, ("b0".into(), 9092));
    fake.send(Target::Any, Channel::Fetch, heartbeat(), 1);
    assert_eq!(fake.connects.len(), 1);
    fake.settle();
    assert!(fake.next_request(ApiKey::Heartbeat).is_some());
    assert!(fake.replies.is_empty());
}

#[test]
fn to_any_broker_while_none_can_be_reached_is_answered_at_once() {
    let mut fake = FakeCluster::new(&[("boot", 9092)]);
    fake.down.insert(("boot".into(), 9092));
    fake.send(Target::Any, Channel::Control, heartbeat(), 1);
    fake.settle();
    let reply = fake.replies.pop().unwrap();
    assert_eq!((reply.node, reply.result.unwrap_err()), (NO_NODE, RequestError::NoConnection));
}

#[test]
fn to_any_broker_while_one_hangs_has_its_deadline() {
    let mut fake = FakeCluster::new(&[("boot", 9092)]);
    fake.send(Target::Any, Channel::Control, heartbeat(), 1);
    let token = Token { owner: crate::request::RequestOwner::Client, id: 1 };
    let start = fake.now;
    while fake.replies.is_empty() {
        fake.connects.clear();
        fake.now = fake.cluster.deadline().unwrap();
        fake.event(ClusterEvent::Tick);
    }
    assert_eq!(fake.replies[0].token, token);
    assert!(fake.now - start <= 10 * SECOND);
}

#[test]
fn the_least_loaded_broker_is_taken() {
    let mut fake = FakeCluster::ready(&[0, 1, 2], &[]);
    for id in 0..30 {
        fake.send(Target::Any, Channel::Control, heartbeat(), id);
    }
    let mut per_conn = BTreeMap::new();
    for asked in &fake.requests {
        *per_conn.entry(asked.conn).or_insert(0) += 1;
    }
    assert_eq!(per_conn.values().copied().collect::<Vec<_>>(), [10, 10, 10]);
}

#[test]
fn an_unknown_broker_fails_the_request_and_refreshes_the_metadata() {
    let mut fake = FakeCluster::ready(&[0], &[]);
    fake.metadata_requests.clear();
    fake.send(Target::Node(77), Channel::Control, heartbeat(), 1);
    let reply = fake.replies.pop().unwrap();
    assert_eq!((reply.node, reply.result.unwrap_err()), (77, RequestError::NoConnection));
    fake.event(ClusterEvent::NeedNode(78, Channel::Fetch));
    fake.advance(200 * MILLI);
    assert_eq!(fake.metadata_requests.len(), 1);
}

#[test]
fn ticks_are_cheap_and_harmless_at_any_time() {
    let mut fake = FakeCluster::ready(&[0], &[("orders", 7, &[(0, 3)])]);
    let deadline = fake.cluster.deadline();
    for _ in 0..10 {
        fake.now += MILLI;
        fake.event(ClusterEvent::Tick);
    }
    assert_eq!(fake.cluster.deadline(), deadline);
    assert!(fake.actions.is_empty() && fake.connects.is_empty() && fake.requests.is_empty());
}

#[test]
fn to_the_controller_goes_where_metadata_says_and_before_that_to_any_broker() {
    let mut fake = FakeCluster::new(&[("boot", 9092)]);
    fake.brokers = [(0, ("b0".into(), 9092)), (1, ("b1".into(), 9092))].into();
    fake.controller = 1;
    fake.send(Target::Controller, Channel::Control, heartbeat(), 1);
    fake.settle();
    let asked = fake.next_request(ApiKey::Heartbeat).unwrap();
    fake.respond(&asked, |version, out| HeartbeatResponse::default().encode(version, out));
    fake.settle();
    assert_eq!(fake.cluster.controller(), Some(1));
    for _ in 0..3 {
        fake.send(Target::Controller, Channel::Control, heartbeat(), 2);
        fake.settle();
        let asked = fake.next_request(ApiKey::Heartbeat).unwrap();
        assert_eq!(&*fake.open[&asked.conn].0, "b1");
        fake.respond(&asked, |version, out| HeartbeatResponse::default().encode(version, out));
    }
    fake.controller = -1;
    fake.event(ClusterEvent::RefreshMetadata);
    fake.advance(SECOND);
    assert_eq!(fake.cluster.controller(), None);
    fake.send(Target::Controller, Channel::Control, heartbeat(), 3);
    fake.settle();
    assert!(fake.next_request(ApiKey::Heartbeat).is_some());
}

#[test]
fn a_throttle_that_only_the_machine_could_read_mutes_the_broker() {
    let mut fake = FakeCluster::ready(&[0], &[]);
    fake.event(ClusterEvent::Throttled { node: 0, millis: 0 });
    assert!(!fake.cluster.is_muted(0, fake.now));
    fake.event(ClusterEvent::Throttled { node: 0, millis: 250 });
    assert!(fake.cluster.is_muted(0, fake.now + 250 * MILLI - 1));
    fake.advance(250 * MILLI);
    assert!(fake.actions.iter().any(|action| matches!(action, ClusterAction::Unmuted { node: 0 })));
}
