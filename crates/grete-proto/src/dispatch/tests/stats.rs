//! Tests of the counters of each handler.

use super::*;

impl Harness {
    fn stats(&mut self) -> RouteStats {
        let now = self.now;
        let [tally] = self.dispatch.route_stats(now) else { panic!("one route") };
        tally.clone()
    }

    /// Returns the counters: jobs, records, failures, retries, dead letters, expired, skipped.
    fn counters(&mut self) -> [u64; 7] {
        let tally = self.stats();
        let RouteStats { jobs, records, failures, retries, dead_letters, expired, skipped, .. } = tally;
        [jobs, records, failures, retries, dead_letters, expired, skipped]
    }
}

#[test]
fn a_route_is_there_before_anything_happens() {
    let mut world = Harness::new();
    world.dispatch.add_route(&RouteConfig { name: "Orders".into(), ..RouteConfig::default() });
    assert_eq!(world.stats(), RouteStats { handler: "Orders".into(), ..RouteStats::default() });
}

#[test]
fn a_record_is_counted_once_however_often_it_runs() {
    let mut world = Harness::new();
    let retry = RetryPolicy { attempts: Some(2), ..RetryPolicy::default() };
    let lane = world.lane_with(RouteConfig { dead_letter: true, retry, ..RouteConfig::default() });
    world.push(lane, 0, 5);
    let lease = world.take(0).expect("five rows");
    lease.shared.set_completed_rows(2);
    world.end(lease, failed_with(FailureKind::Retriable, Some(2)));
    assert_eq!(world.counters(), [1, 2, 1, 1, 0, 0, 0], "what its handler was done with is done");
    let at = world.advance_to_deadline();
    let lease = world.take(at).expect("three rows");
    world.end(lease, failed_with(FailureKind::Retriable, Some(2)));
    assert_eq!(world.counters(), [2, 2, 2, 1, 0, 0, 0]);
    let lease = world.take(at).expect("a dead letter");
    assert_eq!(lease.kind, JobKind::DeadLetter);
    world.done(lease);
    assert_eq!(world.counters(), [3, 2, 2, 1, 1, 0, 0]);
    assert_eq!(world.run(), [[3, 4]]);
    assert_eq!(world.counters(), [4, 4, 2, 1, 1, 0, 0]);
    assert_eq!(world.stats().durations.counts.iter().sum::<u64>(), 3, "dead letters are no jobs of records");
}

