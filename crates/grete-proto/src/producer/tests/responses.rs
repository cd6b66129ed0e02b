//! Tests of the simulated brokers themselves, with requests built by hand.

use grete_wire::messages::produce::{PartitionProduceData, TopicProduceData};
use grete_wire::messages::{ProduceRequest, ProduceResponse};
use grete_wire::records::test_encoder::{BatchOptions, TestRecord, build_batch};
use grete_wire::{ApiKey, ErrorCode as E, Reader};

use super::brokers::Mishap;
use super::log::value;
use super::network::Spoil;
use super::simulator::*;
use crate::cluster::test_cluster::ReceivedRequest;
use crate::ids::ConnId;
use crate::time::{MILLI, SECOND};

const CONN: ConnId = ConnId(7);

/// Batch of one partition: partition, sequence and records.
type Part = (i32, i32, std::ops::Range<u64>);

struct Harness {
    world: Simulator,
    asked: i32,
}

impl Harness {
    /// Creates one connection to the first broker, which leads `orders-0`.
    fn new() -> Self {
        let mut world = Simulator::new(config());
        world.connect(CONN, "b1");
        world.captured = Some(Vec::new());
        world.client.finished = true;
        Self { world, asked: 0 }
    }

    fn send(&mut self, version: i16, acks: i16, parts: &[Part]) {
        let part = |(index, sequence, ids): &Part| {
            let records: Vec<_> = ids.clone().map(|id| TestRecord::value(5, value(id, 20))).collect();
            let options =
                BatchOptions { producer_id: 1, producer_epoch: 0, base_sequence: *sequence, ..BatchOptions::default() };
            PartitionProduceData { index: *index, records: Some(build_batch(0, &records, &options).into()) }
        };
        let (name, topic_id) = ("orders".into(), self.world.brokers.ids["orders"]);
        let topic = TopicProduceData { name, topic_id, partition_data: parts.iter().map(part).collect() };
        let request = ProduceRequest { acks, timeout_ms: 1000, topic_data: vec![topic], ..Default::default() };
        let mut body = Vec::new();
        request.encode(version, &mut body).unwrap();
        self.asked += 1;
        let asked = ReceivedRequest { conn: CONN, api: ApiKey::Produce, version, correlation: self.asked, body };
        self.world.request(asked);
    }

    /// Returns correlation id, and code and offset of each partition, of all responses so far.
    fn answers(&mut self, version: i16) -> Vec<(i32, Vec<(E, i64)>)> {
        let heard = self.world.captured.replace(Vec::new()).unwrap();
        let read = |(_, frame): &(ConnId, grete_wire::Frame)| {
            let number = i32::from_be_bytes(frame[..4].try_into().unwrap());
            let body = &frame[if version >= 9 { 5 } else { 4 }..];
            let answer = ProduceResponse::decode(version, &mut Reader::new(body)).unwrap();
            let all = answer.responses.iter().flat_map(|topic| &topic.partition_responses);
            (number, all.map(|part| (E(part.error_code), part.base_offset)).collect())
        };
        heard.iter().map(read).collect()
    }

    fn ids(&self) -> Vec<u64> {
        self.world.brokers.logs[&tp(0)].ids().map(|(_, id)| id).collect()
    }
}

#[test]
fn every_version_is_answered_once_the_replicas_have_it() {
    for version in 3..=13 {
        let mut rig = Harness::new();
        rig.send(version, -1, &[(0, 0, 0..3)]);
        assert_eq!(rig.answers(version), [], "nothing has been replicated yet");
        rig.world.pass(10 * MILLI);
        rig.send(version, -1, &[(0, 3, 3..5)]);
        rig.world.pass(10 * MILLI);
        assert_eq!(rig.answers(version), [(1, vec![(E::NONE, 0)]), (2, vec![(E::NONE, 3)])]);
        assert_eq!(rig.ids(), [0, 1, 2, 3, 4]);
    }
}

#[test]
fn one_request_of_a_connection_is_worked_on_at_a_time() {
    let mut rig = Harness::new();
    rig.world.brokers.logs.get_mut(&tp(0)).unwrap().in_sync = 2;
    rig.send(9, -1, &[(0, 0, 0..1)]);
    rig.send(9, -1, &[(0, 1, 1..2)]);
    assert_eq!(rig.ids(), [0], "the second one waits for the first one's answer");
    rig.world.pass(10 * MILLI);
    assert_eq!(rig.ids(), [0, 1]);
}

