//! Tests of broker connections: requested, lost, idle and throttled ones.

use grete_wire::messages::{HeartbeatRequest, HeartbeatResponse};

use super::super::test_cluster::FakeCluster;
use super::super::*;
use crate::connection::CloseReason;
use crate::request::{Request, RequestError, Target, Token};
use crate::time::{MILLI, SECOND};

fn heartbeat() -> Request {
    Request::Heartbeat(HeartbeatRequest::default())
}

fn conn_of(fake: &FakeCluster, node: NodeId, channel: Channel) -> ConnId {
    fake.cluster.nodes[&node].conn(channel).unwrap()
}

fn count(fake: &FakeCluster, wanted: &str) -> usize {
    fake.actions.iter().filter(|action| format!("{action:?}") == wanted).count()
}

/// Returns the number of ready connections.
fn open(fake: &FakeCluster) -> usize {
    fake.cluster.connections.values().filter(|link| link.conn.is_ready()).count()
}

#[test]
fn a_broker_that_dies_is_one_failure_and_three_channels_lost() {
    let mut fake = FakeCluster::ready(&[0, 1], &[("orders", 7, &[(0, 3), (1, 4)])]);
    fake.set_topic("orders", 7, &[(1, 4), (1, 4)]);
    assert_eq!(fake.cluster.ready_connections(), open(&fake));
    fake.kill("b0", 9092);
    assert_eq!(fake.cluster.ready_connections(), open(&fake));
    for channel in ["Control", "Fetch", "Join"] {
        assert_eq!(count(&fake, &format!("NodeLost {{ node: 0, channel: {channel} }}")), 1);
    }
    let wait = fake.cluster.nodes[&0].retry_at - fake.now;
    assert!((40 * MILLI..=60 * MILLI).contains(&wait), "{wait}");
    // The client asks the other broker for the new leaders without an event from its owner.
    fake.advance(200 * MILLI);
    assert_eq!(fake.cluster.leader(&TopicPartition::new("orders", 0)), Some((1, 4)));
}

#[test]
fn p35_a_failed_connect_is_reported_at_once_and_the_broker_is_not_selected() {
    let mut fake = FakeCluster::ready(&[0, 1], &[("orders", 7, &[(0, 3), (1, 4)])]);
    fake.kill("b0", 9092);
    fake.send(Target::Node(0), Channel::Control, heartbeat(), 1);
    let reply = fake.replies.pop().unwrap();
    assert_eq!((reply.node, reply.result.unwrap_err()), (0, RequestError::NoConnection), "in backoff");
    fake.now += 100 * MILLI;
    fake.send(Target::Node(0), Channel::Control, heartbeat(), 2);
    assert!(fake.replies.is_empty(), "it is tried");
    fake.settle();
    assert_eq!(fake.replies.pop().unwrap().result.unwrap_err(), RequestError::NoConnection);
    for id in 0..10 {
        fake.send(Target::Any, Channel::Control, heartbeat(), id);
    }
    let conn = conn_of(&fake, 1, Channel::Control);
    assert_eq!(fake.requests.iter().filter(|asked| asked.api == ApiKey::Heartbeat && asked.conn == conn).count(), 10);
}

#[test]
fn need_node_waits_for_the_backoff_and_reports_the_outcome() {
    let mut fake = FakeCluster::ready(&[0, 1], &[("orders", 7, &[(0, 3), (1, 4)])]);
    fake.kill("b0", 9092);
    fake.actions.clear();
    fake.event(ClusterEvent::NeedNode(0, Channel::Fetch));
    assert!(fake.connects.is_empty());
    fake.advance(100 * MILLI);
    assert_eq!(count(&fake, "NodeLost { node: 0, channel: Fetch }"), 1);
    fake.advance(5 * SECOND);
    assert_eq!(count(&fake, "NodeLost { node: 0, channel: Fetch }"), 1, "one attempt for one request");
    fake.down.clear();
    fake.event(ClusterEvent::NeedNode(0, Channel::Fetch));
    fake.event(ClusterEvent::NeedNode(0, Channel::Fetch));
    fake.advance(100 * MILLI);
    assert_eq!(count(&fake, "NodeReady { node: 0, channel: Fetch }"), 1);
    assert!(fake.cluster.api_version(0, Channel::Fetch, ApiKey::Fetch).is_some());
    assert!(fake.cluster.api_version(0, Channel::Control, ApiKey::Fetch).is_none());
}

