//! Reasons why no data of partitions comes, from whole consumers.

use super::simulator::*;
use crate::consumer::*;
use crate::partition::fetch_wait::FetchWait;
use crate::position::StartPosition;
use crate::time::SECOND;

const EARLIEST: StartOffset = StartOffset::At(StartPosition::Earliest);

/// Returns the partitions that wait, with their reasons.
fn waits(world: &Simulator, m: usize) -> Vec<(i32, &'static str)> {
    let core = &world.members[m].core;
    let name = |(slot, wait): (_, FetchWait)| (core.partitions.name(slot).partition, wait.name());
    core.fetch_waits(world.now).into_iter().map(name).collect()
}

fn alone() -> ConsumerCoreConfig {
    ConsumerCoreConfig { group: None, auto_commit: None, ..config() }
}

#[test]
fn a_partition_that_is_read_waits_for_nothing() {
    let mut world = Simulator::new(2);
    world.append(0, 50);
    let m = world.add(config());
    world.subscribe(m);
    world.advance(8 * SECOND);
    assert_eq!(world.delivered(m, 0).len(), 50);
    assert_eq!(waits(&world, m), []);
}

#[test]
fn a_stuck_sibling_that_fills_the_memory_is_told_apart_from_its_own_limit() {
    let mut world = Simulator::new(3);
    for _ in 0..60 {
        for partition in 0..3 {
            world.append(partition, 50);
        }
    }
    world.work = Work::Held;
    for (partition_bytes, expected) in [(100_000, "memory"), (2000, "queue_limit")] {
        let mut config = alone();
        (config.fetch.partition_bytes, config.fetch.queued_bytes) = (partition_bytes, 20_000);
        if expected == "queue_limit" {
            config.fetch.queued_bytes = 1 << 20;
            config.fetch.partition_bytes = 1000;
        }
        let m = world.add(config);
        world.assign(m, &[(0, EARLIEST), (1, EARLIEST), (2, EARLIEST)]);
        world.advance(30 * SECOND);
        let found = waits(&world, m);
        assert!(found.iter().any(|(_, name)| *name == expected), "{expected}: {found:?}");
        let core = &world.members[m].core;
        for (_, wait) in core.fetch_waits(world.now) {
            match wait {
                FetchWait::Memory { bytes, limit } => {
                    assert_eq!((bytes, limit), (core.partitions.queued_total(), 20_000));
                    assert!(bytes >= limit);
                }
                FetchWait::QueueLimit { bytes, limit } => assert!(bytes > limit / 2, "{bytes} of {limit}"),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_deleted_topic_is_named_and_a_pause_of_the_user_goes_first() {
    let mut world = Simulator::new(2);
    world.append(0, 5);
    let m = world.add(alone());
    world.assign(m, &[(0, EARLIEST), (1, EARLIEST)]);
    world.advance(3 * SECOND);
    world.send_event(m, ConsumerEvent::Pause(tp(1), true));
    world.advance(SECOND);
    assert_eq!(waits(&world, m), [(1, "paused")]);
    world.delete_topic();
    world.advance(10 * SECOND);
    assert_eq!(waits(&world, m), [(0, "no_topic"), (1, "paused")]);
    assert!(world.members[m].core.fetch_waits(world.now)[0].1.explains_silence());
}

#[test]
fn the_lag_of_a_partition_without_room_in_the_memory_still_grows() {
    let mut world = Simulator::new(2);
    for _ in 0..60 {
        world.append(0, 50);
    }
    world.work = Work::Held;
    let mut config = ConsumerCoreConfig { partition_recovery: Some(PartitionRecovery::default()), ..alone() };
    (config.fetch.partition_bytes, config.fetch.queued_bytes) = (100_000, 20_000);
    let m = world.add(config);
    world.assign(m, &[(0, EARLIEST), (1, EARLIEST)]);
    world.advance(5 * SECOND);
    assert!(waits(&world, m).contains(&(1, "memory")), "{:?}", waits(&world, m));
    world.append(1, 7);
    // The watch of the lanes ticks, because the first partition does not move.
    for _ in 0..10 {
        world.advance(SECOND);
        world.send_event(m, ConsumerEvent::Tick);
    }
    world.advance(SECOND);
    assert_eq!(world.members[m].status(&tp(1)).lag, Some(7));
}
