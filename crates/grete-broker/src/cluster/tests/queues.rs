//! Requests that wait for the one before them on their connection.

use grete_wire::Frame;

use super::harness::{Fixture, fetch_request};
use crate::cluster::{Action, Event, MAX_QUEUED_BYTES, MAX_QUEUED_CONNECTION_BYTES};
use crate::ids::ConnId;

/// Connects, and lets the connection wait for a Fetch.
fn waiting(fixture: &mut Fixture) -> ConnId {
    let conn = fixture.connect(1);
    fixture.send(conn, 12, &fetch_request("orders", 0, 0, 30_000));
    conn
}

fn send_bytes(fixture: &mut Fixture, conn: ConnId, len: usize) {
    fixture.step(Event::Frame { conn, frame: Frame::from(vec![0; len]) });
}

#[test]
fn reading_pauses_while_large_requests_wait() {
    let mut fixture = Fixture::new(1);
    let conn = fixture.connect(1);
    fixture.create_topic(conn, "orders", 1);
    let conn = waiting(&mut fixture);
    send_bytes(&mut fixture, conn, MAX_QUEUED_CONNECTION_BYTES - 1);
    assert!(!fixture.actions.contains(&Action::PauseReading(conn)));
    send_bytes(&mut fixture, conn, 1);
    assert!(fixture.actions.contains(&Action::PauseReading(conn)));
}

#[test]
fn all_waiting_requests_together_have_a_limit() {
    let mut fixture = Fixture::new(1);
    let admin = fixture.connect(1);
    fixture.create_topic(admin, "orders", 1);
    let half = MAX_QUEUED_BYTES / 2;
    let (first, second, third) = (waiting(&mut fixture), waiting(&mut fixture), waiting(&mut fixture));
    send_bytes(&mut fixture, first, half);
    send_bytes(&mut fixture, second, half);
    send_bytes(&mut fixture, third, 1);
    assert!(fixture.is_closed(third) && !fixture.is_closed(first));
    assert!(fixture.logged().iter().any(|line| line.contains("wait for the one before them")));
    // Space is free again when a connection ends, and a request that need not wait is always taken.
    assert_eq!(fixture.produce(admin, "orders", 0, &["a"]).0, 0);
    fixture.step(Event::Closed { conn: second });
    let fourth = waiting(&mut fixture);
    fixture.send(fourth, 12, &fetch_request("orders", 0, 1, 30_000));
    send_bytes(&mut fixture, fourth, half);
    assert!(!fixture.is_closed(fourth));
}
