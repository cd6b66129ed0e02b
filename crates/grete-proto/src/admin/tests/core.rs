use std::sync::Arc;

use grete_wire::messages::{DescribeClusterBroker, DescribeClusterResponse};
use grete_wire::{ApiKey, WireError};

use super::super::*;
use crate::cluster::test_cluster::{ReceivedRequest, api_versions};
use crate::connection::CloseReason;
use crate::ids::ConnId;
use crate::rng::Rng;
use crate::time::SECOND;
use crate::transport::TransportAction;

fn core() -> AdminCore {
    let bootstrap = vec![(Arc::from("boot"), 9092)];
    let cluster = ClusterConfig { bootstrap, ..Default::default() };
    AdminCore::new(AdminCoreConfig { cluster, ..Default::default() }, Rng::new(3))
}

fn step(core: &mut AdminCore, event: AdminEvent) -> Vec<AdminAction> {
    let mut out = Vec::new();
    core.step(SECOND, event, &mut out);
    out
}

fn connect(actions: &[AdminAction]) -> Option<ConnId> {
    actions.iter().find_map(|action| match action {
        AdminAction::Transport(TransportAction::Connect { conn, .. }) => Some(*conn),
        _ => None,
    })
}

fn ask(core: &mut AdminCore, id: u32) -> Vec<AdminAction> {
    let mut out = step(core, AdminEvent::Submit { id, operation: Operation::DescribeCluster, timeout: 9 * SECOND });
    out.extend(step(core, AdminEvent::Tick));
    out
}

#[test]
fn nothing_connects_before_something_is_asked() {
    let mut core = core();
    assert_eq!(core.deadline(), None);
    assert!(step(&mut core, AdminEvent::Tick).is_empty());
    let conn = connect(&ask(&mut core, 1)).expect("a connection");
    let mut writes = step(&mut core, AdminEvent::Connected(conn));
    let mut replies = Vec::new();
    while let Some(action) = writes.pop() {
        match action {
            AdminAction::Transport(TransportAction::Write { conn, bytes }) => {
                let asked = ReceivedRequest::parse(conn, &bytes.to_vec());
                let broker =
                    DescribeClusterBroker { broker_id: 4, host: "b4".into(), port: 9092, ..Default::default() };
                let found =
                    DescribeClusterResponse { cluster_id: "c".into(), brokers: vec![broker], ..Default::default() };
                let frame = match asked.api {
                    ApiKey::ApiVersions => {
                        let versions = api_versions(&Default::default());
                        asked.encode_response(|version, out| versions.encode(version, out))
                    }
                    ApiKey::DescribeCluster => asked.encode_response(|version, out| found.encode(version, out)),
                    _ => continue,
                };
                writes.extend(step(&mut core, AdminEvent::Frame(conn, frame)));
            }
            AdminAction::Reply(id, reply) => replies.push((id, reply)),
            _ => {}
        }
    }
    let brokers = vec![BrokerDescription { id: 4, host: "b4".into(), port: 9092, rack: None }];
    let description = ClusterDescription { id: "c".into(), controller: None, brokers };
    assert_eq!(replies, [(1, AdminReply::Cluster(vec![Ok(description)]))]);
}

#[test]
fn no_kafka_anywhere_ends_every_question_at_once() {
    let mut core = core();
    let conn = connect(&ask(&mut core, 1)).unwrap();
    step(&mut core, AdminEvent::Connected(conn));
    let out = step(&mut core, AdminEvent::Closed(conn, CloseReason::Wire(WireError::LooksLikeHttp)));
    let failed = |out: &[AdminAction], number: u32| {
        out.iter().any(|action| match action {
            AdminAction::Reply(id, AdminReply::Cluster(results)) => {
                *id == number && matches!(results[0], Err(AdminError::Unusable(_)))
            }
            _ => false,
        })
    };
    assert!(failed(&out, 1), "{out:?}");
    let out = ask(&mut core, 2);
    assert!(failed(&out, 2), "{out:?}");
}

#[test]
fn closing_ends_it() {
    let mut core = core();
    ask(&mut core, 1);
    assert!(matches!(step(&mut core, AdminEvent::Close)[..], [AdminAction::Finished]));
    assert!(step(&mut core, AdminEvent::Tick).is_empty());
}
