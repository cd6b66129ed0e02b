//! Partitions that cannot be read in an App: their events, and their recovery.

use super::simulator::*;
use crate::consumer::*;
use crate::partition::error::PartitionError;
use crate::partition::log_event::FetchLogEvent;
use crate::position::{ResetPolicy, StartPosition};
use crate::time::{Nanos, SECOND};

fn healing() -> ConsumerCoreConfig {
    ConsumerCoreConfig { partition_recovery: Some(PartitionRecovery::default()), auto_commit: Some(SECOND), ..config() }
}

fn app(world: &mut Simulator, config: ConsumerCoreConfig) -> usize {
    let m = world.add(config);
    world.subscribe(m);
    world.advance(3 * SECOND);
    m
}

fn reason(world: &Simulator, m: usize, partition: i32) -> Option<&'static str> {
    world.members[m].status(&tp(partition)).failure.map(|failure| failure.reason)
}

#[test]
fn a_topic_that_was_created_again_is_read_by_auto_offset_reset() {
    for (reset, expected) in [(ResetPolicy::Earliest, 0..30), (ResetPolicy::Latest, 20..30)] {
        let mut world = Simulator::new(1);
        world.append(0, 50);
        let mut config = healing();
        config.position.reset = ResetPolicy::Earliest;
        world.brokers.coordinator.set_offset(&tp(0), 0, -1, None);
        config.position.reset = reset;
        let m = app(&mut world, config);
        assert_eq!(world.committed(0), Some(50));
        world.delete_topic();
        world.create_topic(1);
        world.append(0, 20);
        world.unchecked = reset == ResetPolicy::Latest; // records written before are skipped
        world.advance(10 * SECOND);
        world.append(0, 10);
        world.advance(5 * SECOND);
        assert_eq!(world.delivered(m, 0)[50..], expected.collect::<Vec<_>>(), "{reset:?}");
        assert_eq!(world.committed(0), Some(30));
        let recreated = |notice: &ConsumerLogEvent| matches!(notice, ConsumerLogEvent::TopicRecreated { from: 50, .. });
        assert!(world.members[m].notices.iter().any(recreated));
        assert_eq!(reason(&world, m, 0), None);
    }
}

/// In the consumer protocol the group takes the partitions of a deleted topic away, and assigns those of the new one.
#[test]
fn a_topic_that_was_created_again_while_it_was_not_assigned_is_named() {
    for recreated in [true, false] {
        let mut world = Simulator::new(1);
        world.append(0, 50);
        let m = app(&mut world, healing());
        assert_eq!(world.committed(0), Some(50));
        world.unsubscribe(m);
        world.advance(3 * SECOND);
        if recreated {
            world.delete_topic();
            world.create_topic(1);
        } else {
            world.brokers.coordinator.set_offset(&tp(0), 50, -1, None);
        }
        world.append(0, 20);
        world.subscribe(m);
        world.advance(10 * SECOND);
        assert_eq!(world.delivered(m, 0)[50..], (if recreated { 0..20 } else { 50..70 }).collect::<Vec<_>>());
        assert_eq!(resets(&world, m), if recreated { vec![(0, 50, 0)] } else { vec![] });
    }
}

/// Returns partition, old and new position of each partition whose topic was created again, as the member names them.
fn resets(world: &Simulator, m: usize) -> Vec<(i32, i64, i64)> {
    let reset = |notice: &ConsumerLogEvent| match notice {
        ConsumerLogEvent::TopicRecreated { tp, from, to } => Some((tp.partition, *from, *to)),
        _ => None,
    };
    world.members[m].notices.iter().filter_map(reset).collect()
}

/// Another member has read the partition on since, so the position that this member once had says nothing.
#[test]
fn the_position_of_an_earlier_assignment_is_not_named() {
    let mut world = Simulator::new(2);
    world.append(0, 50);
    world.append(1, 50);
    let first = app(&mut world, healing());
    let second = app(&mut world, healing());
    world.advance(10 * SECOND);
    world.append(0, 30);
    world.append(1, 30);
    world.advance(5 * SECOND);
    let kept: Vec<i32> = (0..2).filter(|partition| world.delivered(first, *partition).contains(&79)).collect();
    assert_eq!(kept.len(), 1, "each member has a partition");
    world.unsubscribe(first);
    world.unsubscribe(second);
    world.advance(3 * SECOND);
    world.delete_topic();
    world.create_topic(2);
    world.append(0, 20);
    world.append(1, 20);
    world.subscribe(first);
    world.advance(10 * SECOND);
    assert_eq!((world.committed(0), world.committed(1)), (Some(20), Some(20)));
    assert_eq!(resets(&world, first), [(kept[0], 80, 0)]);
}

