use grete_wire::{ApiKey, ErrorCode};

use super::simulator::*;
use crate::consumer::*;
use crate::dispatch::{JobOutcome, MAX_METADATA, OffsetMap};
use crate::time::SECOND;

/// Returns a simulator with ten records per partition, and one member that has subscribed.
fn joined(partitions: i32) -> (Simulator, usize) {
    let mut world = Simulator::new(partitions);
    for partition in 0..partitions {
        world.append(partition, 10);
    }
    let m = world.add(config());
    world.subscribe(m);
    (world, m)
}

#[test]
fn a_member_starts_at_its_commits_or_by_the_reset_policy_and_commits_by_the_clock() {
    let (mut world, m) = joined(3);
    world.brokers.coordinator.set_offset(&tp(1), 8, -1, None);
    world.processed.insert(tp(1), (0..8).collect());
    world.advance(3 * SECOND);
    assert_eq!(world.members[m].assignment(), [0, 1, 2]);
    let lengths: Vec<_> = (0..3).map(|partition| world.delivered(m, partition).len()).collect();
    assert_eq!(lengths, [10, 2, 10]);
    assert_eq!(world.delivered(m, 1), [8, 9]);
    assert_eq!(world.committed(0), None);
    world.advance(3 * SECOND);
    assert_eq!((0..3).map(|partition| world.committed(partition)).collect::<Vec<_>>(), [Some(10); 3]);
    // No offset has advanced: nothing is committed.
    let commits = world.times(m, ApiKey::OffsetCommit).len();
    world.advance(20 * SECOND);
    assert_eq!(world.times(m, ApiKey::OffsetCommit).len(), commits);
    world.append(2, 3);
    world.advance(6 * SECOND);
    assert_eq!(world.committed(2), Some(13));
    assert_eq!(world.times(m, ApiKey::OffsetCommit).len(), commits + 1);
}

#[test]
fn only_what_is_marked_without_a_gap_is_committed() {
    let (mut world, m) = joined(1);
    world.work = Work::Held;
    world.advance(SECOND);
    let job = &world.members[m].jobs[0];
    job.lease.shared.mark(0, 3).expect("not fenced");
    job.lease.shared.mark(6, 9).expect("not fenced");
    world.processed.insert(tp(0), [0, 1, 2, 3, 6, 7, 8, 9].into());
    world.advance(7 * SECOND);
    assert_eq!(world.committed(0), Some(4));
    world.end_job(m, 0, super::simulator::member::failed());
    world.advance(7 * SECOND);
    assert_eq!(world.committed(0), Some(4));
    // The retry has only the remaining records; with them, all offsets are contiguous.
    assert_eq!(world.members[m].jobs[0].offsets, [4, 5]);
    world.end_job(m, 0, JobOutcome::Done);
    world.advance(7 * SECOND);
    assert_eq!(world.committed(0), Some(10));
}

#[test]
fn a_failed_background_commit_is_retried() {
    let (mut world, m) = joined(1);
    world.brokers.commit_error = Some(ErrorCode::OFFSET_METADATA_TOO_LARGE);
    world.advance(8 * SECOND);
    assert_eq!(world.committed(0), None);
    assert_eq!(world.members[m].not_committed, [tp(0)]);
    world.brokers.commit_error = None;
    world.advance(6 * SECOND);
    assert_eq!(world.committed(0), Some(10));
    assert_eq!(world.members[m].not_committed.len(), 1);
}

#[test]
fn a_commit_of_the_users_is_answered() {
    let (mut world, m) = joined(2);
    world.advance(2 * SECOND);
    let offsets = world.members[m].last_offsets();
    assert_eq!(offsets.len(), 2);
    world.send_event(m, ConsumerEvent::Commit { offsets, id: 7 });
    world.advance(SECOND);
    let [(7, ConsumerReply::Commit(outcomes))] = &world.members[m].replies[..] else {
        panic!("{:?}", world.members[m].replies)
    };
    assert!(outcomes.len() == 2 && outcomes.iter().all(|outcome| outcome.result.is_ok()));
    assert_eq!(world.committed(1), Some(10));
}

#[test]
fn a_coordinator_failover_loses_no_member() {
    let (mut world, m) = joined(2);
    world.advance(7 * SECOND);
    for node in [2, 1] {
        let now = world.now;
        world.brokers.coordinator.fail_over(now, node, ErrorCode::NOT_COORDINATOR);
        world.append(0, 5);
        world.advance(8 * SECOND);
    }
    assert_eq!(world.committed(0), Some(20));
    // Lanes never stopped: no record was processed twice.
    assert_eq!(world.delivered(m, 0), (0..20).collect::<Vec<_>>());
    assert!(world.members[m].hooks.is_empty());
}

#[test]
fn what_is_processed_beyond_a_commit_comes_back_with_it() {
    let (mut world, m) = joined(2);
    world.work = Work::Held;
    world.advance(2 * SECOND);
    let map = OffsetMap::from_runs([5..7, 8..9]);
    let mut offsets = world.members[m].last_offsets();
    for offset in &mut offsets {
        (offset.offset, offset.metadata) = (3, map.encode(3, MAX_METADATA));
    }
    for partition in 0..2 {
        world.processed.insert(tp(partition), (0..3).collect());
    }
    world.send_event(m, ConsumerEvent::Commit { offsets, id: 7 });
    world.advance(SECOND);
    // A tool moves one offset and keeps the metadata.
    world.brokers.coordinator.set_offset(&tp(1), 2, -1, None);
    world.kill(m);
    let next = world.add(config());
    world.subscribe(next);
    world.advance(30 * SECOND);
    let mut positions = world.members[next].positions.clone();
    positions.sort_by_key(|(offset, ..)| *offset);
    assert_eq!(positions, [(2, true, OffsetMap::default()), (3, true, map)]);
}

/// The committed offset is no longer in the log, so the offset map stored with it is obsolete as well.
#[test]
fn a_position_that_was_reset_takes_no_map() {
    for older_epoch in [false, true] {
        let (mut world, m) = joined(1);
        world.unchecked = true;
        let map = OffsetMap::from_runs([55..57, 60..61]);
        let leader_epoch = if older_epoch { 0 } else { -1 };
        let metadata = map.encode(50, MAX_METADATA);
        world.brokers.coordinator.set_offset(&tp(0), 50, leader_epoch, Some(&metadata));
        world.advance(3 * SECOND);
        let positions = &world.members[m].positions;
        // With an older epoch the logs are compared before anything is fetched.
        let end = if older_epoch { 10 } else { 0 };
        assert_eq!(positions.last(), Some(&(end, false, OffsetMap::default())));
        assert_eq!(positions.len(), if older_epoch { 1 } else { 2 });
    }
}
