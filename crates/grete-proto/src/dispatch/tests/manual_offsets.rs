//! Tests of manual offsets: only marks count.

use super::*;

fn manual() -> RouteConfig {
    RouteConfig { offsets: OffsetPolicy::Manual, max_messages: 5, ..RouteConfig::default() }
}

#[test]
fn returning_marks_nothing_and_marks_may_come_later() {
    for concurrency in [Concurrency::Partition, Concurrency::Key] {
        let mut world = Harness::new();
        let lane = world.lane_with(RouteConfig { concurrency, ..manual() });
        world.push_keys(lane, 0, &["a"; 7]);
        let mut shared = Vec::new();
        while let Some(lease) = world.take(0) {
            lease.shared.set_completed_rows(1);
            shared.push(Arc::clone(&lease.shared));
            world.done(lease);
        }
        world.assert_empty();
        assert_eq!((world.committable(), world.status(lane).unmarked), (vec![0], 7));
        assert_eq!(shared[0].mark(0, 2), Ok(3));
        assert_eq!(shared[1].mark(5, 6), Ok(2));
        assert_eq!((world.committable(), world.status(lane).unmarked), (vec![3], 2));
        assert_eq!(shared[0].mark(0, 4), Ok(2));
        assert_eq!(world.committable(), [7]);
    }
}

#[test]
fn a_later_job_marks_rows_of_an_earlier_one_and_of_other_keys() {
    for concurrency in [Concurrency::Partition, Concurrency::Key, Concurrency::Unordered] {
        let mut world = Harness::new();
        let lane = world.lane_with(RouteConfig { concurrency, key_slots: 4, ..manual() });
        world.push_keys(lane, 0, &["a", "b", "c", "a", "d", "a", "b"]);
        let mut last = None;
        while let Some(lease) = world.take(0) {
            last = Some(Arc::clone(&lease.shared));
            world.done(lease);
        }
        let last = last.expect("a job");
        assert_eq!(last.mark_rows(&[0, 1, 5]), Ok(3));
        assert_eq!((world.committable(), world.status(lane).unmarked), (vec![2], 4));
        assert_eq!(last.mark_rows(&[2, 3, 4, 5, 6]), Ok(4), "one of them was marked");
        assert_eq!(world.committable(), [7]);
    }
}

#[test]
fn a_retry_presents_what_is_not_marked() {
    let mut world = Harness::new();
    let lane = world.lane_with(manual());
    world.push(lane, 0, 5);
    let lease = world.take(0).expect("a job");
    lease.shared.set_completed_rows(4);
    lease.shared.mark(1, 2).expect("its own");
    world.end(lease, failed());
    world.advance_to_deadline();
    assert_eq!(world.run(), [[0, 3, 4]]);
    assert_eq!(world.committable(), [0]);
}

#[test]
fn too_many_open_records_pause_the_lane_until_marks_come() {
    for concurrency in [Concurrency::Partition, Concurrency::Unordered] {
        let mut world = Harness::new();
        let lane = world.lane_with(RouteConfig { concurrency, max_unmarked: 8, key_slots: 1, ..manual() });
        world.push(lane, 0, 100);
        let lease = world.take(0).expect("a job");
        let shared = Arc::clone(&lease.shared);
        world.done(lease);
        while let Some(lease) = world.take(0) {
            world.done(lease);
        }
        let (open, paused) = (world.status(lane).unmarked, world.status(lane).state);
        assert!(open > 8 && open < 100, "{open}");
        assert_eq!(paused, LaneState::Paused);
        world.released();
        assert_eq!(world.lane_events, [LaneEventKind::Unmarked { open, first: 0, pauses: 1 }], "once");
        // Marks from outside of a job; too few marks do not resume the lane.
        let enough = i64::try_from(open).expect("few") - 9;
        assert!(enough == 0 || shared.mark(0, enough - 1).is_ok());
        assert!(!shared.take_resumed());
        assert!(shared.mark(0, enough).is_ok() && shared.take_resumed());
        assert!(!shared.take_resumed(), "only one call returns true");
        assert!(world.dispatch.on_marks_resumed(lane));
        assert!(world.take(0).is_some());
    }
}

