//! Groups of the consumer protocol in a cluster: topics, releases, several brokers, restarts.

use grete_wire::ErrorCode;
use grete_wire::messages::*;

use super::super::harness::Fixture;
use crate::cluster::Release;
use crate::ids::ConnId;

const GROUP: &str = "billing";

fn heartbeat(epoch: i32) -> ConsumerGroupHeartbeatRequest<'static> {
    let joins = epoch == 0;
    ConsumerGroupHeartbeatRequest {
        group_id: GROUP.into(),
        member_id: "a".into(),
        member_epoch: epoch,
        rebalance_timeout_ms: if joins { 1000 } else { -1 },
        subscribed_topic_names: joins.then(|| vec!["orders".into()]),
        topic_partitions: joins.then(Vec::new),
        ..ConsumerGroupHeartbeatRequest::default()
    }
}

/// Sends a heartbeat. Returns error code, member epoch and the number of assigned partitions of the first topic.
fn beat(fixture: &mut Fixture, conn: ConnId, epoch: i32) -> (ErrorCode, i32, Option<usize>) {
    fixture.call(conn, 1, &heartbeat(epoch), |response| {
        let partitions = response
            .assignment
            .as_ref()
            .map(|assignment| assignment.topic_partitions.first().map_or(0, |topic| topic.partitions.len()));
        (ErrorCode(response.error_code), response.member_epoch, partitions)
    })
}

#[test]
fn changes_of_topics_reach_the_group() {
    let mut fixture = Fixture::new(1);
    let conn = fixture.connect(1);
    fixture.create_topic(conn, "orders", 2);
    assert_eq!(beat(&mut fixture, conn, 0), (ErrorCode::NONE, 2, Some(2)));
    let topics = vec![CreatePartitionsTopic { name: "orders".into(), count: 5, assignments: None }];
    fixture.call(conn, 3, &CreatePartitionsRequest { topics, ..Default::default() }, |response| {
        assert_eq!(response.results[0].error_code, 0);
    });
    assert_eq!(beat(&mut fixture, conn, 2), (ErrorCode::NONE, 3, Some(5)));
    fixture.cluster.delete_topic("orders");
    assert_eq!(beat(&mut fixture, conn, 3), (ErrorCode::NONE, 3, Some(0)), "the partitions are to be given up");
    assert_eq!(fixture.cluster.groups(), [(GROUP.to_owned(), "Reconciling".to_owned())]);
    assert_eq!(fixture.cluster.members(GROUP), [("a".to_owned(), "tester".to_owned())]);
    fixture.advance(1000);
    assert_eq!(fixture.cluster.groups()[0].1, "Empty", "the member kept them for longer than its rebalance timeout");
}

#[test]
fn sessions_end_by_the_cluster_clock() {
    let mut fixture = Fixture::with(|config| config.set("group.consumer.session.timeout.ms", "4000").unwrap(), 1);
    let conn = fixture.connect(1);
    fixture.create_topic(conn, "orders", 2);
    beat(&mut fixture, conn, 0);
    fixture.advance(3999);
    assert_eq!(fixture.cluster.groups()[0].1, "Stable");
    fixture.advance(1);
    assert_eq!(fixture.cluster.groups()[0].1, "Empty");
}

#[test]
fn the_group_version_of_the_release_decides() {
    let finalized = |release| {
        let mut fixture = Fixture::with(|config| config.release = release, 1);
        let conn = fixture.connect(1);
        let request = ApiVersionsRequest { client_software_name: "t".into(), client_software_version: "1".into() };
        let level = fixture.call(conn, 3, &request, |response| {
            let feature = response.finalized_features.iter().find(|feature| feature.name == "group.version");
            feature.map(|feature| feature.max_version_level)
        });
        (level, fixture, conn)
    };
    assert_eq!(finalized(Release::LATEST).0, Some(1));
    let (level, mut fixture, conn) = finalized(Release::V3_9);
    assert_eq!(level, None);
    let code = fixture.call(conn, 0, &heartbeat(0), |response| ErrorCode(response.error_code));
    assert_eq!(code, ErrorCode::UNSUPPORTED_VERSION);
}

#[test]
fn another_broker_continues_the_group() {
    let mut fixture = Fixture::new(2);
    let conns = [fixture.connect(1), fixture.connect(2)];
    fixture.create_topic(conns[0], "orders", 4);
    let place = |fixture: &Fixture| usize::try_from(fixture.cluster.coordinator(GROUP).unwrap() - 1).unwrap();
    let first = place(&fixture);
    assert_eq!(beat(&mut fixture, conns[1 - first], 0).0, ErrorCode::NOT_COORDINATOR);
    assert_eq!(beat(&mut fixture, conns[first], 0), (ErrorCode::NONE, 2, Some(4)));
    let mut actions = Vec::new();
    fixture.cluster.move_coordinators(&mut actions);
    fixture.keep(actions);
    assert_eq!(place(&fixture), 1 - first);
    assert_eq!(beat(&mut fixture, conns[first], 2).0, ErrorCode::NOT_COORDINATOR);
    assert_eq!(beat(&mut fixture, conns[1 - first], 2), (ErrorCode::NONE, 2, None));
}

#[test]
fn the_group_survives_a_restart() {
    let mut fixture = Fixture::new(1);
    let conn = fixture.connect(1);
    fixture.create_topic(conn, "orders", 4);
    beat(&mut fixture, conn, 0);
    let (mut replayed, mut loaded) = (Fixture::new(1), Fixture::new(1));
    fixture.changes.iter().for_each(|change| replayed.cluster.restore(change));
    fixture.cluster.snapshot().iter().for_each(|change| loaded.cluster.restore(change));
    for mut fixture in [replayed, loaded] {
        let conn = fixture.connect(1);
        assert_eq!(beat(&mut fixture, conn, 2), (ErrorCode::NONE, 2, None));
        assert_eq!(fixture.cluster.groups()[0].1, "Stable");
    }
}
