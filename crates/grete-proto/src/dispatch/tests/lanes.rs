//! Tests of lanes without slots.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[test]
fn a_batch_that_returns_is_committable_whole_and_its_bytes_come_back() {
    let mut world = Harness::new();
    let lane = world.lane(2);
    assert!(world.push(lane, 0, 5));
    assert_eq!(world.committable(), [0]);
    for (expected, after) in [(vec![0, 1], 2), (vec![2, 3], 4), (vec![4], 5)] {
        let lease = world.take(0).expect("a job");
        assert_eq!(offsets(&lease), expected);
        assert!(world.take(0).is_none(), "one job in flight per lane");
        world.dispatch.complete(0, lease, JobOutcome::Done);
        assert_eq!(world.committable(), [after]);
        assert_eq!(world.released() > 0, after == 5);
    }
    assert!(world.take(0).is_none());
    assert_eq!(world.committable(), [0_i64; 0]);
}

#[test]
fn a_slow_lane_delays_no_other_and_the_longest_waiting_goes_first() {
    let mut world = Harness::new();
    let (a, b) = (world.lane(1), world.lane(1));
    world.push(a, 0, 3);
    world.push(b, 0, 3);
    let slow = world.take(0).expect("a job");
    assert_eq!(slow.lane, a);
    for _ in 0..3 {
        let lease = world.take(0).expect("a job");
        assert_eq!(lease.lane, b);
        world.dispatch.complete(0, lease, JobOutcome::Done);
    }
    world.push(b, 3, 2);
    world.dispatch.complete(0, slow, JobOutcome::Done);
    let order: Vec<_> = (0..3)
        .map(|_| {
            let lease = world.take(0).expect("a job");
            let lane = lease.lane;
            world.dispatch.complete(0, lease, JobOutcome::Done);
            lane
        })
        .collect();
    assert_eq!(order, [b, a, b]);
}

#[test]
fn a_failure_pauses_its_lane_and_presents_the_unmarked_rows_again() {
    let mut world = Harness::new();
    let (a, b) = (world.lane(10), world.lane(10));
    world.push(a, 0, 6);
    let lease = world.take(0).expect("a job");
    assert_eq!(lease.shared.mark(0, 1), Ok(2));
    assert_eq!(lease.shared.mark(4, 4), Ok(1));
    assert_eq!(lease.shared.mark(0, 0), Ok(0), "marked already");
    world.dispatch.complete(0, lease, failed());
    assert_eq!(world.committable(), [2, 0]);
    assert!(world.take(0).is_none());
    world.push(b, 0, 1);
    let other = world.take(0).expect("others go on");
    assert_eq!(other.lane, b);
    world.dispatch.complete(0, other, JobOutcome::Done);

    let due = world.dispatch.next_deadline().expect("the retry");
    assert!((160 * MILLI..=240 * MILLI).contains(&due), "{due}");
    let lease = world.take(due).expect("the retry");
    assert_eq!((offsets(&lease), lease.attempt), (vec![2, 3, 5], 2));
    world.dispatch.complete(due, lease, failed());
    let again = world.dispatch.next_deadline().expect("the next retry");
    assert!(again - due >= 320 * MILLI, "{again}");
    let lease = world.take(again).expect("the next retry");
    assert_eq!((offsets(&lease), lease.attempt), (vec![2, 3, 5], 3));
    lease.shared.mark(2, 3).expect("its own job");
    world.dispatch.complete(again, lease, failed());
    let due = world.dispatch.next_deadline().expect("one more");
    let lease = world.take(due).expect("one more");
    assert_eq!((offsets(&lease), lease.attempt), (vec![5], 2), "its first failure was the one before");
    world.dispatch.complete(due, lease, JobOutcome::Done);
    assert_eq!(world.committable(), [6, 1]);
    assert!(world.released() > 0);
}

#[test]
fn marks_of_a_running_job_count_as_far_as_they_are_contiguous() {
    let mut world = Harness::new();
    let lane = world.lane(10);
    world.push(lane, 0, 6);
    let lease = world.take(0).expect("a job");
    lease.shared.mark(1, 2).expect("its own job");
    assert_eq!(world.committable(), [0]);
    lease.shared.mark(0, 0).expect("its own job");
    assert_eq!(world.committable(), [3]);
    world.dispatch.complete(0, lease, JobOutcome::Done);
    assert_eq!(world.committable(), [6]);
}

