//! Faults as clients see them.

use grete_wire::messages::{FetchRequest, HeartbeatRequest, MetadataRequest};
use grete_wire::{ApiKey, ErrorCode};

use super::harness::{Fixture, batch, fetch_request, only_partition, produce_request};
use crate::cluster::Action;
use crate::fault::{FaultAction, FaultRule};

fn fixture() -> (Fixture, crate::ids::ConnId) {
    let mut fixture = Fixture::new(1);
    let conn = fixture.connect(1);
    fixture.create_topic(conn, "orders", 2);
    (fixture, conn)
}

#[test]
fn an_error_hits_the_partition_that_the_rule_names() {
    let (mut fixture, conn) = fixture();
    let rule = FaultRule::new(Some(ApiKey::Produce), FaultAction::Error(ErrorCode::NOT_LEADER_OR_FOLLOWER));
    fixture.cluster.add_fault(FaultRule { topic: Some("orders".into()), partition: Some(1), times: Some(1), ..rule });
    let records = batch(&["a"]);
    let mut request = produce_request("orders", 0, &records);
    let mut second = request.topic_data[0].partition_data[0].clone();
    second.index = 1;
    request.topic_data[0].partition_data.push(second);
    let codes = |fixture: &mut Fixture| {
        fixture.call(conn, 9, &request, |response| {
            response.responses[0].partition_responses.iter().map(|partition| partition.error_code).collect::<Vec<_>>()
        })
    };
    assert_eq!(codes(&mut fixture), [0, ErrorCode::NOT_LEADER_OR_FOLLOWER.0]);
    assert_eq!(codes(&mut fixture), [0, 0]);
    let faults: Vec<_> = fixture.cluster.logged_requests().filter_map(|request| request.fault.clone()).collect();
    assert_eq!(faults, ["NOT_LEADER_OR_FOLLOWER".into()]);
}

#[test]
fn an_error_of_an_api_without_partitions_is_in_the_response() {
    let (mut fixture, conn) = fixture();
    let error = FaultAction::Error(ErrorCode::COORDINATOR_NOT_AVAILABLE);
    fixture.cluster.add_fault(FaultRule::new(Some(ApiKey::Heartbeat), error));
    let code = fixture.call(conn, 4, &HeartbeatRequest::default(), |response| response.error_code);
    assert_eq!(code, ErrorCode::COORDINATOR_NOT_AVAILABLE.0);
}

#[test]
fn a_delayed_request_is_handled_later_and_the_ones_behind_wait() {
    let (mut fixture, conn) = fixture();
    fixture
        .cluster
        .add_fault(FaultRule { times: Some(1), ..FaultRule::new(Some(ApiKey::Produce), FaultAction::Delay(300)) });
    let records = batch(&["a"]);
    fixture.send(conn, 9, &produce_request("orders", 0, &records));
    fixture.send(conn, 12, &fetch_request("orders", 0, 0, 0));
    fixture.advance(299);
    assert!(fixture.received(conn).is_empty());
    fixture.advance(1);
    assert_eq!(fixture.received(conn).len(), 2);
}

#[test]
fn connections_end_before_and_after_the_handler() {
    for (action, is_written, bytes) in [
        (FaultAction::Disconnect, false, false),
        (FaultAction::DisconnectAfter, true, false),
        (FaultAction::HalfFrame, true, true),
    ] {
        let (mut fixture, conn) = fixture();
        fixture.cluster.add_fault(FaultRule { times: Some(1), ..FaultRule::new(Some(ApiKey::Produce), action) });
        let records = batch(&["a"]);
        fixture.send(conn, 9, &produce_request("orders", 0, &records));
        assert!(fixture.is_closed(conn), "{action:?}");
        let writes = fixture.actions.iter().any(|action| matches!(action, Action::Write { .. }));
        assert_eq!(writes, bytes, "{action:?}");
        let conn = fixture.connect(1);
        let (_, len) = fixture.call(conn, 12, &fetch_request("orders", 0, 0, 0), |response| only_partition(&response));
        assert_eq!(len > 0, is_written, "{action:?}");
    }
}

#[test]
fn a_request_that_is_never_answered_keeps_its_connection_open() {
    let (mut fixture, conn) = fixture();
    fixture.cluster.add_fault(FaultRule::new(Some(ApiKey::Metadata), FaultAction::NeverAnswer));
    fixture.send(conn, 12, &MetadataRequest::default());
    fixture.advance(600_000);
    assert!(fixture.received(conn).is_empty() && !fixture.is_closed(conn));
}

#[test]
fn the_clock_moves_for_long_polls() {
    let (mut fixture, conn) = fixture();
    fixture.send(conn, 12, &fetch_request("orders", 0, 0, 30_000));
    let mut actions = Vec::new();
    fixture.cluster.advance_clock(30_000, &mut actions);
    fixture.keep(actions);
    let frame = fixture.received(conn).remove(0);
    super::harness::decode::<FetchRequest<'_>, _>(12, &frame, |response| assert_eq!(only_partition(&response).0, 0));
}
