//! Tests of waits, completion queues and the end of the network thread. No broker listens at the addresses of these
//! producers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use grete_proto::producer::{MemoryLog, PartitionId};
use grete_wire::records::ProducerRecord;

use super::*;
use crate::config::ProducerConfig;
use crate::thread_guard::NetworkThreadGuard;

fn config(pairs: &[(&str, &str)]) -> ProducerConfig {
    // Nothing listens on port 1: the connection is refused at once, or the attempt is never answered.
    let mut all = vec![("bootstrap.servers".to_owned(), "127.0.0.1:1".to_owned())];
    all.extend(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    ProducerConfig::from_pairs(&all).expect("fits")
}

fn inner() -> Arc<ProducerInner> {
    let config = config(&[]);
    Arc::new(ProducerInner::new(&config, &config.to_core().produce, Rng::new(1), None, None).expect("descriptors"))
}

fn receipt() -> Arc<BatchPromise> {
    Arc::new(BatchPromise::new("orders".into(), 0, PartitionId(0)))
}

/// Lets the network thread panic while `sleep` runs on another thread.
fn after_a_panic(
    shared: &Arc<ProducerInner>,
    sleep: impl FnOnce(&ProducerInner) -> WaitOutcome + Send + 'static,
) -> WaitOutcome {
    let sleeping = Arc::clone(shared);
    let sleeper = thread::spawn(move || sleep(&sleeping));
    let ending = NetworkThreadGuard { owner: Arc::clone(shared) };
    let network = thread::spawn(move || {
        let _ending = ending;
        panic!("as if a machine had a fault");
    });
    assert!(network.join().is_err());
    sleeper.join().expect("woken")
}

const LONG: Option<Nanos> = Some(600 * 1_000_000_000);

#[test]
fn a_panic_of_the_network_thread_wakes_a_wait_for_space() {
    let shared = inner();
    let slept = after_a_panic(&shared, move |shared| {
        let room = &shared.futexes().memory;
        loop {
            match shared.wait_on_word(room, room.load(std::sync::atomic::Ordering::SeqCst), LONG) {
                WaitOutcome::Woken => {}
                other => return other,
            }
        }
    });
    assert_eq!(slept, WaitOutcome::Ended);
    assert!(shared.check().expect_err("unusable").to_string().contains("a fault of Grete's own"));
    assert!(!shared.is_usable());
}

#[test]
fn a_panic_of_the_network_thread_wakes_a_wait_for_a_batch() {
    let shared = inner();
    let receipt = receipt();
    let slept = after_a_panic(&shared, move |shared| {
        loop {
            match shared.wait_for_batch(&receipt, LONG, || false) {
                WaitOutcome::Woken => {}
                other => return other,
            }
        }
    });
    assert_eq!(slept, WaitOutcome::Ended);
    assert!(shared.batch_waiters.lock().expect("whole").is_empty());
}

#[test]
fn a_panic_of_the_network_thread_wakes_a_wait_for_callbacks() {
    let shared = inner();
    let slept = after_a_panic(&shared, |shared| {
        loop {
            match shared.wait_wake_flag(LONG) {
                WaitOutcome::Woken if !shared.has_ended() => {}
                other => return other,
            }
        }
    });
    assert!(matches!(slept, WaitOutcome::Woken | WaitOutcome::Ended), "{slept:?}");
}

#[test]
fn without_a_broker_a_topic_is_waited_for_and_closing_takes_no_longer_than_it_may() {
    let producer = Producer::start(&config(&[]), None).expect("started");
    let timeout = Duration::from_millis(100);
    let deadline = producer.deadline(timeout);
    let error = loop {
        match producer.partitions("orders", timeout, deadline) {
            Ok(PartitionsStatus::Known(count)) => panic!("{count} partitions of nothing"),
            Ok(_) => {}
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("partitions of topic \"orders\" had no answer within 0.1 s"), "{error}");
    assert!(producer.now() >= deadline);
    let deadline = producer.close(Duration::ZERO).expect("closes");
    assert_eq!(producer.await_close(deadline, || false), CloseStatus::Done(Undelivered::default()));
    assert!(matches!(producer.check(), Err(ClientError::Closed { .. })));
}

#[test]
fn a_completion_queue_gets_each_registered_batch_once() {
    let shared = inner();
    let watch = shared.completion_queues.create(None);
    let other = shared.completion_queues.create(None);
    let receipt = receipt();
    assert!(watch.register(&receipt));
    assert!(watch.register(&receipt), "twice is once");
    shared.completion_queues.complete(&receipt);
    assert!(shared.wake_flag.is_raised());
    assert_eq!((watch.drain().len(), watch.drain().len(), other.drain().len()), (1, 0, 0));
    drop(watch);
    shared.completion_queues.complete(&receipt);
    assert_eq!(other.drain().len(), 0);
}

#[test]
fn a_queue_that_requested_space_is_notified_once() {
    let shared = inner();
    let watch = shared.completion_queues.create(Some(grete_sys::EventFd::new().expect("descriptors")));
    shared.completion_queues.notify_space();
    assert!(!watch.is_pending());
    watch.request_space();
    shared.completion_queues.notify_space();
    assert!(watch.is_pending());
    assert!(watch.drain().is_empty() && !watch.is_pending());
    shared.completion_queues.notify_space();
    assert!(!watch.is_pending());
}

/// Returns shared state with a log sink, and a receiver of the event names that a waiting thread writes to the sink.
fn inner_with_sink() -> (Arc<ProducerInner>, std::sync::mpsc::Receiver<&'static str>) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let log: crate::log_event::LogSink = Box::new(move |notices| {
        let sender = sender.lock().expect("whole");
        let _ = notices.iter().try_for_each(|dated| sender.send(dated.event.name));
        false
    });
    let config = config(&[]);
    let shared =
        ProducerInner::new(&config, &config.to_core().produce, Rng::new(1), Some(log), None).expect("descriptors");
    (Arc::new(shared), receiver)
}

