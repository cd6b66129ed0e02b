//! Tests of records that wait for the metadata of their topic.

use std::sync::Arc;

use grete_wire::error_code::ErrorCode;
use grete_wire::records::ProducerRecord;

use super::harness::{Harness, config, result};
use crate::producer::{
    AppendAction, AppendError, BatchPromise, DropReason, LastError, Outcome, ProduceConfig, ProduceError, SenderAction,
    SenderEvent, SenderLogEvent,
};
use crate::time::{MILLI, SECOND};

const TOPIC: &str = "late";

/// Queues a record and steps the sender as a caller does.
fn queue(rig: &mut Harness, partition: Option<i32>, key: Option<&str>, value: &str) -> Arc<BatchPromise> {
    try_queue(rig, partition, key, value).expect("taken")
}

fn try_queue(
    rig: &mut Harness,
    partition: Option<i32>,
    key: Option<&str>,
    value: &str,
) -> Result<Arc<BatchPromise>, AppendError> {
    let now = rig.now;
    let mut accumulator = rig.accumulator.lock().expect("no thread panics");
    let topic = accumulator.topic(TOPIC);
    let key = key.map(str::as_bytes);
    let record = ProducerRecord { timestamp: 1, key, value: Some(value.as_bytes()), ..ProducerRecord::default() };
    let appended = accumulator.append_or_queue(now, topic, partition, &record)?;
    let (promise, action) = (Arc::clone(appended.promise), appended.action);
    drop(accumulator);
    if action != AppendAction::Nothing {
        rig.step(SenderEvent::Tick);
    }
    Ok(promise)
}

fn ready(config: ProduceConfig) -> Harness {
    Harness::ready(config, &[1])
}

fn error(promise: &BatchPromise) -> ProduceError {
    let result = result(promise, 0);
    assert_eq!(result.outcome, Outcome::NotWritten);
    (*result.error.expect("a reason")).clone()
}

/// Answers every request. Returns the values by partition, in the order of sending.
fn write_all(rig: &mut Harness, partitions: usize) -> Vec<Vec<String>> {
    let mut written = vec![Vec::new(); partitions];
    while let Some(sent) = rig.sent.pop_front() {
        for batch in &sent.batches {
            assert_eq!(batch.topic, TOPIC);
            written[usize::try_from(batch.partition).expect("a partition")].extend(batch.values.iter().cloned());
        }
        rig.accept(&sent, 100);
    }
    written
}

#[test]
fn records_are_sent_in_order_once_the_partitions_are_known() {
    let mut rig = ready(ProduceConfig { linger: SECOND, ..config() });
    let queued: Vec<_> = (0..5).map(|n| queue(&mut rig, None, Some("key"), &format!("{n}"))).collect();
    assert_eq!((rig.pending(), rig.lock().unassigned_records(), queued[0].partition()), (5, 5, -1));
    let by_topic: Vec<u64> = rig.lock().pending_by_topic().into_iter().map(|(_, count)| count).collect();
    assert_eq!(by_topic, [5]);
    assert!(rig.sent.is_empty());
    rig.lead(TOPIC, &[1, 1]);
    assert_eq!(rig.lock().unassigned_records(), 0);
    // They have waited, so they do not linger.
    let sent = rig.next_sent();
    assert_eq!(sent.only().values, ["0", "1", "2", "3", "4"]);
    rig.accept(&sent, 100);
    let partition = sent.only().partition;
    for (offset, promise) in (100..).zip(&queued) {
        let result = result(promise, 0);
        assert_eq!((result.outcome, result.offset, promise.partition()), (Outcome::Written, Some(offset), partition));
    }
    assert_eq!((rig.used(), rig.pending()), (0, 0));
    assert_eq!(rig.lock().pending_by_topic(), []);
    assert_eq!(rig.sender.stats().written, 5);
}

