use super::simulator::*;
use crate::consumer::*;
use crate::dispatch::JobOutcome;
use crate::position::{ResetPolicy, StartPosition};
use crate::time::{MILLI, SECOND};

const EARLIEST: StartOffset = StartOffset::At(StartPosition::Earliest);

fn offsets(range: std::ops::Range<i64>) -> Vec<i64> {
    range.collect()
}

/// Simulator with three batches of ten records, a second apart.
fn world() -> Simulator {
    let mut world = Simulator::new(2);
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
        (StartPosition::Earliest, offsets(0..32)),
        (StartPosition::Latest, offsets(30..32)),
        (StartPosition::Offset(13), offsets(13..32)),
        (StartPosition::Timestamp(1500), offsets(10..32)),
        (StartPosition::Timestamp(9_000_000), offsets(30..32)),
    ] {
        let mut world = world();
        let m = world.add(config());
        world.assign(m, &[(0, StartOffset::At(start)), (1, EARLIEST)]);
        world.advance(SECOND);
        world.append(0, 2);
        world.advance(SECOND);
        assert_eq!(world.delivered(m, 0), expected, "{start:?}");
        assert_eq!(world.delivered(m, 1), offsets(0..7), "{start:?}");
        assert!(world.members[m].failed.is_empty());
    }
}

#[test]
fn a_committed_start_goes_on_there_or_by_the_reset_policy() {
    let mut world = world();
    world.brokers.coordinator.set_offset(&tp(0), 25, -1, None);
    let m = world.add(config());
    world.assign(m, &[(0, StartOffset::Committed), (1, StartOffset::Committed)]);
    world.processed.insert(tp(0), (0..25).collect());
    world.advance(SECOND);
    assert_eq!(world.delivered(m, 0), offsets(25..30));
    assert_eq!(world.delivered(m, 1), offsets(0..7));
    // Commits are sent without a membership.
    world.advance(6 * SECOND);
    assert_eq!((world.committed(0), world.committed(1)), (Some(30), Some(7)));
}

#[test]
fn without_a_group_a_committed_start_is_the_reset_policys() {
    let mut world = world();
    let mut config = ConsumerCoreConfig { group: None, ..config() };
    config.position.reset = ResetPolicy::Latest;
    let m = world.add(config);
    world.assign(m, &[(0, StartOffset::Committed)]);
    world.advance(SECOND);
    world.append(0, 1);
    world.advance(SECOND);
    assert_eq!(world.delivered(m, 0), [30]);
    world.seek(m, 0, StartOffset::Committed);
    world.advance(SECOND);
    world.append(0, 1);
    world.advance(SECOND);
    assert_eq!(world.delivered(m, 0), [30, 31]);
}

#[test]
fn another_assignment_replaces_the_lanes_and_waits_for_the_old_handler() {
    let mut world = world();
    world.work = Work::Held;
    let m = world.add(config());
    world.assign(m, &[(0, EARLIEST), (1, EARLIEST)]);
    world.advance(SECOND);
    assert_eq!(world.jobs(m).len(), 2);
    world.assign(m, &[(0, StartOffset::At(StartPosition::Offset(20)))]);
    world.advance(SECOND);
    // The running job's lane is abandoned; the new lane of the same partition waits for it.
    assert_eq!(world.jobs(m).len(), 2);
    world.end_job(m, 1, JobOutcome::Done);
    world.end_job(m, 0, JobOutcome::Done);
    assert_eq!(world.jobs(m).len(), 1);
    world.end_job(m, 0, JobOutcome::Done);
    assert_eq!(world.delivered(m, 0), [offsets(0..30), offsets(20..30)].concat());
    assert_eq!(world.members[m].assignment(), [0]);
    // No offset of the old assignment is committed.
    world.advance(10 * SECOND);
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
    world.advance(SECOND);
    world.append(0, 10);
    world.seek(m, 0, StartOffset::At(StartPosition::Offset(28)));
    assert_eq!(world.members[m].status(&tp(0)).committable, Some(28));
    // The job in flight ends, and its offsets do not count.
    world.end_job(m, 0, JobOutcome::Done);
    assert_eq!(world.members[m].status(&tp(0)).committable, Some(28));
    world.advance(SECOND);
    world.work = Work::AtOnce;
    if !world.jobs(m).is_empty() {
        world.end_job(m, 0, JobOutcome::Done);
    }
    world.advance(SECOND);
    assert_eq!(world.delivered(m, 0), [offsets(0..5), offsets(28..40)].concat());
    assert_eq!(world.members[m].core.partitions.queued_total(), 0);
}

