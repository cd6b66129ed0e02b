//! What callers are told: written, not written, or that nobody knows.

use grete_wire::ErrorCode as E;

use super::brokers::Mishap;
use super::world::*;
use crate::produce::{Outcome, ProduceConfig, ProduceError, Refused};
use crate::producer::*;
use crate::time::{MILLI, SECOND};

const WRITTEN: Option<Outcome> = Some(Outcome::Written);
const NOT_WRITTEN: Option<Outcome> = Some(Outcome::NotWritten);
const UNKNOWN: Option<Outcome> = Some(Outcome::Unknown);

fn started() -> World {
    let mut world = World::new(config());
    world.start();
    world
}

fn with(produce: ProduceConfig) -> World {
    let mut world = World::new(ProducerCoreConfig { produce, ..config() });
    world.start();
    world
}

/// One record, which somebody waits for.
fn send(world: &mut World, partition: i32) -> u64 {
    let id = world.append("orders", Some(partition), None, 20).unwrap();
    world.wait(id);
    id
}

fn error(world: &World, id: u64) -> ProduceError {
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
        // Nobody is there to be asked again.
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
    // With and without sequence numbers: the first attempt was appended and not answered, the second one is refused.
    for (acks, idempotent) in [(-1, true), (-1, false), (1, false)] {
        let mut world = with(ProduceConfig { acks, idempotent, ..config().produce });
        world.spoils.push(super::wires::Spoil::Lost);
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
    // The broker wakes up, and the next one gets through.
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
fn a_producer_that_may_not_have_an_identity_fails_for_good() {
    let mut world = World::new(config());
    world.brokers.init_error = Some(E::CLUSTER_AUTHORIZATION_FAILED);
    assert_eq!(world.append("orders", Some(0), None, 20), Err(Refused::NoMetadata));
    world.pass(100 * MILLI);
    assert_eq!(world.client.fatal, 1);
    assert!(matches!(world.append("orders", Some(0), None, 20), Err(Refused::Fatal(_))));
}

#[test]
fn a_topic_that_nobody_used_for_long_is_found_again_and_one_that_is_new_then_is_found_too() {
    let mut world = started();
    world.pass(1000 * SECOND);
    for topic in ["orders", "clicks"] {
        world.brokers.create("clicks", 1);
        world.brokers.tell_all();
        assert_eq!(world.append(topic, Some(0), None, 20), Err(Refused::NoMetadata));
        world.pass(SECOND);
        let id = world.append(topic, Some(0), None, 20).unwrap();
        world.flush();
        world.pass(SECOND);
        assert_eq!(world.client.outcome(id), WRITTEN, "{topic}");
        world.pass(1000 * SECOND);
    }
}

#[test]
fn a_topic_that_is_not_there_is_waited_for() {
    let mut world = World::new(config());
    assert_eq!(world.append("clicks", None, None, 20), Err(Refused::NoMetadata));
    world.pass(2 * SECOND);
    world.brokers.create("clicks", 1);
    world.brokers.tell_all();
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
            world.brokers.tell_all();
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
    assert_eq!(world.append("orders", Some(0), None, 20), Err(Refused::Closed));
    world.pass(SECOND + MILLI);
    assert!(world.client.finished);
    assert_eq!((world.client.outcome(sent), world.client.outcome(kept)), (UNKNOWN, NOT_WRITTEN));
    assert!(matches!(error(&world, kept), ProduceError::Closed { .. }));
    assert_eq!(world.client.accumulator().pending_records(), 0);
}

#[test]
fn a_full_memory_is_told_and_has_room_again() {
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
    assert_eq!(refused, Refused::Full);
    assert!(world.client.accumulator().used_bytes() <= 4000);
    world.pass(4 * SECOND);
    assert!(world.append("orders", Some(0), None, 100).is_ok());
    world.flush();
    world.pass(SECOND);
    assert!((0..taken + 3).all(|id| world.client.outcome(id) == WRITTEN));
}