#[test]
fn later_records_stay_behind_those_that_waited() {
    let mut rig = ready(ProduceConfig { linger: SECOND, batch_size: 400, ..config() });
    let topic = rig.topic(TOPIC);
    let mut expected: Vec<String> = (0..20).map(|n| format!("{n:050}")).collect();
    for value in &expected {
        queue(&mut rig, Some(1), None, value);
    }
    // The partitions are known; the broker is not connected.
    rig.metadata.unready.insert(1);
    rig.lead(TOPIC, &[1, 1]);
    for n in 20..40 {
        expected.push(format!("{n:050}"));
        let now = rig.now;
        let record = ProducerRecord { value: Some(expected[n].as_bytes()), ..ProducerRecord::default() };
        let promise = Arc::clone(rig.lock().append(now, topic, Some(1), &record).expect("taken").promise);
        rig.lock().end_linger(&promise);
        rig.step(SenderEvent::Drain);
    }
    rig.metadata.unready.clear();
    rig.step(SenderEvent::NodeReady(1));
    assert_eq!(write_all(&mut rig, 2), [Vec::new(), expected]);
    assert_eq!((rig.used(), rig.pending()), (0, 0));
    assert_eq!(rig.lock().pending_by_topic(), []);
}

#[test]
fn keys_decide_as_they_do_without_waiting() {
    let mut rig = ready(config());
    let keys: Vec<String> = (0..50).map(|n| format!("key-{n}")).collect();
    let queued: Vec<_> = keys.iter().map(|key| queue(&mut rig, None, Some(key), key)).collect();
    rig.lead(TOPIC, &[1; 7]);
    write_all(&mut rig, 7);
    let topic = rig.topic(TOPIC);
    for (key, promise) in keys.iter().zip(queued) {
        let record = ProducerRecord { key: Some(key.as_bytes()), ..ProducerRecord::default() };
        let now = rig.now;
        let partition = rig.lock().append(now, topic, None, &record).expect("taken").partition;
        assert_eq!(partition, promise.partition());
    }
}

#[test]
fn records_without_a_key_spread_over_the_partitions_batch_by_batch() {
    let mut rig = ready(ProduceConfig { batch_size: 1000, ..config() });
    for n in 0..400 {
        queue(&mut rig, None, None, &format!("{n:0100}"));
    }
    rig.lead(TOPIC, &[1; 5]);
    let written = write_all(&mut rig, 5);
    assert_eq!(written.iter().map(Vec::len).sum::<usize>(), 400);
    assert!(written.iter().all(|values| values.len() > 30 && values.is_sorted()), "{written:?}");
}