#[test]
fn a_seek_to_the_committed_offset_shows_nothing_else_before() {
    let mut world = world();
    world.brokers.coordinator.set_offset(&tp(0), 28, -1, None);
    world.processed.insert(tp(0), (0..28).collect());
    let m = world.add(ConsumerCoreConfig { auto_commit: None, ..config() });
    world.assign(m, &[(0, EARLIEST)]);
    world.advance(SECOND);
    assert_eq!(world.delivered(m, 0), offsets(0..30));
    // The coordinator is slow; the reset policy must not apply meanwhile.
    world.brokers.silent.insert(grete_wire::ApiKey::OffsetFetch);
    world.seek(m, 0, StartOffset::Committed);
    world.advance(SECOND);
    assert_eq!(world.delivered(m, 0), offsets(0..30));
    world.brokers.silent.clear();
    world.disconnect(m, |_| true);
    world.advance(3 * SECOND);
    assert_eq!(world.delivered(m, 0), [offsets(0..30), offsets(28..30)].concat());
}

#[test]
fn a_paused_partition_keeps_its_place_and_others_go_on() {
    let mut world = world();
    let m = world.add(config());
    world.assign(m, &[(0, EARLIEST), (1, EARLIEST)]);
    world.advance(SECOND);
    let lane = world.members[m].status(&tp(0)).lane;
    world.members[m].dispatch.pause(lane, None);
    world.send_event(m, ConsumerEvent::Pause(tp(0), true));
    world.append(0, 5);
    world.append(1, 5);
    world.advance(5 * SECOND);
    assert_eq!((world.delivered(m, 0).len(), world.delivered(m, 1).len()), (30, 12));
    world.members[m].dispatch.resume(lane);
    world.send_event(m, ConsumerEvent::Pause(tp(0), false));
    world.run_workers(m);
    world.advance(100 * MILLI);
    assert_eq!(world.delivered(m, 0), offsets(0..35));
}

#[test]
fn a_leader_that_moves_is_followed() {
    let mut world = world();
    let m = world.add(config());
    world.assign(m, &[(0, EARLIEST), (1, EARLIEST)]);
    world.advance(SECOND);
    for _ in 0..3 {
        let log = world.brokers.logs.get_mut(&tp(0)).unwrap();
        (log.leader, log.epoch) = (3 - log.leader, log.epoch + 1);
        world.serve_polls();
        world.append(0, 5);
        world.advance(2 * SECOND);
    }
    assert_eq!(world.delivered(m, 0), offsets(0..45));
}

fn unknown_log_events(world: &Simulator, m: usize) -> Vec<String> {
    let text = |notice: &ConsumerLogEvent| match notice {
        ConsumerLogEvent::UnknownTopic { topic } => Some(format!("no {topic}")),
        ConsumerLogEvent::UnknownPartitions { topic, partitions, count } => {
            Some(format!("{topic}: {partitions:?} of {count}"))
        }
        _ => None,
    };
    world.members[m].notices.iter().filter_map(text).collect()
}

#[test]
fn unknown_partitions_are_logged_once_after_the_grace_period() {
    let mut world = world();
    let m = world.add(config());
    world.assign(m, &[(5, EARLIEST), (0, EARLIEST), (2, EARLIEST)]);
    world.advance(2 * SECOND);
    assert!(unknown_log_events(&world, m).is_empty(), "a broker may not have heard of new partitions yet");
    world.advance(60 * SECOND);
    assert_eq!(unknown_log_events(&world, m), ["orders: [2, 5] of 2"]);
    assert_eq!(world.delivered(m, 0), offsets(0..30), "the others are read");
    // Another assignment is reported again.
    world.assign(m, &[(1, EARLIEST)]);
    world.advance(60 * SECOND);
    assert_eq!(unknown_log_events(&world, m).len(), 1);
    world.assign(m, &[(3, EARLIEST)]);
    world.advance(60 * SECOND);
    assert_eq!(unknown_log_events(&world, m)[1..], ["orders: [3] of 2"]);
}

#[test]
fn an_unknown_topic_is_logged_once_and_read_when_it_is_created() {
    let mut world = Simulator::new(0);
    world.brokers.ids.remove("orders");
    let m = world.add(config());
    world.assign(m, &[(0, EARLIEST)]);
    world.advance(2 * SECOND);
    assert!(unknown_log_events(&world, m).is_empty());
    world.advance(60 * SECOND);
    assert_eq!(unknown_log_events(&world, m), ["no orders"]);
    world.brokers.create("orders", 1);
    world.append(0, 3);
    world.advance(60 * SECOND);
    assert_eq!(unknown_log_events(&world, m), ["no orders"]);
    assert_eq!(world.delivered(m, 0), offsets(0..3));
}
