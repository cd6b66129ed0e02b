use super::world::*;
use crate::consumer::*;
use crate::dispatch::Finished;
use crate::position::{ResetPolicy, StartAt};
use crate::time::{MILLI, SECOND};

const EARLIEST: Start = Start::At(StartAt::Earliest);

fn offsets(range: std::ops::Range<i64>) -> Vec<i64> {
    range.collect()
}

/// Three batches of ten records, a second apart.
fn world() -> World {
    let mut world = World::new(2);
    for _ in 0..3 {
        world.append(0, 10);
        world.now += SECOND;
    }
    world.append(1, 7);
    world
}

#[test]
fn each_start_reaches_data_with_the_right_offsets() {
    for (start, expected) in [
        (StartAt::Earliest, offsets(0..32)),
        (StartAt::Latest, offsets(30..32)),
        (StartAt::Offset(13), offsets(13..32)),
        (StartAt::Timestamp(1500), offsets(10..32)),
        (StartAt::Timestamp(9_000_000), offsets(30..32)),
    ] {
        let mut world = world();
        let m = world.add(config());
        world.assign(m, &[(0, Start::At(start)), (1, EARLIEST)]);
        world.pass(SECOND);
        world.append(0, 2);
        world.pass(SECOND);
        assert_eq!(world.delivered(m, 0), expected, "{start:?}");
        assert_eq!(world.delivered(m, 1), offsets(0..7), "{start:?}");
        assert!(world.members[m].failed.is_empty());
    }
}

#[test]
fn a_committed_start_goes_on_there_or_by_the_reset_policy() {
    let mut world = world();
    world.brokers.coordinator.offsets.insert(tp(0), 25);
    let m = world.add(config());
    world.assign(m, &[(0, Start::Committed), (1, Start::Committed)]);
    world.processed.insert(tp(0), (0..25).collect());
    world.pass(SECOND);
    assert_eq!(world.delivered(m, 0), offsets(25..30));
    assert_eq!(world.delivered(m, 1), offsets(0..7));
    // And commits go out without a membership.
    world.pass(6 * SECOND);
    assert_eq!((world.committed(0), world.committed(1)), (Some(30), Some(7)));
}

#[test]
fn without_a_group_a_committed_start_is_the_reset_policys() {
    let mut world = world();
    let mut config = ConsumerCoreConfig { group: None, ..config() };
    config.position.reset = ResetPolicy::Latest;
    let m = world.add(config);
    world.assign(m, &[(0, Start::Committed)]);
    world.pass(SECOND);
    world.append(0, 1);
    world.pass(SECOND);
    assert_eq!(world.delivered(m, 0), [30]);
    world.seek(m, 0, Start::Committed);
    world.pass(SECOND);
    world.append(0, 1);
    world.pass(SECOND);
    assert_eq!(world.delivered(m, 0), [30, 31]);
}

#[test]
fn another_assignment_replaces_the_lanes_and_waits_for_the_old_handler() {
    let mut world = world();
    world.work = Work::Held;
    let m = world.add(config());
    world.assign(m, &[(0, EARLIEST), (1, EARLIEST)]);
    world.pass(SECOND);
    assert_eq!(world.jobs(m).len(), 2);
    world.assign(m, &[(0, Start::At(StartAt::Offset(20)))]);
    world.pass(SECOND);
    // What ran goes on as a ghost; the new lane of the same partition waits for it.
    assert_eq!(world.jobs(m).len(), 2);
    world.end_job(m, 1, Finished::Done);
    world.end_job(m, 0, Finished::Done);
    assert_eq!(world.jobs(m).len(), 1);
    world.end_job(m, 0, Finished::Done);
    assert_eq!(world.delivered(m, 0), [offsets(0..30), offsets(20..30)].concat());
    assert_eq!(world.members[m].assignment(), [0]);
    // Nothing of the old assignment is committed.
    world.pass(10 * SECOND);
    assert_eq!((world.committed(0), world.committed(1)), (Some(30), None));
    assert_eq!(world.members[m].core.partitions.queued_total(), 0);
}

#[test]
fn a_seek_drops_what_is_queued_in_flight_and_in_hand() {
    let mut world = world();
    world.work = Work::Held;
    let m = world.add(config());
    world.members[m].max_messages = 5;
    world.assign(m, &[(0, EARLIEST)]);
    world.pass(SECOND);
    world.append(0, 10);
    world.seek(m, 0, Start::At(StartAt::Offset(28)));
    assert_eq!(world.members[m].status(&tp(0)).committable, Some(28));
    // The job that was in hand ends, and its offsets do not count.
    world.end_job(m, 0, Finished::Done);
    assert_eq!(world.members[m].status(&tp(0)).committable, Some(28));
    world.pass(SECOND);
    world.work = Work::AtOnce;
    if !world.jobs(m).is_empty() {
        world.end_job(m, 0, Finished::Done);
    }
    world.pass(SECOND);
    assert_eq!(world.delivered(m, 0), [offsets(0..5), offsets(28..40)].concat());
    assert_eq!(world.members[m].core.partitions.queued_total(), 0);
}

