//! Tests of the hand-over between threads: no record is lost, no thread hangs, and the order holds.

mod async_jobs;
mod key_concurrency;
mod leading_worker;
mod settling;
mod snapshot;
mod virtual_time;
mod wakeups;

use std::collections::HashMap;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use grete_net::{EventLoop, NetEvent, Protocol, TransportAction};
use grete_proto::dispatch::{Decision, Failure, FailureKind, JobKind, LaneId, LaneSpec, OffsetMap, RouteConfig};
use grete_proto::fetch::{CompletedFetch, TimestampRange};
use grete_proto::ids::{PartitionHandle, TopicPartition};
use grete_wire::buffer_pool::PooledBuf;
use grete_wire::records::test_encoder::{BatchOptions, TestRecord, build_batch};

use grete_proto::consumer::ConsumerEvent;

use super::*;
use crate::consumer::ConsumerThread;
use crate::request_queue::{RequestAborted, RequestQueue};
use crate::thread_guard::NetworkThreadGuard;

/// Longer than any of these tests needs: a hang becomes a failure.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn lane(dispatcher: &Dispatcher, client: ClientId, partition: u32, max_messages: usize) -> LaneId {
    let policy = RouteConfig { max_messages, ..RouteConfig::default() };
    lane_with(dispatcher, client, partition, policy)
}

fn lane_with(dispatcher: &Dispatcher, client: ClientId, partition: u32, policy: RouteConfig) -> LaneId {
    let tp = TopicPartition::new("orders", partition.cast_signed());
    let slot = PartitionHandle(partition);
    let policy = Arc::new(policy);
    let spec = LaneSpec { client, handle: slot, tp, assignment_epoch: 1, policy };
    let mut state = dispatcher.lock();
    let id = state.dispatch.add_lane(spec);
    state.dispatch.set_position(id, 0, 1, false, OffsetMap::default());
    id
}

fn push(dispatcher: &Dispatcher, lane: LaneId, partition: u32, base: i64, count: i64) {
    let records: Vec<_> = (0..count).map(|i| TestRecord::value(0, (base + i).to_string())).collect();
    push_records(dispatcher, lane, partition, base, &records);
}

fn push_records(dispatcher: &Dispatcher, lane: LaneId, partition: u32, base: i64, records: &[TestRecord]) {
    let count = i64::try_from(records.len()).expect("few");
    let bytes = build_batch(base, records, &BatchOptions::default());
    let times = TimestampRange::from_batches(&bytes);
    let chunk = CompletedFetch {
        slot: PartitionHandle(partition),
        assignment_epoch: 1,
        fetch_generation: 1,
        range: 0..bytes.len(),
        bytes: bytes.len(),
        frame: PooledBuf::from(bytes),
        fetch_offset: base,
        next_offset: base + count,
        aborted_transactions: Vec::new(),
        high_watermark: base + count,
        readable_end: base + count,
        log_start_offset: 0,
        leader_epoch: 0,
        source: 1,
        timestamps: times,
        acquired: None,
    };
    let mut state = dispatcher.lock();
    state.dispatch.push(dispatcher.clock().now(), lane, chunk);
    dispatcher.unlock_and_wake(state);
}

fn failed() -> Outcome {
    Outcome::Failed(Failure::new(FailureKind::Retriable, "ValueError", "no"))
}

/// Runs jobs until the dispatcher stops, with the outcome that `see` returns for each.
fn work(dispatcher: &Dispatcher, name: &str, mut see: impl FnMut(&Job) -> Outcome) {
    let mut worker = dispatcher.worker_context(name, 1);
    let mut done = None;
    loop {
        match dispatcher.next(&mut worker, done.take().as_ref(), Some(TEST_TIMEOUT)).expect("no fork") {
            NextJob::Job(job) => match see(&job) {
                Outcome::Done => done = Some(job.token),
                outcome => drop(dispatcher.complete(&job.token, outcome).expect("no fork")),
            },
            NextJob::Stopped => return,
            NextJob::Interrupted => {}
            NextJob::TimedOut => panic!("{name} waited for {TEST_TIMEOUT:?}: a wake-up was lost"),
        }
    }
}