fn log_event() -> crate::log_event::LogEvent {
    log_messages::producer_failed(&ClientError::Closed { what: "producer" })
}

#[test]
fn log_events_are_written_during_every_kind_of_wait() {
    type Wait = fn(&Arc<ProducerInner>);
    let waits: [(&str, Wait); 4] = [
        ("room", |shared| {
            let room = &shared.futexes().memory;
            while shared.wait_on_word(room, room.load(std::sync::atomic::Ordering::SeqCst), LONG) != WaitOutcome::Ended
            {
            }
        }),
        ("a receipt", |shared| {
            let receipt = receipt();
            while shared.wait_for_batch(&receipt, LONG, || false) != WaitOutcome::Ended {}
        }),
        ("callbacks", |shared| {
            while shared.wait_wake_flag(LONG) != WaitOutcome::Ended {
                shared.wake_flag.clear();
            }
        }),
        ("the end", |shared| {
            while shared.wait_until_ended(600 * 1_000_000_000, || shared.log_events.write_pending())
                != WaitOutcome::Ended
            {}
        }),
    ];
    for (what, wait) in waits {
        let (shared, logged) = inner_with_sink();
        let sleeping = Arc::clone(&shared);
        let sleeper = thread::spawn(move || wait(&sleeping));
        for _ in 0..100 {
            shared.emit(vec![log_event()]);
            let name = logged.recv_timeout(Duration::from_secs(60));
            assert_eq!(name, Ok("producer.failed"), "while a thread waits for {what}");
        }
        shared.finish();
        sleeper.join().expect("woken");
    }
}

#[test]
fn a_shutdown_ends_every_wait_for_metadata() {
    let producer = Producer::start(&config(&[]), None).expect("started");
    let waiting = producer.clone();
    let started = producer.now();
    let caller = thread::spawn(move || {
        let timeout = Duration::from_secs(600);
        let deadline = waiting.deadline(timeout);
        loop {
            if let Err(error) = waiting.partitions("orders", timeout, deadline) {
                return error.to_string();
            }
        }
    });
    producer.expedite_metadata();
    let error = caller.join().expect("no panic");
    assert!(error.contains("the App stops"), "{error}");
    assert!(producer.now() - started < 60_000_000_000);
}

/// Producer of records in memory, with one partition of "slow" and of "orders".
fn in_memory() -> Producer {
    let partitions = ["slow", "orders"].map(|topic| (topic.to_owned(), 1)).into();
    let memory = Arc::new(MemoryLog::new(partitions, HashMap::new()));
    let producer = Producer::in_memory(&config(&[]), None, memory).expect("descriptors");
    // The first use of a topic is a step, which asks for the topic's metadata.
    for topic in ["slow", "orders"] {
        producer.topic(topic);
    }
    producer
}

fn append(producer: &Producer, topic: &str) -> Arc<BatchPromise> {
    let (id, now) = (producer.topic(topic), producer.now());
    let record = ProducerRecord { timestamp: 1, key: None, value: Some(b"value"), headers: &[] };
    let mut accumulator = producer.accumulator();
    Arc::clone(accumulator.append(now, id, None, &record).expect("room").promise)
}

/// Calls `stalled` while the thread that steps the producer has completed a record of "slow", and is held up before
/// the completion is queued.
fn while_a_step_is_held_up(producer: &Producer, stalled: impl FnOnce()) {
    let (reached, reaches) = mpsc::channel();
    let (resume, resumes) = mpsc::channel::<()>();
    let resumes = Mutex::new(resumes);
    let queue = producer.completion_queue_with_callback(move || {
        let _ = reached.send(());
        // Also at the end of `stalled` by a panic, which drops the sender.
        let _ = resumes.lock().expect("one step at a time").recv();
    });
    assert!(queue.register(&append(producer, "slow")));
    thread::scope(|scope| {
        scope.spawn(|| producer.flush().expect("usable"));
        reaches.recv_timeout(Duration::from_secs(60)).expect("the record is completed");
        let _resume = resume;
        stalled();
    });
}

#[test]
fn a_flush_waits_for_the_step_that_has_completed_its_records() {
    let producer = in_memory();
    let queue = producer.completion_queue();
    let mut flush = None;
    while_a_step_is_held_up(&producer, || {
        let flushed = producer.flush().expect("usable");
        assert!(producer.accumulator().is_flushed(flushed.mark));
        let soon = producer.deadline(Duration::from_millis(20));
        assert_eq!(producer.await_flush(&flushed, Some(soon)), FlushStatus::TimedOut { pending: 0 });
        assert!(!queue.is_pending());
        flush = Some(flushed);
    });
    assert_eq!(producer.await_flush(&flush.expect("set"), LONG), FlushStatus::Done);
}

#[test]
fn a_close_that_gives_up_counts_what_the_network_thread_still_has() {
    let producer = in_memory();
    while_a_step_is_held_up(&producer, || {
        append(&producer, "orders");
        append(&producer, "orders");
        producer.inner.begin_close();
        let expected = Undelivered { by_topic: [("orders".to_owned(), 2)].into(), not_written: 0, unknown: 2 };
        assert_eq!(producer.await_close(producer.now(), || false), CloseStatus::TimedOut(expected));
    });
}
