use grete_wire::ApiKey;

use super::simulator::*;
use crate::consumer::*;
use crate::dispatch::{JobKind, JobOutcome};
use crate::time::{MILLI, SECOND};

const REVOKED: JobKind = JobKind::Revoked { lost: false };

/// One member with four partitions and one job in flight per handler, and a second member that joins.
fn rebalancing() -> (Simulator, usize, usize) {
    let mut world = Simulator::new(4);
    for partition in 0..4 {
        world.append(partition, 10);
    }
    world.work = Work::Held;
    let a = world.add(config());
    world.members[a].workers = 8;
    world.subscribe(a);
    world.advance(2 * SECOND);
    assert_eq!(world.jobs(a).len(), 4);
    let b = world.add(config());
    world.subscribe(b);
    world.advance(3 * SECOND);
    (world, a, b)
}

/// Returns the partitions whose lanes the member is closing.
fn leaving(world: &Simulator, m: usize) -> Vec<i32> {
    (0..4).filter(|p| world.members[m].status(&tp(*p)).state == crate::dispatch::LaneState::Leaving).collect()
}

fn end_all(world: &mut Simulator, m: usize, partition: i32) {
    world.end_job(m, partition, JobOutcome::Done);
    assert!(world.jobs(m).contains(&(partition, REVOKED)));
    world.end_job(m, partition, JobOutcome::Done);
}

#[test]
fn a_partition_is_given_up_after_its_job_its_hook_and_its_commit() {
    let (mut world, a, b) = rebalancing();
    let going = leaving(&world, a);
    assert_eq!(going.len(), 2, "cooperative: half of them go");
    let joins = world.times(a, ApiKey::JoinGroup).len();
    world.advance(3 * SECOND);
    assert_eq!(world.times(a, ApiKey::JoinGroup).len(), joins, "a job runs: the group waits");
    end_all(&mut world, a, going[0]);
    world.advance(SECOND);
    assert_eq!(world.times(a, ApiKey::JoinGroup).len(), joins, "the other one runs");
    let before = world.now;
    end_all(&mut world, a, going[1]);
    world.advance(3 * SECOND);
    let commit = *world.times(a, ApiKey::OffsetCommit).iter().rfind(|at| **at >= before).unwrap();
    let join = world.times(a, ApiKey::JoinGroup)[joins];
    assert!(before <= commit && commit < join, "{before} {commit} {join}");
    for partition in going {
        assert_eq!(world.committed(partition), Some(10));
        assert!(world.members[b].has_lane(&tp(partition)) && !world.members[a].has_lane(&tp(partition)));
    }
    // The new owner starts at the committed offset: no record is processed twice.
    assert!(world.members[b].delivered.is_empty());
}

#[test]
fn lanes_that_stay_never_stop() {
    let (mut world, a, _) = rebalancing();
    let going = leaving(&world, a);
    for partition in (0..4).filter(|p| !going.contains(p)) {
        world.end_job(a, partition, JobOutcome::Done);
        world.append(partition, 5);
        world.advance(100 * MILLI);
        assert!(world.jobs(a).contains(&(partition, JobKind::Consume)), "a new job, while others leave");
        assert_eq!(world.delivered(a, partition).len(), 15);
    }
    assert!(world.members[a].hooks.is_empty());
}

#[test]
fn a_handler_that_outlasts_its_time_is_abandoned_and_its_marks_count_for_nothing() {
    let (mut world, a, b) = rebalancing();
    let going = leaving(&world, a);
    let joins = world.times(a, ApiKey::JoinGroup).len();
    // max.poll.interval.ms is 20 s; the deadline is one heartbeat interval less, because other members wait no longer.
    world.advance(20 * SECOND);
    assert_eq!(world.times(a, ApiKey::JoinGroup).len(), joins + 1);
    let abandoned = |notice: &&ConsumerLogEvent| matches!(notice, ConsumerLogEvent::JobAbandoned(_));
    assert_eq!(world.members[a].notices.iter().filter(abandoned).count(), 2);
    world.advance(3 * SECOND);
    assert!(going.iter().all(|p| world.members[b].has_lane(&tp(*p))));
    for &partition in &going {
        let ghost = world.members[a].jobs.iter().find(|job| job.tp == tp(partition)).unwrap();
        assert_eq!(ghost.lease.shared.mark(0, 5), Err(crate::dispatch::MarkError::Fenced));
        world.end_job(a, partition, JobOutcome::Done);
    }
    world.advance(10 * SECOND);
    for &partition in &going {
        assert!(world.committed(partition).is_none_or(|offset| offset == 0), "its marks were committed");
        assert_eq!(world.delivered(b, partition), (0..10).collect::<Vec<_>>());
    }
    // The bytes of abandoned lanes are released.
    let kept: Vec<_> = (0..4).filter(|p| !going.contains(p)).collect();
    for partition in kept {
        world.end_job(a, partition, JobOutcome::Done);
    }
    world.advance(SECOND);
    assert_eq!(world.members[a].core.partitions.queued_total(), 0);
}

