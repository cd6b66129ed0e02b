//! Static members in whole groups: restarts without a rebalance, and restarts that need one.

use grete_wire::ErrorCode;

use super::coordinator::GroupState;
use super::simulator::Simulator;
use crate::group::{Assignor, GroupEvent};
use crate::test_util::for_each_seed;
use crate::time::{MILLI, SECOND};

const STICKY: [Assignor; 1] = [Assignor::CooperativeSticky];

/// Three static members, settled, on a network without faults.
fn settled(seed: u64) -> Simulator {
    let mut world = Simulator::new(seed);
    world.faults = false;
    world.topics.0.insert("a".to_owned(), 9);
    for instance in ["i0", "i1", "i2"] {
        world.add_as(STICKY.to_vec(), Some(instance));
    }
    world.run_until(world.now + 60 * SECOND);
    world.assert_settled();
    world
}

fn leader(world: &Simulator) -> usize {
    world.alive().into_iter().find(|&c| world.clients[c].group.is_leader()).expect("a member leads")
}

/// Each member in turn, with each age of brokers: the group's generation stays, and so do all assignments.
#[test]
fn a_restart_within_the_session_does_not_rebalance_the_group() {
    for_each_seed(&[], 10, |seed, trace| {
        let mut world = settled(seed);
        world.trace = trace;
        for _ in 0..2 {
            for victim in world.alive() {
                let (generation, owned) = (world.broker.generation(), world.owned(victim));
                let others: Vec<_> = world.alive().into_iter().filter(|&c| c != victim).collect();
                let before: Vec<_> = others.iter().map(|&c| world.owned(c)).collect();
                let led = leader(&world) == victim;
                let back = world.restart(victim, STICKY.to_vec());
                world.run_until(world.now + 15 * SECOND);
                assert_eq!(world.broker.generation(), generation, "seed {seed}: a rebalance");
                assert_eq!(world.owned(back), owned, "seed {seed}");
                assert_eq!(others.iter().map(|&c| world.owned(c)).collect::<Vec<_>>(), before, "seed {seed}");
                assert_eq!(leader(&world) == back, led, "seed {seed}");
                assert!(world.clients[back].group.is_ready());
                world.assert_settled();
            }
        }
        // The current leader still watches for new partitions, restarted or not.
        let generation = world.broker.generation();
        *world.topics.0.get_mut("a").unwrap() += 3;
        world.metadata_changed();
        world.run_until(world.now + 30 * SECOND);
        assert!(world.broker.generation() > generation);
        world.assert_settled();
        world.assert_nothing_skipped();
    });
}

#[test]
fn closing_keeps_the_place_for_the_session_and_no_longer() {
    for (away, kept) in [(5, true), (20, false)] {
        let mut world = settled(1);
        let victim = world.alive()[1];
        let (generation, owned) = (world.broker.generation(), world.owned(victim));
        world.step(victim, GroupEvent::Leave { deadline: world.now + 5 * SECOND, remain_in_group: true });
        world.run_until(world.now + away * SECOND);
        assert!(world.clients[victim].left);
        assert_eq!((world.broker.keeps("i1"), world.broker.generation() == generation), (kept, kept));
        let back = world.add_as(STICKY.to_vec(), Some("i1"));
        world.run_until(world.now + 60 * SECOND);
        assert_eq!(world.broker.generation() == generation, kept);
        assert!(!kept || world.owned(back) == owned);
        world.assert_settled();
        world.assert_nothing_skipped();
    }
}

#[test]
fn of_two_with_one_id_the_older_one_is_fenced_and_nothing_is_skipped() {
    for_each_seed(&[], 10, |seed, trace| {
        let mut world = settled(seed);
        world.trace = trace;
        let older = world.alive()[seed as usize % 3];
        let (generation, owned) = (world.broker.generation(), world.owned(older));
        let instance = world.clients[older].instance.clone();
        let newer = world.add_as(STICKY.to_vec(), instance.as_deref());
        world.run_until(world.now + 15 * SECOND);
        assert!(world.clients[older].fenced && !world.clients[newer].fenced, "seed {seed}");
        assert_eq!((world.broker.generation(), world.owned(newer)), (generation, owned));
        world.assert_settled();
        world.assert_nothing_skipped();
    });
}

/// A partition should move, but its owner is restarted before it has released the partition and joined again. The owner
/// returns into a generation in which that partition has no owner. The leader soon finds the partition, even if the
/// leader is the restarted owner, which has lost all state.
#[test]
fn what_changes_hands_while_its_owner_restarts_is_not_forgotten() {
    let mut seen = [0, 0];
    for seed in 0..12 {
        let mut world = Simulator::new(seed);
        world.faults = false;
        world.topics.0 = [("a".to_owned(), 2), ("b".to_owned(), 1)].into();
        for instance in ["i0", "i1"] {
            world.add_as(STICKY.to_vec(), Some(instance));
        }
        world.run_until(world.now + 60 * SECOND);
        // The member with two of the three partitions must give one up, and no other member.
        let victim = world.alive().into_iter().find(|&c| world.owned(c).contains(',')).unwrap();
        let leads = leader(&world) == victim;
        let generation = world.broker.generation();
        world.add_as(STICKY.to_vec(), Some("i2"));
        while world.clients[victim].group.generation() == generation || world.clients[victim].group.is_ready() {
            world.run_until(world.now + 5 * MILLI);
        }
        while world.broker.state() != GroupState::Stable {
            world.run_until(world.now + 5 * MILLI);
        }
        if world.broker.generation() > generation + 1 {
            continue; // the member has joined again already
        }
        seen[usize::from(leads)] += 1;
        let back = world.restart(victim, STICKY.to_vec());
        while !world.clients[back].group.is_ready() {
            world.run_until(world.now + 5 * MILLI);
        }
        // A restarted leader finds it at once; another leader finds it at its first check.
        world.run_until(world.now + 20 * SECOND);
        world.assert_settled();
        world.assert_nothing_skipped();
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

/// The topic grows while the leader is away: no other member checks, and the new leader never knew the smaller count.
#[test]
fn partitions_that_came_while_the_leader_was_away_are_given_out() {
    let mut world = settled(2);
    let victim = leader(&world);
    let instance = world.clients[victim].instance.clone();
    world.kill(victim);
    *world.topics.0.get_mut("a").unwrap() += 2;
    world.metadata_changed();
    world.run_until(world.now + 3 * SECOND);
    world.add_as(STICKY.to_vec(), instance.as_deref());
    world.run_until(world.now + 30 * SECOND);
    world.assert_settled();
    world.assert_nothing_skipped();
}

#[test]
fn a_new_coordinator_knows_the_static_members() {
    for_each_seed(&[], 20, |seed, trace| {
        let mut world = settled(seed);
        world.trace = trace;
        let victim = world.alive()[seed as usize % 3];
        let generation = world.broker.generation();
        if seed % 2 == 0 {
            world.fail_over(ErrorCode::NOT_COORDINATOR);
        }
        world.restart(victim, STICKY.to_vec());
        world.run_until(world.now + (seed * 40) * MILLI);
        if seed % 2 == 1 {
            world.fail_over(ErrorCode::NOT_COORDINATOR);
        }
        world.run_until(world.now + 60 * SECOND);
        assert_eq!(world.broker.generation(), generation, "seed {seed}");
        world.assert_settled();
        world.assert_nothing_skipped();
    });
}
