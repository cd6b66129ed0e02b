//! `connections.max.idle.ms`.

use grete_wire::messages::ApiVersionsRequest;

use super::harness::{Fixture, fetch_request};
use crate::cluster::{Action, Event};
use crate::ids::Millis;

const IDLE_MS: Millis = 600_000;

fn closed(fixture: &Fixture) -> Vec<u64> {
    let closed = fixture.actions.iter().filter_map(|action| match action {
        Action::Close { conn } => Some(conn.0),
        _ => None,
    });
    closed.collect()
}

#[test]
fn a_connection_without_requests_is_closed_and_one_in_use_stays() {
    let mut fixture = Fixture::new(1);
    let (idle, used) = (fixture.connect(1), fixture.connect(1));
    fixture.advance(IDLE_MS / 2);
    fixture.call(used, 3, &ApiVersionsRequest::default(), |_| ());
    fixture.advance(IDLE_MS / 2 - 1);
    assert_eq!(closed(&fixture), [0_u64; 0]);
    fixture.advance(1);
    assert_eq!(closed(&fixture), [idle.0]);
    fixture.advance(IDLE_MS / 2 - 1);
    assert_eq!(closed(&fixture), [idle.0]);
    fixture.advance(1);
    assert_eq!(closed(&fixture), [idle.0, used.0]);
    assert_eq!(fixture.cluster.deadline(), None);
    // The check begins again with the next connection.
    let third = fixture.connect(1);
    fixture.advance(IDLE_MS);
    assert_eq!(closed(&fixture), [idle.0, used.0, third.0]);
}

#[test]
fn a_connection_whose_request_waits_is_not_idle() {
    let mut fixture = Fixture::with(|config| config.connections_max_idle_ms = 1_000, 1);
    let conn = fixture.connect(1);
    fixture.create_topic(conn, "orders", 1);
    fixture.send(conn, 12, &fetch_request("orders", 0, 0, 5_000));
    fixture.advance(5_000);
    assert_eq!((fixture.received(conn).len(), closed(&fixture)), (1, vec![]));
    fixture.advance(999);
    assert_eq!(closed(&fixture), [0_u64; 0]);
    fixture.advance(1);
    assert_eq!(closed(&fixture), [conn.0]);
}

#[test]
fn a_negative_limit_closes_nothing() {
    let mut fixture = Fixture::with(|config| config.set("connections.max.idle.ms", "-1").unwrap(), 1);
    fixture.connect(1);
    assert_eq!(fixture.cluster.deadline(), None);
    fixture.now += 100 * IDLE_MS;
    fixture.step(Event::Tick);
    assert_eq!(closed(&fixture), [0_u64; 0]);
}
