use grete_wire::ErrorCode;

use super::world::World;
use crate::group::{Assignor, GroupEvent};
use crate::testing::each_seed;
use crate::time::{MILLI, SECOND};

const BOTH: [Assignor; 2] = [Assignor::CooperativeSticky, Assignor::Range];

/// Seeds that have failed once. 154: joined again before the assignment was taken in. 1384: lost, while JoinGroup was under
/// way, what that JoinGroup claimed, and left it to nobody. 1562: took itself for another process, when the group had moved
/// twice while it slept.
const REGRESSIONS: [u64; 3] = [154, 1384, 1562];

/// What members of a seed's group run.
fn assignors(seed: u64, member: usize) -> Vec<Assignor> {
    match seed % 6 {
        0..=2 => vec![Assignor::CooperativeSticky],
        3 => vec![Assignor::Range],
        // Eager and cooperative members in one group: cooperative-sticky is what they have in common.
        4 if member.is_multiple_of(2) => BOTH.to_vec(),
        4 => vec![Assignor::CooperativeSticky],
        // Members in the middle of an upgrade and members before it: range.
        _ if member.is_multiple_of(2) => BOTH.to_vec(),
        _ => vec![Assignor::Range],
    }
}

/// The instance id of a seed's member: none, all, or every other one; more members than ids means that some share one.
fn instance(seed: u64, member: usize) -> Option<String> {
    let is_static = match seed % 4 {
        0 | 1 => false,
        2 => true,
        _ => member.is_multiple_of(2),
    };
    is_static.then(|| format!("i{}", member % 5))
}

fn add(world: &mut World, member: usize) {
    let instance = instance(world.seed, member);
    world.add_as(assignors(world.seed, member), instance.as_deref());
}

/// A minute and a half of faults, then quiet; then everything must be owned, once, and move on.
fn run(seed: u64, trace: bool) {
    let mut world = World::new(seed);
    world.trace = trace;
    let members = 1 + world.rng.below(4) as usize;
    for member in 0..members {
        add(&mut world, member);
    }
    let mut started = members;
    let end = world.now + 90 * SECOND;
    while world.now < end {
        let pause = world.rng.below(6000) * MILLI;
        world.run_until(world.now + pause);
        let alive = world.alive();
        let Some(&victim) = alive.get(world.rng.below(alive.len() as u64) as usize) else {
            add(&mut world, started);
            started += 1;
            continue;
        };
        match world.rng.below(if seed % 4 >= 2 { 12 } else { 9 }) {
            0 | 1 => world.cut(victim),
            2 => {
                let time = world.rng.below(25_000) * MILLI;
                world.sleep(victim, time);
            }
            3 if alive.len() > 1 => world.kill(victim),
            4 if alive.len() > 1 => {
                let deadline = world.now + (1 + world.rng.below(8)) * SECOND;
                world.step(victim, GroupEvent::Leave { deadline });
            }
            5 if alive.len() < 5 => {
                add(&mut world, started);
                started += 1;
            }
            9..=11 => {
                // At once or so: within the session, or after it.
                let member = started - 1;
                world.restart(victim, assignors(seed, member));
            }
            6 => {
                let polite = world.rng.below(2) == 0;
                world.fail_over(if polite { ErrorCode::NOT_COORDINATOR } else { ErrorCode::COORDINATOR_NOT_AVAILABLE });
            }
            7 => {
                *world.topics.0.get_mut("a").unwrap() += 1;
                world.metadata_changed();
            }
            _ => world.broker.unstable = world.rng.below(2) == 0,
        }
    }
    world.faults = false;
    world.broker.unstable = false;
    // The others may all be dead or on their way out.
    world.add(assignors(seed, started));
    // Whoever sleeps or lingers in a handler: 25 + 40 s, then the rebalance timeout, then a few rounds.
    world.run_until(world.now + 120 * SECOND);
    world.metadata_changed();
    world.run_until(world.now + 30 * SECOND);
    world.assert_settled();
    world.assert_nothing_skipped();
    let before = world.broker.offsets.clone();
    world.run_until(world.now + 10 * SECOND);
    world.assert_settled();
    for (topic, &count) in &world.topics.0 {
        for partition in 0..count {
            let tp = crate::ids::TopicPartition::new(topic.as_str(), partition);
            let (was, is) =
                (before.get(&tp).copied().unwrap_or(0), world.broker.offsets.get(&tp).copied().unwrap_or(0));
            assert!(is > was, "seed {seed}: {tp} stands still at {is}");
        }
    }
    // And out, one by one.
    for c in world.alive() {
        let deadline = world.now + 5 * SECOND;
        world.step(c, GroupEvent::Leave { deadline });
        world.run_until(deadline);
        assert!(world.clients[c].left, "seed {seed}: client {c} did not leave");
    }
    // Places of static members are kept for their sessions.
    world.run_until(world.now + 60 * SECOND);
    world.assert_nothing_skipped();
    assert_eq!(world.broker.state, super::broker::State::Empty, "seed {seed}: somebody was forgotten");
}

#[test]
fn groups_survive_faults() {
    each_seed(&REGRESSIONS, 60, run);
}
