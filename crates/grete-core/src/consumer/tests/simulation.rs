use grete_wire::{ApiKey, ErrorCode};

use super::world::*;
use crate::group::Assignor;
use crate::testing::each_seed;
use crate::time::{MILLI, SECOND};

/// Seeds that have failed once, and what was wrong.
const REGRESSIONS: [u64; 0] = [];

fn assignors(seed: u64) -> Vec<Assignor> {
    if seed % 4 == 3 { vec![Assignor::Range] } else { vec![Assignor::CooperativeSticky] }
}

fn add(world: &mut World) -> usize {
    let mut config = config();
    let seed = world.seed;
    config.auto_commit = Some(2 * SECOND);
    config.fetch.partition_bytes = 500 + world.rng.below(4000) as i32;
    config.fetch.queued_bytes = 1000 + world.rng.below(30_000) as usize;
    if let Some(group) = &mut config.group {
        group.assignors = assignors(seed);
    }
    let m = world.add(config);
    world.members[m].workers = 1 + world.rng.below(4) as usize;
    world.members[m].max_messages = 1 + world.rng.below(40) as usize;
    world.subscribe(m);
    m
}

fn fault(world: &mut World) {
    let alive = world.alive();
    let Some(&victim) = alive.get(world.rng.below(alive.len() as u64) as usize) else {
        add(world);
        return;
    };
    let node = 1 + world.rng.below(3) as i32;
    match world.rng.below(13) {
        0 | 1 => world.cut(victim, |at| at == node),
        2 => world.cut(victim, |_| true),
        3 => {
            let time = world.rng.below(15_000) * MILLI;
            world.members[victim].asleep_until = world.now + time;
        }
        4 if alive.len() > 1 => world.kill(victim),
        5 if alive.len() > 1 => {
            let time = (1 + world.rng.below(8)) * SECOND;
            world.close(victim, time);
        }
        6 if alive.len() < 3 => {
            add(world);
        }
        7 => {
            let polite = world.rng.below(2) == 0;
            let code = if polite { ErrorCode::NOT_COORDINATOR } else { ErrorCode::COORDINATOR_NOT_AVAILABLE };
            let now = world.now;
            world.brokers.coordinator.fail_over(now, node, code);
        }
        8 => {
            let partition = world.rng.below(4) as i32;
            let log = world.brokers.logs.get_mut(&tp(partition)).unwrap();
            (log.leader, log.epoch) = (node, log.epoch + 1);
            world.serve_polls();
        }
        9 => {
            let partition = world.rng.below(4) as i32;
            let shift = world.rng.below(3) as u8;
            let log = world.brokers.logs.get_mut(&tp(partition)).unwrap();
            let at = world.rng.below(log.batches.len() as u64 + 1) as usize;
            if let Some(batch) = log.batches.iter_mut().rev().nth(at) {
                (batch.spoilt, batch.shift) = (1, shift);
            }
        }
        10 if world.brokers.down.is_empty() => {
            world.brokers.down.insert(node);
            for m in world.alive() {
                world.cut(m, |at| at == node);
            }
        }
        11 => {
            let errors =
                [None, Some(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS), Some(ErrorCode::INVALID_COMMIT_OFFSET_SIZE)];
            world.brokers.commit_error = errors[world.rng.below(3) as usize];
        }
        12 => world.brokers.sessions.forget(node),
        _ => world.brokers.down.clear(),
    }
}

/// Two minutes of faults; then quiet, in which everything must be consumed and committed.
fn run(seed: u64) {
    let mut world = World::with(4, seed, 3);
    if seed % 5 == 1 {
        world.brokers.max_versions.insert(ApiKey::Fetch, 11 + (seed / 5 % 4) as i16);
    }
    world.work = Work::Chance;
    world.chaos = true;
    for _ in 0..2 + seed % 2 {
        add(&mut world);
    }
    let end = world.now + 120 * SECOND;
    while world.now < end {
        for _ in 0..world.rng.below(4) {
            let (partition, count) = (world.rng.below(4) as i32, 1 + world.rng.below(30) as i64);
            world.append(partition, count);
        }
        let pause = world.rng.below(4000) * MILLI;
        world.pass(pause);
        if world.rng.below(2) == 0 {
            fault(&mut world);
        }
    }
    world.chaos = false;
    world.brokers.down.clear();
    world.brokers.commit_error = None;
    // The others may all be dead, or about to end.
    add(&mut world);
    for partition in 0..4 {
        world.append(partition, 5);
    }
    // Handlers that still run: 40 s; sleepers: 15 s; retries: 30 s; and a rebalance for each.
    world.pass(180 * SECOND);
    for partition in 0..4 {
        let log = &world.brokers.logs[&tp(partition)];
        let (end, done) = (log.end(), world.processed.get(&tp(partition)).map_or(0, std::collections::BTreeSet::len));
        assert_eq!(done as i64, end, "seed {seed}: partition {partition} was not read to its end");
        assert_eq!(world.committed(partition), Some(end), "seed {seed}: partition {partition}");
    }
    for m in world.alive() {
        let member = &world.members[m];
        assert!(member.failed.is_empty() && member.fatal.is_empty(), "seed {seed}: {:?}", member.failed);
        assert!(member.jobs.is_empty(), "seed {seed}");
        assert_eq!(member.core.partitions.queued_total(), 0, "seed {seed}: bytes of member {m} are held by nobody");
        world.close(m, 10 * SECOND);
        world.pass(11 * SECOND);
        assert!(world.members[m].finished, "seed {seed}: {m} did not end");
    }
    assert_eq!(world.brokers.coordinator.state, crate::group::tests::broker::State::Empty, "seed {seed}");
}

#[test]
fn consumers_survive_faults() {
    each_seed(&REGRESSIONS, 40, |seed, _| run(seed));
}
