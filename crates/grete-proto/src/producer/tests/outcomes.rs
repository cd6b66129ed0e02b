//! Tests of record outcomes: written, not written or unknown.

use grete_wire::ErrorCode as E;

use super::brokers::Mishap;
use super::simulator::*;
use crate::producer::*;
use crate::producer::{AppendError, Outcome, ProduceConfig, ProduceError};
use crate::time::{MILLI, SECOND};

const WRITTEN: Option<Outcome> = Some(Outcome::Written);
const NOT_WRITTEN: Option<Outcome> = Some(Outcome::NotWritten);
const UNKNOWN: Option<Outcome> = Some(Outcome::Unknown);

fn started() -> Simulator {
    let mut world = Simulator::new(config());
    world.start();
    world
}

fn with(produce: ProduceConfig) -> Simulator {
    let mut world = Simulator::new(ProducerCoreConfig { produce, ..config() });
    world.start();
    world
}

/// Appends one record with a waiting caller.
fn send(world: &mut Simulator, partition: i32) -> u64 {
    let id = world.append("orders", Some(partition), None, 20).unwrap();
    world.wait(id);
    id
}

fn error(world: &Simulator, id: u64) -> ProduceError {
    let settled = world.client.rows[id as usize].settled.as_ref().expect("it is settled");
    (**settled.error.as_ref().expect("an error")).clone()
}

#[test]
fn what_was_never_sent_is_not_written_and_what_was_is_unknown() {
    let mut world = started();
    world.brokers.hung.insert(1, u64::MAX);
    world.kill(2);
    world.pass(MILLI);
    let (sent, kept) = (send(&mut world, 0), send(&mut world, 1));
    world.pass(10 * SECOND + 10 * MILLI);
    assert_eq!((world.client.outcome(sent), world.client.outcome(kept)), (UNKNOWN, NOT_WRITTEN));
    for id in [sent, kept] {
        assert!(matches!(error(&world, id), ProduceError::DeliveryTimeout { .. }));
    }
}

#[test]
fn a_refusal_that_may_come_after_the_append_leaves_it_open() {
    for code in [
        E::NOT_LEADER_OR_FOLLOWER,
        E::REQUEST_TIMED_OUT,
        E::NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        E::KAFKA_STORAGE_ERROR,
        E::UNKNOWN_SERVER_ERROR,
    ] {
        let mut world = started();
        world.brokers.mishaps.push(Mishap::After(code));
        let id = send(&mut world, 0);
        world.pass(5 * MILLI);
        // No broker is left for a retry.
        world.kill(1);
        world.pass(11 * SECOND);
        assert_eq!(world.client.outcome(id), UNKNOWN, "{code:?}");
    }
}

#[test]
fn what_was_refused_and_never_sent_again_is_not_written() {
    for code in [E::NOT_ENOUGH_REPLICAS, E::CORRUPT_MESSAGE, E::LEADER_NOT_AVAILABLE] {
        let mut world = started();
        world.brokers.mishaps.push(Mishap::Before(code));
        let id = send(&mut world, 0);
        world.pass(5 * MILLI);
        world.kill(1);
        world.pass(11 * SECOND);
        assert_eq!(world.client.outcome(id), NOT_WRITTEN, "{code:?}");
    }
}

#[test]
fn a_refusal_for_good_after_a_lost_answer_does_not_take_back_what_may_be_there() {
    // With and without sequence numbers: the first attempt was appended without a response, the second one is refused.
    for (acks, idempotent) in [(-1, true), (-1, false), (1, false)] {
        let mut world = with(ProduceConfig { acks, idempotent, ..config().produce });
        world.spoils.push(super::network::Spoil::Lost);
        let id = send(&mut world, 0);
        world.pass(3 * MILLI);
        world.brokers.mishaps.push(Mishap::Before(E::INVALID_RECORD));
        world.pass(5 * SECOND);
        assert_eq!(world.client.outcome(id), UNKNOWN, "acks {acks}, idempotent: {idempotent}");
    }
}