#[test]
fn a_proxy_that_accepts_and_hangs_up_is_not_hammered() {
    let mut fake = FakeCluster::ready(&[0, 1], &[("orders", 7, &[(0, 3)])]);
    // Broker 1 serves the metadata: a response from broker 0 would prove that broker 0 works.
    fake.brokers.remove(&0);
    fake.event(ClusterEvent::RefreshMetadata);
    fake.advance(2 * SECOND);
    fake.hang_up(conn_of(&fake, 0, Channel::Fetch), CloseReason::Eof);
    let mut connects = 0;
    let end = fake.now + 10 * SECOND;
    while fake.now < end {
        fake.now += 10 * MILLI;
        fake.event(ClusterEvent::NeedNode(0, Channel::Fetch));
        fake.settle();
        if fake.cluster.is_ready(0, Channel::Fetch) {
            connects += 1;
            fake.hang_up(conn_of(&fake, 0, Channel::Fetch), CloseReason::Eof);
        }
    }
    assert!((9..=18).contains(&connects), "{connects} connects in ten seconds");
}

#[test]
fn a_ready_broker_that_is_not_named_does_not_retire_the_bootstrap_connection() {
    let mut fake = FakeCluster::ready(&[0], &[("orders", 7, &[(0, 3)])]);
    fake.brokers = [(1, ("b1".into(), 9092))].into();
    fake.down.insert(("b1".into(), 9092));
    fake.event(ClusterEvent::RefreshMetadata);
    fake.advance(2 * SECOND);
    assert!(fake.cluster.is_ready(0, Channel::Control));
    // Broker 0 is connected but no longer listed, and broker 1 is down: only the bootstrap address can respond.
    fake.actions.clear();
    fake.event(ClusterEvent::RefreshMetadata);
    fake.advance(2 * SECOND);
    assert!(fake.open.values().any(|(host, _)| host.as_ref() == "boot"));
    assert!(fake.actions.iter().any(|action| matches!(action, ClusterAction::MetadataRefreshed)));
}

#[test]
fn a_half_open_broker_costs_the_setup_timeout_not_for_ever() {
    let mut fake = FakeCluster::ready(&[0], &[("orders", 7, &[(0, 3)])]);
    fake.hang_up(conn_of(&fake, 0, Channel::Join), CloseReason::Eof);
    fake.now += 100 * MILLI;
    let token = Token { owner: crate::request::RequestOwner::Client, id: 9 };
    fake.event(ClusterEvent::Send(OutboundRequest {
        target: Target::Node(0),
        channel: Channel::Join,
        request: heartbeat(),
        token,
        timeout: 60 * SECOND,
    }));
    let (conn, address) = fake.connects.pop_front().unwrap();
    fake.open.insert(conn, address);
    fake.event(ClusterEvent::Connected(conn));
    fake.requests.retain(|asked| asked.conn != conn); // ApiVersions never gets a response
    fake.advance(13 * SECOND);
    let reply = fake.replies.pop().unwrap();
    assert_eq!((reply.token, reply.result.unwrap_err()), (token, RequestError::NoConnection));
    let timeout_logged = fake.log_events.iter().any(|notice| {
        matches!(notice, ClusterLogEvent::ConnectFailed { reason: CloseReason::HandshakeTimeout(_), .. })
    });
    assert!(timeout_logged, "{:?}", fake.log_events);
}

#[test]
fn a_join_does_not_wait_for_a_broker_that_is_silent_on_its_control_connection() {
    let mut fake = FakeCluster::ready(&[0, 1], &[("orders", 7, &[(0, 3), (1, 4)])]);
    let ask = |fake: &mut FakeCluster, channel, id, timeout| {
        let token = Token { owner: crate::request::RequestOwner::Client, id };
        fake.event(ClusterEvent::Send(OutboundRequest {
            target: Target::Node(0),
            channel,
            request: heartbeat(),
            token,
            timeout,
        }));
    };
    ask(&mut fake, Channel::Join, 1, 300 * SECOND);
    ask(&mut fake, Channel::Control, 2, 2 * SECOND);
    fake.requests.clear(); // the broker hangs
    fake.advance(2 * SECOND);
    let replies: Vec<_> = fake.replies.drain(..).map(|reply| (reply.token.id, reply.result.unwrap_err())).collect();
    assert_eq!(replies, [(2, RequestError::TimedOut), (1, RequestError::Disconnected)]);
    assert!(fake.cluster.nodes[&0].conn(Channel::Join).is_none());
    assert!(fake.cluster.nodes[&0].conn(Channel::Fetch).is_some(), "a Fetch has its own time");
    assert!(fake.cluster.nodes[&1].conn(Channel::Join).is_some(), "others go on");
}

