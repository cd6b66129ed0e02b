//! Tests of bootstrapping: finding the first broker, then all brokers, and again after all are lost.

use grete_wire::ErrorCode;
use grete_wire::WireError;
use grete_wire::messages::{FindCoordinatorRequest, SaslHandshakeResponse};

use super::super::test_cluster::{FakeCluster, ReceivedRequest, no_login};
use super::super::*;
use crate::connection::CloseReason;
use crate::request::{AddressFault, DetectedProtocol, Request, RequestError, Target};
use crate::sasl::{Credentials, Mechanism, SaslConfig, TokenStore};
use crate::time::{MILLI, SECOND};
use crate::tls_failure::{TlsFailure, TlsFailureKind};
use crate::transport::TransportAction;

fn find_coordinator() -> Request {
    Request::FindCoordinator(FindCoordinatorRequest::default())
}

fn one_broker(bootstrap: &[(&str, u16)]) -> FakeCluster {
    let mut fake = FakeCluster::new(bootstrap);
    fake.brokers.insert(0, ("b0".into(), 9092));
    fake.set_topic("orders", 7, &[(0, 3)]);
    fake.event(ClusterEvent::SetTopics(vec!["orders".into()]));
    fake
}

#[test]
fn from_a_bootstrap_address_to_every_channel_of_every_broker() {
    let fake = FakeCluster::ready(&[0, 1], &[("orders", 7, &[(0, 3), (1, 4)])]);
    let cluster = &fake.cluster;
    assert_eq!(cluster.node_ids().collect::<Vec<_>>(), [0, 1]);
    assert_eq!(cluster.leader(&TopicPartition::new("orders", 1)), Some((1, 4)));
    assert_eq!(cluster.leader(&TopicPartition::new("orders", 2)), None);
    assert_eq!(cluster.topic_by_id(7).map(|topic| topic.name.as_ref()), Some("orders"));
    assert_eq!(cluster.api_version(1, Channel::Fetch, ApiKey::Fetch), Some(*ApiKey::Fetch.ours().end()));
    assert_eq!(cluster.address(1).as_deref(), Some("b1:9092"));
    // The bootstrap connection is closed once a broker of the metadata is ready.
    assert!(fake.open.values().all(|(host, _)| host.as_ref() != "boot"), "{:?}", fake.open);
    assert_eq!(fake.open.len(), 2 * Channel::COUNT);
}

#[test]
fn a_cluster_connects_on_its_first_tick_and_asks_once() {
    let mut fake = one_broker(&[("boot", 9092)]);
    assert!(fake.cluster.deadline().is_some_and(|deadline| deadline <= fake.now) || !fake.connects.is_empty());
    fake.settle();
    assert_eq!(fake.metadata_requests.len(), 1);
    assert_eq!(fake.metadata_requests[0].topics.as_ref().map(Vec::len), Some(1));
    assert!(!fake.metadata_requests[0].allow_auto_topic_creation);
    let changes: Vec<_> = fake.actions.iter().map(|action| format!("{action:?}")).collect();
    assert_eq!(changes, ["MetadataChanged", "MetadataRefreshed"]);
    fake.advance(60 * SECOND);
    assert_eq!(fake.metadata_requests.len(), 1, "nothing is stale");
}

#[test]
fn without_topics_of_interest_only_brokers_are_asked_for() {
    let mut fake = FakeCluster::new(&[("boot", 9092)]);
    fake.brokers.insert(0, ("b0".into(), 9092));
    fake.settle();
    assert_eq!(fake.metadata_requests[0].topics, Some(vec![]), "null would ask for all topics");
}

#[test]
fn topics_named_while_the_first_answer_is_on_its_way_are_asked_for_right_after_it() {
    let mut fake = FakeCluster::new(&[("boot", 9092)]);
    fake.brokers.insert(0, ("b0".into(), 9092));
    fake.set_topic("orders", 7, &[(0, 3)]);
    fake.event(ClusterEvent::Tick);
    let (conn, address) = fake.connects.pop_front().unwrap();
    fake.connect(conn, address);
    let asked = fake.next_request(ApiKey::ApiVersions).unwrap();
    fake.auto_respond(&asked);
    assert_eq!(fake.requests.len(), 1, "metadata");
    fake.event(ClusterEvent::SetTopics(vec!["orders".into()]));
    assert_eq!(fake.requests.len(), 1, "one question at a time");
    fake.settle();
    assert_eq!(fake.cluster.leader(&TopicPartition::new("orders", 0)), Some((0, 3)), "no time has passed");
    assert_eq!(fake.metadata_requests.len(), 2);
}

