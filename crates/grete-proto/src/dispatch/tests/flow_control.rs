//! Tests of batching, rates, delays, expiry and pauses.

use super::*;
use crate::time::MILLI;

#[test]
fn a_job_waits_until_it_is_full_or_the_first_record_has_waited_enough() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { max_messages: 4, max_wait: SECOND, ..RouteConfig::default() });
    assert!(!world.push(lane, 0, 1));
    world.now = SECOND / 2;
    assert!(!world.push(lane, 1, 1));
    assert!(world.take(world.now).is_none());
    assert_eq!(world.advance_to_deadline(), SECOND, "from the first one on");
    assert_eq!(world.run(), [[0, 1]]);
    // The job is full at once; the remaining rows wait and are filled up.
    assert!(world.push(lane, 2, 6));
    assert_eq!(world.run(), [[2, 3, 4, 5]]);
    assert!(world.push(lane, 8, 2));
    assert_eq!(world.run(), [[6, 7, 8, 9]]);
    assert_eq!(world.committable(), [10]);
    world.assert_empty();
}

#[test]
fn a_wrong_record_count_delays_no_job_beyond_max_wait() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { max_messages: 100, max_wait: SECOND, ..RouteConfig::default() });
    let mut batch = build_batch(0, &[TestRecord::value(0, "v")], &BatchOptions::default());
    batch[57..61].copy_from_slice(&0_i32.to_be_bytes()); // the record count
    world.push_bytes(lane, 0, 1, batch);
    assert_eq!(world.advance_to_deadline(), SECOND);
    assert!(world.take(world.now).is_none());
    world.released();
    assert_eq!(world.corrupt.len(), 1, "and is found out");
    world.assert_empty();
}

#[test]
fn a_rate_holds_for_the_whole_route() {
    let mut world = Harness::new();
    let rate_limit = Some(RatePolicy { records: 10, per: SECOND });
    let policy = RouteConfig { rate_limit, route: 3, max_messages: 4, ..RouteConfig::default() };
    let lanes = [world.lane_with(policy.clone()), world.lane_with(policy)];
    for lane in lanes {
        world.push(lane, 0, 20);
    }
    assert_eq!(world.run().concat().len(), 10, "a full bucket");
    let mut rows = 10;
    while rows < 40 {
        world.advance_to_deadline();
        rows += world.run().concat().len();
        let most = 10 + world.now / (100 * MILLI);
        assert!(rows as u64 <= most, "{rows} at {}", world.now);
    }
    assert!(world.now <= 3100 * MILLI, "{}", world.now);
    assert_eq!(world.committable(), [20, 20]);
    world.assert_empty();
}

#[test]
fn what_is_granted_and_not_used_goes_back() {
    let mut world = Harness::new();
    let rate_limit = Some(RatePolicy { records: 10, per: SECOND });
    let lane = world.lane_with(RouteConfig { rate_limit, route: 3, ..RouteConfig::default() });
    for base in 0..10 {
        world.push(lane, base, 1);
        assert_eq!(world.run(), [[base]]);
    }
    world.push(lane, 10, 1);
    assert!(world.run().is_empty());
}

#[test]
fn a_delay_holds_records_back_until_they_are_old_enough() {
    for concurrency in [Concurrency::Partition, Concurrency::Key] {
        let mut world = Harness::new();
        let lane = world.lane_with(RouteConfig { delay_ms: Some(1000), concurrency, ..RouteConfig::default() });
        world.dispatch.set_wall_clock_offset(1_000_000);
        let at = |ms: i64| TestRecord::keyed(1_000_000 + ms, "k", "v");
        world.push_records(lane, 0, &[at(-1500), at(-1000), at(-200), at(-900), at(500)]);
        assert_eq!(world.run(), [[0, 1]]);
        assert_eq!(world.status(lane).state, LaneState::Paused);
        assert_eq!(world.advance_to_deadline(), 800 * MILLI, "order holds: the fourth waits for the third");
        assert_eq!(world.run(), [[2, 3]]);
        assert_eq!(world.advance_to_deadline(), 1500 * MILLI);
        assert_eq!(world.run(), [[4]]);
        assert_eq!(world.committable(), [5]);
        world.assert_empty();
    }
}

#[test]
fn expired_records_are_skipped_and_reported() {
    for concurrency in [Concurrency::Partition, Concurrency::Key] {
        let mut world = Harness::new();
        let lane = world.lane_with(RouteConfig { max_age_ms: Some(1000), concurrency, ..RouteConfig::default() });
        world.dispatch.set_wall_clock_offset(1_000_000);
        let at = |ms: i64| TestRecord::keyed(1_000_000 + ms, "k", "v");
        world.push_records(lane, 0, &[at(-5000), at(0), at(-2000), at(-10), at(-3000)]);
        assert_eq!(world.run(), [[1, 3]]);
        assert_eq!(world.committable(), [5]);
        world.push_records(lane, 5, &[at(-5000), at(-5000)]);
        assert!(world.run().is_empty());
        assert_eq!(world.committable(), [7]);
        world.assert_empty();
        let expired = |records, first, last| LaneEventKind::Expired { records, first, last };
        assert_eq!(world.lane_events, [expired(3, 0, 4), expired(2, 5, 6)]);
    }
}

#[test]
fn a_pause_ends_by_time_or_by_word() {
    let mut world = Harness::new();
    let lane = world.lane_with(by_key());
    world.push_keys(lane, 0, &["a", "a"]);
    let lease = world.take(0).expect("a job");
    world.dispatch.pause(lane, Some(5 * SECOND));
    world.done(lease);
    world.push_keys(lane, 2, &["b", ""]);
    assert!(world.take(0).is_none());
    assert_eq!((world.status(lane).state, world.status(lane).paused_until), (LaneState::Paused, Some(5 * SECOND)));
    assert_eq!(world.advance_to_deadline(), 5 * SECOND);
    assert_eq!(world.run().len(), 2);
    world.dispatch.pause(lane, None);
    world.push_keys(lane, 4, &["a"]);
    assert!(world.take(world.now).is_none() && world.dispatch.next_deadline().is_none());
    assert!(world.dispatch.resume(lane));
    assert_eq!(world.run(), [[4]]);
    world.assert_empty();
}

#[test]
fn a_pause_that_is_set_again_leaves_nothing_behind() {
    let mut world = Harness::new();
    let lane = world.lane(10);
    for until in 1..1000 {
        world.dispatch.pause(lane, Some(until * SECOND));
    }
    assert_eq!(world.dispatch.next_deadline(), Some(999 * SECOND));
    world.dispatch.resume(lane);
    assert_eq!(world.dispatch.next_deadline(), None);
}