#[test]
fn what_holds_no_records_for_us_moves_the_offset_all_the_same() {
    let mut world = Harness::new();
    let lane = world.lane(10);
    world.push_bytes(lane, 0, 1, build_control_batch(0, 7, true));
    assert!(world.take(0).is_none());
    assert_eq!(world.committable(), [1]);
    // A compacted batch: one of ten records is left.
    let options = BatchOptions { last_offset_delta: Some(9), ..BatchOptions::default() };
    let batch = build_batch(1, &[TestRecord::value(0, "last one standing")], &options);
    world.push_bytes(lane, 1, 11, batch);
    let lease = world.take(0).expect("a job");
    world.dispatch.complete(0, lease, JobOutcome::Done);
    assert_eq!(world.committable(), [11]);
}

#[test]
fn revocation_waits_for_the_job_runs_the_hook_and_brings_the_last_offset() {
    let mut world = Harness::new();
    let lane = world.lane(2);
    world.push(lane, 0, 4);
    let lease = world.take(0).expect("a job");
    assert!(!world.dispatch.revoke(lane, false));
    assert!(world.dispatch.take_outbox(world.client).drained.is_empty());
    world.dispatch.complete(0, lease, JobOutcome::Done);
    let hook = world.take(0).expect("the hook");
    assert_eq!(hook.kind, JobKind::Revoked { lost: false });
    world.dispatch.complete(0, hook, JobOutcome::Done);
    assert!(world.dispatch.take_pending_wake(world.client));
    let drained = world.dispatch.take_outbox(world.client).drained;
    assert_eq!(drained.iter().map(|d| d.commit.as_ref().map(|c| c.offset)).collect::<Vec<_>>(), [Some(2)]);
    assert!(world.take(0).is_none());
    assert!(!world.push(lane, 4, 1), "no such lane any more");
}

#[test]
fn a_lane_that_never_ran_leaves_without_a_hook_and_a_lost_one_without_a_commit() {
    let mut world = Harness::new();
    let (idle, busy) = (world.lane(2), world.lane(2));
    world.dispatch.revoke(idle, false);
    world.push(busy, 0, 2);
    let lease = world.take(0).expect("a job");
    world.dispatch.complete(0, lease, JobOutcome::Done);
    world.dispatch.revoke(busy, true);
    let hook = world.take(0).expect("the hook");
    assert_eq!(hook.kind, JobKind::Revoked { lost: true });
    world.dispatch.complete(0, hook, JobOutcome::Done);
    let drained = world.dispatch.take_outbox(world.client).drained;
    assert_eq!(drained.iter().map(|d| d.lane).collect::<Vec<_>>(), [idle, busy]);
    assert_eq!(drained[1].commit, None);
}

#[test]
fn an_abandoned_job_counts_for_nothing_and_its_successor_waits_for_it() {
    let mut world = Harness::new();
    let lane = world.lane_of(3, 10);
    world.push(lane, 0, 2);
    let ghost = world.take(0).expect("a job");
    world.dispatch.revoke(lane, false);
    assert_eq!(world.dispatch.abandon(lane).len(), 1);
    let next = world.lane_of(3, 10);
    world.push(next, 0, 2);
    assert!(world.take(0).is_none(), "the old job has not come back");
    assert_eq!(ghost.shared.mark(0, 1), Err(MarkError::Fenced));
    assert_eq!(world.committable(), [0], "only the new lane's own offset");
    world.dispatch.complete(0, ghost, JobOutcome::Done);
    let hook = world.take(0).expect("its handler instance gets the revoked hook");
    assert_eq!((hook.lane, hook.kind), (lane, JobKind::Revoked { lost: true }));
    assert!(world.take(0).is_none());
    world.dispatch.complete(0, hook, JobOutcome::Done);
    let lease = world.take(0).expect("the predecessor has ended");
    assert_eq!(lease.lane, next);
    world.dispatch.complete(0, lease, JobOutcome::Done);
    assert_eq!(world.committable(), [2]);
}

#[test]
fn no_work_under_a_session_that_has_run_out() {
    let mut world = Harness::new();
    let lane = world.lane(10);
    world.dispatch.set_session(world.client, Some(100));
    world.push(lane, 0, 2);
    assert!(world.take(101).is_none(), "another member may own the partition by now");
    assert!(world.take(99).is_none(), "it waits for the renewal");
    assert!(world.dispatch.set_session(world.client, Some(300)));
    assert!(world.take(101).is_some());
}

#[test]
fn stopping_ends_jobs_runs_shutdown_hooks_and_then_says_so() {
    let mut world = Harness::new();
    let (ran, never) = (world.lane(1), world.lane(1));
    world.push(ran, 0, 3);
    let lease = world.take(0).expect("a job");
    world.dispatch.stop();
    world.push(never, 0, 1);
    assert!(world.take(0).is_none());
    assert!(!world.dispatch.is_stopped());
    world.dispatch.complete(0, lease, JobOutcome::Done);
    let hook = world.take(0).expect("the hook");
    assert_eq!((hook.kind, hook.lane), (JobKind::Shutdown, ran));
    world.dispatch.complete(0, hook, JobOutcome::Done);
    assert!(world.dispatch.is_stopped());
    assert_eq!(world.committable(), [1, 0]);
}