#[test]
fn a_bootstrap_address_that_a_broker_advertises_is_that_broker() {
    let mut fake = one_broker(&[("b0", 9092)]);
    fake.settle();
    assert!(fake.cluster.is_ready(0, Channel::Control));
    fake.send(Target::Node(0), Channel::Control, find_coordinator(), 1);
    assert_eq!(fake.requests.len(), 1, "sent at once on the connection that is there");
    assert_eq!(fake.open.len(), 1);
    // Two brokers behind one address are a load balancer.
    let mut fake = one_broker(&[("b0", 9092)]);
    fake.brokers.insert(1, ("b0".into(), 9092));
    fake.settle();
    assert!(!fake.cluster.is_ready(0, Channel::Control) && !fake.cluster.is_ready(1, Channel::Control));
}

#[test]
fn addresses_are_tried_in_a_shuffled_order_and_all_get_their_turn() {
    let names = ["a", "b", "c", "d"];
    let mut orders = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let config =
            ClusterConfig { bootstrap: names.iter().map(|&name| (name.into(), 9092)).collect(), ..Default::default() };
        let mut fake = FakeCluster::with_config(config, seed);
        let mut tried = Vec::new();
        fake.event(ClusterEvent::Tick);
        while tried.len() < names.len() {
            let (conn, address) = fake.connects.pop_front().expect("the next address at once, no backoff in between");
            tried.push(address.0.to_string());
            fake.event(ClusterEvent::Closed(conn, CloseReason::Connect("refused".into())));
        }
        assert!(fake.connects.is_empty(), "all are waiting for their backoff");
        let mut sorted = tried.clone();
        sorted.sort();
        assert_eq!(sorted, names);
        orders.insert(tried);
    }
    assert!(orders.len() > 5, "{orders:?}");
}

#[test]
fn failing_addresses_are_tried_ever_more_slowly_and_the_outage_is_said_once() {
    let mut fake = one_broker(&[("x", 1)]);
    fake.down.insert(("x".into(), 1));
    let mut attempts = Vec::new();
    let end = fake.now + 30 * SECOND;
    fake.settle();
    let mut seen = 0;
    while fake.now < end {
        let failed = |n: &&ClusterLogEvent| matches!(n, ClusterLogEvent::ConnectFailed { .. });
        let failures = fake.log_events.iter().filter(failed).count();
        if failures > seen {
            assert_eq!(failures, seen + 1, "one attempt at a time");
            seen = failures;
            attempts.push(fake.now);
        }
        fake.now = fake.cluster.deadline().unwrap();
        fake.settle();
    }
    let gaps: Vec<_> = attempts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!((40 * MILLI..=60 * MILLI).contains(&gaps[0]), "{gaps:?}");
    assert!((160 * MILLI..=240 * MILLI).contains(&gaps[2]), "{gaps:?}");
    assert!(gaps[5..].iter().all(|gap| (800 * MILLI..=1200 * MILLI).contains(gap)), "{gaps:?}");
    let outages =
        fake.log_events.iter().filter(|n| matches!(n, ClusterLogEvent::AllBrokersDown { addresses: 1 })).count();
    assert_eq!(outages, 1);
    // The broker returns and fails again: a new outage.
    fake.down.clear();
    fake.advance(2 * SECOND);
    assert!(fake.cluster.topic("orders").is_some());
    fake.down.insert(("b0".into(), 9092));
    fake.kill("x", 1);
    fake.advance(5 * SECOND);
    let outages = fake.log_events.iter().filter(|n| matches!(n, ClusterLogEvent::AllBrokersDown { .. })).count();
    assert_eq!(outages, 2);
}