#[test]
fn a_topic_that_is_not_there_fails_after_the_propagation_time() {
    let mut rig = ready(config());
    let promise = queue(&mut rig, None, None, "a");
    assert!(promise.watch());
    let deny = |rig: &mut Harness| {
        rig.metadata.topics.insert(TOPIC.to_owned(), Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        rig.metadata.missing.insert(TOPIC.to_owned(), rig.now);
        rig.step(SenderEvent::MetadataChanged);
    };
    deny(&mut rig);
    rig.now += 999 * MILLI;
    deny(&mut rig);
    assert!(!promise.is_complete(), "other brokers may have heard of the topic");
    let later = queue(&mut rig, None, None, "b");
    rig.now += MILLI;
    deny(&mut rig);
    assert_eq!(error(&promise), ProduceError::MissingTopic { topic: TOPIC.into(), similar: None });
    assert_eq!(error(&promise).code(), Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    assert!(rig.has(|action| matches!(action, SenderAction::Completed(done) if Arc::ptr_eq(done, &promise))));
    assert!(!later.is_complete(), "each record waits for an answer of its own");
    let [SenderLogEvent::RecordsDropped { reason, dropped }] = rig.log_events()[..] else { panic!("one line") };
    assert_eq!(*reason, DropReason::Refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    assert_eq!((dropped[0].tp.partition, dropped[0].records), (-1, 1));
    rig.lead(TOPIC, &[1]);
    assert_eq!(write_all(&mut rig, 1), [["b"]]);
}

#[test]
fn without_an_answer_records_fail_after_max_block() {
    let mut rig = ready(ProduceConfig { max_block: 3 * SECOND, ..config() });
    let first = queue(&mut rig, None, None, "a");
    rig.pass(SECOND);
    let second = queue(&mut rig, None, None, "b");
    rig.pass(2 * SECOND - MILLI);
    assert!(!first.is_complete());
    rig.pass(MILLI);
    let expected = ProduceError::MetadataTimeout { topic: TOPIC.into(), waited: 3 * SECOND, last: None };
    assert_eq!((error(&first), second.is_complete()), (expected, false));
    rig.pass(SECOND);
    assert!(second.is_complete());
    assert_eq!((rig.used(), rig.pending(), rig.lock().unassigned_records()), (0, 0, 0));
    assert_eq!(rig.sender.stats().not_written, 2);
}

#[test]
fn delivery_timeout_counts_from_the_call() {
    let limits = ProduceConfig { max_block: 60 * SECOND, delivery_timeout: 5 * SECOND, ..config() };
    let mut rig = ready(limits.clone());
    let promise = queue(&mut rig, None, None, "a");
    rig.pass(5 * SECOND);
    let last = Some(LastError::NoMetadata);
    let expected = ProduceError::DeliveryTimeout { topic: TOPIC.into(), partition: -1, timeout: 5 * SECOND, last };
    assert_eq!(error(&promise), expected);
    // Time that a record has waited for metadata counts.
    let promise = queue(&mut rig, None, None, "b");
    rig.pass(4 * SECOND);
    rig.metadata.unready.insert(1);
    rig.lead(TOPIC, &[1]);
    rig.pass(SECOND - MILLI);
    assert!(!promise.is_complete());
    rig.pass(MILLI);
    assert!(matches!(error(&promise), ProduceError::DeliveryTimeout { partition: 0, .. }), "{}", error(&promise));
    assert_eq!((rig.used(), rig.pending()), (0, 0));
    assert_eq!(rig.lock().pending_by_topic(), []);
}

#[test]
fn a_stop_shortens_the_wait() {
    let mut rig = ready(config());
    let promise = queue(&mut rig, None, None, "a");
    let deadline = rig.now + SECOND;
    rig.lock().expedite(deadline);
    rig.step(SenderEvent::Tick);
    rig.pass(SECOND - MILLI);
    assert!(!promise.is_complete());
    rig.pass(MILLI);
    assert!(matches!(error(&promise), ProduceError::MetadataTimeout { .. }));
}

#[test]
fn a_partition_that_the_topic_does_not_have_fails_its_record_only() {
    let mut rig = ready(config());
    let wrong = queue(&mut rig, Some(3), None, "wrong");
    let good = queue(&mut rig, Some(2), None, "good");
    rig.lead(TOPIC, &[1, 1, 1]);
    assert_eq!(error(&wrong), ProduceError::UnknownTopic { topic: TOPIC.into(), partition: 3 });
    write_all(&mut rig, 3);
    assert_eq!((result(&good, 0).outcome, rig.used(), rig.pending()), (Outcome::Written, 0, 0));
}

#[test]
fn a_topic_that_may_not_be_written_fails_at_once() {
    let mut rig = ready(config());
    let promise = queue(&mut rig, None, None, "a");
    rig.metadata.topics.insert(TOPIC.to_owned(), Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED));
    rig.step(SenderEvent::MetadataChanged);
    assert!(matches!(error(&promise), ProduceError::Authorization { .. }));
    let refused = try_queue(&mut rig, None, None, "b").expect_err("known to be refused");
    assert!(matches!(refused, AppendError::Topic(_)), "{refused}");
    assert_eq!((rig.used(), rig.pending()), (0, 0));
    assert_eq!(rig.lock().pending_by_topic(), []);
}

#[test]
fn a_flush_waits_for_queued_records() {
    let mut rig = ready(config());
    let promise = queue(&mut rig, None, None, "a");
    let mark = rig.lock().flush();
    queue(&mut rig, None, None, "b");
    assert!(!rig.lock().is_flushed(mark));
    assert!(rig.lock().await_flush(mark).is_some());
    rig.lead(TOPIC, &[1]);
    assert!(!rig.lock().is_flushed(mark));
    assert_eq!(write_all(&mut rig, 1), [["a", "b"]]);
    assert!(rig.lock().is_flushed(mark) && promise.is_complete());
    assert!(rig.has(|action| matches!(action, SenderAction::FlushCompleted)));
}

#[test]
fn a_close_gives_queued_records_their_time() {
    for arrives in [false, true] {
        let mut rig = ready(config());
        let promise = queue(&mut rig, None, None, "a");
        let deadline = rig.now + 2 * SECOND;
        rig.step(SenderEvent::Close { deadline });
        assert_eq!(try_queue(&mut rig, None, None, "b").expect_err("closed"), AppendError::Closed);
        rig.pass(SECOND);
        assert!(!rig.has(|action| matches!(action, SenderAction::Finished)));
        if arrives {
            rig.lead(TOPIC, &[1]);
            write_all(&mut rig, 1);
            assert_eq!(result(&promise, 0).outcome, Outcome::Written);
        } else {
            rig.pass(SECOND);
            let last = Some(LastError::NoMetadata);
            assert_eq!(error(&promise), ProduceError::Closed { topic: TOPIC.into(), partition: -1, last });
        }
        assert!(rig.has(|action| matches!(action, SenderAction::Finished)));
        assert_eq!((rig.used(), rig.pending()), (0, 0));
        assert_eq!(rig.lock().pending_by_topic(), []);
    }
}

#[test]
fn queued_records_count_against_the_memory_and_always_fit_their_batches() {
    for (value, partitions) in [(10, 1), (10, 500), (300, 3), (700, 40), (1500, 7)] {
        let limit = 100_000;
        let memory = ProduceConfig { buffer_memory: limit, batch_size: 1024, max_request_size: 4096, ..config() };
        let mut rig = ready(memory);
        let mut queued = Vec::new();
        let refused = loop {
            let n = queued.len();
            match try_queue(&mut rig, None, Some(&format!("{n}")), &format!("{n:0value$}")) {
                Ok(promise) => queued.push(promise),
                Err(refused) => break refused,
            }
            assert!(rig.used() <= limit);
        };
        assert_eq!(refused, AppendError::BufferFull);
        let full = rig.used();
        assert!(full > limit - 4096 && queued.len() * value < limit, "{full}");
        rig.metadata.unready.insert(1);
        rig.lead(TOPIC, &vec![1; partitions]);
        assert!(rig.used() <= full, "{} bytes, {full} before", rig.used());
        assert!(rig.has(|action| matches!(action, SenderAction::MemoryAvailable)) || rig.used() > limit * 7 / 8);
        rig.metadata.unready.clear();
        rig.step(SenderEvent::NodeReady(1));
        let written = write_all(&mut rig, partitions);
        assert!(written.iter().all(|values| values.is_sorted()));
        assert!(queued.iter().all(|promise| result(promise, 0).outcome == Outcome::Written));
        assert_eq!((rig.used(), rig.pending()), (0, 0));
        assert_eq!(rig.lock().pending_by_topic(), []);
    }
}

#[test]
fn a_record_as_large_as_the_memory_can_wait_too() {
    let mut rig = ready(ProduceConfig { buffer_memory: 4096, max_request_size: 1 << 20, ..config() });
    let promise = queue(&mut rig, None, None, &"v".repeat(4000));
    assert_eq!(try_queue(&mut rig, None, None, "a").expect_err("no room"), AppendError::BufferFull);
    rig.lead(TOPIC, &[1]);
    assert!(rig.used() <= 4096);
    write_all(&mut rig, 1);
    assert_eq!((result(&promise, 0).outcome, rig.used()), (Outcome::Written, 0));
}

#[test]
fn a_wait_for_a_record_that_was_moved_ends_the_linger_of_its_batch() {
    let mut rig = ready(ProduceConfig { linger: SECOND, ..config() });
    let promise = queue(&mut rig, None, None, "a");
    assert!(!rig.lock().end_linger(&promise), "there is no batch yet");
    rig.metadata.unready.insert(1);
    rig.lead(TOPIC, &[1]);
    assert!(rig.lock().end_linger(&promise), "its batch is known by its number");
}

#[test]
fn a_topic_with_queued_records_stays_tracked() {
    let mut rig = ready(ProduceConfig { max_block: 3600 * SECOND, delivery_timeout: 3600 * SECOND, ..config() });
    let promise = queue(&mut rig, None, None, "a");
    rig.pass(1000 * SECOND);
    assert!(rig.lock().tracked_topics().iter().any(|topic| **topic == *TOPIC));
    rig.lead(TOPIC, &[1]);
    write_all(&mut rig, 1);
    assert!(promise.is_complete());
}

#[test]
fn halves_of_a_batch_that_was_too_large_settle_the_records_that_waited() {
    let mut rig = ready(config());
    let queued: Vec<_> = (0..4).map(|n| queue(&mut rig, None, None, &format!("{n}"))).collect();
    rig.lead(TOPIC, &[1]);
    let whole = rig.next_sent();
    rig.reject(&whole, ErrorCode::MESSAGE_TOO_LARGE);
    let first = rig.next_sent();
    rig.accept(&first, 10);
    assert_eq!(queued.iter().filter(|promise| promise.is_complete()).count(), 2);
    let second = rig.next_sent();
    rig.accept(&second, 12);
    let offsets = queued.iter().map(|promise| result(promise, 0).offset);
    assert_eq!(offsets.collect::<Vec<_>>(), [Some(10), Some(11), Some(12), Some(13)]);
}
