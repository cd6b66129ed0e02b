//! Tests of deduplication: which rows reach jobs, and the ids that a lane restores.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::dispatch::{DedupPolicy, HistoryRequest, IdSource};

const MILLIS: i64 = 1000;

fn by_value_key(window_ms: i64, ids: usize) -> RouteConfig {
    let dedup = DedupPolicy { id: IdSource::Key, window_ms, max_bytes: ids * 112 };
    RouteConfig { max_messages: 100, dedup: Some(Arc::new(dedup)), ..RouteConfig::default() }
}

/// Records with a key (0: none) and a timestamp each.
fn log_of(rows: &[(u8, i64)]) -> Vec<TestRecord> {
    let record = |(key, time): &(u8, i64)| match key {
        0 => TestRecord::value(*time, "v"),
        key => TestRecord::keyed(*time, format!("k{key}"), "v"),
    };
    rows.iter().map(record).collect()
}

impl Harness {
    fn histories(&mut self) -> Vec<HistoryRequest> {
        let outbox = self.dispatch.take_outbox(self.client);
        self.held += outbox.charged.iter().map(|(_, bytes)| bytes).sum::<usize>();
        self.held -= outbox.released.iter().map(|(_, bytes)| bytes).sum::<usize>();
        self.lane_events.extend(outbox.lane_events.iter().map(|event| event.kind));
        outbox.histories
    }

    /// Reads the records of a history, like the thread outside.
    fn restore(&mut self, request: &HistoryRequest, log: &[TestRecord]) {
        let before = usize::try_from(request.before).expect("positive");
        let first = before.saturating_sub(request.records);
        let lane = self.lane(100);
        self.dispatch.reset_lane(lane);
        self.dispatch.set_position(lane, first as i64, 7, false, OffsetMap::default());
        let bytes = build_batch(first as i64, &log[first..before], &BatchOptions::default());
        self.push_generation(lane, 7, first as i64, before as i64, bytes);
        while let Some(lease) = self.take(self.now) {
            lease.shared.with_batch(|batch| request.filter.learn(&batch.columns, batch.rows.clone()));
            self.done(lease);
        }
        self.dispatch.remove_lane(lane);
    }
}

#[test]
fn a_record_whose_id_came_before_is_skipped() {
    let mut world = Harness::new();
    let lane = world.lane_with(by_value_key(10 * MILLIS, 100));
    let rows = [(1, 0), (2, 0), (1, 500), (0, 600), (0, 700), (2, 20_000), (2, 21_000)];
    world.push_records(lane, 0, &log_of(&rows));
    assert_eq!(world.run(), [[0, 1, 3, 4, 5]], "without an id all are new, and behind the window as well");
    assert_eq!(world.committable(), [7]);
    world.released();
    assert_eq!(world.lane_events, [LaneEventKind::Duplicates { records: 2, first: 2, last: 6 }]);
    let stats = world.dispatch.route_stats(0);
    assert_eq!(stats.iter().map(|route| (route.records, route.duplicates)).collect::<Vec<_>>(), [(5, 2)]);
    world.push_records(lane, 7, &log_of(&[(2, 22_000)]));
    assert_eq!((world.run().len(), world.committable()), (0, vec![8]), "duplicates alone move the offset");
    world.assert_empty();
}

#[test]
fn a_record_that_runs_again_is_no_duplicate_of_itself() {
    let mut world = Harness::new();
    let lane = world.lane_with(by_value_key(MILLIS, 100));
    world.push_records(lane, 0, &log_of(&[(1, 0), (1, 0)]));
    let job = world.take(0).expect("a job");
    assert_eq!(offsets(&job), [0]);
    world.end(job, failed_with(FailureKind::RetryLater(0), None));
    assert_eq!(world.run(), [[0]], "the next run");
    assert_eq!(world.committable(), [2]);
}

#[test]
fn ids_before_a_committed_offset_are_restored_before_the_first_job() {
    let mut world = Harness::new();
    let lane = world.lane_with(by_value_key(MILLIS, 100));
    assert!(world.histories().is_empty(), "nothing is committed");
    let log = log_of(&[(1, 0), (2, 0), (1, 0), (3, 0), (2, 0)]);
    world.dispatch.reset_lane(lane);
    world.dispatch.set_position(lane, 2, 2, true, OffsetMap::default());
    world.push_generation(lane, 2, 2, 5, build_batch(2, &log[2..], &BatchOptions::default()));
    let requests = world.histories();
    assert_eq!(requests.iter().map(|one| (one.lane, one.before, one.records)).collect::<Vec<_>>(), [(lane, 2, 100)]);
    assert!(world.take(0).is_none() && world.status(lane).state == LaneState::Paused, "the ids are not known");
    world.dispatch.fail_history(&requests[0], "no broker");
    assert_eq!(world.status(lane).failure.map(|failure| failure.reason), Some("dedup_history"));
    world.restore(&requests[0], &log);
    assert!(world.dispatch.awaits_history(&requests[0]) && world.dispatch.end_history(&requests[0]));
    assert_eq!((world.run(), world.committable()), (vec![vec![3]], vec![5]));
    assert_eq!(world.status(lane).failure, None);
    assert!(!world.dispatch.end_history(&requests[0]), "the wait is over");
}

