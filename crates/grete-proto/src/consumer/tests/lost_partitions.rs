use grete_wire::ApiKey;

use super::simulator::*;
use crate::dispatch::{JobKind, JobOutcome};
use crate::time::SECOND;

const LOST: JobKind = JobKind::Revoked { lost: true };

fn working() -> (Simulator, usize) {
    working_by(500)
}

fn working_by(max_messages: usize) -> (Simulator, usize) {
    let mut world = Simulator::new(2);
    world.append(0, 10);
    world.append(1, 10);
    world.work = Work::Held;
    let m = world.add(config());
    world.members[m].max_messages = max_messages;
    world.subscribe(m);
    world.advance(SECOND);
    assert_eq!(world.jobs(m).len(), 2);
    (world, m)
}

#[test]
fn a_session_that_ran_out_loses_everything_without_a_commit() {
    let (mut world, m) = working();
    world.brokers.down = [1, 2].into();
    world.disconnect(m, |_| true);
    world.advance(11 * SECOND);
    let commits = world.times(m, ApiKey::OffsetCommit).len();
    for partition in [0, 1] {
        world.end_job(m, partition, JobOutcome::Done);
        assert!(world.jobs(m).contains(&(partition, LOST)));
        world.end_job(m, partition, JobOutcome::Done);
    }
    world.brokers.down.clear();
    world.advance(3 * SECOND);
    assert_eq!(world.times(m, ApiKey::OffsetCommit).len(), commits);
    assert_eq!((world.committed(0), world.committed(1)), (None, None));
    // The member joined again and starts over.
    assert_eq!(world.members[m].assignment(), [0, 1]);
    assert_eq!(world.delivered(m, 0).len(), 20);
}

#[test]
fn a_lost_partition_that_comes_back_waits_for_its_old_handler() {
    let (mut world, m) = working();
    world.brokers.down = [1, 2].into();
    world.disconnect(m, |_| true);
    world.advance(11 * SECOND);
    world.brokers.down.clear();
    world.advance(5 * SECOND);
    // The partition is assigned again while the old job still runs: no second job starts, and no event of it precedes
    // the old hook.
    assert!(world.members[m].has_lane(&tp(0)));
    assert_eq!(world.delivered(m, 0).len(), 10);
    world.end_job(m, 0, JobOutcome::Done);
    assert_eq!(world.jobs(m).iter().filter(|job| job.0 == 0).count(), 1);
    assert!(world.jobs(m).contains(&(0, LOST)));
    world.end_job(m, 0, JobOutcome::Done);
    assert!(world.jobs(m).contains(&(0, JobKind::Consume)));
    assert_eq!(world.delivered(m, 0).len(), 20);
}

#[test]
fn partitions_lost_during_revocation_are_reported_lost() {
    let (mut world, m) = working();
    let other = world.add(config());
    world.subscribe(other);
    world.advance(3 * SECOND);
    world.brokers.down = [1, 2].into();
    world.disconnect(m, |_| true);
    world.advance(11 * SECOND);
    for partition in [0, 1] {
        world.end_job(m, partition, JobOutcome::Done);
    }
    assert_eq!(world.members[m].hooks, [(0, LOST), (1, LOST)]);
}

#[test]
fn a_member_that_was_put_out_learns_it_from_its_heartbeat() {
    let (mut world, m) = working();
    // A new coordinator without any state of the group.
    world.brokers.coordinator.forget();
    world.advance(3 * SECOND);
    for partition in [0, 1] {
        world.end_job(m, partition, JobOutcome::Done);
    }
    assert_eq!(world.members[m].hooks, [(0, LOST), (1, LOST)]);
    assert_eq!((world.committed(0), world.committed(1)), (None, None));
}

#[test]
fn nothing_is_handed_out_after_the_session_even_before_anybody_notices() {
    // Jobs of one record, so that the next record is queued.
    let (mut world, m) = working_by(1);
    let jobs: Vec<u64> = world.members[m].jobs.iter().map(|job| job.id).collect();
    // Twenty seconds in which neither the network thread nor any worker runs.
    world.members[m].asleep_until = world.now + 20 * SECOND;
    world.now += 19 * SECOND;
    let now = world.now;
    for id in jobs {
        world.members[m].complete(now, id, JobOutcome::Done);
    }
    assert!(world.members[m].dispatch.has_ready(crate::dispatch::Pool::Threads));
    assert!(world.members[m].take(now).is_empty(), "a zombie takes a job");
    world.work = Work::AtOnce;
    world.advance(10 * SECOND);
    assert_eq!(world.members[m].hooks, [(0, LOST), (1, LOST)]);
    assert_eq!(world.committed(0), Some(10));
}
