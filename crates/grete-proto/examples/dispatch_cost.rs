//! Benchmark of the dispatcher: time per job from `take` to `complete`, without a handler.
//!
//! `cargo run --release -p grete-proto --example dispatch_cost [NAME]`: runs the cases whose name starts with NAME, or
//! all.
// A benchmark needs a clock.
#![allow(clippy::disallowed_methods)]

use std::sync::Arc;
use std::time::Instant;

use grete_proto::dispatch::{
    ColumnPool, Concurrency, Dispatch, JobOutcome, LaneId, LaneSpec, OffsetMap, OffsetPolicy, Pool, RouteConfig,
};
use grete_proto::fetch::{CompletedFetch, TimestampRange};
use grete_proto::ids::{PartitionHandle, TopicPartition};
use grete_proto::rng::Rng;
use grete_wire::buffer_pool::{BufferPool, PooledBuf};
use grete_wire::records::test_encoder::{BatchOptions, TestRecord, build_batch};
use grete_wire::records::{DecodeLimits, Decoder};

const LANES: u32 = 64;
const ROWS: usize = 1000;
const ROUNDS: i64 = 20;

fn main() {
    println!("{:34} {:>9} {:>12} {:>14}", "", "jobs", "ns per job", "ns per record");
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let one = |name: &str, policy: RouteConfig| {
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
    let by = |concurrency, max_messages| RouteConfig { concurrency, max_messages, ..RouteConfig::default() };
    one("partition, 1 row a job", by(Concurrency::Partition, 1));
    one("partition, 10 rows a job", by(Concurrency::Partition, 10));
    one("partition, 500 rows a job", by(Concurrency::Partition, 500));
    let manual = RouteConfig { offsets: OffsetPolicy::Manual, ..by(Concurrency::Partition, 10) };
    one("partition, manual, 10 rows a job", manual);
    one("key, 1 row a job", RouteConfig { key_slots: 320, ..by(Concurrency::Key, 1) });
    one("key, 500 rows a job at most", RouteConfig { key_slots: 320, ..by(Concurrency::Key, 500) });
    one("unordered, 10 rows a job", RouteConfig { key_slots: 320, ..by(Concurrency::Unordered, 10) });
}

/// Returns the nanoseconds for all jobs, and the number of jobs.
fn run(policy: &RouteConfig) -> (f64, usize) {
    let mut dispatch = Dispatch::new(Rng::new(1));
    let client = dispatch.add_client();
    let mut decoder = Decoder::new(BufferPool::new(64 << 20), DecodeLimits::default());
    let pool = ColumnPool::default();
    let policy = Arc::new(policy.clone());
    let lanes: Vec<LaneId> = (0..LANES)
        .map(|slot| {
            let tp = TopicPartition::new("orders", slot.cast_signed());
            let spec = LaneSpec {
                client,
                handle: PartitionHandle(slot),
                tp,
                assignment_epoch: 1,
                policy: Arc::clone(&policy),
            };
            let lane = dispatch.add_lane(spec);
            dispatch.set_position(lane, 0, 1, false, OffsetMap::default());
            lane
        })
        .collect();
    let rows: Vec<TestRecord> = (0..ROWS).map(|row| TestRecord::keyed(0, format!("key {row}"), "a value")).collect();
    let (mut nanoseconds, mut jobs, mut now) = (0.0, 0, 0);
    for round in 0..ROUNDS {
        let base = round * ROWS as i64;
        let frame = PooledBuf::from(build_batch(base, &rows, &BatchOptions::default()));
        for (slot, lane) in (0..LANES).zip(&lanes) {
            let chunk = CompletedFetch {
                slot: PartitionHandle(slot),
                assignment_epoch: 1,
                fetch_generation: 1,
                range: 0..frame.len(),
                bytes: frame.len(),
                frame: frame.clone(),
                fetch_offset: base,
                next_offset: base + ROWS as i64,
                aborted_transactions: Vec::new(),
                high_watermark: base + ROWS as i64,
                readable_end: base + ROWS as i64,
                log_start_offset: 0,
                leader_epoch: 0,
                source: 1,
                timestamps: TimestampRange::from_batches(&frame),
                acquired: None,
            };
            dispatch.push(now, *lane, chunk);
        }
        let began = Instant::now();
        while let Some(mut lease) = dispatch.take(now, "grete-worker-1", Pool::Threads) {
            now += 1;
            let prepared = lease.prepare(&mut decoder, &pool, None);
            dispatch.on_prepared(now, &lease, &prepared);
            jobs += usize::from(prepared.outcome.is_none());
            dispatch.complete(now, lease, prepared.outcome.unwrap_or(JobOutcome::Done));
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
