//! Oracle: observes the connections, and compares the results that callers get with the logs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use grete_wire::messages::{ProduceRequest, ProduceResponse};
use grete_wire::{ApiKey, Frame, Reader};

use super::log::{Batch, Log};
use super::simulator::Simulator;
use crate::cluster::test_cluster::ReceivedRequest;
use crate::ids::{ConnId, NodeId, TopicPartition};
use crate::producer::{Outcome, RecordResult};
use crate::time::{MILLI, Nanos};

/// A request without a response.
#[derive(Debug)]
struct Sent {
    correlation: i32,
    produce: Option<i16>,
    /// Topic name or id, and partition.
    parts: Vec<(String, u128, i32)>,
}

#[derive(Debug, Default)]
pub struct DeliveryOracle {
    in_flight: BTreeMap<ConnId, VecDeque<Sent>>,
    /// Start and end of the throttle time of each broker.
    muted: BTreeMap<NodeId, (Nanos, Nanos)>,
}

impl Simulator {
    fn exactly_once(&self) -> bool {
        self.client.config.produce.idempotent
    }

    pub(super) fn observe_request(&mut self, node: NodeId, asked: &ReceivedRequest) {
        let mut sent = Sent { correlation: asked.correlation, produce: None, parts: Vec::new() };
        if asked.api == ApiKey::Produce {
            let mut r = Reader::new(&asked.body);
            let request = ProduceRequest::decode(asked.version, &mut r).unwrap();
            assert_eq!(r.finish(), Ok(()));
            let config = &self.client.config.produce;
            assert_eq!(request.acks, config.acks);
            assert!(!request.topic_data.is_empty(), "a request that asks for nothing");
            // A request sent at the same time as the throttling response does not violate the throttle.
            let (since, until) = self.oracle.muted.get(&node).copied().unwrap_or_default();
            assert!(self.now >= until || self.now == since, "b{node} has asked for silence until {until}");
            let parts = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
            let sizes = parts.map(|part| part.records.as_ref().map_or(0, |records| records.len()));
            let (count, bytes) = sizes.fold((0, 0), |(count, bytes), size| (count + 1, bytes + size));
            assert!(count == 1 || bytes <= config.max_request_size, "{count} batches of {bytes} bytes in one request");
            if request.acks == 0 {
                return;
            }
            for topic in &request.topic_data {
                let named = |p: i32| (topic.name.to_string(), topic.topic_id, p);
                sent.parts.extend(topic.partition_data.iter().map(|partition| named(partition.index)));
            }
            sent.produce = Some(asked.version);
            let others = self.oracle.in_flight.values().flatten();
            for part in sent.parts.iter().filter(|_| config.idempotent) {
                let count = others.clone().filter(|other| other.parts.contains(part)).count();
                assert!(count < 5, "a sixth batch of {part:?} is sent");
            }
            let same = self.oracle.in_flight.get(&asked.conn).into_iter().flatten();
            let count = same.filter(|other| other.produce.is_some()).count();
            assert!(count < config.max_in_flight, "request {} to b{node}", count + 1);
            self.trace(|| format!("to b{node}: {:?}", sent.parts));
        }
        self.oracle.in_flight.entry(asked.conn).or_default().push_back(sent);
    }

    pub(super) fn observe_response(&mut self, conn: ConnId, frame: &Frame) {
        let Some(sent) = self.oracle.in_flight.get_mut(&conn).and_then(VecDeque::pop_front) else { return };
        let Some(version) = sent.produce.filter(|_| frame[..4] == sent.correlation.to_be_bytes()) else { return };
        let body = &frame[if version >= 9 { 5 } else { 4 }.min(frame.len())..];
        let Ok(answer) = ProduceResponse::decode(version, &mut Reader::new(body)) else { return };
        let node = self.wires[&conn].node;
        if answer.throttle_time_ms > 0 {
            let until = self.now + u64::from(answer.throttle_time_ms.unsigned_abs()) * MILLI;
            self.trace(|| format!("b{node} asks for silence until {until}"));
            let muted = self.oracle.muted.entry(node).or_default();
            *muted = (self.now, until.max(muted.1));
        }
    }

