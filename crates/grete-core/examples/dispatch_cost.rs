//! What the dispatcher costs a worker: from asking for a job to having given it back, without a handler.
//!
//! `cargo run --release -p grete-core --example dispatch_cost [NAME]`: what begins with that name, or all.
// A benchmark needs a clock.
#![allow(clippy::disallowed_methods)]

use std::sync::Arc;
use std::time::Instant;

use grete_core::dispatch::{
    ColumnsPool, Concurrency, Dispatch, Finished, LaneId, LaneSpec, OffsetMap, OffsetPolicy, Pool, RoutePolicy,
};
use grete_core::fetch::{Chunk, Times};
use grete_core::ids::{Slot, TopicPartition};
use grete_core::rng::Rng;
use grete_wire::records::testing::{BatchOptions, TestRecord, build_batch};
use grete_wire::records::{DecodeLimits, Decoder};
use grete_wire::slab::{Slab, SlabPool};

const LANES: u32 = 64;
const ROWS: usize = 1000;
const ROUNDS: i64 = 20;

fn main() {
    println!("{:34} {:>9} {:>12} {:>14}", "", "jobs", "ns per job", "ns per record");
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let one = |name: &str, policy: RoutePolicy| {
        if !name.starts_with(&wanted) {
            return;
        }
        let mut best = f64::MAX;
        let mut jobs = 0;
        for _ in 0..5 {
            let (nanoseconds, count) = run(&policy);
            best = best.min(nanoseconds);
            jobs = count;
        }
        let records = (ROUNDS as usize * LANES as usize * ROWS) as f64;
        println!("{name:34} {jobs:9} {:12.0} {:14.1}", best / jobs as f64, best / records);
    };
    let by = |concurrency, max_messages| RoutePolicy { concurrency, max_messages, ..RoutePolicy::default() };
    one("partition, 1 row a job", by(Concurrency::Partition, 1));
    one("partition, 10 rows a job", by(Concurrency::Partition, 10));
    one("partition, 500 rows a job", by(Concurrency::Partition, 500));
    let manual = RoutePolicy { offsets: OffsetPolicy::Manual, ..by(Concurrency::Partition, 10) };
    one("partition, manual, 10 rows a job", manual);
    one("key, 1 row a job", RoutePolicy { key_slots: 320, ..by(Concurrency::Key, 1) });
    one("key, 500 rows a job at most", RoutePolicy { key_slots: 320, ..by(Concurrency::Key, 500) });
    one("unordered, 10 rows a job", RoutePolicy { key_slots: 320, ..by(Concurrency::Unordered, 10) });
}

/// Nanoseconds for all jobs, and how many there were.
fn run(policy: &RoutePolicy) -> (f64, usize) {
    let mut dispatch = Dispatch::new(Rng::new(1));
    let client = dispatch.attach();
    let mut decoder = Decoder::new(SlabPool::new(64 << 20), DecodeLimits::default());
    let pool = ColumnsPool::default();
    let policy = Arc::new(policy.clone());
    let lanes: Vec<LaneId> = (0..LANES)
        .map(|slot| {
            let tp = TopicPartition::new("orders", slot.cast_signed());
            let spec = LaneSpec { client, slot: Slot(slot), tp, assignment_epoch: 1, policy: Arc::clone(&policy) };
            let lane = dispatch.add_lane(spec);
            dispatch.set_position(lane, 0, 1, false, OffsetMap::default());
            lane
        })
        .collect();
    let rows: Vec<TestRecord> = (0..ROWS).map(|row| TestRecord::keyed(0, format!("key {row}"), "a value")).collect();
    let (mut nanoseconds, mut jobs, mut now) = (0.0, 0, 0);
    for round in 0..ROUNDS {
        let base = round * ROWS as i64;
        let frame = Slab::from(build_batch(base, &rows, &BatchOptions::default()));
        for (slot, lane) in (0..LANES).zip(&lanes) {
            let chunk = Chunk {
                slot: Slot(slot),
                assignment_epoch: 1,
                fetch_generation: 1,
                range: 0..frame.len(),
                bytes: frame.len(),
                frame: frame.clone(),
                fetch_offset: base,
                next_offset: base + ROWS as i64,
                aborted: Vec::new(),
                high_watermark: base + ROWS as i64,
                readable_end: base + ROWS as i64,
                log_start_offset: 0,
                leader_epoch: 0,
                times: Times::of(&frame),
            };
            dispatch.push(now, *lane, chunk);
        }
        let began = Instant::now();
        while let Some(mut lease) = dispatch.take(now, "grete-worker-1", Pool::Threads) {
            now += 1;
            let prepared = lease.prepare(&mut decoder, &pool, None);
            dispatch.prepared(now, &lease, &prepared);
            jobs += usize::from(prepared.finished.is_none());
            dispatch.complete(now, lease, prepared.finished.unwrap_or(Finished::Done));
        }
        nanoseconds += began.elapsed().as_nanos() as f64;
        dispatch.take_outbox(client);
        if policy.offsets == OffsetPolicy::Manual {
            lanes.iter().for_each(|lane| dispatch.reset_lane(*lane));
            let generation = 1;
            lanes.iter().for_each(|lane| {
                dispatch.set_position(*lane, base + ROWS as i64, generation, false, OffsetMap::default());
            });
        }
    }
    (nanoseconds, jobs)
}