#[test]
fn without_a_reset_policy_a_topic_that_was_created_again_waits_for_a_seek() {
    let mut world = Simulator::new(1);
    world.append(0, 50);
    world.brokers.coordinator.set_offset(&tp(0), 0, -1, None);
    let mut config = healing();
    config.position.reset = ResetPolicy::None;
    let m = app(&mut world, config);
    world.delete_topic();
    world.create_topic(1);
    world.append(0, 20);
    world.advance(10 * SECOND);
    assert_eq!(reason(&world, m, 0), Some("topic_recreated"));
    assert_eq!(world.committed(0), None, "an offset of the old topic");
    assert_eq!(world.members[m].status(&tp(0)).lag, None, "the lag is unknown");
    world.unchecked = true;
    world.seek(m, 0, StartOffset::At(StartPosition::Offset(5)));
    world.advance(3 * SECOND);
    assert_eq!(world.delivered(m, 0)[50..], (5..20).collect::<Vec<_>>());
    assert_eq!((reason(&world, m, 0), world.committed(0)), (None, Some(20)));
}

#[test]
fn what_a_job_did_of_the_old_topic_is_never_committed_of_the_new_one() {
    let mut world = Simulator::new(1);
    world.append(0, 50);
    world.work = Work::Held;
    let m = app(&mut world, healing());
    assert_eq!(world.jobs(m).len(), 1);
    world.delete_topic();
    world.create_topic(1);
    world.append(0, 60);
    world.advance(5 * SECOND);
    world.end_job(m, 0, crate::dispatch::JobOutcome::Done);
    world.advance(5 * SECOND);
    assert_eq!(world.committed(0), Some(0), "the start of the new one");
    assert_eq!(world.jobs(m).len(), 1, "of the new one");
}

#[test]
fn a_commit_that_reaches_the_broker_after_the_topic_was_created_again_is_refused() {
    let mut world = Simulator::new(1);
    world.append(0, 50);
    let mut config = healing();
    config.auto_commit = Some(60 * SECOND);
    let m = app(&mut world, config);
    // The member has not learned of the change yet.
    world.delete_topic();
    world.create_topic(1);
    let offsets = world.members[m].last_offsets();
    assert_eq!(offsets[0].offset, 50);
    world.send_event(m, ConsumerEvent::Commit { offsets, id: 7 });
    world.advance(3 * SECOND);
    assert_ne!(world.committed(0), Some(50));
}

#[test]
fn no_offset_and_no_reset_policy_is_said_again_and_again_until_a_seek() {
    let mut world = Simulator::new(1);
    world.append(0, 10);
    let mut config = healing();
    config.position.reset = ResetPolicy::None;
    let m = app(&mut world, config);
    assert_eq!(world.members[m].failed, [PartitionError::NoOffset { tp: tp(0) }]);
    world.advance(65 * SECOND);
    assert_eq!((world.members[m].said, world.members[m].failed.len()), (3, 1));
    world.seek(m, 0, StartOffset::At(StartPosition::Earliest));
    world.advance(SECOND);
    assert_eq!(world.delivered(m, 0), (0..10).collect::<Vec<_>>());
    assert_eq!(world.members[m].recovered, [PartitionError::NoOffset { tp: tp(0) }]);
}

#[test]
fn a_right_that_was_taken_and_given_back_heals() {
    let mut world = Simulator::new(1);
    world.append(0, 10);
    let m = app(&mut world, healing());
    world.forbid(true);
    world.append(0, 10);
    world.advance(20 * SECOND);
    assert_eq!(reason(&world, m, 0), Some("not_authorized"));
    assert!(world.members[m].fatal.is_empty());
    assert_eq!(world.members[m].status(&tp(0)).lag, None);
    let fetches = world.times(m, grete_wire::ApiKey::Fetch);
    let late = fetches.iter().filter(|at| **at > world.now - 10 * SECOND).count();
    assert!((1..=5).contains(&late), "{late} tries in ten seconds");
    world.forbid(false);
    world.advance(7 * SECOND);
    assert_eq!((world.delivered(m, 0).len(), world.committed(0)), (20, Some(20)));
    assert_eq!((reason(&world, m, 0), world.members[m].recovered.len()), (None, 1));
}

#[test]
fn an_app_that_starts_without_the_right_reads_as_soon_as_it_has_it() {
    let mut world = Simulator::new(1);
    world.append(0, 10);
    world.forbid(true);
    let m = app(&mut world, healing());
    assert_eq!(reason(&world, m, 0), Some("not_authorized"));
    world.forbid(false);
    world.advance(10 * SECOND);
    assert_eq!((world.delivered(m, 0).len(), reason(&world, m, 0)), (10, None));
}

#[test]
fn a_corrupt_batch_is_fetched_until_it_is_whole_and_never_in_a_hurry() {
    for shift in [0, 3] {
        let mut world = Simulator::new(1);
        for _ in 0..3 {
            world.append(0, 10);
        }
        let batch = &mut world.brokers.logs.get_mut(&tp(0)).unwrap().batches[1];
        (batch.spoilt, batch.shift) = (8, shift);
        let m = app(&mut world, healing());
        assert_eq!(world.delivered(m, 0).len(), 10);
        assert_eq!(reason(&world, m, 0), Some("corrupt_batch"));
        assert_eq!(world.members[m].status(&tp(0)).lag, Some(20), "the leader knows where it ends");
        world.advance(40 * SECOND);
        assert_eq!(world.delivered(m, 0), (0..30).collect::<Vec<_>>(), "shift {shift}");
        let member = &world.members[m];
        assert_eq!((member.failed.len(), member.recovered.len(), reason(&world, m, 0)), (1, 1, None));
        assert_eq!((world.committed(0), world.members[m].core.partitions.queued_total()), (Some(30), 0));
    }
}

