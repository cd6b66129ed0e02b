//! Tests of a dispatcher on a virtual clock, fed by a test lane, with a producer in memory.

use grete_proto::dispatch::{PendingTimers, RetryPolicy};
use grete_proto::producer::MemoryLog;
use grete_proto::time::SECOND;
use grete_wire::records::ProducerRecord;

use super::*;
use crate::TestLane;
use crate::config::ProducerConfig;
use crate::producer::Producer;

fn lane(dispatcher: &Dispatcher, policy: RouteConfig) -> TestLane {
    let mut lane = TestLane::new(dispatcher, Arc::new(policy), "orders", 0, 0);
    push_from(&mut lane, 0);
    lane
}

fn push_from(lane: &mut TestLane, first: i64) {
    let records: Vec<_> = (first..4).map(|offset| TestRecord::value(0, offset.to_string())).collect();
    lane.push(build_batch(first, &records, &BatchOptions::default())).expect("whole batches");
}

fn take(dispatcher: &Dispatcher, worker: &mut WorkerContext, done: Option<&JobToken>) -> Option<Job> {
    match dispatcher.next(worker, done, Some(Duration::ZERO)).expect("not forked") {
        NextJob::Job(job) => Some(job),
        NextJob::TimedOut => None,
        other => panic!("{other:?}"),
    }
}

fn first_offset(job: &Job) -> i64 {
    let batch = job.batch.as_ref().expect("records");
    batch.columns.offsets[batch.rows.start]
}

#[test]
fn a_backoff_ends_when_the_clock_is_advanced_and_not_before() {
    let dispatcher = Dispatcher::with_virtual_time().expect("descriptors");
    let mut worker = dispatcher.pool_context("test", Pool::Threads);
    let retry = RetryPolicy { backoff: 20 * SECOND, max_backoff: 60 * SECOND, jitter_percent: 0, ..Default::default() };
    let lane = lane(&dispatcher, RouteConfig { retry, ..RouteConfig::default() });
    let job = take(&dispatcher, &mut worker, None).expect("records");
    let began = dispatcher.wall_clock_ms();
    let failure = Failure::new(FailureKind::Retriable, "ValueError", "no");
    dispatcher.fail_job(&job.token, failure).expect("not forked");
    let pending = PendingTimers { next: Some(20 * SECOND), backoffs: 1, others: 0 };
    assert_eq!((dispatcher.pending_timers(), dispatcher.virtual_time()), (pending, Duration::ZERO));
    dispatcher.advance_virtual_time(Duration::from_millis(19_999));
    assert!(take(&dispatcher, &mut worker, None).is_none());
    dispatcher.advance_virtual_time(Duration::from_secs(20));
    dispatcher.advance_virtual_time(Duration::from_secs(3)); // the clock does not go back
    assert_eq!((dispatcher.virtual_time(), dispatcher.wall_clock_ms() - began), (Duration::from_secs(20), 20_000));
    let again = take(&dispatcher, &mut worker, None).expect("the retry");
    assert_eq!((again.attempt, lane.done_offsets(&[0, 1, 2, 3]).len()), (2, 0));
    assert!(take(&dispatcher, &mut worker, Some(&again.token)).is_none());
    assert_eq!(lane.done_offsets(&[0, 1, 2, 3, 4]), [0, 1, 2, 3], "4 was not handed out");
    assert_eq!(dispatcher.pending_timers(), PendingTimers::default());
}

#[test]
fn a_seek_goes_on_with_what_is_pushed_afterwards() {
    let dispatcher = Dispatcher::with_virtual_time().expect("descriptors");
    let mut worker = dispatcher.pool_context("test", Pool::EventLoop);
    let policy = RouteConfig { max_messages: 1, pool: Pool::EventLoop, ..RouteConfig::default() };
    let mut lane = lane(&dispatcher, policy);
    let job = take(&dispatcher, &mut worker, None).expect("records");
    lane.seek(2);
    push_from(&mut lane, 2);
    let job = take(&dispatcher, &mut worker, Some(&job.token)).expect("records");
    assert_eq!(first_offset(&job), 2);
    let job = take(&dispatcher, &mut worker, Some(&job.token)).expect("records");
    assert_eq!(first_offset(&job), 3);
}

#[test]
fn a_record_in_memory_holds_back_its_job_until_it_is_written_or_refused() {
    let refusals = HashMap::from([("bad".to_owned(), None)]);
    let log = Arc::new(MemoryLog::new(HashMap::new(), refusals));
    let settings = [("bootstrap.servers", "memory:9092"), ("linger.ms", "60000")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let config = ProducerConfig::from_pairs(&settings).expect("valid");
    let producer = Producer::in_memory(&config, None, Arc::clone(&log)).expect("descriptors");
    let dispatcher = Dispatcher::with_virtual_time().expect("descriptors");
    dispatcher.set_producer(&producer);
    let mut worker = dispatcher.pool_context("test", Pool::Threads);
    let lane = lane(&dispatcher, RouteConfig { max_messages: 1, ..RouteConfig::default() });
    for (topic, delivered) in [("good", true), ("bad", false)] {
        let job = take(&dispatcher, &mut worker, None).expect("records");
        let offset = first_offset(&job);
        let id = producer.topic(topic);
        let now = producer.now();
        let mut accumulator = producer.accumulator();
        let record = ProducerRecord { timestamp: 1, key: None, value: Some(b"value"), headers: &[] };
        let appended = accumulator.append(now, id, None, &record).expect("room");
        let (promise, index) = (Arc::clone(appended.promise), appended.index);
        drop(accumulator);
        job.token.produced(&promise, index, 1, None);
        assert!(promise.result(index).is_none(), "it lingers");
        dispatcher.complete(&job.token, Outcome::Done).expect("not forked");
        assert!(promise.result(index).is_some(), "the end of the job sends it");
        assert_eq!(!lane.done_offsets(&[offset]).is_empty(), delivered);
        if !delivered {
            assert!(take(&dispatcher, &mut worker, None).expect("the job").returned);
        }
    }
    assert_eq!(log.take_written().iter().map(|batch| &*batch.topic).collect::<Vec<_>>(), ["good"]);
    let deadline = producer.close(Duration::ZERO).expect("not forked");
    assert_eq!(producer.await_close(deadline, || false), crate::CloseStatus::Done(crate::Undelivered::default()));
}
