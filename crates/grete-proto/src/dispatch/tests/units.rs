//! Tests of concurrency within a lane: by key, and unordered.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

#[test]
fn the_same_key_stays_in_order_while_others_pass_it() {
    let mut world = Harness::new();
    let lane = world.lane_with(by_key());
    world.push_keys(lane, 0, &["a", "b", "a", "c", "b", "a"]);
    let first = world.take_all();
    let mut rows: Vec<_> = first.iter().map(offsets).collect();
    rows.sort();
    assert_eq!(rows, [vec![0, 2, 5], vec![1, 4], vec![3]]);
    let slots: BTreeSet<u32> = first.iter().map(|lease| lease.slot).collect();
    assert_eq!(slots.len(), 3, "each its own instance");
    // More records of a key whose slot is busy wait; records of other keys run.
    world.push_keys(lane, 6, &["a", "d"]);
    assert_eq!(world.run(), [[7]]);
    let busy: BTreeMap<i64, Lease> = first.into_iter().map(|lease| (offsets(&lease)[0], lease)).collect();
    for (first, lease) in busy {
        let slot = lease.slot;
        world.done(lease);
        if first == 0 {
            let next = world.take(0).expect("the key goes on");
            assert_eq!((next.slot, offsets(&next)), (slot, vec![6]));
            world.done(next);
        }
    }
    assert_eq!(world.committable(), [8]);
    world.assert_empty();
}

#[test]
fn the_prefix_is_what_is_committed() {
    let mut world = Harness::new();
    let lane = world.lane_with(by_key());
    world.push_keys(lane, 0, &["a", "b", "a", "b"]);
    let mut jobs = world.take_all();
    jobs.sort_by_key(|lease| offsets(lease)[0]);
    let (a, b) = (jobs.remove(0), jobs.remove(0));
    world.done(b);
    assert_eq!(world.committable(), [0]);
    assert_eq!(a.shared.mark(0, 3), Ok(2), "its own rows only");
    assert_eq!(world.committable(), [4]);
    world.done(a);
    world.assert_empty();
}

#[test]
fn jobs_are_as_large_as_the_route_says_and_slots_take_turns() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { max_messages: 2, ..by_key() });
    world.push_keys(lane, 0, &["a", "a", "a", "a", "a", "b"]);
    assert_eq!(world.run(), [vec![0, 1], vec![5], vec![2, 3], vec![4]]);
    assert_eq!(world.committable(), [6]);
    world.assert_empty();
    assert_eq!(world.status(lane).in_flight, 0);
}

#[test]
fn a_job_is_no_larger_than_max_bytes_but_one_row_goes_always() {
    for concurrency in [Concurrency::Partition, Concurrency::Key] {
        let mut world = Harness::new();
        let lane = world.lane_with(RouteConfig { max_bytes: 1000, concurrency, ..by_key() });
        let sizes = [400, 400, 400, 5000, 10, 10];
        let records: Vec<_> = sizes.iter().map(|size| TestRecord::keyed(0, "k", vec![b'x'; *size])).collect();
        world.push_records(lane, 0, &records);
        assert_eq!(world.run(), [vec![0, 1], vec![2], vec![3], vec![4, 5]], "{concurrency:?}");
        assert_eq!(world.committable(), [6]);
        world.assert_empty();
    }
}

#[test]
fn rows_without_a_key_go_to_few_slots() {
    let mut world = Harness::new();
    let policy =
        RouteConfig { concurrency: Concurrency::Unordered, key_slots: 128, shares: 2, ..RouteConfig::default() };
    let lane = world.lane_with(policy);
    for round in 0..20 {
        world.push_keys(lane, round * 10, &["", "a", "", "", "", "", "", "", "", ""]);
        let jobs = world.take_all();
        assert!(jobs.len() >= 2, "two workers have something each");
        assert!(
            jobs.iter().all(|lease| lease.slot < 5),
            "{:?}",
            jobs.iter().map(|lease| lease.slot).collect::<Vec<_>>()
        );
        let rows: BTreeSet<i64> = jobs.iter().flat_map(offsets).collect();
        assert_eq!(rows.len(), 10);
        jobs.into_iter().for_each(|lease| world.done(lease));
    }
    assert_eq!(world.committable(), [200]);
    world.assert_empty();
}

#[test]
fn keyless_rows_do_not_wait_for_a_busy_slot() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { max_messages: 1, ..by_key() });
    world.push_keys(lane, 0, &["", "", ""]);
    let jobs = world.take_all();
    assert_eq!(jobs.iter().map(|lease| lease.slot).collect::<Vec<_>>(), [0, 1, 2]);
    jobs.into_iter().for_each(|lease| world.done(lease));
    world.assert_empty();
}