#[test]
fn an_address_that_swallows_packets_does_not_hold_up_the_start() {
    let mut fake = one_broker(&[("a", 1), ("b", 1)]);
    fake.event(ClusterEvent::Tick);
    let (hole, _) = fake.connects.pop_front().unwrap();
    assert!(fake.connects.is_empty());
    fake.now = fake.cluster.deadline().unwrap();
    assert_eq!(fake.now, 2 * SECOND, "the second is tried beside it after a second");
    fake.settle();
    assert!(fake.cluster.topic("orders").is_some());
    // The attempt at the unresponsive address ends at its own deadline.
    fake.advance(15 * SECOND);
    assert!(
        fake.actions.iter().any(
            |action| matches!(action, ClusterAction::Transport(TransportAction::CloseConn(conn)) if *conn == hole)
        )
    );
    assert!(
        fake.log_events.iter().any(|notice| matches!(
            notice,
            ClusterLogEvent::ConnectFailed { reason: CloseReason::ConnectTimeout(_), .. }
        ))
    );
}

#[test]
fn the_setup_timeout_grows_with_each_attempt() {
    let mut fake = one_broker(&[("hole", 1)]);
    let mut timeouts = Vec::new();
    fake.event(ClusterEvent::Tick);
    while timeouts.len() < 4 {
        fake.connects.clear(); // these attempts never complete
        fake.now = fake.cluster.deadline().unwrap();
        fake.event(ClusterEvent::Tick);
        timeouts.extend(fake.log_events.drain(..).filter_map(|notice| match notice {
            ClusterLogEvent::ConnectFailed { reason: CloseReason::ConnectTimeout(after), .. } => Some(after / SECOND),
            _ => None,
        }));
    }
    assert!((8..=12).contains(&timeouts[0]), "{timeouts:?}");
    assert!((16..=24).contains(&timeouts[1]), "{timeouts:?}");
    assert!((24..=36).contains(&timeouts[2]) && (24..=36).contains(&timeouts[3]), "{timeouts:?}");
}

#[test]
fn a_web_server_in_bootstrap_servers_is_named_and_fatal() {
    let mut fake = one_broker(&[("localhost", 8080)]);
    fake.send(Target::Any, Channel::Control, find_coordinator(), 1);
    fake.event(ClusterEvent::Tick);
    let (conn, address) = fake.connects.pop_front().unwrap();
    fake.connect(conn, address);
    fake.hang_up(conn, CloseReason::Wire(WireError::LooksLikeHttp));
    let fatal = fake.log_events.iter().find_map(|notice| match notice {
        ClusterLogEvent::Fatal(error) => Some(error.clone()),
        _ => None,
    });
    let fatal = fatal.expect("every bootstrap address is not Kafka");
    assert!(matches!(&fatal, AddressFault::NotKafka(error) if error.detected == DetectedProtocol::Http));
    assert!(fatal.to_string().starts_with("localhost:8080 answers like an HTTP server"));
    assert_eq!(fake.replies.len(), 1);
    assert_eq!(fake.replies[0].result.as_ref().unwrap_err(), &RequestError::Unusable(fatal));
}

fn tls_failure(kind: TlsFailureKind) -> CloseReason {
    CloseReason::Tls(TlsFailure { kind, message: "the certificate is unknown".into() })
}

fn fatal_of(fake: &FakeCluster) -> Option<AddressFault> {
    fake.log_events.iter().find_map(|notice| match notice {
        ClusterLogEvent::Fatal(fault) => Some(fault.clone()),
        _ => None,
    })
}

#[test]
fn a_certificate_that_is_not_trusted_is_fatal_and_one_line() {
    let mut fake = one_broker(&[("a", 1)]);
    fake.event(ClusterEvent::Tick);
    let (conn, address) = fake.connects.pop_front().unwrap();
    fake.connect(conn, address);
    fake.hang_up(conn, tls_failure(TlsFailureKind::UnknownCa));
    assert_eq!(fatal_of(&fake).expect("no address is usable").to_string(), "a:1: the certificate is unknown");
    assert_eq!(fake.log_events.len(), 1, "{:?}", fake.log_events);
}

#[test]
fn a_peer_that_closes_at_the_first_message_is_tried_again() {
    let mut fake = one_broker(&[("a", 1)]);
    for attempt in 1..=4 {
        assert_eq!(fatal_of(&fake), None, "attempt {attempt}");
        fake.event(ClusterEvent::Tick);
        let (conn, address) = fake.connects.pop_front().unwrap();
        fake.connect(conn, address);
        fake.hang_up(conn, tls_failure(TlsFailureKind::ClosedAtHello));
        if fatal_of(&fake).is_none() {
            let Some(at) = fake.cluster.deadline() else { panic!("no retry") };
            fake.now = fake.now.max(at);
        }
    }
    assert!(fatal_of(&fake).is_some());
}