    pub(super) fn observe_close(&mut self, conn: ConnId) {
        self.oracle.in_flight.remove(&conn);
        if let Some(wire) = self.wires.get(&conn) {
            // A broker that was down may have restarted.
            self.oracle.muted.remove(&wire.node);
        }
    }

    /// Checks a batch that was just appended.
    pub(super) fn check_new(&self, tp: &TopicPartition, batch: &Batch) {
        let new: BTreeSet<u64> = batch.ids.iter().copied().collect();
        for id in &new {
            // A test may append records by hand.
            let Some(row) = self.client.rows.get(*id as usize) else { continue };
            assert_eq!(row.tp(), *tp, "record {id} is in the wrong partition");
            assert_ne!(self.client.outcome(*id), Some(Outcome::NotWritten), "record {id} is written after all");
        }
        assert!(batch.ids.is_sorted_by(|a, b| a < b), "a batch in disorder: {:?}", batch.ids);
        if self.exactly_once() {
            let log = &self.brokers.logs[tp];
            let twice = log.ids().rev().skip(new.len()).find(|(_, id)| new.contains(id));
            assert_eq!(twice, None, "offset and number of what is appended a second time as {:?}", batch.stamp);
        }
    }

    /// Checks a result that a caller just got.
    pub(super) fn check_settled(&self, id: u64, settled: &RecordResult) {
        let tp = self.client.rows[id as usize].tp();
        let deleted = self.brokers.deleted.iter().filter(|log| log.tp == tp);
        let current = self.brokers.logs.get(&tp);
        let mut logs = deleted.chain(current);
        let acks = self.client.config.produce.acks;
        let fine = settled.outcome == Outcome::Written || (settled.outcome == Outcome::Unknown && acks == 0);
        assert!(fine || settled.error.is_some(), "{settled:?}");
        match settled.outcome {
            Outcome::Written if acks == -1 => {
                let is_there = |log: &Log| match settled.offset {
                    Some(offset) => log.at(offset) == Some(id) && offset < log.high_watermark,
                    None => log.ids().any(|(offset, other)| other == id && offset < log.high_watermark),
                };
                assert!(logs.any(is_there), "record {id} of {tp} is not there: {settled:?}");
            }
            Outcome::Written => assert_eq!(acks, 1),
            Outcome::NotWritten => {
                assert_eq!(settled.offset, None);
                // Records in a deleted topic count as not written.
                let found = current.and_then(|log| log.ids().find(|(_, other)| *other == id));
                assert_eq!(found, None, "record {id} of {tp} is there: {settled:?}");
            }
            Outcome::Unknown => assert_eq!(settled.offset, None),
            Outcome::Aborted => panic!("record {id} of {tp} has no transaction: {settled:?}"),
        }
    }

    /// Compares all logs with all results at the end of the run.
    pub fn check_logs(&self) {
        for log in self.brokers.logs.values().chain(&self.brokers.deleted) {
            let mut seen = BTreeSet::new();
            let mut last = None;
            // A request by topic name may be refused by the deleted topic, and accepted by the recreated one on retry.
            let by_name = self.brokers.max_versions.get(&ApiKey::Produce).is_some_and(|max| *max < 13);
            let same = self.brokers.deleted.is_empty() || !by_name;
            let ordered = same && (self.exactly_once() || self.client.config.produce.max_in_flight == 1);
            for (offset, id) in log.ids() {
                let outcome = self.client.outcome(id);
                let there = outcome == Some(Outcome::NotWritten) && self.brokers.deleted.is_empty();
                assert!(!there, "record {id} lies at {} {offset}", log.tp);
                let first = seen.insert(id);
                assert!(first || !self.exactly_once(), "record {id} is in {} twice, at {offset}, too", log.tp);
                if outcome == Some(Outcome::Written) && first && ordered {
                    assert!(last < Some(id), "{}: record {id} lies behind {last:?}, at {offset}", log.tp);
                    last = Some(id);
                }
            }
            if self.client.config.produce.acks == -1 && self.brokers.deleted.is_empty() {
                for (id, _) in (0..).zip(&self.client.rows).filter(|(_, row)| row.tp() == log.tp) {
                    let written = self.client.outcome(id) == Some(Outcome::Written);
                    assert!(!written || seen.contains(&id), "record {id} of {} is lost", log.tp);
                }
            }
        }
    }
}
