//! Tests of a lane's lag and of the timestamp of its oldest open record.

use super::*;

impl Harness {
    /// Pushes one batch with records of these timestamps.
    fn push_times(&mut self, lane: LaneId, base: i64, times: &[i64]) {
        let records: Vec<_> = times.iter().map(|time| TestRecord::value(*time, "v")).collect();
        self.push_records(lane, base, &records);
    }

    /// Returns the lag, and the timestamp of the oldest open record.
    fn left(&self, lane: LaneId) -> (Option<u64>, Option<i64>) {
        let status = self.status(lane);
        (status.lag, status.oldest_ms)
    }
}

fn manual() -> RouteConfig {
    RouteConfig { offsets: OffsetPolicy::Manual, ..RouteConfig::default() }
}

#[test]
fn lag_is_unknown_before_the_end_offset_is_known() {
    let mut world = Harness::new();
    let lane = world.lane(10);
    assert_eq!(world.left(lane), (None, None));
    world.dispatch.set_end_offsets(lane, 0, 0);
    assert_eq!(world.left(lane), (Some(0), None));
    assert_eq!(world.status(lane).progress_at, None);
}

#[test]
fn a_record_is_left_from_when_it_is_fetched_until_it_is_done() {
    let mut world = Harness::new();
    let lane = world.lane(2);
    world.push_times(lane, 0, &[50, 40, 60]);
    world.push_times(lane, 3, &[70]);
    assert_eq!(world.left(lane), (Some(4), Some(50)), "by the batch's header");
    let lease = world.take(SECOND).expect("two rows");
    assert_eq!(world.left(lane), (Some(4), Some(50)), "by its row");
    assert_eq!(lease.shared.mark(0, 0), Ok(1));
    assert_eq!(world.left(lane), (Some(3), Some(40)), "of the next one, in the middle of the job");
    lease.shared.mark(1, 1).expect("it is open");
    assert_eq!(world.left(lane), (Some(2), Some(60)), "the job runs still, and has the rest with it");
    world.now = 2 * SECOND;
    world.done(lease);
    assert_eq!(world.left(lane), (Some(2), Some(60)), "decoded, and not handed out");
    assert_eq!(world.status(lane).progress_at, Some(2 * SECOND));
    let lease = world.take(world.now).expect("a row");
    world.done(lease);
    assert_eq!(world.left(lane), (Some(1), Some(70)), "the next batch's header, in another answer");
    assert_eq!(world.run(), [[3]]);
    assert_eq!(world.left(lane), (Some(0), None));
}

#[test]
fn while_a_worker_decodes_the_lane_knows_what_it_took() {
    let mut world = Harness::new();
    let lane = world.lane(10);
    world.push_times(lane, 0, &[50, 60]);
    let mut lease = world.dispatch.take(0, "worker", Pool::Threads).expect("two rows");
    assert_eq!(world.left(lane), (Some(2), Some(50)));
    world.push_times(lane, 2, &[70]);
    assert_eq!(world.left(lane), (Some(3), Some(50)));
    let prepared = lease.prepare(&mut world.decoder, &world.pool, None);
    world.dispatch.on_prepared(0, &lease, &prepared);
    world.done(lease);
    assert_eq!(world.left(lane), (Some(1), Some(70)));
}

#[test]
fn a_batch_behind_another_in_one_answer_is_dated_by_its_header() {
    let mut world = Harness::new();
    let lane = world.lane(2);
    let two = |base: i64, times: [i64; 2]| {
        build_batch(base, &times.map(|time| TestRecord::value(time, "v")), &BatchOptions::default())
    };
    // A control batch between the two batches holds no record.
    let bytes = [two(0, [50, 60]), build_control_batch(2, 7, true), two(3, [70, 80])].concat();
    world.push_bytes(lane, 0, 5, bytes);
    let lease = world.take(0).expect("two rows");
    world.done(lease);
    assert_eq!(world.left(lane), (Some(3), Some(70)));
    world.run();
    assert_eq!(world.left(lane), (Some(0), None));
}

#[test]
fn rows_that_wait_for_another_run_are_as_old_as_they_are() {
    let mut world = Harness::new();
    let lane = world.lane(10);
    world.push_times(lane, 0, &[50, 60, 70]);
    let lease = world.take(0).expect("three rows");
    lease.shared.set_completed_rows(1);
    world.end(lease, failed());
    assert_eq!(world.left(lane), (Some(2), Some(60)));
}