#[test]
fn a_client_that_has_had_metadata_goes_on_after_a_failure_of_tls() {
    let mut fake = FakeCluster::ready(&[0], &[("orders", 7, &[(0, 3)])]);
    let conn = *fake.open.keys().next().expect("a connection");
    fake.hang_up(conn, tls_failure(TlsFailureKind::Expired));
    assert_eq!(fatal_of(&fake), None);
    fake.advance(SECOND);
    assert!(fake.cluster.topic("orders").is_some());
}

/// Connects once, answers ApiVersions, and closes the connection at the next request.
fn close_at_the_first_request(fake: &mut FakeCluster) {
    let (conn, address) = fake.connects.pop_front().expect("an attempt");
    fake.connect(conn, address);
    let asked = fake.next_request(ApiKey::ApiVersions).expect("ApiVersions");
    fake.auto_respond(&asked);
    fake.hang_up(conn, CloseReason::Eof);
    tick_until_an_attempt(fake);
}

fn tick_until_an_attempt(fake: &mut FakeCluster) {
    for _ in 0..20 {
        let Some(at) = fake.cluster.deadline().filter(|_| fake.connects.is_empty()) else { break };
        fake.now = fake.now.max(at);
        fake.event(ClusterEvent::Tick);
    }
}

#[test]
fn a_forgotten_login_is_an_error_once_the_listener_says_so_and_few_lines() {
    let mut fake = one_broker(&[("a", 1)]);
    fake.event(ClusterEvent::Tick);
    close_at_the_first_request(&mut fake);
    for attempt in 1..=3 {
        assert_eq!(fatal_of(&fake).is_some(), attempt > 1, "attempt {attempt}");
        let asked = next_probe(&mut fake);
        let offers = SaslHandshakeResponse {
            error_code: ErrorCode::UNSUPPORTED_SASL_MECHANISM.0,
            mechanisms: vec!["SCRAM-SHA-512".into(), "SCRAM\n".into()],
        };
        fake.respond(&asked, |version, out| offers.encode(version, out));
        tick_until_an_attempt(&mut fake);
    }
    let fatal = fatal_of(&fake).expect("the listener expects a login").to_string();
    assert!(fatal.starts_with("cannot log in to a:1: the listener expects a login by SCRAM-SHA-512, SCRAM"), "{fatal}");
    assert!(fatal.contains("set security.protocol to SASL_PLAINTEXT") && !fatal.contains('\n'), "{fatal}");
    let count = |is: fn(&ClusterLogEvent) -> bool| fake.log_events.iter().filter(|&event| is(event)).count();
    assert_eq!(count(|event| matches!(event, ClusterLogEvent::Disconnected { .. })), 0, "a WARNING each");
    assert_eq!(count(|event| matches!(event, ClusterLogEvent::ConnectFailed { .. })), 1);
    assert_eq!(count(|event| matches!(event, ClusterLogEvent::LoginFailed { again: false, .. })), 1);
    assert_eq!(count(|event| matches!(event, ClusterLogEvent::LoginRecovered { .. })), 0);
    assert_eq!(count(|event| matches!(event, ClusterLogEvent::Fatal(_))), 1);
}

/// A fault in transit can close any number of connections at the first request; only the listener's own answer proves
/// that it expects a login.
#[test]
fn a_broker_that_closes_connections_at_the_first_request_is_tried_again() {
    let mut fake = one_broker(&[("a", 1)]);
    fake.event(ClusterEvent::Tick);
    for _ in 0..20 {
        close_at_the_first_request(&mut fake);
    }
    let asked = next_probe(&mut fake);
    fake.respond(&asked, |version, out| no_login().encode(version, out));
    fake.settle();
    assert_eq!(fatal_of(&fake), None);
    assert!(fake.cluster.topic("orders").is_some());
}

/// Connects once, answers ApiVersions, and returns the question whether the listener expects a login.
fn next_probe(fake: &mut FakeCluster) -> ReceivedRequest {
    let (conn, address) = fake.connects.pop_front().expect("an attempt");
    fake.connect(conn, address);
    let asked = fake.next_request(ApiKey::ApiVersions).expect("ApiVersions");
    fake.auto_respond(&asked);
    fake.next_request(ApiKey::SaslHandshake).expect("SaslHandshake before any other request")
}