#[test]
fn the_users_time_is_kept_while_the_broker_hangs() {
    let mut world = started();
    world.brokers.hung.insert(1, world.now + 60 * SECOND);
    let id = send(&mut world, 0);
    let start = world.now;
    while world.client.outcome(id).is_none() {
        world.pass(MILLI);
        assert!(world.now <= start + 10 * SECOND + 2 * MILLI);
    }
    // The broker resumes, and the next record is written.
    world.pass(60 * SECOND);
    let next = send(&mut world, 0);
    world.pass(5 * SECOND);
    assert_eq!(world.client.outcome(next), WRITTEN);
    world.check_logs();
}

#[test]
fn without_answers_nothing_is_known_and_nothing_is_waited_for() {
    let mut world = with(ProduceConfig { acks: 0, idempotent: false, ..config().produce });
    let id = send(&mut world, 0);
    assert_eq!(world.client.outcome(id), UNKNOWN);
    world.pass(SECOND);
    assert_eq!(world.brokers.logs[&tp(0)].replica.end(), 1);
    assert_eq!(world.client.accumulator().used_bytes(), 0);
}

#[test]
fn a_topic_that_may_not_be_written_fails_at_once() {
    let mut world = started();
    world.brokers.denied.insert("orders".into());
    let id = send(&mut world, 0);
    world.pass(100 * MILLI);
    assert_eq!(world.client.outcome(id), NOT_WRITTEN);
    assert!(matches!(error(&world, id), ProduceError::Authorization { code: E::TOPIC_AUTHORIZATION_FAILED, .. }));
}

#[test]
fn a_producer_that_may_not_have_an_identity_fails_until_it_may() {
    let mut world = Simulator::new(config());
    world.brokers.init_error = Some(E::CLUSTER_AUTHORIZATION_FAILED);
    assert_eq!(world.append("orders", Some(0), None, 20), Err(AppendError::NoMetadata));
    world.pass(100 * MILLI);
    let id = send(&mut world, 0);
    world.pass(5 * SECOND);
    assert_eq!(world.client.outcome(id), NOT_WRITTEN);
    assert!(matches!(error(&world, id), ProduceError::Authorization { code: E::CLUSTER_AUTHORIZATION_FAILED, .. }));
    assert_eq!(world.client.fatal, 0);
    world.brokers.init_error = None;
    let id = send(&mut world, 0);
    world.pass(5 * SECOND);
    assert_eq!(world.client.outcome(id), WRITTEN);
}

#[test]
fn an_idle_topic_is_tracked_again_and_a_new_topic_is_tracked_too() {
    let mut world = started();
    world.pass(1000 * SECOND);
    for topic in ["orders", "clicks"] {
        world.brokers.create("clicks", 1);
        world.brokers.update_all_metadata();
        assert_eq!(world.append(topic, Some(0), None, 20), Err(AppendError::NoMetadata));
        world.pass(SECOND);
        let id = world.append(topic, Some(0), None, 20).unwrap();
        world.flush();
        world.pass(SECOND);
        assert_eq!(world.client.outcome(id), WRITTEN, "{topic}");
        world.pass(1000 * SECOND);
    }
}

/// Returns the time after which a call counts the topic as missing.
fn until_missing(world: &mut Simulator, topic: &str) -> Option<u64> {
    let id = world.client.topic(topic);
    let since = world.now;
    for _ in 0..1000 {
        match world.append(topic, None, None, 20) {
            Err(AppendError::NoMetadata) => {}
            other => panic!("{other:?}"),
        }
        if world.client.accumulator().is_topic_missing(id, since) {
            return Some(world.now - since);
        }
        world.pass(10 * MILLI);
    }
    None
}

#[test]
fn a_topic_that_is_not_there_is_known_to_be_missing_after_two_refreshes() {
    let mut world = started();
    for _ in 0..3 {
        let waited = until_missing(&mut world, "invoicez").expect("known within ten seconds");
        assert!((SECOND..2500 * MILLI).contains(&waited), "{waited}");
    }
    world.brokers.create("invoicez", 1);
    world.brokers.update_all_metadata();
    world.pass(1500 * MILLI);
    world.append("invoicez", None, None, 20).expect("the topic is there");
}

