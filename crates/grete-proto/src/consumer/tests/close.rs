use grete_wire::ApiKey;

use super::simulator::*;
use crate::consumer::*;
use crate::dispatch::JobOutcome;
use crate::position::StartPosition;
use crate::time::{MILLI, SECOND};

fn working() -> (Simulator, usize) {
    let mut world = Simulator::new(2);
    world.append(0, 10);
    world.append(1, 10);
    let m = world.add(config());
    world.subscribe(m);
    world.advance(2 * SECOND);
    (world, m)
}

#[test]
fn the_last_offsets_are_committed_then_the_group_is_left_then_it_is_over() {
    let (mut world, m) = working();
    world.close(m, 10 * SECOND);
    world.advance(SECOND);
    assert!(world.members[m].finished);
    assert_eq!((world.committed(0), world.committed(1)), (Some(10), Some(10)));
    let commits = world.times(m, ApiKey::OffsetCommit);
    let left = world.times(m, ApiKey::LeaveGroup);
    assert!(commits.len() == 1 && left.len() == 1 && commits[0] < left[0], "{commits:?} {left:?}");
    assert_eq!(world.brokers.coordinator.state(), crate::group::tests::coordinator::GroupState::Empty);
    // Later events have no effect.
    world.send_event(m, ConsumerEvent::Tick);
    world.subscribe(m);
    assert_eq!(world.times(m, ApiKey::JoinGroup).len(), 2);
}

#[test]
fn a_closing_without_offsets_leaves_the_group_and_commits_nothing() {
    let (mut world, m) = working();
    world.work = Work::Held;
    world.append(0, 5);
    world.advance(SECOND);
    // A job in flight ends while the member leaves the group: its offset stays uncommitted, too.
    world.send_event(
        m,
        ConsumerEvent::Close { offsets: None, deadline: world.now + 10 * SECOND, remain_in_group: true },
    );
    while let Some(partition) = world.members[m].jobs.first().map(|job| job.tp.partition) {
        world.end_job(m, partition, JobOutcome::Done);
        world.advance(100 * MILLI);
    }
    world.advance(SECOND);
    assert!(world.members[m].finished);
    assert_eq!(world.times(m, ApiKey::LeaveGroup).len(), 1);
    assert!(world.times(m, ApiKey::OffsetCommit).is_empty());
}

#[test]
fn a_job_in_hand_is_waited_for_until_shortly_before_the_deadline() {
    for returns in [true, false] {
        let (mut world, m) = working();
        world.work = Work::Held;
        world.append(0, 5);
        world.advance(SECOND);
        world.close(m, 8 * SECOND);
        world.advance(3 * SECOND);
        assert!(!world.members[m].finished);
        if returns {
            world.end_job(m, 0, JobOutcome::Done);
            world.end_job(m, 0, JobOutcome::Done);
        }
        while !returns && !world.members[m].jobs.is_empty() && world.members[m].jobs.iter().any(|job| !job.superseded) {
            // Hook of the idle lane.
            let hook = world.members[m].jobs.iter().find(|job| job.offsets.is_empty()).map(|job| job.tp.partition);
            match hook {
                Some(partition) => world.end_job(m, partition, JobOutcome::Done),
                None => world.advance(SECOND),
            }
        }
        if returns {
            world.end_job(m, 1, JobOutcome::Done);
        }
        world.advance(5 * SECOND);
        assert!(world.members[m].finished, "returns: {returns}");
        assert_eq!(world.times(m, ApiKey::LeaveGroup).len(), 1);
        assert_eq!(world.committed(0), Some(if returns { 15 } else { 10 }));
    }
}

#[test]
fn a_silent_coordinator_does_not_hold_it_beyond_the_deadline() {
    let (mut world, m) = working();
    world.brokers.silent = [ApiKey::OffsetCommit, ApiKey::LeaveGroup].into();
    world.close(m, 4 * SECOND);
    world.advance(3900 * MILLI);
    assert!(!world.members[m].finished);
    world.advance(200 * MILLI);
    assert!(world.members[m].finished);
}

#[test]
fn without_a_group_it_is_over_at_once() {
    let mut world = Simulator::new(1);
    world.append(0, 3);
    let m = world.add(ConsumerCoreConfig { group: None, auto_commit: None, ..config() });
    world.assign(m, &[(0, StartOffset::At(StartPosition::Earliest))]);
    world.advance(SECOND);
    assert_eq!(world.delivered(m, 0).len(), 3);
    world.close(m, 10 * SECOND);
    assert!(world.members[m].finished);
}

#[test]
fn a_group_that_was_never_joined_is_not_left() {
    let mut world = Simulator::new(1);
    let m = world.add(config());
    world.close(m, 10 * SECOND);
    assert!(world.members[m].finished);
    assert!(world.seen.is_empty());
}

#[test]
fn closing_twice_is_closing_once() {
    let (mut world, m) = working();
    world.brokers.silent = [ApiKey::LeaveGroup].into();
    world.close(m, 30 * SECOND);
    world.advance(SECOND);
    assert!(!world.members[m].finished);
    world.close(m, 2 * SECOND);
    world.advance(SECOND);
    assert_eq!(world.times(m, ApiKey::LeaveGroup).len(), 1);
    assert_eq!(world.times(m, ApiKey::OffsetCommit).len(), 1);
    world.advance(2 * SECOND);
    assert!(world.members[m].finished, "the later deadline is the nearer one");
}
