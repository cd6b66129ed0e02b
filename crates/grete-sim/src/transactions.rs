//! Simulation of transactional producers: several with one `transactional.id`, so that some are zombies, on brokers whose
//! connections break, and whose coordinators and leaders move.
//!
//! What `read_committed` returns must be exactly the transactions whose commit succeeded, each whole and once, in order.
//! The outcome of a commit may be unknown; such a transaction is there as a whole, or not at all.

mod oracle;
mod world;

use world::World;

/// Number of seeds of an ordinary run.
const SEEDS: u64 = 300;

#[allow(clippy::disallowed_methods)] // the seed is set by the developer who debugs a failure
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

#[test]
fn committed_transactions_are_read_and_no_others() {
    let only = number("GRETE_SEED");
    let seeds = only.map_or(0..number("GRETE_SEEDS").unwrap_or(SEEDS), |seed| seed..seed + 1);
    let (mut committed, mut aborted, mut fenced) = (0, 0, 0);
    for seed in seeds {
        let report = World::new(seed, only.is_some()).run();
        committed += report.committed;
        aborted += report.aborted;
        fenced += report.fenced;
    }
    if only.is_none() {
        assert!(committed > 500 && aborted > 200 && fenced > 50, "{committed} {aborted} {fenced}: too little happens");
    }
}
