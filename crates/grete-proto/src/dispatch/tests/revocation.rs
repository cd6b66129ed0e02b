//! Tests of revocation, loss, abandonment and stop, with many jobs in flight.

use super::*;

/// Lane with jobs in three slots, one slot that waits for its retry, and rows that wait behind.
fn busy(world: &mut Harness) -> (LaneId, Vec<Lease>) {
    let lane = world.lane_with(RouteConfig { max_messages: 1, ..by_key() });
    world.push_keys(lane, 0, &["a", "b", "c", "d", "a", "b", "", ""]);
    let mut jobs = Vec::new();
    while let Some(lease) = world.take(0) {
        match offsets(&lease)[0] {
            3 => drop(world.end(lease, failed())),
            6 | 7 => world.done(lease),
            _ => jobs.push(lease),
        }
    }
    jobs.sort_by_key(|lease| offsets(lease)[0]);
    assert_eq!(jobs.iter().map(offsets).collect::<Vec<_>>(), [[0], [1], [2]]);
    world.push_keys(lane, 8, &["e"; 4]);
    (lane, jobs)
}

#[test]
fn a_leaving_lane_waits_for_all_its_jobs_then_for_one_hook() {
    let mut world = Harness::new();
    let (lane, jobs) = busy(&mut world);
    world.dispatch.revoke(lane, false);
    for (at, lease) in jobs.into_iter().enumerate() {
        assert!(world.take(0).is_none(), "nothing is handed out");
        world.released();
        assert!(world.drained.is_empty());
        if at == 1 {
            assert_eq!(world.end(lease, failed()), Some(Decision::Halt));
        } else {
            assert_eq!(lease.shared.mark(0, 100), Ok(1), "marks count until the end");
            world.done(lease);
        }
    }
    let hook = world.take(0).expect("the hook");
    assert_eq!(hook.kind, JobKind::Revoked { lost: false });
    assert!(world.take(0).is_none(), "one");
    world.done(hook);
    world.released();
    assert_eq!(world.drained.len(), 1);
    assert_eq!(world.drained[0].commit.as_ref().map(|commit| commit.offset), Some(1));
    assert!(world.dispatch.next_deadline().is_none(), "no alarm is left");
    world.assert_empty();
}

/// Runs a handler that checks before each row whether to stop, with a lane that starts to leave after `rows` rows.
fn leaves_after(world: &mut Harness, lease: &Lease, rows: usize, leave: impl FnOnce(&mut Harness)) -> usize {
    let mut leave = Some(leave);
    for (at, _) in offsets(lease).iter().enumerate() {
        if at == rows {
            leave.take().expect("once")(world);
        }
        if lease.shared.should_yield() {
            return at;
        }
        lease.shared.set_completed_rows(at + 1);
    }
    offsets(lease).len()
}

#[test]
fn a_job_that_yields_is_done_as_far_as_it_came() {
    for stops in [false, true] {
        for rows in [0, 4, 9] {
            let mut world = Harness::new();
            let lane = world.lane(10);
            world.push(lane, 0, 20);
            let lease = world.take(0).expect("rows");
            let shared = Arc::clone(&lease.shared);
            let leave = |world: &mut Harness| match stops {
                true => world.dispatch.stop(),
                false => assert!(!world.dispatch.revoke(lane, false), "its job still runs"),
            };
            assert_eq!(leaves_after(&mut world, &lease, rows, leave), rows);
            assert!(shared.has_yielded());
            world.done(lease);
            let hook = world.take(0).expect("the hook, and no record");
            assert_eq!(hook.kind, if stops { JobKind::Shutdown } else { JobKind::Revoked { lost: false } });
            world.done(hook);
            world.released();
            let commit = if stops {
                world.dispatch.take_committables(world.client, true).pop()
            } else {
                world.drained.pop().expect("it has left").commit
            };
            let commit = commit.map_or(0, |commit| commit.offset);
            assert_eq!(commit, rows as i64, "what is done, and nothing else");
            world.assert_empty();

            // The next owner starts there.
            let mut world = Harness::new();
            let lane = world.lane(10);
            world.dispatch.reset_lane(lane);
            world.dispatch.set_position(lane, commit, 2, true, OffsetMap::default());
            let records: Vec<_> = (0..20).map(|_| TestRecord::value(0, "v")).collect();
            world.push_generation(lane, 2, commit, 20, build_batch(0, &records, &BatchOptions::default()));
            let expected: Vec<i64> = (commit..20).collect();
            assert_eq!(world.run().concat(), expected);
            assert_eq!(world.committable(), [20]);
        }
    }
}

