//! Tests of lanes without a fixed number of slots, as asynchronous routes have them, and of the limit of jobs.

use std::collections::BTreeSet;

use super::*;

fn wide(concurrency: Concurrency) -> RouteConfig {
    RouteConfig { concurrency, key_slots: 0, shares: 0, ..RouteConfig::default() }
}

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("key-{number}")).collect()
}

fn push_all(world: &mut Harness, lane: LaneId, keys: &[String]) {
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    world.push_keys(lane, 0, &keys);
}

#[test]
fn as_many_jobs_run_at_once_as_records_may_be_in_flight() {
    for concurrency in [Concurrency::Key, Concurrency::Unordered] {
        let mut world = Harness::new();
        let lane = world.lane_with(wide(concurrency));
        push_all(&mut world, lane, &keys(5000));
        let jobs = world.take_all();
        assert_eq!(world.status(lane).in_flight, 4096, "{concurrency:?}");
        assert!(jobs.len() >= 4095, "{concurrency:?}: {} jobs", jobs.len()); // two keys may have the same hash
        let instances: BTreeSet<u32> = jobs.iter().map(|lease| lease.instance).collect();
        assert_eq!(instances, (0..jobs.len() as u32).collect(), "{concurrency:?}: one instance for each");
        jobs.into_iter().for_each(|lease| world.done(lease));
        world.run();
        assert_eq!(world.committable(), [5000], "{concurrency:?}");
        world.assert_empty();
    }
}

#[test]
fn keys_without_records_leave_nothing_behind() {
    let mut world = Harness::new();
    let lane = world.lane_with(wide(Concurrency::Key));
    push_all(&mut world, lane, &keys(3000));
    for _ in 0..3000 {
        let lease = world.take(0).expect("a record is left");
        assert_eq!(lease.instance, 0, "the free instance is used again");
        world.done(lease);
    }
    let units = world.dispatch.lane_mut(lane).map(|lane| lane.rows.units().count());
    assert_eq!(units, Some(0));
    world.assert_empty();
}

#[test]
fn a_key_keeps_its_order_and_its_attempts_whatever_instance_runs_it() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { max_messages: 1, ..wide(Concurrency::Key) });
    world.push_keys(lane, 0, &["ann", "bob", "ann"]);
    let jobs = world.take_all();
    assert_eq!(jobs.iter().map(offsets).collect::<Vec<_>>(), [[0], [1]]);
    let [ann, bob] = <[Lease; 2]>::try_from(jobs).expect("two");
    assert_eq!((ann.instance, bob.instance), (0, 1));
    let unit = ann.slot;
    world.end(ann, failed()).expect("a retry");
    // The retry waits; another key uses the instance meanwhile.
    world.push_keys(lane, 3, &["cid"]);
    let cid = world.take(0).expect("cid does not wait");
    assert_eq!((offsets(&cid), cid.instance), (vec![3], 0));
    let at = world.advance_to_deadline();
    let again = world.take(at).expect("the retry");
    assert_eq!((offsets(&again), again.attempt, again.slot, again.instance), (vec![0], 2, unit, 2));
    world.done(cid);
    world.done(again);
    world.done(bob);
    assert_eq!(world.run(), [[2]]);
    assert_eq!(world.committable(), [4]);
    world.assert_empty();
}

#[test]
fn a_handler_of_batches_gets_a_share_of_the_records_that_wait() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { shares: 4, ..wide(Concurrency::Unordered) });
    world.push(lane, 0, 100);
    let sizes: Vec<usize> = world.take_all().iter().map(|lease| offsets(lease).len()).collect();
    assert_eq!(sizes[..3], [25, 19, 14]);
    assert_eq!(sizes.iter().sum::<usize>(), 100);
}

#[test]
fn a_route_runs_no_more_jobs_than_it_may_and_loses_no_place() {
    let mut world = Harness::new();
    let limited = RouteConfig { route: 1, max_concurrency: Some(2), ..wide(Concurrency::Key) };
    let (one, other) = (world.lane_with(limited.clone()), world.lane_with(limited));
    let free = world.lane_with(RouteConfig { route: 2, ..RouteConfig::default() });
    world.push_keys(one, 0, &["a", "b", "c"]);
    world.push_keys(other, 0, &["a", "b", "c"]);
    world.push(free, 0, 1);
    let mut jobs = world.take_all();
    let routes: Vec<u32> = jobs.iter().map(|lease| lease.policy.route).collect();
    assert_eq!(routes.iter().filter(|route| **route == 1).count(), 2, "of both partitions together");
    assert!(routes.contains(&2), "other routes go on");
    assert!(!world.dispatch.has_ready(Pool::Threads), "a worker may sleep");
    // The place of an ended job goes to an entry without records first: the lane of that entry has left.
    world.dispatch.remove_lane(one);
    let ended = jobs.iter().position(|lease| lease.lane == one).expect("a job of the lane");
    world.end(jobs.swap_remove(ended), JobOutcome::Done);
    let mut rows = 0;
    while let Some(at) = jobs.iter().position(|lease| lease.policy.route == 1) {
        world.end(jobs.swap_remove(at), JobOutcome::Done);
        rows += 1;
        jobs.extend(world.take_all());
        assert!(jobs.iter().filter(|lease| lease.policy.route == 1).count() <= 2);
    }
    assert!(rows >= 3, "{rows} jobs");
    jobs.into_iter().for_each(|lease| world.done(lease));
    assert_eq!(world.status(other).committable, Some(3));
    world.assert_empty();
}

#[test]
fn the_place_of_an_entry_that_has_nothing_to_run_goes_to_the_next_one() {
    let mut world = Harness::new();
    let limited = RouteConfig { max_concurrency: Some(3), ..RouteConfig::default() };
    let lanes: Vec<LaneId> = (0..8).map(|_| world.lane_with(limited.clone())).collect();
    lanes.iter().for_each(|lane| assert!(world.push(*lane, 0, 1)));
    let jobs = world.take_all();
    assert_eq!(jobs.len(), 3);
    jobs.into_iter().for_each(|lease| world.done(lease));
    // Three entries have a place now. The lane of the first one leaves before a worker takes it.
    world.dispatch.remove_lane(lanes[3]);
    let mut jobs = vec![world.take(0).expect("the second one"), world.take(0).expect("the third one")];
    assert!(world.dispatch.has_ready(Pool::Threads), "a worker that sleeps must be woken for the place of the first");
    jobs.extend(world.take(0));
    assert_eq!(jobs.iter().map(|lease| lease.lane).collect::<Vec<_>>(), lanes[4..7]);
    assert!(!world.dispatch.has_ready(Pool::Threads));
    jobs.into_iter().for_each(|lease| world.done(lease));
    assert_eq!(world.run(), [[0]]);
    world.assert_empty();
}

#[test]
fn stalls_are_looked_for_when_a_job_may_have_passed_a_limit() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { stall_after: Some(4 * SECOND), ..wide(Concurrency::Unordered) });
    world.push(lane, 0, 2);
    let first = world.take(0).expect("a job");
    let second = world.take(SECOND).expect("a job");
    let client = world.client;
    assert_eq!(world.dispatch.next_stall_check(client), Some(4 * SECOND));
    assert!(world.dispatch.take_stalled_jobs(3 * SECOND, client).is_empty());
    assert_eq!(world.dispatch.take_stalled_jobs(4 * SECOND, client).len(), 1);
    assert_eq!(world.dispatch.next_stall_check(client), Some(5 * SECOND));
    assert_eq!(world.dispatch.take_stalled_jobs(5 * SECOND, client).len(), 1);
    world.done(first);
    world.done(second);
}