/// Late marks: the lane pauses many times and reports that once within `stall_after`.
#[test]
fn frequent_pauses_are_reported_once_per_interval_with_their_count() {
    let mut world = Harness::new();
    let policy = RouteConfig { max_messages: 2, max_unmarked: 4, stall_after: Some(30 * SECOND), ..manual() };
    let lane = world.lane_with(policy);
    for base in 0..100 {
        world.push(lane, base * 2, 2);
    }
    // Runs jobs until the lane waits. Returns the state of the last job, and the offset to mark up to.
    let until_it_waits = |world: &mut Harness, at: Nanos| {
        world.now = world.now.max(at);
        let mut shared = None;
        let mut last = 0;
        while let Some(lease) = world.take(world.now) {
            (shared, last) = (Some(Arc::clone(&lease.shared)), *offsets(&lease).last().expect("rows"));
            world.done(lease);
        }
        world.released();
        (shared.expect("a job"), last)
    };
    let mut marked = 0;
    for round in 0..20 {
        let (shared, last) = until_it_waits(&mut world, round * SECOND / 20);
        assert!(shared.mark(marked, last).is_ok() && shared.take_resumed());
        marked = last + 1;
        world.dispatch.on_marks_resumed(lane);
    }
    assert_eq!(world.lane_events, [LaneEventKind::Unmarked { open: 6, first: 0, pauses: 1 }]);
    // The last pause lasts: the lane reports it at the end of the interval, with the number of pauses in between.
    until_it_waits(&mut world, SECOND);
    assert_eq!((world.lane_events.len(), world.advance_to_deadline()), (1, 30 * SECOND));
    assert!(world.take(world.now).is_none());
    world.released();
    assert_eq!(world.lane_events[1..], [LaneEventKind::Unmarked { open: 6, first: marked, pauses: 20 }]);
    assert_eq!(world.dispatch.next_deadline(), None, "it is not said again and again");
}

#[test]
fn a_key_that_stands_still_lets_others_go_so_far_and_no_further() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { max_unmarked: 20, max_in_flight: 8, key_slots: 4096, ..by_key() });
    world.push_keys(lane, 0, &["stuck"]);
    let stuck = world.take(0).expect("a job");
    for base in 0..10 {
        world.push_keys(lane, 1 + base * 10, &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]);
    }
    let ran = world.run().concat().len();
    assert_eq!(ran, 20, "and the one that stands still");
    world.released();
    assert_eq!(world.lane_events, [LaneEventKind::AheadOfUnmarked { records: 21, first: 0, pauses: 1 }]);
    assert_eq!(world.committable(), [0]);
    // A mark of the stuck job is enough.
    assert!(stuck.shared.mark(0, 0).is_ok() && stuck.shared.take_resumed());
    assert!(world.dispatch.on_marks_resumed(lane));
    assert_eq!(world.run().concat().len(), 80);
    world.done(stuck);
    // The end of the stuck job is enough, too.
    world.push_keys(lane, 101, &["stuck"]);
    let stuck = world.take(0).expect("a job");
    for base in 0..4 {
        world.push_keys(lane, 102 + base * 10, &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]);
    }
    assert_eq!(world.run().concat().len(), 20);
    assert_eq!(world.status(lane).in_flight, 1);
    world.done(stuck);
    assert_eq!(world.run().concat().len(), 20);
    assert_eq!(world.committable(), [142]);
    world.assert_empty();
}

#[test]
fn progress_that_a_commit_finds_out_ends_the_wait_as_well() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { max_unmarked: 4, max_in_flight: 4, key_slots: 4096, ..by_key() });
    world.push_keys(lane, 0, &["slow", "slow"]);
    let slow = world.take(0).expect("a job");
    world.push_keys(lane, 2, &["a", "b", "c", "d", "e", "f"]);
    assert_eq!(world.run().concat().len(), 3);
    slow.shared.set_completed_rows(1);
    assert_eq!(world.committable(), [1]);
    assert!(world.dispatch.has_ready(Pool::Threads));
    assert_eq!(world.run().concat().len(), 1);
    world.done(slow);
    world.run();
    world.assert_empty();
}

#[test]
fn a_mark_between_the_look_and_the_wait_is_not_lost() {
    // The lane decides under the tracker's lock: in either order, the dispatcher is notified.
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { max_unmarked: 4, ..manual() });
    world.push(lane, 0, 20);
    let lease = world.take(0).expect("a job");
    // The record is marked before the job ends, so the lane need not wait.
    assert!(lease.shared.mark(0, 0).is_ok() && !lease.shared.take_resumed());
    world.done(lease);
    let lease = world.take(0).expect("four are open");
    let shared = Arc::clone(&lease.shared);
    world.done(lease);
    assert!(world.take(0).is_none(), "nine are");
    assert!(shared.mark(0, 9).is_ok() && shared.take_resumed());
    assert!(world.dispatch.on_marks_resumed(lane) && world.dispatch.has_ready(Pool::Threads));
}

