//! What a restart keeps.

use grete_wire::messages::InitProducerIdRequest;

use super::harness::{Fixture, fetch_request, only_partition};
use crate::cluster::Event;

fn written() -> Fixture {
    let mut fixture = Fixture::new(1);
    let conn = fixture.connect(1);
    fixture.create_topic(conn, "orders", 2);
    fixture.create_topic(conn, "gone", 1);
    for value in ["a", "b", "c"] {
        fixture.produce(conn, "orders", 1, &[value]);
    }
    fixture.cluster.delete_topic("gone");
    fixture.step(Event::Tick);
    fixture.call(
        conn,
        4,
        &InitProducerIdRequest {
            transactional_id: Some("t".into()),
            transaction_timeout_ms: 1000,
            ..InitProducerIdRequest::default()
        },
        |_| (),
    );
    fixture
}

#[test]
fn the_changes_of_all_steps_and_a_snapshot_give_the_same_cluster() {
    let fixture = written();
    let (mut replayed, mut loaded) = (Fixture::new(1), Fixture::new(1));
    fixture.changes.iter().for_each(|change| replayed.cluster.restore(change));
    fixture.cluster.snapshot().iter().for_each(|change| loaded.cluster.restore(change));
    assert_eq!(replayed.cluster.snapshot(), fixture.cluster.snapshot());
    assert_eq!(loaded.cluster.snapshot(), fixture.cluster.snapshot());
    for mut fixture in [replayed, loaded] {
        let conn = fixture.connect(1);
        let (code, bytes) =
            fixture.call(conn, 12, &fetch_request("orders", 1, 0, 0), |response| only_partition(&response));
        assert_eq!((code, bytes > 0), (0, true));
        assert_eq!(fixture.produce(conn, "orders", 1, &["d"]), (0, 3));
        let first = InitProducerIdRequest { transactional_id: None, ..InitProducerIdRequest::default() };
        assert_eq!(fixture.call(conn, 4, &first, |response| response.producer_id), 1);
    }
}

#[test]
fn partitions_of_brokers_that_are_gone_move_to_those_that_remain() {
    let mut fixture = Fixture::with(|config| config.default_replication_factor = Some(1), 3);
    let conn = fixture.connect(1);
    fixture.create_topic(conn, "orders", 3);
    let mut smaller = Fixture::new(1);
    fixture.changes.iter().for_each(|change| smaller.cluster.restore(change));
    let conn = smaller.connect(1);
    for partition in 0..3 {
        assert_eq!(smaller.produce(conn, "orders", partition, &["a"]), (0, 0), "partition {partition}");
    }
}