#[test]
fn quiet_makes_no_job_yield() {
    let mut world = Harness::new();
    let lane = world.lane(10);
    world.push(lane, 0, 20);
    let lease = world.take(0).expect("rows");
    let quiet = |world: &mut Harness| world.dispatch.quiet();
    assert_eq!(leaves_after(&mut world, &lease, 3, quiet), 10);
    world.done(lease);
    assert_eq!(world.committable(), [10]);
}

#[test]
fn slots_yield_independently() {
    let mut world = Harness::new();
    let lane = world.lane_with(by_key());
    world.push_keys(lane, 0, &["a", "b", "a", "b", "a", "b"]);
    let mut jobs = world.take_all();
    jobs.sort_by_key(|lease| offsets(lease)[0]);
    let [a, b] = <[Lease; 2]>::try_from(jobs).expect("two");
    a.shared.set_completed_rows(2);
    world.dispatch.revoke(lane, false);
    assert!(a.shared.should_yield() && b.shared.is_leaving() && !b.shared.has_yielded());
    world.done(a);
    b.shared.set_completed_rows(1);
    world.done(b); // the job did not check, and has processed all of its rows
    let hook = world.take(0).expect("the hook");
    world.done(hook);
    world.released();
    assert_eq!(world.drained[0].commit.as_ref().map(|commit| commit.offset), Some(4), "0 and 2; 1, 3, 5");
    world.assert_empty();
}

#[test]
fn records_that_are_committed_already_are_all_run() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { offsets: OffsetPolicy::AtMostOnce, ..RouteConfig::default() });
    world.push(lane, 0, 10);
    let lease = world.take(0).expect("rows");
    let leave = |world: &mut Harness| world.dispatch.stop();
    assert_eq!(leaves_after(&mut world, &lease, 3, leave), 10);
    assert!(!lease.shared.is_leaving() && !lease.shared.has_yielded());
    world.done(lease);
}

#[test]
fn an_abandoned_lane_is_kept_until_all_jobs_have_ended() {
    let mut world = Harness::new();
    let (lane, jobs) = busy(&mut world);
    let partition = world.status(lane).tp.partition;
    world.dispatch.revoke(lane, false);
    assert_eq!(world.dispatch.abandon(lane).len(), 3);
    let next = world.add(partition, by_key());
    world.push_keys(next, 0, &["a"]);
    for (at, lease) in jobs.into_iter().enumerate() {
        assert!(world.take(0).is_none());
        assert_eq!(lease.shared.mark(0, 100), Err(MarkError::Fenced));
        let (finished, expected) = if at == 0 { (failed(), Some(Decision::Fenced)) } else { (JobOutcome::Done, None) };
        assert_eq!(world.end(lease, finished), expected);
    }
    let hook = world.take(0).expect("its handler instances get the revoked hook");
    assert_eq!((hook.lane, hook.kind), (lane, JobKind::Revoked { lost: true }));
    assert!(world.take(0).is_none());
    world.done(hook);
    world.released();
    assert!(world.drained.is_empty(), "the group went on long ago");
    let lease = world.take(0).expect("the successor");
    assert_eq!(lease.lane, next);
    world.done(lease);
    assert_eq!(world.committable(), [1]);
    world.assert_empty();
}

#[test]
fn a_lane_that_is_abandoned_before_its_hook_has_run_still_gets_it() {
    let mut world = Harness::new();
    let lane = world.lane(1);
    world.push(lane, 0, 1);
    world.run();
    world.dispatch.revoke(lane, false);
    assert!(world.dispatch.abandon(lane).is_empty());
    let hook = world.take(0).expect("the hook");
    assert_eq!(hook.kind, JobKind::Revoked { lost: true });
    world.done(hook);
    assert!(world.dispatch.lane_statuses(None).is_empty());
    world.assert_empty();
}