#[test]
fn many_workers_and_lanes_lose_nothing_and_keep_each_lanes_order() {
    const LANES: u32 = 7;
    const CHUNKS: i64 = 300;
    const ROWS: i64 = 11;
    let dispatcher = Dispatcher::new(WaitMode::Parked).expect("descriptors");
    let client = dispatcher.attach();
    let lanes: Vec<LaneId> = (0..LANES).map(|partition| lane(&dispatcher, client, partition, 4)).collect();
    let seen: Mutex<HashMap<i32, Vec<i64>>> = Mutex::default();
    let in_flight: Mutex<HashMap<i32, usize>> = Mutex::default();
    let hooks = Mutex::new(0);
    thread::scope(|scope| {
        for number in 0..4 {
            let (dispatcher, seen, hooks, in_flight) = (&dispatcher, &seen, &hooks, &in_flight);
            scope.spawn(move || {
                work(dispatcher, &format!("worker-{number}"), |job| {
                    if job.kind == JobKind::Shutdown {
                        *hooks.lock().expect("no panic") += 1;
                        return Outcome::Done;
                    }
                    *in_flight.lock().expect("no panic").entry(job.partition).or_default() += 1;
                    let offsets = job.batch.as_ref().expect("rows").offsets().to_vec();
                    let mut seen = seen.lock().expect("no panic");
                    seen.entry(job.partition).or_default().extend(offsets);
                    drop(seen);
                    let mut in_flight = in_flight.lock().expect("no panic");
                    let together = in_flight.entry(job.partition).or_default();
                    assert_eq!(*together, 1, "one job in flight per lane");
                    *together -= 1;
                    Outcome::Done
                });
            });
        }
        for chunk in 0..CHUNKS {
            for (partition, id) in (0..LANES).zip(&lanes) {
                push(&dispatcher, *id, partition, chunk * ROWS, ROWS);
            }
        }
        // All records are processed when nothing is queued and no job runs. The last completion wakes no thread, so
        // this polls.
        let deadline = std::time::Instant::now() + TEST_TIMEOUT;
        while dispatcher.lanes().iter().any(|lane| lane.committable != Some(CHUNKS * ROWS)) {
            assert!(std::time::Instant::now() < deadline, "{:?}", dispatcher.lanes());
            thread::yield_now();
        }
        dispatcher.stop();
    });
    let seen = seen.into_inner().expect("no panic");
    for partition in 0..LANES.cast_signed() {
        assert_eq!(seen[&partition], (0..CHUNKS * ROWS).collect::<Vec<_>>());
    }
    assert_eq!(hooks.into_inner().expect("no panic"), LANES);
    let outbox = dispatcher.lock().dispatch.take_outbox(client);
    assert!(outbox.released.iter().map(|(_, bytes)| bytes).sum::<usize>() > 0);
    assert!(dispatcher.lanes().iter().all(|lane| lane.queued_bytes == 0));
}

#[test]
fn a_paused_lane_comes_back_by_its_own_deadline_though_all_sleep() {
    let dispatcher = Dispatcher::new(WaitMode::Parked).expect("descriptors");
    let client = dispatcher.attach();
    let id = lane(&dispatcher, client, 0, 10);
    push(&dispatcher, id, 0, 0, 3);
    let mut attempts = Vec::new();
    work(&dispatcher, "worker", |job| {
        if job.kind != JobKind::Consume {
            return Outcome::Done;
        }
        attempts.push(job.attempt);
        if job.attempt < 3 {
            return failed();
        }
        dispatcher.stop();
        Outcome::Done
    });
    assert_eq!(attempts, [1, 2, 3]);
}

