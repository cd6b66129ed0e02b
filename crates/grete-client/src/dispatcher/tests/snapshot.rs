//! Tests of snapshots: counters while threads work, and the reported ages of lanes.

use std::sync::mpsc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use grete_proto::dispatch::{OffsetPolicy, RatePolicy};
use grete_proto::time::MILLI;

use super::*;

fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis()).expect("not that late")
}

#[test]
fn marks_of_other_threads_add_up_while_snapshots_are_taken() {
    const LANES: u32 = 5;
    const CHUNKS: i64 = 40;
    const ROWS: i64 = 13;
    const ALL: u64 = LANES as u64 * (CHUNKS * ROWS) as u64;
    let dispatcher = Dispatcher::new(WaitMode::Parked).expect("descriptors");
    let client = dispatcher.attach();
    let policy = RouteConfig { offsets: OffsetPolicy::Manual, max_messages: 7, ..RouteConfig::default() };
    let lanes: Vec<LaneId> =
        (0..LANES).map(|partition| lane_with(&dispatcher, client, partition, policy.clone())).collect();
    let (later, marks) = mpsc::channel::<(JobToken, Vec<i64>)>();
    thread::scope(|scope| {
        for number in 0..3 {
            let (dispatcher, later) = (&dispatcher, later.clone());
            scope.spawn(move || {
                work(dispatcher, &format!("worker-{number}"), |job| {
                    if let Some(batch) = &job.batch {
                        // Marks one record at once; the marking thread marks all of them again later.
                        let offsets = batch.offsets().to_vec();
                        dispatcher.mark(&job.token, offsets[0], offsets[0]).expect("the lane is here");
                        later.send((job.token.clone(), offsets)).expect("a receiver");
                    }
                    Outcome::Done
                });
            });
        }
        drop(later);
        scope.spawn(|| {
            for (token, offsets) in marks {
                dispatcher.mark_rows(&token, &offsets).expect("the lane is here");
            }
        });
        for chunk in 0..CHUNKS {
            for (partition, id) in (0..LANES).zip(&lanes) {
                push(&dispatcher, *id, partition, chunk * ROWS, ROWS);
            }
        }
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut before = 0;
        while before < ALL {
            let snapshot = dispatcher.snapshot();
            let counted = snapshot.counts().records;
            assert!((before..=ALL).contains(&counted), "{counted} after {before}");
            let left: i64 = snapshot.lanes.iter().filter_map(|lane| lane.lag).sum();
            assert!(left.unsigned_abs() <= ALL - counted, "{left} are left, and {counted} are done");
            assert!(Instant::now() < deadline, "{:?}", dispatcher.lanes());
            before = counted;
        }
        dispatcher.stop();
    });
    let [tally] = dispatcher.snapshot().route_stats.try_into().expect("one route");
    assert_eq!((tally.records, tally.failures), (ALL, 0));
    let jobs = tally.durations.counts.iter().sum::<u64>();
    assert!(jobs >= ALL / 7 && jobs <= tally.jobs, "{tally:?}");
}

#[test]
fn ages_are_seconds_of_the_wall_clock() {
    let dispatcher = Dispatcher::new(WaitMode::Parked).expect("descriptors");
    let id = lane(&dispatcher, dispatcher.attach(), 0, 1);
    let lane_ages = || {
        let [lane] = dispatcher.lanes().try_into().expect("one lane");
        (lane.lag, lane.lag_seconds, lane.last_progress)
    };
    assert_eq!(lane_ages(), (None, None, None));
    let now = now_ms();
    // The clock of the last record's producer is ahead.
    let records: Vec<_> = [now - 3_600_000, now - 60_000, now + 60_000].map(|time| TestRecord::value(time, "v")).into();
    push_records(&dispatcher, id, 0, 0, &records);
    let hour = 3600.0..3600.0 + TEST_TIMEOUT.as_secs_f64();
    assert!(matches!(lane_ages(), (Some(3), Some(age), None) if hour.contains(&age)), "{:?}", lane_ages());
    let mut worker = dispatcher.worker_context("worker", 1);
    let mut done = None;
    let mut next = || {
        let NextJob::Job(job) = dispatcher.next(&mut worker, done.as_ref(), Some(TEST_TIMEOUT)).expect("no fork")
        else {
            panic!("there are records")
        };
        done = Some(job.token.clone());
        job
    };
    let (began, _first, _second) = (now_ms() as f64 / 1000.0, next(), next());
    let minute = 60.0..60.0 + TEST_TIMEOUT.as_secs_f64();
    let (lag, age, progress) = lane_ages();
    assert_eq!(lag, Some(2));
    assert!(age.is_some_and(|age| minute.contains(&age)), "{age:?}");
    assert!(
        progress.is_some_and(|at| (began - 0.01..began + TEST_TIMEOUT.as_secs_f64()).contains(&at)),
        "{progress:?}"
    );
    let third = next();
    assert_eq!(lane_ages().1, Some(0.0), "what is not written yet is not old");
    dispatcher.complete(&third.token, Outcome::Done).expect("no fork");
    assert_eq!((lane_ages().0, lane_ages().1), (Some(0), Some(0.0)));
}

#[test]
fn what_a_rate_holds_back_does_not_wait_for_a_worker() {
    let dispatcher = Dispatcher::new(WaitMode::Parked).expect("descriptors");
    let hour = RatePolicy { records: 1, per: 3_600_000 * MILLI };
    let policy = RouteConfig { max_messages: 1, rate_limit: Some(hour), ..RouteConfig::default() };
    dispatcher.lock().dispatch.add_route(&policy);
    let id = lane_with(&dispatcher, dispatcher.attach(), 0, policy);
    let waits = || dispatcher.snapshot().has_unclaimed_work;
    assert!(!waits());
    push(&dispatcher, id, 0, 0, 2);
    assert!(waits(), "no worker has taken it");
    let mut worker = dispatcher.worker_context("worker", 1);
    let NextJob::Job(job) = dispatcher.next(&mut worker, None, Some(TEST_TIMEOUT)).expect("no fork") else {
        panic!("there are records")
    };
    assert!(!waits());
    assert!(matches!(dispatcher.next(&mut worker, Some(&job.token), Some(Duration::ZERO)), Ok(NextJob::TimedOut)));
    let [lane] = dispatcher.lanes().try_into().expect("one lane");
    assert_eq!((lane.lag, waits()), (Some(1), false));
}
