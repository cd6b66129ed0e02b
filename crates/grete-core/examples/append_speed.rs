//! Nanoseconds per record from the accumulator's lock to the open batch, and per record with batches that are ended,
//! stamped, sent and settled: `taskset -c 1 cargo run --release -p grete-core --example append_speed [ROUNDS]`
// A benchmark needs a clock.
#![allow(clippy::disallowed_methods)]

use std::sync::{Arc, Mutex};
use std::time::Instant;

use grete_core::cluster::PartitionMeta;
use grete_core::ids::{NodeId, TopicPartition};
use grete_core::produce::{
    Accumulator, ProduceAction, ProduceConfig, ProduceEvent, ProduceMachine, SharedAccumulator, TopicId, Wake,
};
use grete_core::request::{Channel, Reply, RequestError};
use grete_core::rng::Rng;
use grete_core::time::{Nanos, SECOND};
use grete_core::view::ClusterView;
use grete_wire::api_key::ApiKey;
use grete_wire::error_code::ErrorCode;
use grete_wire::records::NewRecord;

const RECORDS: u32 = 1_000_000;
const LEADERS: [PartitionMeta; 8] = [PartitionMeta { leader: 1, leader_epoch: 0, error: ErrorCode::NONE }; 8];

struct OneBroker;

impl ClusterView for OneBroker {
    fn leader(&self, _: &TopicPartition) -> Option<(NodeId, i32)> {
        Some((1, 0))
    }

    fn partitions(&self, _: &str) -> Option<Result<&[PartitionMeta], ErrorCode>> {
        Some(Ok(&LEADERS))
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

/// Nanoseconds per record.
fn round(kind: usize) -> (f64, f64) {
    // Nobody answers a request with acks=0: it is settled when it is sent.
    let config = ProduceConfig { acks: 0, linger: SECOND, ..ProduceConfig::default() };
    let accumulator: SharedAccumulator = Arc::new(Mutex::new(Accumulator::new(&config, Rng::new(1))));
    let mut machine = ProduceMachine::new(config, Arc::clone(&accumulator), Rng::new(2));
    let topic = accumulator.lock().expect("no panic").topic("orders");
    let mut actions = Vec::new();
    machine.step(0, ProduceEvent::MetadataChanged, &OneBroker, &mut actions);
    actions.clear();
    let start = Instant::now();
    let mut appending = 0;
    for at in 0..RECORDS / 1000 {
        let before = start.elapsed().as_nanos();
        let mut drain = false;
        for record in at * 1000..at * 1000 + 1000 {
            drain |= append(&accumulator, topic, kind, record) == Wake::Full;
        }
        appending += start.elapsed().as_nanos() - before;
        if drain {
            let now = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            settle(&mut machine, now, &mut actions);
        }
    }
    (appending as f64 / f64::from(RECORDS), start.elapsed().as_nanos() as f64 / f64::from(RECORDS))
}

fn append(accumulator: &SharedAccumulator, topic: TopicId, kind: usize, record: u32) -> Wake {
    let key = u64::from(record).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let value = NewRecord {
        timestamp: 1_700_000_000_000 + i64::from(record / 50),
        key: (kind == 1).then_some(&key[..]),
        value: Some(&[7; 100]),
        headers: &[],
    };
    let partition = (kind == 2).then_some((record % 8) as i32);
    let mut accumulator = accumulator.lock().expect("no panic");
    accumulator.append(1, topic, partition, &value).expect("there is room").wake
}

fn settle(machine: &mut ProduceMachine, now: Nanos, actions: &mut Vec<ProduceAction>) {
    machine.step(now, ProduceEvent::Drain, &OneBroker, actions);
    while let Some(action) = actions.pop() {
        if let ProduceAction::Send(outgoing) = action {
            let reply = Reply { token: outgoing.token, node: 1, result: Err(RequestError::Unanswered) };
            drop(outgoing);
            machine.step(now, ProduceEvent::Reply(reply), &OneBroker, actions);
        }
    }
}
