//! Tests of concurrent keys with real threads.

use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use grete_proto::dispatch::Concurrency;

use super::*;

const KEYS: usize = 17;

fn key_of(offset: i64) -> usize {
    usize::try_from(offset).expect("from 0 on") * 7 % KEYS
}

#[test]
fn keys_run_side_by_side_and_each_keeps_its_order_though_some_fail() {
    const CHUNKS: i64 = 60;
    const ROWS: i64 = 50;
    let dispatcher = Dispatcher::new(WaitMode::Parked).expect("descriptors");
    let client = dispatcher.attach();
    let retry = grete_proto::dispatch::RetryPolicy { backoff: 1000, jitter_percent: 0, ..Default::default() };
    let policy = RouteConfig {
        concurrency: Concurrency::Key,
        key_slots: 256,
        max_messages: 5,
        max_in_flight: 300,
        retry,
        ..RouteConfig::default()
    };
    let id = lane_with(&dispatcher, client, 0, policy);
    let seen: Vec<Mutex<Vec<i64>>> = (0..KEYS).map(|_| Mutex::default()).collect();
    let (together, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for number in 0..4 {
            let (dispatcher, seen, together, most) = (&dispatcher, &seen, &together, &most);
            scope.spawn(move || {
                work(dispatcher, &format!("worker-{number}"), |job| {
                    let Some(batch) = job.batch.as_ref().filter(|_| job.kind == JobKind::Consume) else {
                        return Outcome::Done;
                    };
                    most.fetch_max(together.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    let mut outcome = Outcome::Done;
                    for (row, offset) in batch.offsets().iter().enumerate() {
                        if job.attempt == 1 && offset % 97 == 0 {
                            outcome = failed();
                            break;
                        }
                        seen[key_of(*offset)].lock().expect("no panic").push(*offset);
                        job.token.progress(row + 1);
                        thread::yield_now();
                    }
                    together.fetch_sub(1, Ordering::Relaxed);
                    outcome
                });
            });
        }
        for chunk in 0..CHUNKS {
            let key = |offset: i64| format!("key-{}", key_of(offset));
            let records: Vec<_> =
                (chunk * ROWS..(chunk + 1) * ROWS).map(|offset| TestRecord::keyed(0, key(offset), "v")).collect();
            push_records(&dispatcher, id, 0, chunk * ROWS, &records);
        }
        let deadline = Instant::now() + TEST_TIMEOUT;
        while dispatcher.lanes()[0].committable != Some(CHUNKS * ROWS) {
            assert!(Instant::now() < deadline, "{:?}", dispatcher.lanes());
            thread::yield_now();
        }
        dispatcher.stop();
    });
    for (key, offsets) in seen.into_iter().enumerate() {
        let expected: Vec<i64> = (0..CHUNKS * ROWS).filter(|offset| key_of(*offset) == key).collect();
        assert_eq!(offsets.into_inner().expect("no panic"), expected, "key {key}");
    }
    assert!(most.into_inner() > 1, "never two at once");
    assert!(dispatcher.counts().failures > 0);
    assert!(dispatcher.lanes().iter().all(|lane| lane.queued_bytes == 0));
}