/// The other connections of a broker that hangs are ready until their own requests are late.
#[test]
fn metadata_comes_from_another_broker_when_a_request_to_one_is_late() {
    for metadata_is_asked_first in [false, true] {
        let mut fake = FakeCluster::ready(&[0, 1], &[("orders", 7, &[(0, 3), (1, 4)])]);
        fake.hung = ["b0"].into();
        fake.send(Target::Node(0), Channel::Fetch, heartbeat(), 1);
        fake.advance(5 * SECOND);
        if metadata_is_asked_first {
            // Whichever broker is asked: the next request goes to the one with fewer requests, until broker 0 has one.
            while !fake.requests.iter().any(|asked| asked.api == ApiKey::Metadata) {
                fake.event(ClusterEvent::RefreshMetadata);
                fake.advance(500 * MILLI);
                assert!(fake.now < 100 * SECOND, "broker 0 is never asked");
            }
        }
        fake.metadata_requests.clear();
        fake.set_topic("orders", 7, &[(1, 4), (1, 4)]);
        while fake.replies.is_empty() {
            fake.advance(SECOND);
            assert!(fake.now < 100 * SECOND, "no timeout");
        }
        fake.advance(2 * SECOND);
        let leader = fake.cluster.leader(&TopicPartition::new("orders", 0));
        assert_eq!((fake.metadata_requests.len(), leader), (1, Some((1, 4))), "asked first: {metadata_is_asked_first}");
    }
}

#[test]
fn p33_a_swallowed_request_ends_the_connection_and_the_next_goes_through() {
    let mut fake = FakeCluster::ready(&[0], &[("orders", 7, &[(0, 3)])]);
    fake.send(Target::Node(0), Channel::Join, heartbeat(), 1);
    fake.next_request(ApiKey::Heartbeat).unwrap();
    fake.advance(10 * SECOND);
    assert_eq!(fake.replies.pop().unwrap().result.unwrap_err(), RequestError::TimedOut);
    fake.advance(100 * MILLI);
    fake.send(Target::Node(0), Channel::Join, heartbeat(), 2);
    fake.settle();
    let asked = fake.next_request(ApiKey::Heartbeat).unwrap();
    fake.respond(&asked, |version, out| HeartbeatResponse::default().encode(version, out));
    assert!(fake.replies.pop().unwrap().result.is_ok());
}

#[test]
fn what_a_closed_connection_still_says_is_ignored() {
    let mut fake = FakeCluster::ready(&[0], &[("orders", 7, &[(0, 3)])]);
    fake.send(Target::Node(0), Channel::Control, heartbeat(), 1);
    let asked = fake.next_request(ApiKey::Heartbeat).unwrap();
    fake.hang_up(asked.conn, CloseReason::Eof);
    assert_eq!(fake.replies.len(), 1);
    fake.actions.clear();
    fake.respond(&asked, |version, out| HeartbeatResponse::default().encode(version, out));
    fake.event(ClusterEvent::Closed(asked.conn, CloseReason::Eof));
    fake.event(ClusterEvent::Connected(asked.conn));
    assert_eq!(fake.replies.len(), 1);
    assert!(fake.actions.is_empty() && fake.connects.is_empty());
}

/// KIP-219: the throttle time applies to the broker, whichever connection it was received on.
#[test]
fn a_throttle_mutes_the_broker_and_unmuted_is_emitted_at_its_end() {
    let mut fake = FakeCluster::ready(&[0, 1], &[("orders", 7, &[(0, 3), (1, 4)])]);
    fake.send(Target::Node(0), Channel::Fetch, heartbeat(), 1);
    let asked = fake.next_request(ApiKey::Heartbeat).unwrap();
    let throttled = HeartbeatResponse { throttle_time_ms: 500, ..Default::default() };
    fake.respond(&asked, |version, out| throttled.encode(version, out));
    assert!(fake.cluster.is_muted(0, fake.now) && !fake.cluster.is_muted(1, fake.now));
    assert_eq!(fake.log_events, [ClusterLogEvent::Throttled { node: 0, ms: 500 }]);
    let raw = || Request::Raw { api: ApiKey::Fetch, version: 12, body: vec![] };
    fake.send(Target::Node(0), Channel::Control, raw(), 2);
    assert!(fake.next_request(ApiKey::Fetch).is_none(), "held back on the other connections, too");
    fake.send(Target::Node(0), Channel::Control, heartbeat(), 3);
    assert!(fake.next_request(ApiKey::Heartbeat).is_some(), "a quota must not cost the membership");
    fake.send(Target::Any, Channel::Control, raw(), 4);
    assert_eq!(fake.next_request(ApiKey::Fetch).unwrap().conn, conn_of(&fake, 1, Channel::Control));
    fake.advance(499 * MILLI);
    assert_eq!(count(&fake, "Unmuted { node: 0 }"), 0);
    fake.advance(2 * MILLI);
    assert_eq!(count(&fake, "Unmuted { node: 0 }"), 1);
    assert!(fake.next_request(ApiKey::Fetch).is_some());
    assert!(!fake.cluster.is_muted(0, fake.now));
}