#[test]
fn a_seek_drops_what_is_queued_and_what_the_running_job_earns() {
    let mut world = Harness::new();
    let lane = world.lane(1);
    world.push(lane, 0, 3);
    let lease = world.take(0).expect("a job");
    world.dispatch.reset_lane(lane);
    assert!(!world.push(lane, 3, 1), "fetched for the old position");
    world.dispatch.complete(0, lease, JobOutcome::Done);
    assert_eq!(world.committable(), [0_i64; 0]);
    world.dispatch.set_position(lane, 100, 2, false, OffsetMap::default());
    assert_eq!(world.committable(), [100]);
    assert!(world.take(0).is_none());
}

#[test]
fn a_corrupt_batch_stops_at_its_offset_after_the_rows_before_it() {
    let mut world = Harness::new();
    let lane = world.lane(10);
    let mut bytes = build_batch(0, &[TestRecord::value(0, "good")], &BatchOptions::default());
    let good = bytes.len();
    bytes.extend(build_batch(1, &[TestRecord::value(0, "bad")], &BatchOptions::default()));
    bytes[good + 65] ^= 1;
    world.push_bytes(lane, 0, 2, bytes);
    let lease = world.take(0).expect("the good one");
    assert_eq!(offsets(&lease), [0]);
    world.dispatch.complete(0, lease, JobOutcome::Done);
    assert!(world.take(0).is_none());
    let outbox = world.dispatch.take_outbox(world.client);
    assert_eq!(outbox.corrupt.iter().map(|c| (c.generation, c.offset)).collect::<Vec<_>>(), [(1, 1)]);
    assert_eq!(world.committable(), [1]);
    assert!(!world.push(lane, 2, 1), "what was fetched behind it comes again");
}

#[test]
fn a_paused_lane_keeps_its_data() {
    let mut world = Harness::new();
    let lane = world.lane(10);
    world.dispatch.pause(lane, None);
    assert!(!world.push(lane, 0, 2));
    assert!(world.take(0).is_none());
    assert!(world.dispatch.resume(lane));
    assert_eq!(offsets(&world.take(0).expect("a job")), [0, 1]);
}

proptest! {
    /// Each offset is processed, in order, whatever is pushed, marked, failed and completed. The committable offset
    /// never passes an unprocessed record, and every queued byte is released once.
    #[test]
    fn offsets_are_contiguous_and_bytes_balance(
        sizes in prop::collection::vec(1_usize..20, 1..8),
        max in 1_usize..25,
        choices in prop::collection::vec((any::<u8>(), any::<u8>(), any::<u8>()), 1..200),
    ) {
        let mut world = Harness::new();
        let lane = world.lane(max);
        let (mut base, mut pushed) = (0, 0);
        for size in &sizes {
            let before = world.dispatch.lane_statuses(None)[0].queued_bytes;
            world.push(lane, base, *size);
            pushed += world.dispatch.lane_statuses(None)[0].queued_bytes - before;
            base += i64::try_from(*size).expect("small");
        }
        let mut processed: BTreeSet<i64> = BTreeSet::new();
        let (mut now, mut released) = (0, 0);
        for (action, from, len) in choices.into_iter().chain(std::iter::repeat_n((255, 0, 0), 400)) {
            now += 60 * SECOND;
            let Some(lease) = world.take(now) else { break };
            let rows = offsets(&lease);
            prop_assert!(rows.is_sorted() && !rows.is_empty() && rows.len() <= max.max(1));
            prop_assert!(rows.iter().all(|row| !processed.contains(row)), "no row is presented after it was processed");
            if action < 128 {
                let at = usize::from(from) % rows.len();
                let to = (at + usize::from(len) % 4).min(rows.len() - 1);
                lease.shared.mark(rows[at], rows[to]).expect("its own job");
                processed.extend(&rows[at..=to]);
            }
            if action % 3 == 0 {
                processed.extend(&rows);
                world.dispatch.complete(now, lease, JobOutcome::Done);
            } else {
                world.dispatch.complete(now, lease, failed());
            }
            released += world.released();
            for offset in world.committable() {
                prop_assert!((0..offset).all(|o| processed.contains(&o)), "{offset} of {processed:?}");
            }
        }
        prop_assert_eq!(processed.len(), usize::try_from(base).expect("small"));
        prop_assert_eq!(released, pushed);
        prop_assert_eq!(world.dispatch.lane_statuses(None)[0].queued_bytes, 0);
    }
}
