//! Tests of the accumulator: linger, memory limit, partition selection and idle topics.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use grete_wire::records::ProducerRecord;

use super::harness::{Harness, config};
use crate::murmur2::partition_for_key;
use crate::producer::{AppendAction, AppendError, Outcome, ProduceConfig, SenderAction, SenderEvent};
use crate::time::{MILLI, SECOND};

fn lingering() -> ProduceConfig {
    ProduceConfig { linger: 5 * MILLI, batch_size: 4096, ..config() }
}

#[test]
fn a_batch_lingers_and_then_leaves() {
    let mut rig = Harness::ready(lingering(), &[1]);
    let (receipt, index, wake) = rig.try_append(0, "a").expect("taken");
    assert_eq!((index, wake), (0, AppendAction::Rearm), "who sleeps longer has to learn of it");
    rig.step(SenderEvent::Drain);
    rig.now += MILLI;
    let (same, index, wake) = rig.try_append(0, "b").expect("taken");
    assert!(Arc::ptr_eq(&receipt, &same));
    assert_eq!((index, wake), (1, AppendAction::Nothing));
    rig.step(SenderEvent::Drain);
    assert_eq!((rig.sent.len(), rig.sender.deadline()), (0, Some(rig.now + 4 * MILLI)));
    rig.pass(4 * MILLI);
    assert_eq!(rig.next_sent().only().values, ["a", "b"]);
}

#[test]
fn only_the_first_batch_that_lingers_wakes() {
    let mut rig = Harness::ready(lingering(), &[1, 1]);
    assert_eq!(rig.try_append(0, "a").expect("taken").2, AppendAction::Rearm);
    rig.now += 1;
    assert_eq!(rig.try_append(1, "b").expect("taken").2, AppendAction::Nothing, "the machine looks before that");
    rig.step(SenderEvent::Drain);
    rig.pass(SECOND);
    rig.all_sent();
    assert_eq!(rig.try_append(1, "c").expect("taken").2, AppendAction::Rearm, "there is no other deadline that near");
}

#[test]
fn a_full_batch_leaves_at_once() {
    let mut rig = Harness::ready(lingering(), &[1]);
    let value = "v".repeat(990);
    let wakes: Vec<AppendAction> = (0..5).map(|_| rig.try_append(0, &value).expect("taken").2).collect();
    assert_eq!(
        wakes,
        [AppendAction::Rearm, AppendAction::Nothing, AppendAction::Nothing, AppendAction::Nothing, AppendAction::Drain]
    );
    rig.step(SenderEvent::Drain);
    assert_eq!(rig.next_sent().only().values.len(), 4);
    assert_eq!(rig.sent.len(), 0, "the fifth lingers");
}

#[test]
fn linger_0_does_not_wait_but_does_batch() {
    let mut rig = Harness::ready(config(), &[1]);
    assert_eq!(rig.try_append(0, "a").expect("taken").2, AppendAction::Drain);
    rig.step(SenderEvent::Drain);
    let first = rig.next_sent();
    for value in ["b", "c", "d"] {
        assert_eq!(rig.try_append(0, value).expect("taken").2, AppendAction::Nothing);
        rig.step(SenderEvent::Drain);
    }
    assert_eq!(rig.sent.len(), 0, "they wait for the batch that is on its way");
    rig.accept(&first, 0);
    assert_eq!(rig.next_sent().only().values, ["b", "c", "d"]);
}

#[test]
fn waiting_for_a_record_ends_its_linger() {
    for config in [lingering(), config()] {
        let mut rig = Harness::ready(config, &[1, 1]);
        rig.produce(0, "a");
        rig.lock().flush();
        rig.step(SenderEvent::Drain);
        let first = rig.next_sent();
        let (receipt, _) = rig.produce(0, "b");
        let (other, _) = rig.produce(1, "x");
        rig.all_sent();
        assert!(rig.lock().end_linger(&receipt));
        rig.step(SenderEvent::Drain);
        assert_eq!(rig.next_sent().only().values, ["b"]);
        assert_eq!(rig.sent.len(), 0, "others linger on");
        assert!(!rig.lock().end_linger(&receipt), "it has left");
        rig.accept(&first, 0);
        drop(other);
    }
}

#[test]
fn flush_ends_when_all_that_was_appended_before_is_settled() {
    let mut rig = Harness::ready(lingering(), &[1, 2]);
    rig.produce(0, "a");
    rig.produce(1, "b");
    let mark = rig.lock().flush();
    rig.step(SenderEvent::Drain);
    let sent = rig.all_sent();
    assert_eq!(sent.len(), 2);
    rig.produce(0, "later");
    let seen = rig.lock().await_flush(mark).expect("not yet");
    rig.accept(&sent[1], 0);
    let progress = |rig: &Harness| rig.has(|action| matches!(action, SenderAction::FlushCompleted));
    assert!(!progress(&rig) && !rig.lock().is_flushed(mark));
    rig.accept(&sent[0], 0);
    assert!(progress(&rig) && rig.lock().is_flushed(mark));
    assert_ne!(rig.lock().futexes().flush.load(Ordering::Relaxed), seen);
    assert_eq!(rig.lock().await_flush(mark), None);
    assert_eq!(rig.pending(), 1);
}

