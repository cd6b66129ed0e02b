//! Benchmark of the producer: nanoseconds per record, for the append alone and with encoding, send and completion.
//!
//! The append is measured from the accumulator's lock to the open batch.
//! `taskset -c 1 cargo run --release -p grete-proto --example append_speed [ROUNDS]`
// A benchmark needs a clock.
#![allow(clippy::disallowed_methods)]

use std::sync::{Arc, Mutex};
use std::time::Instant;

use grete_proto::cluster::PartitionMetadata;
use grete_proto::cluster::view::ClusterView;
use grete_proto::ids::{NodeId, TopicPartition};
use grete_proto::producer::{
    Accumulator, AppendAction, ProduceConfig, Sender, SenderAction, SenderEvent, SharedAccumulator, TopicId,
};
use grete_proto::request::{Channel, Reply, RequestError};
use grete_proto::rng::Rng;
use grete_proto::time::{Nanos, SECOND};
use grete_wire::api::ApiKey;
use grete_wire::error_code::ErrorCode;
use grete_wire::records::ProducerRecord;

const RECORDS: u32 = 1_000_000;
const LEADERS: [PartitionMetadata; 8] = [PartitionMetadata { leader: 1, leader_epoch: 0, error: ErrorCode::NONE }; 8];

struct OneBroker;

impl ClusterView for OneBroker {
    fn leader(&self, _: &TopicPartition) -> Option<(NodeId, i32)> {
        Some((1, 0))
    }

    fn partitions(&self, _: &str) -> Option<Result<&[PartitionMetadata], ErrorCode>> {
        Some(Ok(&LEADERS))
    }

    fn missing_at(&self, _: &str) -> Option<Nanos> {
        None
    }

    fn topic_id(&self, _: &str) -> Option<u128> {
        Some(42)
    }

    fn api_version(&self, _: NodeId, _: Channel, _: ApiKey) -> Option<i16> {
        Some(13)
    }

    fn is_muted(&self, _: NodeId, _: Nanos) -> bool {
        false
    }

    fn metadata_version(&self) -> u64 {
        1
    }
}

fn main() {
    let rounds: u32 = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(10);
    let mut best = [(f64::MAX, f64::MAX); 3];
    for _ in 0..rounds {
        for (index, best) in best.iter_mut().enumerate() {
            let (append, all) = round(index);
            *best = (best.0.min(append), best.1.min(all));
        }
    }
    for (name, (append, all)) in ["no key", "key of 8 B", "explicit partition"].into_iter().zip(best) {
        println!("100 B, {name}: {append:.1} ns to append, {all:.1} ns with sending and settling");
    }
}

/// Returns the nanoseconds per record: of the append, and of all steps.
fn round(kind: usize) -> (f64, f64) {
    // A request with acks=0 gets no response: its batches complete when they are sent.
    let config = ProduceConfig { acks: 0, linger: SECOND, ..ProduceConfig::default() };
    let accumulator: SharedAccumulator = Arc::new(Mutex::new(Accumulator::new(&config, Rng::new(1))));
    let mut machine = Sender::new(config, Arc::clone(&accumulator), Rng::new(2));
    let topic = accumulator.lock().expect("no panic").topic("orders");
    let mut actions = Vec::new();
    machine.step(0, SenderEvent::MetadataChanged, &OneBroker, &mut actions);
    actions.clear();
    let start = Instant::now();
    let mut appending = 0;
    for at in 0..RECORDS / 1000 {
        let before = start.elapsed().as_nanos();
        let mut drain = false;
        for record in at * 1000..at * 1000 + 1000 {
            drain |= append(&accumulator, topic, kind, record) == AppendAction::Drain;
        }
        appending += start.elapsed().as_nanos() - before;
        if drain {
            let now = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            settle(&mut machine, now, &mut actions);
        }
    }
    (appending as f64 / f64::from(RECORDS), start.elapsed().as_nanos() as f64 / f64::from(RECORDS))
}

fn append(accumulator: &SharedAccumulator, topic: TopicId, kind: usize, record: u32) -> AppendAction {
    let key = u64::from(record).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let value = ProducerRecord {
        timestamp: 1_700_000_000_000 + i64::from(record / 50),
        key: (kind == 1).then_some(&key[..]),
        value: Some(&[7; 100]),
        headers: &[],
    };
    let partition = (kind == 2).then_some((record % 8) as i32);
    let mut accumulator = accumulator.lock().expect("no panic");
    accumulator.append(1, topic, partition, &value).expect("there is room").action
}

fn settle(machine: &mut Sender, now: Nanos, actions: &mut Vec<SenderAction>) {
    machine.step(now, SenderEvent::Drain, &OneBroker, actions);
    while let Some(action) = actions.pop() {
        if let SenderAction::Send(outgoing) = action {
            let reply = Reply { token: outgoing.token, node: 1, result: Err(RequestError::Unanswered) };
            drop(outgoing);
            machine.step(now, SenderEvent::Reply(reply), &OneBroker, actions);
        }
    }
}