#[test]
fn a_seek_to_the_committed_offset_shows_nothing_else_before() {
    let mut world = world();
    world.brokers.coordinator.offsets.insert(tp(0), 28);
    world.processed.insert(tp(0), (0..28).collect());
    let m = world.add(ConsumerCoreConfig { auto_commit: None, ..config() });
    world.assign(m, &[(0, EARLIEST)]);
    world.pass(SECOND);
    assert_eq!(world.delivered(m, 0), offsets(0..30));
    // The coordinator takes its time; the reset policy has no say meanwhile.
    world.brokers.silent.insert(grete_wire::ApiKey::OffsetFetch);
    world.seek(m, 0, Start::Committed);
    world.pass(SECOND);
    assert_eq!(world.delivered(m, 0), offsets(0..30));
    world.brokers.silent.clear();
    world.cut(m, |_| true);
    world.pass(3 * SECOND);
    assert_eq!(world.delivered(m, 0), [offsets(0..30), offsets(28..30)].concat());
}

#[test]
fn a_paused_partition_keeps_its_place_and_others_go_on() {
    let mut world = world();
    let m = world.add(config());
    world.assign(m, &[(0, EARLIEST), (1, EARLIEST)]);
    world.pass(SECOND);
    let lane = world.members[m].status(&tp(0)).lane;
    world.members[m].dispatch.pause(lane, None);
    world.tell(m, ConsumerEvent::Pause(tp(0), true));
    world.append(0, 5);
    world.append(1, 5);
    world.pass(5 * SECOND);
    assert_eq!((world.delivered(m, 0).len(), world.delivered(m, 1).len()), (30, 12));
    world.members[m].dispatch.resume(lane);
    world.tell(m, ConsumerEvent::Pause(tp(0), false));
    world.run_workers(m);
    world.pass(100 * MILLI);
    assert_eq!(world.delivered(m, 0), offsets(0..35));
}

#[test]
fn a_leader_that_moves_is_followed() {
    let mut world = world();
    let m = world.add(config());
    world.assign(m, &[(0, EARLIEST), (1, EARLIEST)]);
    world.pass(SECOND);
    for _ in 0..3 {
        let log = world.brokers.logs.get_mut(&tp(0)).unwrap();
        (log.leader, log.epoch) = (3 - log.leader, log.epoch + 1);
        world.serve_polls();
        world.append(0, 5);
        world.pass(2 * SECOND);
    }
    assert_eq!(world.delivered(m, 0), offsets(0..45));
}

fn told(world: &World, m: usize) -> Vec<String> {
    let text = |notice: &ConsumerNotice| match notice {
        ConsumerNotice::NoSuchTopic { topic } => Some(format!("no {topic}")),
        ConsumerNotice::NoSuchPartitions { topic, partitions, count } => {
            Some(format!("{topic}: {partitions:?} of {count}"))
        }
        _ => None,
    };
    world.members[m].notices.iter().filter_map(text).collect()
}

#[test]
fn partitions_that_are_not_there_are_told_once_and_not_at_once() {
    let mut world = world();
    let m = world.add(config());
    world.assign(m, &[(5, EARLIEST), (0, EARLIEST), (2, EARLIEST)]);
    world.pass(2 * SECOND);
    assert!(told(&world, m).is_empty(), "a broker may not have heard of new partitions yet");
    world.pass(60 * SECOND);
    assert_eq!(told(&world, m), ["orders: [2, 5] of 2"]);
    assert_eq!(world.delivered(m, 0), offsets(0..30), "the others are read");
    // Another assignment is another question.
    world.assign(m, &[(1, EARLIEST)]);
    world.pass(60 * SECOND);
    assert_eq!(told(&world, m).len(), 1);
    world.assign(m, &[(3, EARLIEST)]);
    world.pass(60 * SECOND);
    assert_eq!(told(&world, m)[1..], ["orders: [3] of 2"]);
}

#[test]
fn a_topic_that_is_not_there_yet_is_told_once_and_read_when_it_is() {
    let mut world = World::new(0);
    world.brokers.ids.remove("orders");
    let m = world.add(config());
    world.assign(m, &[(0, EARLIEST)]);
    world.pass(2 * SECOND);
    assert!(told(&world, m).is_empty());
    world.pass(60 * SECOND);
    assert_eq!(told(&world, m), ["no orders"]);
    world.brokers.create("orders", 1);
    world.append(0, 3);
    world.pass(60 * SECOND);
    assert_eq!(told(&world, m), ["no orders"]);
    assert_eq!(world.delivered(m, 0), offsets(0..3));
}