#[test]
fn tries_of_a_batch_that_stays_corrupt_are_far_between() {
    let mut world = Simulator::new(1);
    world.append(0, 10);
    world.brokers.logs.get_mut(&tp(0)).unwrap().batches[0].spoilt = u32::MAX;
    let m = app(&mut world, healing());
    world.advance(60 * SECOND);
    let left = world.brokers.logs[&tp(0)].batches[0].spoilt;
    assert!((8..=30).contains(&(u32::MAX - left)), "fetched {} times in a minute", u32::MAX - left);
    world.unchecked = true;
    world.seek(m, 0, StartOffset::At(StartPosition::Latest));
    world.advance(2 * SECOND);
    assert_eq!(reason(&world, m, 0), None, "the position has changed");
}

#[test]
fn a_topic_that_is_gone_fails_after_a_while_and_heals_when_it_is_back() {
    let mut world = Simulator::new(1);
    world.append(0, 10);
    let m = app(&mut world, healing());
    world.delete_topic();
    world.advance(20 * SECOND);
    assert_eq!(reason(&world, m, 0), None, "the topic may be created again");
    world.advance(20 * SECOND);
    assert_eq!(reason(&world, m, 0), Some("unserved"));
    world.create_topic(1);
    world.append(0, 10);
    world.advance(10 * SECOND);
    assert_eq!(world.delivered(m, 0)[10..], (0..10).collect::<Vec<_>>());
    assert_eq!((reason(&world, m, 0), world.committed(0)), (None, Some(10)));
}

#[test]
fn a_leader_that_is_away_is_named_and_forgiven() {
    let mut world = Simulator::new(2);
    world.append(0, 5);
    world.append(1, 5);
    let m = app(&mut world, healing());
    let away = world.brokers.logs[&tp(1)].leader;
    assert_ne!(away, world.brokers.coordinator.node);
    world.brokers.down.insert(away);
    world.disconnect(m, |node| node == away);
    world.advance(45 * SECOND);
    assert_eq!((reason(&world, m, 0), reason(&world, m, 1)), (None, Some("unserved")));
    world.brokers.down.clear();
    world.advance(15 * SECOND);
    assert_eq!(reason(&world, m, 1), None);
}

#[test]
fn the_lag_of_a_partition_that_is_not_fetched_grows() {
    let mut world = Simulator::new(2);
    world.append(0, 5);
    world.append(1, 5);
    let m = app(&mut world, healing());
    assert_eq!(world.members[m].status(&tp(0)).lag, Some(0));
    world.send_event(m, ConsumerEvent::Pause(tp(0), true));
    world.advance(SECOND); // the Fetch in flight
    world.append(0, 300);
    world.advance(12 * SECOND);
    assert_eq!(world.members[m].status(&tp(0)).lag, Some(300));
    let asked = world.times(m, grete_wire::ApiKey::ListOffsets).len();
    world.send_event(m, ConsumerEvent::Pause(tp(0), false));
    world.advance(SECOND);
    assert_eq!(world.members[m].status(&tp(0)).lag, Some(0));
    world.advance(60 * SECOND);
    let more = world.times(m, grete_wire::ApiKey::ListOffsets).len() - asked;
    assert!(more <= 1, "{more} queries while everything is fetched");
}

#[test]
fn a_truncated_log_is_read_on_by_policy() {
    let mut world = Simulator::new(1);
    for _ in 0..3 {
        world.append(0, 10);
    }
    let m = app(&mut world, healing());
    world.truncate(0, 1);
    world.advance(3 * SECOND);
    world.append(0, 15);
    world.advance(5 * SECOND);
    let moved = |notice: &ConsumerLogEvent| {
        let ConsumerLogEvent::Fetch(notice) = notice else { return false };
        matches!(notice, FetchLogEvent::OffsetReset { .. } | FetchLogEvent::Truncated { .. })
    };
    assert!(world.members[m].notices.iter().any(moved));
    assert_eq!((world.committed(0), reason(&world, m, 0)), (Some(35), None));
}

/// Checks the contract of a low-level consumer: each error is reported once, and the partition stays stopped until a
/// seek.
#[test]
fn without_healing_an_error_is_said_once() {
    let mut world = Simulator::new(1);
    world.append(0, 10);
    let m = app(&mut world, config());
    world.delete_topic();
    world.create_topic(1);
    world.append(0, 10);
    let long: Nanos = 100 * SECOND;
    world.advance(long);
    assert_eq!(world.members[m].failed, [PartitionError::TopicRecreated { tp: tp(0) }]);
    assert_eq!(world.members[m].said, 1);
}
