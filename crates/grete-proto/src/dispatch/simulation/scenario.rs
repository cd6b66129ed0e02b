//! Scenario of a seed: routes, their handlers, the records, and how often faults occur.

use std::sync::Arc;

use grete_wire::records::Compression;

use super::handler::Style;
use super::partition_log::Shape;
use super::record::{FailureMode, Record, RecordBehavior};
use crate::dispatch::{Concurrency, OffsetPolicy, Pool, RatePolicy, RetryPolicy, RouteConfig};
use crate::rng::Rng;
use crate::time::{MILLI, Nanos, SECOND};

/// Route and its handler.
#[derive(Debug, Clone)]
pub struct Route {
    pub policy: Arc<RouteConfig>,
    pub style: Style,
    /// Percentage of records for which the handler produces a record.
    pub produces: u64,
    pub partitions: usize,
    pub keys: u64,
}

#[derive(Debug, Clone)]
pub struct Scenario {
    pub routes: Vec<Route>,
    /// Number of worker threads of each process.
    pub threads: usize,
    pub processes: usize,
    /// Number of records of each partition.
    pub records: usize,
    /// Time during which faults occur.
    pub rough: Nanos,
    /// Approximate time between two faults.
    pub fault_every: Nanos,
    /// Memory budget of a process, in bytes.
    pub budget: usize,
    /// Deadline of a revocation.
    pub revocation_timeout: Nanos,
}

/// Returns true with a probability of `percent`.
pub fn chance(rng: &mut Rng, percent: u64) -> bool {
    rng.below(100) < percent
}

fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.below(choices.len() as u64) as usize]
}

impl Scenario {
    pub fn draw(rng: &mut Rng) -> Self {
        let routes = 1 + rng.below(3) as usize;
        Self {
            routes: (0..routes).map(|number| Route::draw(rng, number as u32)).collect(),
            threads: 1 + rng.below(4) as usize,
            processes: 1 + rng.below(2) as usize,
            records: pick(rng, &[10, 40, 80, 120]),
            rough: pick(rng, &[0, 20, 60, 120]) * SECOND,
            fault_every: pick(rng, &[1, 3, 10]) * SECOND,
            budget: pick(rng, &[2_000, 20_000, 1 << 20]),
            revocation_timeout: pick(rng, &[1, 5, 30]) * SECOND,
        }
    }
}

impl Route {
    fn draw(rng: &mut Rng, number: u32) -> Self {
        let concurrency = pick(rng, &[Concurrency::Partition, Concurrency::Key, Concurrency::Unordered]);
        let mut offsets =
            pick(rng, &[OffsetPolicy::Auto, OffsetPolicy::Auto, OffsetPolicy::Manual, OffsetPolicy::AtMostOnce]);
        if concurrency != Concurrency::Partition && offsets == OffsetPolicy::AtMostOnce {
            // One committed offset cannot guarantee at most once here. The declaration of routes refuses this
            // combination.
            offsets = OffsetPolicy::Auto;
        }
        let retry = RetryPolicy {
            attempts: pick(rng, &[Some(1), Some(2), Some(3), Some(5), None]),
            backoff: pick(rng, &[10 * MILLI, 200 * MILLI]),
            max_backoff: pick(rng, &[SECOND, 30 * SECOND]),
            jitter_percent: pick(rng, &[0, 20]),
        };
        let policy = RouteConfig {
            route: number,
            name: format!("Orders {number}").into(),
            pool: if chance(rng, 30) { Pool::EventLoop } else { Pool::Threads },
            concurrency,
            key_slots: pick(rng, &[0, 0, 1, 4, 64]),
            shares: pick(rng, &[0, 1, 4]),
            max_concurrency: pick(rng, &[None, None, None, Some(1), Some(3)]),
            max_messages: pick(rng, &[1, 3, 10, 500]),
            max_bytes: pick(rng, &[1, 300, 16 << 20]),
            max_wait: pick(rng, &[0, 0, 0, 300 * MILLI]),
            max_in_flight: pick(rng, &[1, 8, 100, 4096]),
            offsets,
            queue: false,
            max_unmarked: pick(rng, &[5, 100_000]),
            offset_map: concurrency != Concurrency::Partition && chance(rng, 50),
            dead_letter: retry.attempts.is_some() && chance(rng, 60),
            retry,
            priority: pick(rng, &[0, 0, 0, 1, 5]),
            rate_limit: chance(rng, 10).then_some(RatePolicy { records: 20, per: SECOND }),
            delay_ms: chance(rng, 10).then_some(3_000),
            max_age_ms: chance(rng, 10).then_some(20_000),
            dedup: None,
            eof: chance(rng, 20),
            tick: chance(rng, 20).then_some(2 * SECOND),
            hooks: chance(rng, 90),
            stall_after: chance(rng, 50).then_some(4 * SECOND),
            handler_timeout: chance(rng, 20).then_some(10 * SECOND),
        };
        let style = Style::draw(rng, &policy);
        let (partitions, keys) = (1 + rng.below(3) as usize, pick(rng, &[1, 4, 30]));
        let produces = pick(rng, &[0, 0, 20, 60, 100]);
        Self { policy: Arc::new(policy), style, produces, partitions, keys }
    }

    /// Returns a batch of random records, and its shape in the log.
    pub fn batch(&self, rng: &mut Rng, most: usize, now_ms: i64) -> (Vec<Record>, Shape) {
        let count = 1 + rng.below(most.min(12) as u64);
        let records = (0..count).map(|_| Record {
            offset: -1,
            timestamp: now_ms - if chance(rng, 5) { rng.below(40_000) as i64 } else { 0 },
            key: (!chance(rng, 15)).then(|| rng.below(self.keys) as u8),
            size: rng.below(60) as usize,
            nature: self.nature(rng),
        });
        let records = records.collect();
        let shape = match rng.below(20) {
            0..=2 => {
                Shape::Packed(pick(rng, &[Compression::Lz4, Compression::Zstd, Compression::Gzip, Compression::Snappy]))
            }
            3 | 4 => Shape::Sparse,
            5 => Shape::Committed,
            6 => Shape::Aborted,
            7 => Shape::Emptied,
            _ => Shape::Plain,
        };
        (records, shape)
    }

    /// Returns a random behavior. Records that always fail are drawn only for routes that give up at some time.
    fn nature(&self, rng: &mut Rng) -> RecordBehavior {
        let policy = &self.policy;
        let ends = policy.dead_letter || policy.offsets == OffsetPolicy::AtMostOnce;
        let manner = match rng.below(12) {
            0 => FailureMode::GiveUp,
            1 => FailureMode::Reject,
            2 => FailureMode::Later,
            _ => FailureMode::Raise,
        };
        match rng.below(40) {
            0 if ends => RecordBehavior::Poison(if manner == FailureMode::Later { FailureMode::Raise } else { manner }),
            1 | 2 => RecordBehavior::Flaky(1 + rng.below(4) as u32, manner),
            3 if ends || self.style == Style::Each => RecordBehavior::FailsInBatch,
            _ => RecordBehavior::Good,
        }
    }
}