#[test]
fn each_partition_has_its_own_answer_and_the_request_waits_for_all() {
    let mut rig = Harness::new();
    // The second broker leads the other partition.
    rig.send(9, -1, &[(0, 0, 0..1), (1, 0, 1..2)]);
    rig.world.pass(10 * MILLI);
    assert_eq!(rig.answers(9), [(1, vec![(E::NONE, 0), (E::NOT_LEADER_OR_FOLLOWER, -1)])]);
}

#[test]
fn without_replicas_the_time_runs_out_and_the_records_are_there_all_the_same() {
    let mut rig = Harness::new();
    let log = rig.world.brokers.logs.get_mut(&tp(0)).unwrap();
    // A new epoch that the followers do not know.
    log.epoch += 1;
    rig.send(9, -1, &[(0, 0, 0..1)]);
    rig.world.brokers.logs.get_mut(&tp(0)).unwrap().epoch += 1;
    rig.world.pass(10 * MILLI);
    assert_eq!(rig.answers(9), [(1, vec![(E::NOT_LEADER_OR_FOLLOWER, -1)])]);
    assert_eq!(rig.ids(), [0]);
    rig.world.chaos = true;
    rig.world.brokers.mishaps.push(Mishap::After(E::KAFKA_STORAGE_ERROR));
    rig.send(9, 1, &[(0, 1, 1..2)]);
    rig.world.pass(20 * SECOND);
    assert_eq!(rig.answers(9), [(2, vec![(E::KAFKA_STORAGE_ERROR, -1)])]);
    assert_eq!(rig.ids(), [0, 1]);
}

#[test]
fn a_duplicate_is_answered_with_its_own_offset_and_a_gap_is_refused() {
    let mut rig = Harness::new();
    for (sequence, ids) in [(0, 0..3), (3, 3..4), (0, 0..3), (9, 4..5)] {
        rig.send(9, -1, &[(0, sequence, ids)]);
        rig.world.pass(10 * MILLI);
    }
    let codes: Vec<_> = rig.answers(9).into_iter().map(|(_, parts)| parts[0]).collect();
    assert_eq!(codes, [(E::NONE, 0), (E::NONE, 3), (E::NONE, 0), (E::OUT_OF_ORDER_SEQUENCE_NUMBER, -1)]);
    assert_eq!(rig.ids(), [0, 1, 2, 3]);
}

#[test]
fn with_acks_0_nothing_is_answered_and_a_refusal_ends_the_connection() {
    let mut rig = Harness::new();
    rig.send(9, 0, &[(0, 0, 0..1)]);
    rig.world.pass(10 * MILLI);
    assert_eq!((rig.answers(9), rig.ids()), (vec![], vec![0]));
    assert!(rig.world.wires[&CONN].is_open());
    rig.send(9, 0, &[(1, 0, 1..2)]);
    assert!(!rig.world.wires[&CONN].is_open());
}

#[test]
fn what_has_reached_the_broker_is_carried_out_after_the_connection_is_gone() {
    let mut rig = Harness::new();
    let until = rig.world.now + SECOND;
    rig.world.brokers.hung.insert(1, until);
    rig.send(9, -1, &[(0, 0, 0..1)]);
    rig.world.carried_out = Some(1);
    rig.world.hang_up(CONN);
    rig.world.pass(2 * SECOND);
    assert_eq!((rig.answers(9), rig.ids()), (vec![], vec![0]));
}

#[test]
fn an_answer_can_be_lost_after_the_append() {
    let mut rig = Harness::new();
    rig.world.spoils.push(Spoil::Lost);
    rig.send(9, -1, &[(0, 0, 0..1)]);
    rig.world.pass(10 * MILLI);
    assert_eq!((rig.answers(9), rig.ids()), (vec![], vec![0]));
    assert!(!rig.world.wires[&CONN].is_open());
}

#[test]
fn the_leader_is_named_where_the_version_has_room_for_it() {
    for (version, named) in [(9, false), (10, true), (13, true)] {
        let mut rig = Harness::new();
        rig.world.brokers.hints = true;
        rig.send(version, -1, &[(1, 0, 0..1)]);
        rig.world.pass(10 * MILLI);
        let (_, frame) = &rig.world.captured.as_ref().unwrap()[0];
        let answer = ProduceResponse::decode(version, &mut Reader::new(&frame[5..])).unwrap();
        let leader = answer.responses[0].partition_responses[0].current_leader.leader_id;
        assert_eq!(leader, if named { 2 } else { -1 });
        assert_eq!(answer.node_endpoints.len(), usize::from(named));
    }
}
