//! Tests of closing and of fatal errors.

use grete_wire::error_code::ErrorCode as E;

use super::harness::{Harness, config, outcome, result};
use crate::producer::{
    AppendError, DropReason, FatalError, Outcome, ProduceConfig, ProduceError, SenderAction, SenderEvent,
    SenderLogEvent,
};
use crate::request::{AddressFault, DetectedProtocol, NotKafka, RequestError};
use crate::time::{Nanos, SECOND};

fn finished(rig: &Harness) -> bool {
    rig.has(|action| matches!(action, SenderAction::Finished))
}

fn close(rig: &mut Harness, span: Nanos) {
    let deadline = rig.now + span;
    rig.step(SenderEvent::Close { deadline });
}

#[test]
fn close_sends_what_lingers_and_finishes_with_the_last_answer() {
    let mut rig = Harness::ready(ProduceConfig { linger: 60 * SECOND, ..config() }, &[1]);
    let (receipt, _) = rig.produce(0, "a");
    close(&mut rig, 30 * SECOND);
    assert!(matches!(rig.try_append(0, "b"), Err(AppendError::Closed)));
    let sent = rig.next_sent();
    assert!(!finished(&rig));
    rig.accept(&sent, 0);
    assert!(finished(&rig));
    assert_eq!((outcome(&receipt), rig.sender.deadline()), (Some(Outcome::Written), None));
}

#[test]
fn close_of_an_idle_producer_finishes_at_once() {
    let mut rig = Harness::ready(config(), &[1]);
    close(&mut rig, 30 * SECOND);
    assert!(finished(&rig));
}

#[test]
fn at_the_deadline_what_is_left_is_given_up() {
    let mut rig = Harness::ready(config(), &[1, 2, 1]);
    let (flying, _) = rig.produce(0, "a");
    rig.metadata.unready.insert(2);
    let (never_sent, _) = rig.produce(1, "b");
    let (lost, _) = rig.produce(2, "c");
    let _flying = rig.next_sent();
    let sent = rig.next_sent();
    rig.fail(&sent, RequestError::Disconnected);
    rig.metadata.unready.insert(1);
    close(&mut rig, 5 * SECOND);
    rig.pass(5 * SECOND - 1);
    assert!(!finished(&rig));
    rig.pass(1);
    assert!(finished(&rig));
    assert_eq!(
        [&flying, &never_sent, &lost].map(|receipt| outcome(receipt)),
        [Some(Outcome::Unknown), Some(Outcome::NotWritten), Some(Outcome::Unknown)]
    );
    let error = result(&never_sent, 0).error.expect("an error");
    assert!(matches!(&*error, ProduceError::Closed { .. }), "{error:?}");
    let notices = rig.log_events();
    let given_up = notices.iter().filter_map(|notice| match notice {
        SenderLogEvent::RecordsDropped { reason: DropReason::Closed, dropped: lost } => Some(lost),
        _ => None,
    });
    let [lost] = given_up.collect::<Vec<_>>()[..] else { panic!("one for all: {notices:?}") };
    let lost: Vec<_> = lost.iter().map(|lost| (lost.tp.partition, lost.batches, lost.records, lost.unknown)).collect();
    assert_eq!(lost, [(0, 1, 1, 1), (1, 1, 1, 0), (2, 1, 1, 1)]);
    assert_eq!(rig.pending(), 0);
}

#[test]
fn close_wakes_who_waits_for_room_or_for_a_topic() {
    let mut rig = Harness::ready(config(), &[1]);
    rig.lock().await_metadata();
    let before = rig.lock().futexes().metadata.load(std::sync::atomic::Ordering::Relaxed);
    close(&mut rig, SECOND);
    assert!(rig.has(|action| matches!(action, SenderAction::MetadataAvailable)));
    assert_ne!(rig.lock().futexes().metadata.load(std::sync::atomic::Ordering::Relaxed), before);
}

#[test]
fn a_fatal_error_settles_everything() {
    let mut rig = Harness::ready(config(), &[1, 2]);
    let (flying, _) = rig.produce(0, "a");
    rig.metadata.unready.insert(2);
    let (waiting, _) = rig.produce(1, "b");
    let not_kafka =
        AddressFault::from(NotKafka { address: "x:80".into(), detected: DetectedProtocol::Http, logs_in: false });
    rig.step(SenderEvent::Fatal(FatalError::Unusable(not_kafka.clone())));
    assert_eq!((outcome(&flying), outcome(&waiting)), (Some(Outcome::Unknown), Some(Outcome::NotWritten)));
    let error = result(&waiting, 0).error.expect("an error");
    assert!(matches!(&*error, ProduceError::Fatal { .. }), "{error:?}");
    let refused = rig.try_append(0, "c").expect_err("no more");
    assert_eq!(refused, AppendError::Fatal(FatalError::Unusable(not_kafka)));
    close(&mut rig, SECOND);
    assert!(finished(&rig));
}

#[test]
fn a_topic_that_may_not_be_written_to_fails_at_once() {
    let mut rig = Harness::ready(config(), &[1]);
    rig.metadata.unready.insert(1);
    let (waiting, _) = rig.produce(0, "a");
    rig.metadata.topics.insert("orders".into(), Err(E::TOPIC_AUTHORIZATION_FAILED));
    rig.step(SenderEvent::MetadataChanged);
    let error = result(&waiting, 0).error.expect("an error");
    assert!(matches!(&*error, ProduceError::Authorization { .. }), "{error:?}");
    let refused = rig.try_append(0, "b").expect_err("refused");
    assert!(matches!(&refused, AppendError::Topic(error) if error.code == E::TOPIC_AUTHORIZATION_FAILED));
    assert!(refused.to_string().starts_with("orders: TOPIC_AUTHORIZATION_FAILED"), "{refused}");
    assert_eq!((rig.used(), rig.pending()), (0, 0));
    // The ACL has been granted.
    rig.lead("orders", &[1]);
    assert!(rig.try_append(0, "c").is_ok());
}

#[test]
fn an_unknown_topic_is_waited_for() {
    let mut rig = Harness::new(config());
    let topic = rig.topic("orders");
    assert_eq!(rig.try_append(0, "a").expect_err("not known"), AppendError::NoMetadata);
    rig.metadata.topics.insert("orders".into(), Err(E::UNKNOWN_TOPIC_OR_PARTITION));
    rig.step(SenderEvent::MetadataChanged);
    assert_eq!(rig.lock().topic_error(topic), Some(E::UNKNOWN_TOPIC_OR_PARTITION));
    assert_eq!(rig.lock().partitions(topic), None);
    let seen = rig.lock().await_metadata();
    rig.lead("orders", &[1]);
    assert!(rig.has(|action| matches!(action, SenderAction::MetadataAvailable)));
    assert_ne!(rig.lock().futexes().metadata.load(std::sync::atomic::Ordering::Relaxed), seen);
    assert_eq!(rig.lock().partitions(topic), Some(Ok(1)));
}