#[test]
fn a_source_of_tokens_that_goes_on_failing_is_fatal_at_the_start() {
    let store = Arc::new(TokenStore::default());
    let sasl = SaslConfig::new(Mechanism::OAuthBearer, Credentials::Token(Arc::clone(&store)), [7; 32]);
    let config =
        ClusterConfig { bootstrap: vec![("a".into(), 1)], sasl: Some(Arc::new(sasl)), ..ClusterConfig::default() };
    let mut fake = FakeCluster::with_config(config, 1);
    fake.event(ClusterEvent::Tick);
    for lasts in [false, false, true] {
        assert_eq!(fatal_of(&fake), None);
        store.fail("provider gives no token: raised TypeError: no", lasts);
        fake.send(Target::Any, Channel::Control, find_coordinator(), 1);
        let (conn, address) = fake.connects.pop_front().expect("an attempt");
        fake.connect(conn, address);
        let asked = fake.next_request(ApiKey::ApiVersions).expect("ApiVersions");
        fake.auto_respond(&asked);
        fake.now = fake.now.max(fake.cluster.deadline().expect("a retry"));
        fake.event(ClusterEvent::Tick);
    }
    let fatal = fatal_of(&fake).expect("the source has failed several times").to_string();
    assert!(fatal.contains("raised TypeError: no") && fatal.contains("correct the source"), "{fatal}");
}

#[test]
fn one_broker_among_web_servers_is_enough() {
    for reason in [WireError::LooksLikeTls, WireError::BadVarint] {
        let mut fake = one_broker(&[("a", 1), ("b", 1)]);
        fake.event(ClusterEvent::Tick);
        let (conn, address) = fake.connects.pop_front().unwrap();
        fake.connect(conn, address);
        fake.hang_up(conn, CloseReason::Wire(reason));
        assert!(fake.log_events.iter().any(|notice| matches!(notice, ClusterLogEvent::NotKafka(_))));
        fake.settle();
        assert!(fake.cluster.topic("orders").is_some());
        assert!(!fake.log_events.iter().any(|notice| matches!(notice, ClusterLogEvent::Fatal(_))));
    }
}

#[test]
fn garbage_is_tried_again() {
    let mut fake = one_broker(&[("a", 1)]);
    fake.event(ClusterEvent::Tick);
    let (conn, address) = fake.connects.pop_front().unwrap();
    fake.connect(conn, address);
    fake.hang_up(conn, CloseReason::Wire(WireError::FrameTooLarge { size: usize::MAX, limit: 1 }));
    assert!(!fake.log_events.iter().any(|notice| matches!(notice, ClusterLogEvent::Fatal(_))));
    fake.advance(SECOND);
    assert!(fake.cluster.topic("orders").is_some());
}

#[test]
fn p32_when_no_named_broker_is_reachable_the_bootstrap_addresses_are_asked_again() {
    let mut fake = FakeCluster::ready(&[0, 1], &[("orders", 7, &[(0, 3), (1, 4)])]);
    fake.kill("b0", 9092);
    fake.kill("b1", 9092);
    // The cluster has moved to other machines; only the bootstrap name resolves to the new ones.
    fake.brokers = [(5, ("c5".into(), 9092))].into();
    fake.set_topic("orders", 7, &[(5, 8), (5, 8)]);
    fake.advance(3 * SECOND);
    assert_eq!(fake.cluster.node_ids().collect::<Vec<_>>(), [5]);
    assert_eq!(fake.cluster.leader(&TopicPartition::new("orders", 0)), Some((5, 8)));
    let said = |notice: &&ClusterLogEvent| {
        matches!(notice, ClusterLogEvent::Rebootstrap { cause: RebootstrapCause::NoBrokerReachable })
    };
    assert_eq!(fake.log_events.iter().filter(said).count(), 1);
    assert!(!fake.log_events.iter().any(|notice| matches!(notice, ClusterLogEvent::AllBrokersDown { .. })));
}

