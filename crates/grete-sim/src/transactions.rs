//! Simulation of transactional producers: several with one `transactional.id`, so that some are zombies, on brokers whose
//! connections break, and whose coordinators and leaders move.
//!
//! What `read_committed` returns must be exactly the transactions whose commit succeeded, each whole and once, in order.
//! The outcome of a commit may be unknown; such a transaction is there as a whole, or not at all.

mod oracle;
mod world;

use world::World;

/// Number of seeds of an ordinary run.
const SEEDS: u64 = 150;

#[allow(clippy::disallowed_methods)] // the seed is set by the developer who debugs a failure
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

#[test]
fn committed_transactions_are_read_and_no_others() {
    let only = number("GRETE_SEED");
    let count = number("GRETE_SEEDS").unwrap_or(SEEDS);
    let seeds = |half: std::ops::Range<u64>| {
        half.map(|seed| World::new(seed, only.is_some()).run())
            .map(|report| [report.committed, report.aborted, report.fenced])
            .fold([0; 3], |sum, counts| std::array::from_fn(|i| sum[i] + counts[i]))
    };
    let halves = only.map_or([0..count / 2, count / 2..count], |seed| [seed..seed + 1, 0..0]);
    // The longest test of its crate: two threads, so that no core waits for the other one.
    let [committed, aborted, fenced] = std::thread::scope(|scope| {
        let threads = halves.map(|half| scope.spawn(|| seeds(half)));
        let counts = threads.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        std::array::from_fn(|i| counts[0][i] + counts[1][i])
    });
    if only.is_none() {
        assert!(committed > 500 && aborted > 200 && fenced > 50, "{committed} {aborted} {fenced}: too little happens");
    }
}