#[test]
fn memory_is_bounded_and_who_waits_for_it_is_woken() {
    let config = ProduceConfig { buffer_memory: 64 << 10, batch_size: 16 << 10, linger: SECOND, ..config() };
    let mut rig = Harness::ready(config, &[1, 1]);
    let value = "v".repeat(1000);
    let mut taken = 0;
    let refused = loop {
        match rig.try_append(taken % 2, &value) {
            Ok(_) => taken += 1,
            Err(refused) => break refused,
        }
        assert!(rig.used() <= 64 << 10);
    };
    assert_eq!(refused, AppendError::BufferFull);
    assert!(taken > 50, "{taken}");
    let seen = rig.lock().await_memory();
    assert_eq!(seen, rig.lock().futexes().memory.load(Ordering::Relaxed));
    // No batch lingers while a caller waits for memory.
    rig.step(SenderEvent::Drain);
    let room = |rig: &Harness| rig.has(|action| matches!(action, SenderAction::MemoryAvailable));
    assert!(!room(&rig));
    let mut values = 0;
    while let Some(sent) = rig.sent.pop_front() {
        values += sent.batches.iter().map(|batch| batch.values.len()).sum::<usize>();
        rig.accept(&sent, 0);
    }
    assert_eq!(values, usize::try_from(taken).unwrap());
    assert!(room(&rig));
    assert_ne!(rig.lock().futexes().memory.load(Ordering::Relaxed), seen);
    assert_eq!((rig.used(), rig.pending()), (0, 0));
    let word = rig.lock().futexes().memory.load(Ordering::Relaxed);
    assert_ne!(rig.lock().await_memory(), word, "there is room: no thread falls asleep");
}

#[test]
fn a_dead_broker_costs_no_more_than_the_bound() {
    let config = ProduceConfig { buffer_memory: 128 << 10, linger: 0, delivery_timeout: 10 * SECOND, ..config() };
    let mut rig = Harness::ready(config, &[1, 1, 1]);
    rig.metadata.unready.insert(1);
    let mut refused = 0;
    for n in 0..10_000 {
        refused += i32::from(rig.try_append(n % 3, "some value").is_err());
        rig.step(SenderEvent::Drain);
        assert!(rig.used() <= 128 << 10);
    }
    assert!(refused > 0);
    rig.pass(10 * SECOND);
    assert_eq!((rig.used(), rig.pending()), (0, 0));
    assert_eq!(rig.sender.stats().not_written, 10_000 - u64::try_from(refused).unwrap());
    assert!(rig.try_append(0, "again").is_ok());
}

#[test]
fn a_record_larger_than_a_batch_has_one_for_itself() {
    let mut rig = Harness::ready(ProduceConfig { max_request_size: 10_000, ..lingering() }, &[1]);
    rig.try_append(0, "small").expect("taken");
    rig.try_append(0, &"v".repeat(9000)).expect("taken");
    rig.try_append(0, "small").expect("taken");
    rig.lock().flush();
    rig.step(SenderEvent::Drain);
    let sizes: Vec<usize> = rig.all_sent().iter().map(|sent| sent.only().values.len()).collect();
    assert_eq!(sizes, [1, 1, 1]);
    let refused = rig.try_append(0, &"v".repeat(10_000)).expect_err("too large");
    assert_eq!(refused, AppendError::TooLarge { bytes: 10_072, limit: 10_000 });
    assert_eq!(rig.pending(), 3);
}

#[test]
fn partitions_that_do_not_exist_are_refused() {
    let mut rig = Harness::ready(config(), &[1, 1]);
    for partition in [2, -1, i32::MAX, i32::MIN] {
        assert_eq!(
            rig.try_append(partition, "a").expect_err("refused"),
            AppendError::UnknownPartition { partition, count: 2 }
        );
    }
    rig.lead("orders", &[1, 1, 1]);
    assert!(rig.try_append(2, "a").is_ok(), "the topic has grown");
}

#[test]
fn keys_decide_as_javas_do_and_an_empty_key_is_a_key() {
    let mut rig = Harness::ready(config(), &[1; 7]);
    let topic = rig.topic("orders");
    for key in [&b"a"[..], b"", b"key-17", b"\xff\xff"] {
        let now = rig.now;
        let mut accumulator = rig.lock();
        let record = ProducerRecord { key: Some(key), value: None, ..ProducerRecord::default() };
        let appended = accumulator.append(now, topic, None, &record).expect("taken");
        assert_eq!(appended.partition, i32::try_from(partition_for_key(key, 7)).unwrap());
    }
}

