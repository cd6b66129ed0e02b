//! Leaders and brokers that stop and start.

use grete_wire::ErrorCode;
use grete_wire::messages::{
    CreatableTopic, CreateTopicsRequest, FindCoordinatorRequest, JoinGroupRequest, JoinGroupRequestProtocol,
    MetadataRequest,
};

use super::harness::Fixture;
use crate::cluster::Action;

fn leaders(fixture: &mut Fixture, broker: i32) -> Vec<(i32, i32)> {
    let conn = fixture.connect(broker);
    let request = MetadataRequest { topics: None, ..MetadataRequest::default() };
    fixture.call(conn, 12, &request, |response| {
        response.topics[0].partitions.iter().map(|partition| (partition.leader_id, partition.leader_epoch)).collect()
    })
}

#[test]
fn partitions_move_when_a_broker_stops_and_do_not_move_back() {
    let mut fixture = Fixture::new(3);
    let conn = fixture.connect(1);
    fixture.create_topic(conn, "orders", 3);
    assert_eq!(leaders(&mut fixture, 1), [(1, 0), (2, 0), (3, 0)]);
    let mut actions = Vec::new();
    fixture.cluster.stop_broker(1, &mut actions).unwrap();
    assert!(actions.contains(&Action::StopListening(1)) && actions.contains(&Action::Close { conn }), "{actions:?}");
    fixture.keep(actions);
    assert_eq!(leaders(&mut fixture, 2), [(2, 1), (2, 0), (3, 0)]);
    let mut actions = Vec::new();
    fixture.cluster.start_broker(1, &mut actions).unwrap();
    assert!(actions.contains(&Action::Listen(1)));
    assert_eq!(leaders(&mut fixture, 1), [(2, 1), (2, 0), (3, 0)]);
}

#[test]
fn a_partition_without_a_live_replica_has_no_leader_until_one_returns() {
    let mut fixture = Fixture::with(|config| config.default_replication_factor = Some(1), 2);
    let conn = fixture.connect(2);
    fixture.create_topic(conn, "orders", 2);
    fixture.cluster.stop_broker(1, &mut Vec::new()).unwrap();
    assert_eq!(leaders(&mut fixture, 2), [(-1, 1), (2, 0)]);
    fixture.cluster.start_broker(1, &mut Vec::new()).unwrap();
    assert_eq!(leaders(&mut fixture, 2), [(1, 2), (2, 0)]);
}

#[test]
fn writes_need_enough_replicas_in_sync() {
    let mut fixture = Fixture::with(|config| config.min_insync_replicas = 2, 2);
    let conn = fixture.connect(1);
    fixture.create_topic(conn, "orders", 1);
    assert_eq!(fixture.produce(conn, "orders", 0, &["a"]).0, 0);
    fixture.cluster.stop_broker(2, &mut Vec::new()).unwrap();
    assert_eq!(fixture.produce(conn, "orders", 0, &["a"]).0, ErrorCode::NOT_ENOUGH_REPLICAS.0);
}

#[test]
fn coordinators_follow_the_brokers_that_are_up() {
    let mut fixture = Fixture::new(3);
    let find = |fixture: &mut Fixture| {
        let live = fixture.cluster.controller();
        let conn = fixture.connect(live);
        let request =
            FindCoordinatorRequest { coordinator_keys: vec!["billing".into()], ..FindCoordinatorRequest::default() };
        fixture.call(conn, 4, &request, |response| response.coordinators[0].node_id)
    };
    let first = find(&mut fixture);
    fixture.cluster.stop_broker(first, &mut Vec::new()).unwrap();
    let second = find(&mut fixture);
    assert_ne!(first, second);
    fixture.cluster.start_broker(first, &mut Vec::new()).unwrap();
    assert_eq!(find(&mut fixture), first);
    fixture.cluster.move_coordinators(&mut Vec::new());
    assert_ne!(find(&mut fixture), first);
}

#[test]
fn orders_to_brokers_and_leaders_that_do_not_exist_name_the_choice() {
    let mut fixture = Fixture::new(2);
    assert!(fixture.cluster.stop_broker(9, &mut Vec::new()).unwrap_err().contains("[1, 2]"));
    assert!(fixture.cluster.move_leader("orders", 0, 1).unwrap_err().contains("orders-0"));
    let conn = fixture.connect(1);
    fixture.create_topic(conn, "orders", 1);
    assert!(fixture.cluster.move_leader("orders", 0, 7).unwrap_err().contains("broker 7"));
}

#[test]
fn memory_has_a_limit_and_deletion_frees_it() {
    let mut fixture = Fixture::with(|config| config.max_bytes = 2000, 1);
    let conn = fixture.connect(1);
    fixture.create_topic(conn, "orders", 1);
    let value = "x".repeat(600);
    let mut codes = Vec::new();
    for _ in 0..6 {
        codes.push(fixture.produce(conn, "orders", 0, &[&value]).0);
    }
    assert_eq!((codes[0], codes[5]), (0, ErrorCode::KAFKA_STORAGE_ERROR.0));
    assert!(codes.iter().filter(|code| **code != 0).count() > 1);
    let logged = fixture.logged();
    assert_eq!(logged.iter().filter(|line| line.contains("--memory")).count(), 1, "one line, and not one a write");
    fixture.cluster.delete_topic("orders");
    fixture.create_topic(conn, "orders", 1);
    assert_eq!(fixture.produce(conn, "orders", 0, &[&value]).0, 0);
}

#[test]
fn a_member_that_waits_at_a_coordinator_learns_that_the_group_moved() {
    let mut fixture = Fixture::with(|config| config.group_initial_rebalance_delay_ms = 60_000, 2);
    let coordinator = fixture.cluster.coordinator("billing").unwrap();
    let conn = fixture.connect(coordinator);
    let join = JoinGroupRequest {
        group_id: "billing".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 10_000,
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol { name: "range".into(), ..JoinGroupRequestProtocol::default() }],
        ..JoinGroupRequest::default()
    };
    fixture.send(conn, 3, &join);
    assert!(fixture.received(conn).is_empty());
    let mut actions = Vec::new();
    fixture.cluster.move_coordinators(&mut actions);
    fixture.keep(actions);
    let frame = fixture.received(conn).remove(0);
    super::harness::decode::<JoinGroupRequest<'_>, _>(3, &frame, |response| {
        assert_eq!(response.error_code, ErrorCode::NOT_COORDINATOR.0);
    });
}

#[test]
fn new_topics_spare_brokers_that_are_down_and_have_leaders_at_once() {
    let mut fixture = Fixture::new(3);
    fixture.cluster.stop_broker(2, &mut Vec::new()).unwrap();
    let conn = fixture.connect(1);
    let topic = |name: &'static str, replication_factor| CreatableTopic {
        name: name.into(),
        num_partitions: 3,
        replication_factor,
        ..CreatableTopic::default()
    };
    let request =
        CreateTopicsRequest { topics: vec![topic("two", 2), topic("three", 3)], ..CreateTopicsRequest::default() };
    fixture.call(conn, 5, &request, |response| {
        assert!(response.topics.iter().all(|topic| topic.error_code == 0));
    });
    for partition in &fixture.cluster.topics().get("two").unwrap().partitions {
        assert!(!partition.replicas.contains(&2) && partition.leader.is_some_and(|leader| leader != 2));
    }
    for partition in &fixture.cluster.topics().get("three").unwrap().partitions {
        assert_eq!((partition.replicas.len(), partition.replicas.last()), (3, Some(&2)));
        assert!(partition.leader.is_some_and(|leader| leader != 2));
    }
}
