//! What a seed stands for: routes, their handlers, the records that come, and how rough the world is.

use std::sync::Arc;

use grete_wire::records::Compression;

use super::handler::Style;
use super::log::Shape;
use super::record::{Manner, Nature, Record};
use crate::dispatch::{Concurrency, OffsetPolicy, Pool, RatePolicy, RetryPolicy, RoutePolicy};
use crate::rng::Rng;
use crate::time::{MILLI, Nanos, SECOND};

/// One route and its handler.
#[derive(Debug, Clone)]
pub struct Route {
    pub policy: Arc<RoutePolicy>,
    pub style: Style,
    pub partitions: usize,
    pub keys: u64,
}

#[derive(Debug, Clone)]
pub struct Scenario {
    pub routes: Vec<Route>,
    /// Worker threads of each process.
    pub threads: usize,
    pub processes: usize,
    /// Records of each partition.
    pub records: usize,
    /// How long faults go on.
    pub rough: Nanos,
    /// Between two faults, about.
    pub fault_every: Nanos,
    /// What a process may hold.
    pub budget: usize,
    /// Revocations end here.
    pub patience: Nanos,
}

/// True in `percent` of all cases.
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
            patience: pick(rng, &[1, 5, 30]) * SECOND,
        }
    }
}

impl Route {
    fn draw(rng: &mut Rng, number: u32) -> Self {
        let concurrency = pick(rng, &[Concurrency::Partition, Concurrency::Key, Concurrency::Unordered]);
        let mut offsets =
            pick(rng, &[OffsetPolicy::Auto, OffsetPolicy::Auto, OffsetPolicy::Manual, OffsetPolicy::AtMostOnce]);
        if concurrency != Concurrency::Partition && offsets == OffsetPolicy::AtMostOnce {
            // A prefix cannot keep that promise: refused where routes are declared.
            offsets = OffsetPolicy::Auto;
        }
        let retry = RetryPolicy {
            attempts: pick(rng, &[Some(1), Some(2), Some(3), Some(5), None]),
            first: pick(rng, &[10 * MILLI, 200 * MILLI]),
            longest: pick(rng, &[SECOND, 30 * SECOND]),
            jitter_percent: pick(rng, &[0, 20]),
        };
        let policy = RoutePolicy {
            route: number,
            name: format!("Orders {number}").into(),
            pool: if chance(rng, 30) { Pool::Loop } else { Pool::Threads },
            concurrency,
            key_slots: pick(rng, &[1, 4, 64]),
            max_messages: pick(rng, &[1, 3, 10, 500]),
            max_bytes: pick(rng, &[1, 300, 16 << 20]),
            max_wait: pick(rng, &[0, 0, 0, 300 * MILLI]),
            max_in_flight: pick(rng, &[1, 8, 4096]),
            offsets,
            max_unmarked: pick(rng, &[5, 100_000]),
            offset_map: concurrency != Concurrency::Partition && chance(rng, 50),
            dead_letter: retry.attempts.is_some() && chance(rng, 60),
            retry,
            priority: pick(rng, &[0, 0, 0, 1, 5]),
            rate_limit: chance(rng, 10).then_some(RatePolicy { records: 20, per: SECOND }),
            delay_ms: chance(rng, 10).then_some(3_000),
            expire_ms: chance(rng, 10).then_some(20_000),
            eof: chance(rng, 20),
            tick: chance(rng, 20).then_some(2 * SECOND),
            hooks: chance(rng, 90),
            stall_after: chance(rng, 50).then_some(4 * SECOND),
            handler_timeout: chance(rng, 20).then_some(10 * SECOND),
        };
        let style = Style::draw(rng, &policy);
        Self { policy: Arc::new(policy), style, partitions: 1 + rng.below(3) as usize, keys: pick(rng, &[1, 4, 30]) }
    }

    /// A batch of records, and how it comes to lie in the log.
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

    /// What would fail for ever is only for routes that give up at some time.
    fn nature(&self, rng: &mut Rng) -> Nature {
        let policy = &self.policy;
        let ends = policy.dead_letter || policy.offsets == OffsetPolicy::AtMostOnce;
        let manner = match rng.below(12) {
            0 => Manner::GiveUp,
            1 => Manner::Reject,
            2 => Manner::Later,
            _ => Manner::Raise,
        };
        match rng.below(40) {
            0 if ends => Nature::Poison(if manner == Manner::Later { Manner::Raise } else { manner }),
            1 | 2 => Nature::Flaky(1 + rng.below(4) as u32, manner),
            3 if ends || self.style == Style::Each => Nature::Shy,
            _ => Nature::Good,
        }
    }
}