#[test]
fn the_window_slides_and_is_never_passed() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { max_in_flight: 16, max_messages: 1, ..by_key() });
    let keys: Vec<String> = (0..100).map(|i| format!("k{i}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    world.push_keys(lane, 0, &keys);
    let stuck = world.take(0).expect("a job");
    assert_eq!(offsets(&stuck).len(), 1);
    let mut most = 0;
    while let Some(lease) = world.take(0) {
        most = most.max(world.status(lane).in_flight);
        world.done(lease);
    }
    assert!((14..=16).contains(&most), "{most}");
    // There is no barrier: all records except those in the slot of the stuck row have run.
    let left = world.status(lane).in_flight;
    assert!(left < 16 && world.status(lane).position == Some(100), "{left} {:?}", world.status(lane));
    world.done(stuck);
    world.run();
    assert_eq!(world.committable(), [100]);
    world.assert_empty();
}

#[test]
fn one_stuck_key_does_not_keep_others_from_being_decoded() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { max_in_flight: 16, ..by_key() });
    world.push_keys(lane, 0, &["hot"; 15]);
    let stuck = world.take(0).expect("a job");
    world.push_keys(lane, 15, &["cold"]);
    assert_eq!(world.run(), [[15]], "one place is left in the window");
    world.done(stuck);
    world.assert_empty();
}

#[test]
fn compacted_batches_and_markers_move_the_offset_between_slots() {
    let mut world = Harness::new();
    let lane = world.lane_with(by_key());
    let options = BatchOptions { last_offset_delta: Some(9), ..BatchOptions::default() };
    let rows = [TestRecord::keyed(0, "a", "1"), TestRecord::keyed(0, "b", "2")];
    world.push_bytes(lane, 0, 10, build_batch(0, &rows, &options));
    world.push_bytes(lane, 10, 11, build_control_batch(10, 7, true));
    world.run();
    assert_eq!((world.committable(), world.status(lane).position), (vec![11], Some(11)));
    world.assert_empty();
}

#[test]
fn a_corrupt_batch_leaves_what_is_in_slots_alone() {
    let mut world = Harness::new();
    let lane = world.lane_with(by_key());
    world.push_keys(lane, 0, &["a", "b"]);
    let jobs = world.take_all();
    let mut bad = build_batch(2, &[TestRecord::keyed(0, "a", "bad")], &BatchOptions::default());
    bad[65] ^= 1;
    world.push_bytes(lane, 2, 3, bad);
    assert!(world.take(0).is_none());
    world.released();
    assert_eq!(world.corrupt.iter().map(|corrupt| corrupt.offset).collect::<Vec<_>>(), [2]);
    world.dispatch.set_position(lane, 2, 2, false, OffsetMap::default());
    assert_eq!(world.committable(), [0], "two rows are still in flight");
    let good = build_batch(2, &[TestRecord::keyed(0, "c", "good")], &BatchOptions::default());
    world.push_generation(lane, 2, 2, 3, good);
    assert_eq!(world.run(), [[2]]);
    assert_eq!(world.committable(), [0_i64; 0]);
    jobs.into_iter().for_each(|lease| world.done(lease));
    assert_eq!(world.committable(), [3]);
    world.assert_empty();
}

#[test]
fn a_pool_takes_its_own_routes_jobs_only() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { pool: Pool::EventLoop, ..RouteConfig::default() });
    world.push(lane, 0, 1);
    assert!(world.take(0).is_none());
    assert!(world.dispatch.has_ready(Pool::EventLoop) && !world.dispatch.has_ready(Pool::Threads));
    let lease = world.dispatch.take(0, "loop", Pool::EventLoop).expect("it is the loop's");
    assert_eq!(lease.pool(), Pool::EventLoop);
}

#[test]
fn a_route_of_higher_priority_goes_first_and_no_route_starves() {
    let mut world = Harness::new();
    let low = world.lane_with(RouteConfig { route: 1, max_messages: 1, ..RouteConfig::default() });
    let high = world.lane_with(RouteConfig { route: 2, max_messages: 1, priority: 2, ..RouteConfig::default() });
    world.push(low, 0, 2);
    world.now = SECOND;
    world.push(high, 0, 100);
    let mut order = Vec::new();
    for _ in 0..30 {
        let lease = world.take(world.now).expect("work is left");
        order.push(lease.lane);
        world.now += SECOND / 10;
        world.done(lease);
    }
    let turn = order.iter().position(|lane| *lane == low).expect("it had its turn");
    assert!((8..=12).contains(&turn), "two seconds of waiting less the one it had: {turn}");
}