#[test]
fn release_lets_sleepers_go_at_once() {
    for wait in [WaitMode::Parked, WaitMode::Interruptible] {
        let dispatcher = Dispatcher::new(wait).expect("descriptors");
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| work(&dispatcher, "sleeper", |_| Outcome::Done));
            dispatcher.release_workers();
            sleeper.join().expect("it returned");
        });
    }
}

#[test]
fn a_token_whose_job_has_ended_names_nothing() {
    let dispatcher = Dispatcher::new(WaitMode::Interruptible).expect("descriptors");
    let client = dispatcher.attach();
    let id = lane(&dispatcher, client, 0, 1);
    push(&dispatcher, id, 0, 0, 2);
    let mut worker = dispatcher.worker_context("poller", 0);
    let NextJob::Job(first) = dispatcher.next(&mut worker, None, Some(TEST_TIMEOUT)).expect("no fork") else {
        panic!("a job is queued")
    };
    dispatcher.complete(&first.token, Outcome::Done).expect("no fork");
    let NextJob::Job(second) = dispatcher.next(&mut worker, None, Some(TEST_TIMEOUT)).expect("no fork") else {
        panic!("another job is queued")
    };
    dispatcher.complete(&first.token, failed()).expect("no fork");
    assert_eq!(dispatcher.lanes()[0].state, "running", "the second job is not the first one's to end");
    dispatcher.complete(&second.token, Outcome::Done).expect("no fork");
    assert_eq!(dispatcher.lanes()[0].committable, Some(2));
    let timed_out = dispatcher.next(&mut worker, None, Some(Duration::ZERO)).expect("no fork");
    assert!(matches!(timed_out, NextJob::TimedOut));
}

#[test]
fn a_failure_ends_the_wait_of_a_poll() {
    let dispatcher = Dispatcher::new(WaitMode::Interruptible).expect("descriptors");
    thread::scope(|scope| {
        let poller = scope.spawn(|| {
            let mut worker = dispatcher.worker_context("poller", 0);
            dispatcher.next(&mut worker, None, Some(TEST_TIMEOUT)).expect("no fork")
        });
        dispatcher.fail(ClientError::NotKafka("a web server".into()));
        assert!(matches!(poller.join().expect("it returned"), NextJob::TimedOut));
    });
    assert!(matches!(dispatcher.fatal(), Some(ClientError::NotKafka(_))));
}

struct Idle;

impl Protocol for Idle {
    fn step(&mut self, _: Nanos, _: NetEvent, _: &mut Vec<TransportAction>) {}

    fn deadline(&self) -> Option<Nanos> {
        None
    }

    fn is_finished(&self) -> bool {
        true
    }
}

#[test]
fn a_panic_of_the_network_thread_is_reported_to_workers_and_callers() {
    let dispatcher = Dispatcher::new(WaitMode::Interruptible).expect("descriptors");
    let idle = EventLoop::new(dispatcher.clock(), dispatcher.slabs(), 1 << 20, |_| Idle).expect("descriptors");
    let requests = Arc::new(RequestQueue::new(idle.waker()));
    let owner = ConsumerThread { requests: Arc::clone(&requests), dispatcher: dispatcher.clone() };
    let guard = NetworkThreadGuard { owner };
    let thread = thread::spawn(move || {
        let _ending = guard;
        panic!("a fault of our own");
    });
    let response =
        requests.request(TEST_TIMEOUT, |_| false, |id| ConsumerEvent::CountPartitions { topic: "orders".into(), id });
    assert!(matches!(response, Err(RequestAborted::Closed)));
    assert!(thread.join().is_err());
    assert!(dispatcher.fatal().is_some());
    let mut worker = dispatcher.worker_context("poller", 0);
    assert!(matches!(dispatcher.next(&mut worker, None, Some(TEST_TIMEOUT)), Ok(NextJob::TimedOut)), "at once");
}
