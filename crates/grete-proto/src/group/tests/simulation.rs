use grete_wire::ErrorCode;

use super::simulator::Simulator;
use crate::group::{Assignor, GroupEvent};
use crate::test_util::for_each_seed;
use crate::time::{MILLI, SECOND};

const BOTH: [Assignor; 2] = [Assignor::CooperativeSticky, Assignor::Range];

/// Seeds that failed once. 154: joined again before the assignment was applied. 1384: while JoinGroup was in flight,
/// the member lost the partitions that it claimed, and they stayed without an owner. 1562: the member took itself for
/// another process, after the group had moved twice while the member was suspended.
const REGRESSIONS: [u64; 3] = [154, 1384, 1562];

/// Returns the assignors of a seed's member.
fn assignors(seed: u64, member: usize) -> Vec<Assignor> {
    match seed % 6 {
        0..=2 => vec![Assignor::CooperativeSticky],
        3 => vec![Assignor::Range],
        // Eager and cooperative members in one group: cooperative-sticky is common to all.
        4 if member.is_multiple_of(2) => BOTH.to_vec(),
        4 => vec![Assignor::CooperativeSticky],
        // Members in the middle of an upgrade and members before it: range.
        _ if member.is_multiple_of(2) => BOTH.to_vec(),
        _ => vec![Assignor::Range],
    }
}

/// Returns the instance id of a seed's member: none, all, or every other member has one. With more members than ids,
/// some members share one.
fn instance(seed: u64, member: usize) -> Option<String> {
    let is_static = match seed % 4 {
        0 | 1 => false,
        2 => true,
        _ => member.is_multiple_of(2),
    };
    is_static.then(|| format!("i{}", member % 5))
}

fn add(world: &mut Simulator, member: usize) {
    let instance = instance(world.seed, member);
    world.add_as(assignors(world.seed, member), instance.as_deref());
}

/// A minute and a half of faults, then a quiet phase; then every partition must have one owner and advance.
fn run(seed: u64, trace: bool) {
    let mut world = Simulator::new(seed);
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
            0 | 1 => world.disconnect(victim),
            2 => {
                let time = world.rng.below(25_000) * MILLI;
                world.sleep(victim, time);
            }
            3 if alive.len() > 1 => world.kill(victim),
            4 if alive.len() > 1 => {
                let deadline = world.now + (1 + world.rng.below(8)) * SECOND;
                world.step(victim, GroupEvent::Leave { deadline, remain_in_group: true });
            }
            5 if alive.len() < 5 => {
                add(&mut world, started);
                started += 1;
            }
            9..=11 => {
                // Restarted almost at once, within the session, or after it.
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
    // The other members may all be dead or leaving.
    world.add(assignors(seed, started));
    // Suspended members and slow handlers: 25 + 40 s, then the rebalance timeout, then a few rounds.
    world.run_until(world.now + 120 * SECOND);
    world.metadata_changed();
    world.run_until(world.now + 30 * SECOND);
    world.assert_settled();
    world.assert_nothing_skipped();
    let before = world.broker.offsets().clone();
    world.run_until(world.now + 10 * SECOND);
    world.assert_settled();
    for (topic, &count) in &world.topics.0 {
        for partition in 0..count {
            let tp = crate::ids::TopicPartition::new(topic.as_str(), partition);
            let (was, is) =
                (before.get(&tp).copied().unwrap_or(0), world.broker.offsets().get(&tp).copied().unwrap_or(0));
            assert!(is > was, "seed {seed}: {tp} stands still at {is}");
        }
    }
    // The members leave, one by one.
    for c in world.alive() {
        let deadline = world.now + 5 * SECOND;
        world.step(c, GroupEvent::Leave { deadline, remain_in_group: true });
        world.run_until(deadline);
        assert!(world.clients[c].left, "seed {seed}: client {c} did not leave");
    }
    // The places of static members are kept for their sessions.
    world.run_until(world.now + 60 * SECOND);
    world.assert_nothing_skipped();
    assert_eq!(world.broker.state(), super::coordinator::GroupState::Empty, "seed {seed}: a member is left over");
}

#[test]
fn groups_survive_faults() {
    for_each_seed(&REGRESSIONS, 60, run);
}