#[test]
fn of_keys_the_oldest_that_is_open_counts() {
    let mut world = Harness::new();
    let lane = world.lane_with(RouteConfig { max_messages: 1, ..by_key() });
    let records = [("a", 50), ("b", 60), ("a", 70)].map(|(key, time)| TestRecord::keyed(time, key, "v"));
    world.push_records(lane, 0, &records);
    let mut leases = world.take_all();
    assert_eq!(world.left(lane), (Some(3), Some(50)));
    let second = leases.remove(1);
    world.done(second);
    assert_eq!(world.left(lane), (Some(2), Some(50)), "what is done behind it is done");
    world.done(leases.remove(0));
    assert_eq!(world.left(lane), (Some(1), Some(70)), "it waits in its slot");
}

#[test]
fn unmarked_rows_of_finished_jobs_have_the_age_of_the_first_row_of_their_job() {
    let mut world = Harness::new();
    let lane = world.lane_with(manual());
    world.push_times(lane, 0, &[50, 60, 70]);
    let lease = world.take(0).expect("three rows");
    let shared = Arc::clone(&lease.shared);
    world.done(lease);
    assert_eq!(world.left(lane), (Some(3), Some(50)));
    shared.mark(0, 1).expect("they are open");
    assert_eq!(world.left(lane), (Some(1), Some(50)), "its own time is forgotten");
    world.now = 3 * SECOND;
    shared.mark(2, 2).expect("it is open");
    assert_eq!(world.left(lane), (Some(0), None));
    assert_eq!(world.status(lane).progress_at, None, "route_stats was not called yet");
    let now = world.now;
    world.dispatch.route_stats(now);
    assert_eq!(world.status(lane).progress_at, Some(now));
}

#[test]
fn gaps_count_as_lag_until_they_are_known() {
    let mut world = Harness::new();
    let lane = world.lane(10);
    // Compaction has left 2 of 10 records.
    let options = BatchOptions {
        offset_deltas: Some(vec![3, 7]),
        last_offset_delta: Some(9),
        log_append: Some(1_000),
        ..BatchOptions::default()
    };
    let records = [TestRecord::value(50, "v"), TestRecord::value(60, "v")];
    world.push_bytes(lane, 0, 10, build_batch(0, &records, &options));
    assert_eq!(world.left(lane), (Some(10), Some(1_000)), "the broker's time is that of all its records");
    let lease = world.take(0).expect("two rows");
    assert_eq!(world.left(lane), (Some(2), Some(1_000)));
    world.done(lease);
    assert_eq!(world.left(lane), (Some(0), None));
    world.push_bytes(lane, 10, 11, build_control_batch(10, 7, true));
    assert_eq!(world.left(lane), (Some(1), Some(1_000)));
    world.run();
    assert_eq!(world.left(lane), (Some(0), None));
}

#[test]
fn what_is_not_fetched_is_about_as_old_as_the_last_that_is() {
    let mut world = Harness::new();
    let lane = world.lane(10);
    world.push_times(lane, 0, &[50, 60]);
    world.dispatch.set_end_offsets(lane, 9, 9);
    assert_eq!(world.run(), [[0, 1]]);
    assert_eq!(world.left(lane), (Some(7), Some(60)));
    world.dispatch.reset_lane(lane);
    assert_eq!(world.left(lane), (None, None));
    world.dispatch.set_position(lane, 4, 2, false, OffsetMap::default());
    assert_eq!(world.left(lane), (Some(5), None), "somewhere else it says nothing");
}

#[test]
fn records_of_open_transactions_are_not_left_to_us() {
    let mut world = Harness::new();
    let lane = world.lane(10);
    world.push_times(lane, 0, &[50, 60]);
    world.dispatch.set_end_offsets(lane, 9, 2);
    assert_eq!(world.run(), [[0, 1]]);
    assert_eq!(world.left(lane), (Some(0), None));
    world.dispatch.set_end_offsets(lane, 9, -1);
    assert_eq!(world.left(lane).0, Some(7), "an old broker does not say");
}

#[test]
fn records_without_a_time_have_no_age() {
    let mut world = Harness::new();
    let lane = world.lane(1);
    world.push_times(lane, 0, &[-1, -1]);
    assert_eq!(world.left(lane), (Some(2), None));
    let lease = world.take(0).expect("a row");
    assert_eq!(world.left(lane), (Some(2), None));
    world.done(lease);
    assert_eq!(world.left(lane), (Some(1), None));
}