#[test]
fn a_topic_that_is_being_made_is_not_missing() {
    let mut world = started();
    let id = world.client.topic("clicks");
    let since = world.now;
    assert_eq!(world.append("clicks", None, None, 20), Err(AppendError::NoMetadata));
    world.pass(900 * MILLI);
    assert!(!world.client.accumulator().is_topic_missing(id, since));
    world.brokers.create("clicks", 1);
    world.brokers.update_all_metadata();
    world.pass(2 * SECOND);
    assert!(!world.client.accumulator().is_topic_missing(id, since));
    world.append("clicks", None, None, 20).expect("the topic is there");
}

#[test]
fn a_topic_that_is_not_there_is_waited_for() {
    let mut world = Simulator::new(config());
    assert_eq!(world.append("clicks", None, None, 20), Err(AppendError::NoMetadata));
    world.pass(2 * SECOND);
    world.brokers.create("clicks", 1);
    world.brokers.update_all_metadata();
    world.pass(2 * SECOND);
    let id = world.append("clicks", None, None, 20).unwrap();
    world.flush();
    world.pass(SECOND);
    assert_eq!(world.client.outcome(id), WRITTEN);
}

#[test]
fn a_leader_that_moves_is_followed_in_order() {
    for hints in [false, true] {
        let mut world = started();
        world.brokers.hints = hints;
        let mut sent = Vec::new();
        for round in 0..5 {
            sent.extend((0..4).map(|_| send(&mut world, 0)));
            let log = world.brokers.logs.get_mut(&tp(0)).unwrap();
            let (other, end, now) = (3 - log.leader, log.replica.end(), world.now);
            log.elect(other, end, now, now);
            let epoch = log.epoch;
            log.replicated(epoch, end);
            world.brokers.update_all_metadata();
            world.pass(if round % 2 == 0 { MILLI } else { 300 * MILLI });
        }
        world.pass(5 * SECOND);
        let ids: Vec<_> = world.brokers.logs[&tp(0)].ids().map(|(_, id)| id).collect();
        assert_eq!(ids, sent, "hints: {hints}");
        assert!(sent.iter().all(|&id| world.client.outcome(id) == WRITTEN));
    }
}

#[test]
fn closing_settles_everything_within_its_time() {
    let mut world = started();
    world.brokers.hung.insert(1, u64::MAX);
    world.kill(2);
    world.pass(MILLI);
    let (sent, kept) = (send(&mut world, 0), send(&mut world, 1));
    world.pass(100 * MILLI);
    world.close(SECOND);
    assert_eq!(world.append("orders", Some(0), None, 20), Err(AppendError::Closed));
    world.pass(SECOND + MILLI);
    assert!(world.client.finished);
    assert_eq!((world.client.outcome(sent), world.client.outcome(kept)), (UNKNOWN, NOT_WRITTEN));
    assert!(matches!(error(&world, kept), ProduceError::Closed { .. }));
    assert_eq!(world.client.accumulator().pending_records(), 0);
}

#[test]
fn a_full_buffer_is_reported_and_frees_up_again() {
    let mut world = with(ProduceConfig { buffer_memory: 4000, batch_size: 500, ..config().produce });
    world.brokers.hung.insert(1, world.now + SECOND);
    let mut taken = 0;
    let refused = loop {
        match world.append("orders", Some(0), None, 100) {
            Ok(_) => taken += 1,
            Err(refused) => break refused,
        }
        assert!(taken < 100, "no bound");
    };
    assert_eq!(refused, AppendError::BufferFull);
    assert!(world.client.accumulator().used_bytes() <= 4000);
    world.pass(4 * SECOND);
    assert!(world.append("orders", Some(0), None, 100).is_ok());
    world.flush();
    world.pass(SECOND);
    assert!((0..taken + 3).all(|id| world.client.outcome(id) == WRITTEN));
}