#[test]
fn retry_later_is_not_counted_as_a_failure() {
    let mut world = Harness::new();
    let lane = world.lane(10);
    world.push(lane, 0, 3);
    let lease = world.take(0).expect("three rows");
    world.end(lease, failed_with(FailureKind::RetryLater(SECOND), None));
    assert_eq!(world.counters(), [1, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn the_time_runs_from_when_rows_are_ready() {
    let mut world = Harness::new();
    let lane = world.lane(10);
    world.push(lane, 0, 3);
    let mut lease = world.dispatch.take(SECOND, "worker", Pool::Threads).expect("three rows");
    let prepared = lease.prepare(&mut world.decoder, &world.pool, None);
    world.dispatch.on_prepared(3 * SECOND, &lease, &prepared);
    assert_eq!(world.dispatch.in_flight_jobs()[0].since, 3 * SECOND);
    world.now = 3 * SECOND + 7 * MILLI;
    world.done(lease);
    let durations = world.stats().durations;
    let mut counts = durations.counts.iter().zip(DurationHistogram::BUCKET_BOUNDS_SECONDS);
    assert_eq!(durations.sum, 7 * MILLI);
    assert_eq!(counts.find(|(count, _)| **count > 0), Some((&1, 0.01)));
}

#[test]
fn marks_count_when_they_come_and_not_again_at_the_end() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { offsets: OffsetPolicy::Manual, ..RouteConfig::default() });
    world.push(lane, 0, 5);
    let lease = world.take(0).expect("five rows");
    let shared = Arc::clone(&lease.shared);
    assert_eq!(shared.mark(0, 1), Ok(2));
    assert_eq!(world.counters(), [0, 2, 0, 0, 0, 0, 0]);
    world.done(lease);
    assert_eq!(world.counters(), [1, 2, 0, 0, 0, 0, 0], "a return says nothing here");
    assert_eq!(shared.mark(0, 2), Ok(1));
    assert_eq!(world.counters(), [1, 3, 0, 0, 0, 0, 0]);
}

#[test]
fn what_a_lane_did_outlasts_its_seeks_and_its_end() {
    let mut world = Harness::new();
    let lane = world.lane(10);
    world.push(lane, 0, 3);
    assert_eq!(world.run(), [[0, 1, 2]]);
    world.push(lane, 3, 2);
    let lease = world.take(world.now).expect("two rows");
    assert_eq!(lease.shared.mark(3, 3), Ok(1));
    world.dispatch.reset_lane(lane);
    assert_eq!(world.counters(), [1, 4, 0, 0, 0, 0, 0]);
    world.done(lease);
    assert_eq!(world.counters(), [2, 4, 0, 0, 0, 0, 0], "what was fenced counts as a job, its records come again");
    world.dispatch.set_position(lane, 3, 2, false, OffsetMap::default());
    world.push_generation(lane, 2, 3, 4, build_batch(3, &[TestRecord::value(0, "v")], &BatchOptions::default()));
    assert_eq!(world.run(), [[3]]);
    world.dispatch.revoke(lane, false);
    while let Some(hook) = world.take(world.now) {
        world.done(hook);
    }
    assert!(world.dispatch.lane_statuses(None).is_empty());
    assert_eq!(world.counters(), [4, 5, 0, 0, 0, 0, 0]);
}

#[test]
fn uncollected_marks_count_when_the_lane_leaves() {
    let mut world = Harness::new();
    let policy = RouteConfig { offsets: OffsetPolicy::Manual, hooks: false, ..RouteConfig::default() };
    let lane = world.lane_with(policy);
    world.push(lane, 0, 3);
    let lease = world.take(0).expect("three rows");
    let shared = Arc::clone(&lease.shared);
    world.done(lease);
    assert_eq!(shared.mark(0, 1), Ok(2));
    world.dispatch.revoke(lane, false);
    assert!(world.dispatch.lane_statuses(None).is_empty());
    assert_eq!(world.counters(), [1, 2, 0, 0, 0, 0, 0]);
    assert_eq!(shared.mark(2, 2), Ok(1), "in time, as far as it can know");
    assert_eq!(world.counters(), [1, 2, 0, 0, 0, 0, 0], "too late: it is the next owner's");
}

#[test]
fn records_that_are_passed_over_are_counted_by_why() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { max_age_ms: Some(1000), ..by_key() });
    let known = OffsetMap::from_runs([1..2, 3..4]);
    world.dispatch.reset_lane(lane);
    world.dispatch.set_position(lane, 0, 2, true, known);
    world.dispatch.set_wall_clock_offset(1_000_000);
    let records: Vec<_> = [0, 0, 999_500, 999_500, 999_500].map(|time| TestRecord::value(time, "v")).into();
    world.push_generation(lane, 2, 0, 5, build_batch(0, &records, &BatchOptions::default()));
    assert_eq!(world.run(), [[2, 4]]);
    assert_eq!(world.counters(), [1, 2, 0, 0, 0, 1, 2], "what is done is not called expired");
    assert_eq!(world.committable(), [5]);
}

#[test]
fn at_most_once_a_record_is_done_when_its_job_says_so() {
    let once = RouteConfig { offsets: OffsetPolicy::AtMostOnce, ..RouteConfig::default() };
    let mut world = Harness::new();
    let lane = world.lane_with(once.clone());
    world.push(lane, 0, 5);
    let lease = world.take(0).expect("five rows");
    assert_eq!(world.counters(), [0; 7]);
    lease.shared.set_completed_rows(2);
    assert_eq!(world.end(lease, failed()), Some(Decision::Skipped));
    assert_eq!(world.counters(), [1, 2, 1, 0, 0, 0, 3]);
    world.push(lane, 5, 2);
    assert_eq!(world.run(), [[5, 6]]);
    assert_eq!(world.counters(), [2, 4, 1, 0, 0, 0, 3]);

    // With a dead letter topic: rows before the failed record are skipped; that record and the rows behind it go there.
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { dead_letter: true, ..once });
    world.push(lane, 0, 5);
    let lease = world.take(0).expect("five rows");
    lease.shared.set_completed_rows(1);
    world.end(lease, failed_with(FailureKind::Retriable, Some(3)));
    assert_eq!(world.run(), [[3], [4]]);
    assert_eq!(world.counters(), [3, 1, 1, 0, 2, 0, 2]);
}

#[test]
fn jobs_that_take_too_long_are_counted_by_limit() {
    let mut world = Harness::new();
    let limits = (Some(SECOND), Some(3 * SECOND));
    let lane = world.lane_with(RouteConfig { stall_after: limits.0, handler_timeout: limits.1, ..Default::default() });
    world.push(lane, 0, 1);
    let lease = world.take(0).expect("a row");
    for (now, counted) in [(SECOND / 2, (0, 0)), (2 * SECOND, (1, 0)), (4 * SECOND, (1, 1)), (5 * SECOND, (1, 1))] {
        world.dispatch.take_stalled_jobs(now, world.client);
        let tally = world.stats();
        assert_eq!((tally.stalls, tally.timeouts), counted, "at {now}");
    }
    world.done(lease);
}