#[test]
fn a_lane_that_is_abandoned_while_its_hook_runs_runs_no_other() {
    let mut world = Harness::new();
    let lane = world.lane(1);
    world.push(lane, 0, 1);
    world.run();
    world.dispatch.revoke(lane, false);
    let hook = world.take(0).expect("the hook");
    assert_eq!(world.dispatch.abandon(lane).len(), 1);
    world.done(hook);
    assert!(world.take(0).is_none());
    assert!(world.dispatch.lane_statuses(None).is_empty());
}

#[test]
fn a_lost_lane_hears_nothing_of_its_jobs_any_more() {
    let mut world = Harness::new();
    let (lane, jobs) = busy(&mut world);
    world.dispatch.revoke(lane, true);
    for lease in jobs {
        assert_eq!(lease.shared.mark(0, 100), Err(MarkError::Fenced));
        assert_eq!(world.end(lease, failed()), Some(Decision::Fenced));
    }
    let hook = world.take(0).expect("the hook");
    assert_eq!(hook.kind, JobKind::Revoked { lost: true });
    world.done(hook);
    world.released();
    assert_eq!(world.drained[0].commit, None);
    world.assert_empty();
}

#[test]
fn a_lane_that_leaves_while_it_decodes_gives_everything_back() {
    for lost in [false, true] {
        let mut world = Harness::new();
        let lane = world.lane_with(by_key());
        world.push_keys(lane, 0, &["a", "b", ""]);
        let mut decode = world.dispatch.take(0, "worker", Pool::Threads).expect("something to decode");
        world.dispatch.revoke(lane, lost);
        let prepared = decode.prepare(&mut world.decoder, &world.pool, None);
        world.dispatch.on_prepared(0, &decode, &prepared);
        world.dispatch.complete(0, decode, prepared.outcome.expect("rows"));
        world.released();
        assert_eq!(world.drained.len(), 1, "no handler was ever made");
        world.assert_empty();
    }
}

#[test]
fn a_seek_while_many_run_goes_on_at_the_new_place() {
    let mut world = Harness::new();
    let (lane, jobs) = busy(&mut world);
    world.dispatch.reset_lane(lane);
    world.dispatch.set_position(lane, 100, 2, false, OffsetMap::default());
    let batch =
        build_batch(100, &[TestRecord::keyed(0, "a", "v"), TestRecord::keyed(0, "z", "v")], &BatchOptions::default());
    world.push_generation(lane, 2, 100, 102, batch);
    assert_eq!(world.run(), [[101]], "a slot whose job still runs waits for it");
    for lease in jobs {
        assert_eq!(world.end(lease, failed()), Some(Decision::Fenced));
    }
    assert_eq!(world.committable(), [100]);
    assert_eq!(world.run(), [[100]]);
    assert_eq!(world.committable(), [102]);
    assert!(world.dispatch.next_deadline().is_none(), "the old retry is forgotten");
    world.assert_empty();
}

#[test]
fn no_slot_works_under_a_session_that_has_run_out() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { max_messages: 1, ..by_key() });
    world.dispatch.set_session(world.client, Some(100));
    world.push_keys(lane, 0, &["a", "b", "a"]);
    let lease = world.take(50).expect("alive");
    world.done(lease);
    assert!(world.take(101).is_none());
    assert!(!world.dispatch.has_ready(Pool::Threads), "no worker may spin");
    assert!(world.dispatch.set_session(world.client, Some(300)));
    assert_eq!(world.run().len(), 2);
    // Hooks run without a session, too.
    world.dispatch.revoke(lane, true);
    assert!(world.take(1000).is_some());
}

#[test]
fn quiet_ends_what_runs_and_begins_nothing() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { dead_letter: true, eof: true, tick: Some(SECOND), ..by_key() });
    world.push_keys(lane, 0, &["a", "b"]);
    let mut jobs = world.take_all();
    world.dispatch.quiet();
    let last = jobs.pop().expect("two");
    jobs.into_iter().for_each(|lease| world.done(lease));
    assert!(matches!(world.end(last, failed_with(FailureKind::Rejected, None)), Some(Decision::DeadLetter { .. })));
    world.push_keys(lane, 2, &["c"]);
    for _ in 0..100 {
        world.now += SECOND;
        assert!(world.take(world.now).is_none());
    }
    world.dispatch.stop();
    let hook = world.take(world.now).expect("the hook");
    assert_eq!(hook.kind, JobKind::Shutdown);
    world.done(hook);
    assert!(world.dispatch.is_stopped());
    world.assert_empty();
}