#[test]
fn marks_of_the_past_are_refused() {
    let mut world = Harness::new();
    let lane = world.lane_with(manual());
    let mut jobs = Vec::new();
    for (generation, end) in [(1, 0), (2, 1), (3, 2)] {
        world.push_generation(
            lane,
            generation,
            0,
            2,
            build_batch(0, &[TestRecord::value(0, "v"), TestRecord::value(0, "w")], &BatchOptions::default()),
        );
        let lease = world.take(0).expect("a job");
        jobs.push(Arc::clone(&lease.shared));
        match end {
            0 => {
                world.dispatch.reset_lane(lane); // while the job runs
                assert_eq!(world.end(lease, failed()), Some(Decision::Fenced));
            }
            1 => {
                world.done(lease);
                world.dispatch.reset_lane(lane);
            }
            _ => {
                world.done(lease);
                world.dispatch.revoke(lane, true);
            }
        }
        assert_eq!(jobs.last().expect("there").mark(0, 1), Err(MarkError::Fenced));
        if end < 2 {
            world.dispatch.set_position(lane, 0, generation + 1, false, OffsetMap::default());
        }
    }
    let hook = world.take(0).expect("the hook");
    world.done(hook);
    world.assert_empty();
    assert_eq!(world.drained[0].commit, None);
}

#[test]
fn open_offsets_outlive_a_refetch_and_the_rows() {
    let mut world = Harness::new();
    let lane = world.lane_with(manual());
    world.push(lane, 0, 3);
    let lease = world.take(0).expect("a job");
    let shared = Arc::clone(&lease.shared);
    world.done(lease);
    let mut bad = build_batch(3, &[TestRecord::value(0, "bad")], &BatchOptions::default());
    bad[65] ^= 1;
    world.push_bytes(lane, 3, 4, bad);
    assert!(world.take(0).is_none());
    world.assert_empty();
    world.dispatch.set_position(lane, 3, 2, false, OffsetMap::default());
    assert_eq!(world.committable(), [0]);
    assert_eq!(shared.mark(0, 2), Ok(3));
    assert_eq!(world.committable(), [3]);
}

#[test]
fn what_is_marked_further_on_is_committed_along_and_not_handed_out_again() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { offset_map: true, ..manual() });
    world.push(lane, 0, 5);
    let lease = world.take(0).expect("a job");
    lease.shared.mark(1, 2).expect("its own");
    lease.shared.mark(4, 4).expect("its own");
    let commits = world.dispatch.take_committables(world.client, false);
    let map = OffsetMap::decode(0, &commits[0].metadata);
    assert_eq!((commits[0].offset, map.runs()), (0, &[1..3, 4..5][..]));
    assert!(world.dispatch.take_committables(world.client, false).is_empty());
    lease.shared.mark(3, 3).expect("its own");
    let commits = world.dispatch.take_committables(world.client, false);
    assert_eq!(commits.len(), 1, "the same offset, but more behind it");
    world.done(lease);
    // Another process continues.
    let lane = world.lane_with(RouteConfig { offset_map: true, ..manual() });
    world.dispatch.reset_lane(lane);
    world.dispatch.set_position(lane, 0, 2, true, OffsetMap::decode(0, &commits[0].metadata));
    let records: Vec<_> = (0..7).map(|_| TestRecord::value(0, "v")).collect();
    world.push_generation(lane, 2, 0, 7, build_batch(0, &records, &BatchOptions::default()));
    let jobs = world.take_all();
    assert_eq!(jobs.iter().map(offsets).collect::<Vec<_>>(), [[0]]);
    jobs[0].shared.mark(0, 0).expect("its own");
    let commits: Vec<_> = world.dispatch.take_committables(world.client, false);
    assert!(commits.iter().any(|commit| commit.offset == 5 && commit.metadata.is_empty()), "{commits:?}");
    jobs.into_iter().for_each(|lease| world.done(lease));
    assert_eq!(world.run(), [[5, 6]]);
}

#[test]
fn what_is_known_to_be_done_is_not_forgotten_by_a_lane_that_leaves_before_it_gets_there() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { offset_map: true, ..manual() });
    world.dispatch.reset_lane(lane);
    world.dispatch.set_position(lane, 0, 2, true, OffsetMap::from_runs([1..2, 4..5, 7..9]));
    world.push_generation(lane, 2, 0, 1, build_batch(0, &[TestRecord::value(0, "v")], &BatchOptions::default()));
    let lease = world.take(0).expect("a job");
    lease.shared.mark(0, 0).expect("its own");
    world.done(lease);
    let commits = world.dispatch.take_committables(world.client, false);
    assert_eq!(commits[0].offset, 2, "1 has not been fetched, but is known");
    assert_eq!(OffsetMap::decode(2, &commits[0].metadata).runs(), [4..5, 7..9]);
}
