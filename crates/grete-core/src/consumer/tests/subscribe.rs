use grete_wire::{ApiKey, ErrorCode};

use super::world::*;
use crate::consumer::*;
use crate::dispatch::{Finished, MAX_METADATA, OffsetMap};
use crate::time::SECOND;

/// Where a partition of the topic was committed under the lowest offsets that test.
fn joined(partitions: i32) -> (World, usize) {
    let mut world = World::new(partitions);
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
    world.brokers.coordinator.offsets.insert(tp(1), 8);
    world.processed.insert(tp(1), (0..8).collect());
    world.pass(3 * SECOND);
    assert_eq!(world.members[m].assignment(), [0, 1, 2]);
    let lengths: Vec<_> = (0..3).map(|partition| world.delivered(m, partition).len()).collect();
    assert_eq!(lengths, [10, 2, 10]);
    assert_eq!(world.delivered(m, 1), [8, 9]);
    assert_eq!(world.committed(0), None);
    world.pass(3 * SECOND);
    assert_eq!((0..3).map(|partition| world.committed(partition)).collect::<Vec<_>>(), [Some(10); 3]);
    // Nothing has grown: nothing is committed.
    let commits = world.times(m, ApiKey::OffsetCommit).len();
    world.pass(20 * SECOND);
    assert_eq!(world.times(m, ApiKey::OffsetCommit).len(), commits);
    world.append(2, 3);
    world.pass(6 * SECOND);
    assert_eq!(world.committed(2), Some(13));
    assert_eq!(world.times(m, ApiKey::OffsetCommit).len(), commits + 1);
}

#[test]
fn only_what_is_marked_without_a_gap_is_committed() {
    let (mut world, m) = joined(1);
    world.work = Work::Held;
    world.pass(SECOND);
    let job = &world.members[m].jobs[0];
    job.lease.shared.mark(0, 3).expect("not fenced");
    job.lease.shared.mark(6, 9).expect("not fenced");
    world.processed.insert(tp(0), [0, 1, 2, 3, 6, 7, 8, 9].into());
    world.pass(7 * SECOND);
    assert_eq!(world.committed(0), Some(4));
    world.end_job(m, 0, super::member::failed());
    world.pass(7 * SECOND);
    assert_eq!(world.committed(0), Some(4));
    // The retry has the rest only; with it, all is contiguous.
    assert_eq!(world.members[m].jobs[0].offsets, [4, 5]);
    world.end_job(m, 0, Finished::Done);
    world.pass(7 * SECOND);
    assert_eq!(world.committed(0), Some(10));
}

#[test]
fn a_failed_background_commit_is_told_again() {
    let (mut world, m) = joined(1);
    world.brokers.commit_error = Some(ErrorCode::OFFSET_METADATA_TOO_LARGE);
    world.pass(8 * SECOND);
    assert_eq!(world.committed(0), None);
    assert_eq!(world.members[m].not_committed, [tp(0)]);
    world.brokers.commit_error = None;
    world.pass(6 * SECOND);
    assert_eq!(world.committed(0), Some(10));
    assert_eq!(world.members[m].not_committed.len(), 1);
}

#[test]
fn a_commit_of_the_users_is_answered() {
    let (mut world, m) = joined(2);
    world.pass(2 * SECOND);
    let offsets = world.members[m].last_offsets();
    assert_eq!(offsets.len(), 2);
    world.tell(m, ConsumerEvent::Commit { offsets, id: 7 });
    world.pass(SECOND);
    let [(7, ConsumerReply::Commit(outcomes))] = &world.members[m].replies[..] else {
        panic!("{:?}", world.members[m].replies)
    };
    assert!(outcomes.len() == 2 && outcomes.iter().all(|outcome| outcome.result.is_ok()));
    assert_eq!(world.committed(1), Some(10));
}

#[test]
fn a_coordinator_that_fails_over_loses_nobody() {
    let (mut world, m) = joined(2);
    world.pass(7 * SECOND);
    for node in [2, 1] {
        let now = world.now;
        world.brokers.coordinator.fail_over(now, node, ErrorCode::NOT_COORDINATOR);
        world.append(0, 5);
        world.pass(8 * SECOND);
    }
    assert_eq!(world.committed(0), Some(20));
    // Lanes never stopped: no record came twice.
    assert_eq!(world.delivered(m, 0), (0..20).collect::<Vec<_>>());
    assert!(world.members[m].hooks.is_empty());
}

#[test]
fn what_is_processed_beyond_a_commit_comes_back_with_it() {
    let (mut world, m) = joined(2);
    world.work = Work::Held;
    world.pass(2 * SECOND);
    let map = OffsetMap::from_runs([5..7, 8..9]);
    let mut offsets = world.members[m].last_offsets();
    for offset in &mut offsets {
        (offset.offset, offset.metadata) = (3, map.encode(3, MAX_METADATA));
    }
    for partition in 0..2 {
        world.processed.insert(tp(partition), (0..3).collect());
    }
    world.tell(m, ConsumerEvent::Commit { offsets, id: 7 });
    world.pass(SECOND);
    // A tool moves one offset, and leaves the text as it is.
    world.brokers.coordinator.offsets.insert(tp(1), 2);
    world.kill(m);
    let next = world.add(config());
    world.subscribe(next);
    world.pass(30 * SECOND);
    let mut positions = world.members[next].positions.clone();
    positions.sort_by_key(|(offset, ..)| *offset);
    assert_eq!(positions, [(2, true, OffsetMap::default()), (3, true, map)]);
}

/// What was committed is no longer in the log: the map beside it is the past as well.
#[test]
fn a_position_that_was_reset_takes_no_map() {
    for older_epoch in [false, true] {
        let (mut world, m) = joined(1);
        world.unchecked = true;
        let map = OffsetMap::from_runs([55..57, 60..61]);
        world.brokers.coordinator.offsets.insert(tp(0), 50);
        world.brokers.coordinator.metadata.insert(tp(0), map.encode(50, MAX_METADATA));
        if older_epoch {
            world.brokers.coordinator.leader_epochs.insert(tp(0), 0);
        }
        world.pass(3 * SECOND);
        let positions = &world.members[m].positions;
        // The log of an older epoch is compared before anything is fetched.
        let end = if older_epoch { 10 } else { 0 };
        assert_eq!(positions.last(), Some(&(end, false, OffsetMap::default())));
        assert_eq!(positions.len(), if older_epoch { 1 } else { 2 });
    }
}