#[test]
fn records_without_a_key_fill_one_batch_after_the_other() {
    let mut rig = Harness::ready(ProduceConfig { linger: SECOND, batch_size: 4096, ..config() }, &[1; 5]);
    let topic = rig.topic("orders");
    let (mut last, mut switches, mut bytes) = (-1, 0, [0_u32; 5]);
    for _ in 0..20_000 {
        let now = rig.now;
        let record = ProducerRecord { value: Some(&[7; 100]), ..ProducerRecord::default() };
        let mut accumulator = rig.accumulator.lock().expect("no panic");
        let appended = accumulator.append(now, topic, None, &record).expect("taken");
        let (partition, wake) = (appended.partition, appended.action);
        drop(accumulator);
        switches += i32::from(std::mem::replace(&mut last, partition) != partition);
        bytes[usize::try_from(partition).unwrap()] += 100;
        if wake == AppendAction::Drain {
            rig.step(SenderEvent::Drain);
            for sent in rig.all_sent() {
                assert!(sent.batches.iter().all(|batch| batch.values.len() == 37), "each of them full");
                rig.accept(&sent, 0);
            }
        }
    }
    assert!((530..=545).contains(&switches), "{switches}: a batch each");
    assert!(bytes.iter().all(|bytes| (300_000..500_000).contains(bytes)), "{bytes:?}");
}

#[test]
fn slow_records_without_a_key_stay_until_a_batch_size_went_there() {
    let mut rig = Harness::ready(ProduceConfig { batch_size: 4096, ..config() }, &[1; 5]);
    let topic = rig.topic("orders");
    let (mut last, mut switches) = (-1, 0);
    for _ in 0..1000 {
        let now = rig.now;
        let record = ProducerRecord { value: Some(&[7; 100]), ..ProducerRecord::default() };
        let partition = rig.lock().append(now, topic, None, &record).expect("taken").partition;
        switches += i32::from(std::mem::replace(&mut last, partition) != partition);
        rig.step(SenderEvent::Drain);
        let sent = rig.next_sent();
        rig.accept(&sent, 0);
    }
    assert!((24..=30).contains(&switches), "{switches}");
}

#[test]
fn idle_topics_are_untracked_and_tracked_again() {
    let mut rig = Harness::ready(config(), &[1]);
    rig.lead("other", &[1]);
    rig.topic("other");
    rig.produce(0, "a");
    let sent = rig.next_sent();
    rig.accept(&sent, 0);
    for _ in 0..6 {
        rig.pass(60 * SECOND);
        rig.produce(0, "a");
        let sent = rig.next_sent();
        rig.accept(&sent, 0);
    }
    assert_eq!(rig.lock().tracked_topics(), [Arc::from("orders")]);
    rig.pass(400 * SECOND);
    assert_eq!(rig.lock().tracked_topics(), []);
    assert_eq!(rig.sender.deadline(), None, "an idle producer sleeps");
    assert_eq!(rig.try_append(0, "b").expect_err("asked for anew"), AppendError::NoMetadata);
    rig.step(SenderEvent::Drain);
    let (receipt, _) = rig.produce(0, "b");
    let sent = rig.next_sent();
    assert_eq!(sent.only().sequence, 7, "its numbers are not forgotten");
    rig.accept(&sent, 9);
    assert_eq!(super::harness::outcome(&receipt), Some(Outcome::Written));
}

#[test]
fn a_step_without_anything_due_asks_for_nothing() {
    let mut rig = Harness::ready(config(), &[1]);
    rig.pass(SECOND);
    rig.actions.clear();
    for _ in 0..10 {
        rig.step(SenderEvent::Tick);
    }
    assert!(rig.actions.is_empty() && rig.sent.is_empty(), "{:?}", rig.actions);
}

/// Regression: a caller may read its clock after the sender has read the clock for the step that finds the batch.
#[test]
fn without_lingering_a_batch_from_the_future_is_taken_too() {
    let mut rig = Harness::ready(config(), &[1]);
    rig.now += 10;
    assert_eq!(rig.try_append(0, "a").expect("taken").2, AppendAction::Drain);
    rig.now -= 10;
    rig.step(SenderEvent::Drain);
    let first = rig.next_sent();
    assert_eq!(first.only().values, ["a"]);
    rig.now += 10;
    assert_eq!(rig.try_append(0, "b").expect("taken").2, AppendAction::Nothing, "the answer sends it");
    rig.now -= 10;
    rig.accept(&first, 0);
    assert_eq!(rig.next_sent().only().values, ["b"]);
}