#[test]
fn a_history_of_an_earlier_position_ends_nothing() {
    let mut world = Harness::new();
    let lane = world.lane_with(by_value_key(MILLIS, 100));
    world.dispatch.reset_lane(lane);
    world.dispatch.set_position(lane, 2, 2, true, OffsetMap::default());
    let old = world.histories();
    world.dispatch.reset_lane(lane);
    assert!(!world.dispatch.awaits_history(&old[0]));
    world.dispatch.set_position(lane, 3, 3, true, OffsetMap::default());
    assert!(!world.dispatch.end_history(&old[0]));
    let new = world.histories();
    assert!(world.dispatch.awaits_history(&new[0]));
    // The user wants the records from here on, whatever was read before.
    world.dispatch.reset_lane(lane);
    world.dispatch.set_position(lane, 1, 4, false, OffsetMap::default());
    assert!(world.histories().is_empty() && world.status(lane).state == LaneState::Idle);
}

#[test]
fn the_memory_is_bounded_and_an_overflow_is_named() {
    let mut world = Harness::new();
    let lane = world.lane_with(by_value_key(MILLIS, 2));
    world.push_records(lane, 0, &log_of(&[(1, 0), (2, 0), (3, 0), (4, 0)]));
    assert_eq!(world.run(), [[0, 1, 2, 3]]);
    world.push_records(lane, 4, &log_of(&[(4, 0), (1, 0), (3, 0)]));
    assert_eq!(world.run(), [[5]], "the two newest ids are known");
    world.released();
    let forgotten: usize = world
        .lane_events
        .iter()
        .map(|event| if let LaneEventKind::IdsForgotten { ids } = event { *ids } else { 0 })
        .sum();
    assert_eq!(forgotten, 3);
}

/// What a reader of the whole log keeps: rows without an id that was kept within the window before.
fn expected(log: &[(u8, i64)], window_ms: i64) -> Vec<i64> {
    let mut kept: BTreeMap<u8, i64> = BTreeMap::new();
    let mut found = Vec::new();
    for (offset, (key, time)) in log.iter().enumerate() {
        let before = kept.get(key).filter(|before| *key != 0 && time - **before <= window_ms);
        if before.is_none() {
            kept.insert(*key, *time);
            found.push(offset as i64);
        }
    }
    found
}

proptest! {
    /// Jobs fail, and the partition moves to another owner now and then, who restores the ids: each kept record is
    /// processed, and no duplicate, as if one process had read the log without a stop.
    #[test]
    fn whoever_reads_the_log_skips_the_same_records(
        rows in prop::collection::vec((0..6_u8, 0..3_i64), 1..60),
        pieces in prop::collection::vec((1..7_usize, 0..3_u8), 1..30),
    ) {
        let mut time = 1000;
        let rows: Vec<(u8, i64)> = rows.into_iter().map(|(key, later)| { time += later; (key, time) }).collect();
        let (window_ms, records) = (10, log_of(&rows));
        let mut world = Harness::new();
        let mut lane = world.lane_with(by_value_key(window_ms, 1000));
        let (mut done, mut at, mut pieces) = (Vec::new(), 0, pieces.into_iter().cycle());
        while at < rows.len() {
            let (count, event) = pieces.next().expect("endless");
            let end = (at + count).min(rows.len());
            world.push_records(lane, at as i64, &records[at..end]);
            match (event, world.take(world.now)) {
                (0, Some(job)) => {
                    world.end(job, failed_with(FailureKind::RetryLater(0), None));
                }
                (1, job) => {
                    // The partition is lost with a job that has not ended. Its next owner begins at the committed offset.
                    world.dispatch.remove_lane(lane);
                    let _ = job.map(|job| world.end(job, JobOutcome::Done));
                    lane = world.lane_with(by_value_key(window_ms, 1000));
                    world.dispatch.reset_lane(lane);
                    world.dispatch.set_position(lane, at as i64, 1, true, OffsetMap::default());
                    for request in world.histories() {
                        world.restore(&request, &records);
                        world.dispatch.end_history(&request);
                    }
                    world.push_records(lane, at as i64, &records[at..end]);
                }
                (_, Some(job)) => {
                    done.extend(offsets(&job));
                    world.done(job);
                }
                (_, None) => {}
            }
            done.extend(world.run().concat());
            at = end;
        }
        prop_assert_eq!(done, expected(&rows, window_ms));
    }
}