/// A response with a bit too many may name any throttle time. What follows on the connection makes no sense either.
#[test]
fn garbled_bytes_throttle_nothing_for_long() {
    let mut fake = FakeCluster::ready(&[0, 1], &[("orders", 7, &[(0, 3), (1, 4)])]);
    fake.send(Target::Node(0), Channel::Fetch, heartbeat(), 1);
    let asked = fake.next_request(ApiKey::Heartbeat).unwrap();
    let throttled = HeartbeatResponse { throttle_time_ms: i32::MAX, ..Default::default() };
    fake.respond(&asked, |version, out| throttled.encode(version, out));
    assert!(fake.cluster.is_muted(0, fake.now + 299 * SECOND));
    let raw = || Request::Raw { api: ApiKey::Fetch, version: 12, body: vec![] };
    fake.send(Target::Node(0), Channel::Control, raw(), 2);
    assert!(fake.next_request(ApiKey::Fetch).is_none());
    let garbled = CloseReason::Correlation { expected: Some(2), actual: -255 };
    fake.event(ClusterEvent::Closed(asked.conn, garbled));
    assert!(!fake.cluster.is_muted(0, fake.now));
    assert_eq!(count(&fake, "Unmuted { node: 0 }"), 1);
    fake.advance(MILLI);
    assert!(fake.next_request(ApiKey::Fetch).is_some(), "the other connections go on, too");
}

#[test]
fn idle_connections_are_closed_in_peace_and_opened_again_on_demand() {
    let mut fake = FakeCluster::ready(&[0], &[("orders", 7, &[(0, 3)])]);
    fake.advance(541 * SECOND);
    assert_eq!(count(&fake, "NodeLost { node: 0, channel: Join }"), 1);
    assert_eq!(fake.cluster.ready_connections(), open(&fake));
    assert!(!fake.log_events.iter().any(|notice| matches!(notice, ClusterLogEvent::Disconnected { .. })));
    assert!(fake.cluster.is_ready(0, Channel::Control), "metadata keeps it busy");
    fake.send(Target::Node(0), Channel::Join, heartbeat(), 1);
    fake.settle();
    assert!(fake.next_request(ApiKey::Heartbeat).is_some(), "no backoff after an idle close");
}

#[test]
fn a_broker_that_metadata_no_longer_names_stays_while_it_is_connected() {
    let mut fake = FakeCluster::ready(&[0, 1], &[("orders", 7, &[(0, 3), (1, 4)])]);
    fake.brokers.remove(&1);
    fake.event(ClusterEvent::RefreshMetadata);
    fake.advance(2 * SECOND);
    assert_eq!(fake.cluster.node_ids().collect::<Vec<_>>(), [0]);
    fake.send(Target::Node(1), Channel::Control, heartbeat(), 1);
    assert!(fake.next_request(ApiKey::Heartbeat).is_some());
    fake.kill("b1", 9092);
    assert!(fake.cluster.address(1).is_none());
    fake.replies.clear();
    fake.send(Target::Node(1), Channel::Control, heartbeat(), 2);
    assert_eq!(fake.replies.pop().unwrap().result.unwrap_err(), RequestError::NoConnection);
}

#[test]
fn a_broker_that_moved_is_tried_at_its_new_address_at_once() {
    let mut fake = FakeCluster::ready(&[0, 1], &[("orders", 7, &[(0, 3), (1, 4)])]);
    fake.kill("b0", 9092);
    fake.advance(20 * SECOND);
    fake.brokers.insert(0, ("moved".into(), 9092));
    fake.event(ClusterEvent::RefreshMetadata);
    fake.advance(2 * SECOND);
    fake.send(Target::Node(0), Channel::Control, heartbeat(), 1);
    fake.settle();
    assert!(fake.next_request(ApiKey::Heartbeat).is_some());
    assert_eq!(fake.cluster.address(0).as_deref(), Some("moved:9092"));
}