#[test]
fn a_process_that_sleeps_through_a_rebalance_hands_out_nothing() {
    let (mut world, a, b) = rebalancing();
    let going = leaving(&world, a);
    let stays = (0..4).find(|p| !going.contains(p)).unwrap();
    // A third member joins and has to wait. Heartbeats pass, until the process is suspended shortly before the
    // deadline.
    let c = world.add(config());
    world.subscribe(c);
    world.append(stays, 5);
    world.advance(13 * SECOND);
    world.members[a].asleep_until = world.now + 10 * SECOND;
    world.advance(7500 * MILLI);
    assert!([b, c].iter().any(|m| world.members[*m].has_lane(&tp(stays))), "the group went on without it");
    let (now, id) = (world.now, world.members[a].jobs.iter().find(|job| job.tp == tp(stays)).unwrap().id);
    assert!(world.members[a].core.group.as_ref().unwrap().last_heartbeat_ack() + 10 * SECOND > now);
    world.members[a].complete(now, id, JobOutcome::Done);
    assert!(world.members[a].dispatch.has_ready(crate::dispatch::Pool::Threads));
    assert!(world.members[a].take(now).is_empty(), "a zombie takes a job");
}

#[test]
fn a_reassigned_partition_waits_for_the_superseded_job() {
    let (mut world, a, b) = rebalancing();
    let going = leaving(&world, a);
    world.advance(23 * SECOND);
    // The other member dies; its partitions return to the member where their old jobs still run.
    world.kill(b);
    world.advance(30 * SECOND);
    for &partition in &going {
        assert!(world.members[a].has_lane(&tp(partition)));
        assert_eq!(world.delivered(a, partition).len(), 10);
        world.end_job(a, partition, JobOutcome::Done);
        let hook = (partition, JobKind::Revoked { lost: true });
        assert!(world.jobs(a).contains(&hook), "the old consumer's hook comes first");
        world.end_job(a, partition, JobOutcome::Done);
        assert_eq!(world.delivered(a, partition).len(), 20, "from the start again: nothing was committed");
    }
}

#[test]
fn a_failing_handler_does_not_hold_a_revocation_up() {
    let (mut world, a, b) = rebalancing();
    let going = leaving(&world, a);
    for &partition in &going {
        world.end_job(a, partition, super::simulator::member::failed());
        // At once, not after the retry's backoff.
        assert!(world.jobs(a).contains(&(partition, REVOKED)));
        world.end_job(a, partition, JobOutcome::Done);
    }
    world.advance(3 * SECOND);
    for &partition in &going {
        assert_eq!(world.delivered(b, partition).len(), 10);
    }
}

#[test]
fn a_background_commit_under_way_is_waited_for() {
    let (mut world, a, b) = rebalancing();
    let going = leaving(&world, a);
    // Marked and committed in the background, but the coordinator does not respond.
    world.brokers.silent.insert(ApiKey::OffsetCommit);
    for &partition in &going {
        let job = world.members[a].jobs.iter().find(|job| job.tp == tp(partition)).unwrap();
        job.lease.shared.mark(0, 9).expect("not abandoned");
        world.processed.insert(tp(partition), (0..10).collect());
    }
    world.advance(5 * SECOND);
    assert!(!world.times(a, ApiKey::OffsetCommit).is_empty());
    let joins = world.times(a, ApiKey::JoinGroup).len();
    for &partition in &going {
        end_all(&mut world, a, partition);
    }
    world.advance(SECOND);
    assert_eq!(world.times(a, ApiKey::JoinGroup).len(), joins);
    // The connection breaks: the commit is retried, and then the partitions are released.
    world.brokers.silent.clear();
    world.disconnect(a, |_| true);
    world.advance(5 * SECOND);
    assert_eq!(world.times(a, ApiKey::JoinGroup).len(), joins + 1);
    for &partition in &going {
        assert_eq!(world.committed(partition), Some(10));
        assert!(world.delivered(b, partition).is_empty());
    }
}