#[test]
fn p32_everything_down_is_no_tight_loop() {
    let mut fake = FakeCluster::ready(&[0, 1], &[("orders", 7, &[(0, 3), (1, 4)])]);
    fake.down.insert(("boot".into(), 9092));
    fake.kill("b0", 9092);
    fake.kill("b1", 9092);
    fake.advance(60 * SECOND);
    let failed =
        fake.log_events.iter().filter(|notice| matches!(notice, ClusterLogEvent::ConnectFailed { .. })).count();
    assert!((60..=300).contains(&failed), "{failed} attempts at three addresses in a minute");
    let outages = fake.log_events.iter().filter(|n| matches!(n, ClusterLogEvent::AllBrokersDown { .. })).count();
    assert_eq!(outages, 1);
    assert_eq!(fake.cluster.leader(&TopicPartition::new("orders", 0)), Some((0, 3)), "nothing is forgotten");
    fake.actions.clear();
    fake.down.clear();
    fake.advance(3 * SECOND);
    assert!(fake.actions.iter().any(|action| matches!(action, ClusterAction::MetadataRefreshed)), "well again");
}

#[test]
fn error_129_leads_to_the_bootstrap_addresses_without_a_loop() {
    let mut fake = FakeCluster::ready(&[0], &[("orders", 7, &[(0, 3)])]);
    fake.metadata_error = ErrorCode::REBOOTSTRAP_REQUIRED;
    fake.metadata_requests.clear();
    fake.event(ClusterEvent::RefreshMetadata);
    fake.advance(10 * SECOND);
    assert!(fake.metadata_requests.len() <= 16, "{} questions in ten seconds", fake.metadata_requests.len());
    assert!(fake.metadata_requests.len() >= 8);
    assert!(fake.log_events.contains(&ClusterLogEvent::Rebootstrap { cause: RebootstrapCause::BrokerRequested }));
    fake.metadata_error = ErrorCode::NONE;
    fake.set_topic("orders", 7, &[(0, 4)]);
    fake.advance(2 * SECOND);
    assert_eq!(fake.cluster.leader(&TopicPartition::new("orders", 0)), Some((0, 4)));
    assert!(fake.cluster.is_ready(0, Channel::Fetch), "connections that work are left alone");
}

#[test]
fn no_metadata_for_five_minutes_leads_to_the_bootstrap_addresses() {
    let mut fake = FakeCluster::ready(&[0], &[("orders", 7, &[(0, 3)])]);
    fake.metadata_error = ErrorCode::UNKNOWN_SERVER_ERROR;
    fake.event(ClusterEvent::RefreshMetadata);
    fake.advance(299 * SECOND);
    let said = ClusterLogEvent::Rebootstrap { cause: RebootstrapCause::NoMetadata };
    assert!(!fake.log_events.contains(&said));
    fake.advance(2 * SECOND);
    assert!(fake.log_events.contains(&said));
    fake.metadata_error = ErrorCode::NONE;
    fake.advance(3 * SECOND);
    fake.log_events.clear();
    fake.advance(299 * SECOND);
    assert!(fake.log_events.is_empty(), "{:?}", fake.log_events);
}

#[test]
fn a_broker_that_names_no_brokers_is_asked_again() {
    let mut fake = one_broker(&[("boot", 9092)]);
    let brokers = std::mem::take(&mut fake.brokers);
    fake.settle();
    assert!(
        fake.log_events
            .iter()
            .any(|notice| matches!(notice, ClusterLogEvent::MetadataFailed { error: MetadataError::NoBrokers, .. }))
    );
    assert_eq!(fake.cluster.metadata_version(), 0);
    fake.brokers = brokers;
    fake.advance(SECOND);
    assert!(fake.cluster.topic("orders").is_some());
}

#[test]
fn an_address_that_cannot_be_is_not_taken_in() {
    let mut fake = one_broker(&[("boot", 9092)]);
    fake.brokers.insert(1, (String::new(), 9092));
    fake.brokers.insert(2, ("b2".into(), 0));
    fake.brokers.insert(-3, ("b3".into(), 9092));
    fake.settle();
    assert_eq!(fake.cluster.node_ids().collect::<Vec<_>>(), [0]);
    assert!(!fake.cluster.learn_node(4, "b4", 70_000));
    assert!(!fake.cluster.learn_node(-4, "b4", 9092));
    assert!(fake.cluster.learn_node(4, "b4", 9092));
    assert_eq!(fake.cluster.address(4).as_deref(), Some("b4:9092"));
}
