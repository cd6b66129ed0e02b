//! Tests of sequence numbers and epochs in the log after faults.

use grete_wire::ErrorCode as E;

use super::brokers::Mishap;
use super::network::Spoil;
use super::producer_state_manager::Stamp;
use super::simulator::*;
use crate::producer::Outcome;
use crate::producer::*;
use crate::time::{MILLI, SECOND};

/// Returns epoch, first sequence number and record count of each batch in the log.
fn stamps(world: &Simulator, partition: i32) -> Vec<(i16, i32, i32)> {
    let stored = &world.brokers.logs[&tp(partition)].replica.batches;
    stored.iter().map(|stored| stored.batch.stamp).map(|s: Stamp| (s.epoch, s.sequence, s.count)).collect()
}

fn ids(world: &Simulator, partition: i32) -> Vec<u64> {
    world.brokers.logs[&tp(partition)].ids().map(|(_, id)| id).collect()
}

/// Appends `count` records as one batch and sends it.
fn send(world: &mut Simulator, partition: i32, count: usize) -> Vec<u64> {
    let sent: Vec<_> =
        (0..count).map(|_| world.append("orders", Some(partition), None, 20).expect("there is room")).collect();
    world.wait(*sent.last().unwrap());
    sent
}

fn outcomes(world: &Simulator, ids: &[u64]) -> Vec<Option<Outcome>> {
    ids.iter().map(|id| world.client.outcome(*id)).collect()
}

fn assert_written(world: &Simulator) {
    for id in 0..world.client.rows.len() as u64 {
        assert_eq!(world.client.outcome(id), Some(Outcome::Written), "record {id}");
    }
    world.check_logs();
}

/// Creates a simulator with known topic and producer id.
fn started() -> Simulator {
    started_with(config())
}

fn started_with(config: ProducerCoreConfig) -> Simulator {
    let mut world = Simulator::new(config);
    world.brokers.bumps = true;
    world.start();
    world
}

#[test]
fn sequence_numbers_count_records_and_not_batches() {
    let mut world = started();
    for count in [3, 5, 1] {
        send(&mut world, 0, count);
        world.pass(10 * MILLI);
    }
    assert_eq!(stamps(&world, 0), [(0, 0, 3), (0, 3, 5), (0, 8, 1)]);
    assert_written(&world);
}

#[test]
fn a_batch_whose_answer_is_lost_is_sent_again_as_it_was() {
    for spoil in [Spoil::Lost, Spoil::Garbage, Spoil::Correlation, Spoil::Cut] {
        let mut world = started();
        send(&mut world, 0, 1);
        world.pass(10 * MILLI);
        world.spoils.push(spoil);
        send(&mut world, 0, 3);
        // These records must neither join the retried batch nor overtake it.
        world.append("orders", Some(0), None, 20).unwrap();
        world.pass(3 * SECOND);
        world.flush();
        world.pass(SECOND);
        assert_eq!(stamps(&world, 0), [(0, 0, 1), (0, 1, 3), (0, 4, 1)], "{spoil:?}");
        assert_written(&world);
        // A response that cannot be decoded proves nothing about the batch's size.
        let split = |notice: &ProducerLogEvent| {
            matches!(notice, ProducerLogEvent::Sender(crate::producer::SenderLogEvent::Split { .. }))
        };
        assert!(!world.client.log_events.iter().any(split), "{spoil:?}");
    }
}

#[test]
fn a_new_epoch_starts_every_partition_at_nought_idle_ones_too() {
    let mut world = started();
    for partition in [0, 1] {
        send(&mut world, partition, 4);
    }
    world.pass(SECOND);
    // The outcome of the batches sent to the first broker is never known.
    world.brokers.hung.insert(1, u64::MAX);
    let lost = send(&mut world, 0, 2);
    world.pass(11 * SECOND);
    assert_eq!(outcomes(&world, &lost), [Some(Outcome::Unknown); 2]);
    world.brokers.hung.clear();
    world.restart(1);
    send(&mut world, 0, 3);
    world.pass(5 * SECOND);
    send(&mut world, 1, 3);
    world.pass(5 * SECOND);
    assert_eq!(stamps(&world, 1), [(0, 0, 4), (1, 0, 3)]);
    assert_eq!(stamps(&world, 0), [(0, 0, 4), (1, 0, 3)]);
    world.check_logs();
}

#[test]
fn the_first_batch_of_a_partition_is_not_overtaken() {
    // A leader without state of the producer accepts any sequence number. It would accept a second batch that is in
    // flight while the first one is refused.
    let mut world = started();
    world.brokers.mishaps.push(Mishap::Before(E::NOT_ENOUGH_REPLICAS));
    let sent: Vec<u64> = (0..3).flat_map(|_| send(&mut world, 0, 1)).collect();
    world.pass(5 * SECOND);
    assert_eq!(ids(&world, 0), sent);
    assert_written(&world);
}

#[test]
fn batches_behind_one_that_was_refused_for_now_keep_their_order_and_numbers() {
    let mut world = started();
    send(&mut world, 0, 1);
    world.pass(10 * MILLI);
    world.brokers.mishaps.push(Mishap::Before(E::NOT_ENOUGH_REPLICAS));
    for _ in 0..4 {
        send(&mut world, 0, 2);
    }
    world.pass(5 * SECOND);
    assert_eq!(stamps(&world, 0), [(0, 0, 1), (0, 1, 2), (0, 3, 2), (0, 5, 2), (0, 7, 2)]);
    assert_written(&world);
}

#[test]
fn batches_behind_one_that_was_refused_for_good_are_written_without_it() {
    let mut world = started();
    send(&mut world, 0, 1);
    world.pass(10 * MILLI);
    world.brokers.mishaps.push(Mishap::Before(E::INVALID_RECORD));
    let bad = send(&mut world, 0, 2);
    let good: Vec<u64> = (0..3).flat_map(|_| send(&mut world, 0, 2)).collect();
    world.pass(5 * SECOND);
    assert_eq!(outcomes(&world, &bad), [Some(Outcome::NotWritten); 2]);
    assert_eq!(outcomes(&world, &good), [Some(Outcome::Written); 6]);
    assert_eq!(ids(&world, 0)[1..], good);
    world.check_logs();
}

#[test]
fn a_batch_that_is_too_large_goes_in_pieces_and_keeps_its_place() {
    let mut world = started();
    let mut sent = send(&mut world, 0, 1);
    world.pass(10 * MILLI);
    world.brokers.logs.get_mut(&tp(0)).unwrap().max_bytes = 200;
    sent.extend(send(&mut world, 0, 10));
    sent.extend(send(&mut world, 0, 1));
    world.pass(5 * SECOND);
    assert_eq!(ids(&world, 0), sent);
    assert!(stamps(&world, 0).iter().all(|(epoch, ..)| *epoch == 0));
    assert_written(&world);
    // A single record cannot be split.
    let large = world.append("orders", Some(0), None, 500).unwrap();
    let small = world.append("orders", Some(0), None, 20).unwrap();
    world.flush();
    world.pass(5 * SECOND);
    assert_eq!(outcomes(&world, &[large, small]), [Some(Outcome::NotWritten), Some(Outcome::Written)]);
    world.check_logs();
}

/// Three batches are appended without a response; then the leader restarts and remembers only the last one.
fn with_a_snapshot(old: bool) -> (Simulator, Vec<Vec<u64>>) {
    let mut world = started();
    world.brokers.logs.get_mut(&tp(0)).unwrap().replica.states.old_duplicates = old;
    send(&mut world, 0, 1);
    world.pass(10 * MILLI);
    (world.spoils, world.carried_out) = (vec![Spoil::Lost], Some(2));
    let sent: Vec<_> = (0..3).map(|_| send(&mut world, 0, 2)).collect();
    world.pass(15 * MILLI);
    assert_eq!(world.brokers.logs[&tp(0)].replica.end(), 7);
    assert_eq!(world.client.open().len(), 6);
    world.brokers.logs.get_mut(&tp(0)).unwrap().replica.states.reload();
    world.pass(5 * SECOND);
    (world, sent)
}

#[test]
fn a_leader_that_has_only_its_snapshot_gets_nothing_twice() {
    let (mut world, sent) = with_a_snapshot(false);
    assert_eq!(ids(&world, 0).len(), 7);
    // The broker reports the first batches as out of order: whether it has them is unknown.
    let first_outcomes: Vec<_> = sent.iter().map(|ids| outcomes(&world, ids)[0]).collect();
    assert_eq!(first_outcomes, [Outcome::Unknown, Outcome::Unknown, Outcome::Written].map(Some));
    world.check_logs();
    let next = send(&mut world, 0, 2);
    world.pass(SECOND);
    assert_eq!(outcomes(&world, &next), [Some(Outcome::Written); 2]);
    world.check_logs();
}

#[test]
fn a_limit_that_was_lowered_after_the_append_writes_nothing_twice() {
    let mut world = started();
    send(&mut world, 0, 1);
    world.pass(10 * MILLI);
    world.brokers.mishaps.push(Mishap::After(E::REQUEST_TIMED_OUT));
    let sent = send(&mut world, 0, 6);
    while !world.brokers.mishaps.is_empty() {
        world.pass(MILLI / 10);
    }
    world.brokers.logs.get_mut(&tp(0)).unwrap().max_bytes = 150;
    world.pass(5 * SECOND);
    assert_eq!(ids(&world, 0)[1..], sent);
    assert_eq!(outcomes(&world, &sent), [Some(Outcome::Unknown); 6]);
    let next = send(&mut world, 0, 1);
    world.pass(SECOND);
    assert_eq!(outcomes(&world, &next), [Some(Outcome::Written)]);
    world.check_logs();
}

#[test]
fn what_is_refused_for_good_says_nothing_of_what_came_before_it() {
    let mut world = started();
    send(&mut world, 0, 1);
    world.pass(10 * MILLI);
    // The first two are appended, the third is not; then the leader remembers only the second one.
    let after = Mishap::After(E::NOT_LEADER_OR_FOLLOWER);
    world.brokers.mishaps = vec![Mishap::Before(E::INVALID_RECORD), after, after];
    let sent: Vec<u64> = (0..3).flat_map(|_| send(&mut world, 0, 1)).collect();
    while !world.brokers.mishaps.is_empty() {
        world.pass(MILLI);
    }
    world.brokers.logs.get_mut(&tp(0)).unwrap().replica.states.reload();
    world.pass(5 * SECOND);
    assert_eq!(outcomes(&world, &sent), [Outcome::Unknown, Outcome::Written, Outcome::NotWritten].map(Some));
    world.check_logs();
}

#[test]
fn an_attempt_that_a_broker_has_yet_to_carry_out_fills_no_gap() {
    let mut world = started();
    send(&mut world, 0, 1);
    world.pass(10 * MILLI);
    // The first of two is refused for good. The broker still holds the second one's request when the connection is
    // lost.
    world.brokers.mishaps.push(Mishap::Before(E::INVALID_RECORD));
    let bad = send(&mut world, 0, 1);
    world.pass(MILLI / 2);
    let good = send(&mut world, 0, 1);
    world.pass(MILLI * 7 / 10);
    world.brokers.hung.insert(1, u64::MAX);
    world.pass(MILLI);
    assert_eq!(outcomes(&world, &bad), [Some(Outcome::NotWritten)]);
    let late = world.hold_back(1);
    world.brokers.hung.clear();
    // The batch cannot be written under its number, but is written under a new one. Then the broker executes the old
    // request.
    world.pass(5 * SECOND);
    assert_eq!(outcomes(&world, &good), [Some(Outcome::Written)]);
    world.produce(1, late);
    assert_eq!(ids(&world, 0).iter().filter(|id| good.contains(id)).count(), 1);
    world.check_logs();
}

#[test]
fn a_producer_that_is_fenced_goes_on_under_another_id() {
    for code in [E::INVALID_PRODUCER_EPOCH, E::PRODUCER_FENCED] {
        let mut world = started();
        send(&mut world, 0, 1);
        world.pass(10 * MILLI);
        world.brokers.mishaps.push(Mishap::Before(code));
        send(&mut world, 0, 2);
        world.pass(3 * SECOND);
        assert_written(&world);
        let batches = &world.brokers.logs[&tp(0)].replica.batches;
        let producers: Vec<i64> = batches.iter().map(|stored| stored.batch.stamp.producer).collect();
        assert_eq!(producers, [4000, 4001], "{code}");
    }
}

#[test]
fn a_duplicate_sequence_error_completes_as_written_without_an_offset() {
    let (world, sent) = with_a_snapshot(true);
    assert_eq!(ids(&world, 0).len(), 7);
    assert_written(&world);
    let offsets =
        |ids: &Vec<u64>| world.client.rows[ids[0] as usize].settled.as_ref().and_then(|settled| settled.offset);
    assert!(sent.iter().map(offsets).any(|offset| offset.is_none()));
}

#[test]
fn epochs_end_with_a_new_producer_id() {
    let mut world = Simulator::new(config());
    (world.brokers.bumps, world.brokers.first_epoch) = (true, i16::MAX - 2);
    world.start();
    for round in 0..3 {
        send(&mut world, 0, 1);
        world.pass(SECOND);
        world.brokers.mishaps.push(Mishap::Before(E::UNKNOWN_PRODUCER_ID));
        send(&mut world, 0, 1);
        world.pass(3 * SECOND);
        assert_eq!(ids(&world, 0).len(), 2 * round + 2, "round {round}");
    }
    let producers: Vec<i64> =
        world.brokers.logs[&tp(0)].replica.batches.iter().map(|stored| stored.batch.stamp.producer).collect();
    assert!(producers.first() < producers.last(), "{producers:?}");
    assert_written(&world);
}

#[test]
fn a_producer_that_was_forgotten_while_idle_goes_on() {
    for must_be_known in [false, true] {
        let mut config = config();
        config.cluster.connections_max_idle = 10_000 * SECOND;
        let mut world = started_with(config);
        send(&mut world, 0, 3);
        // The topic stays tracked because other partitions are in use.
        world.pass(250 * SECOND);
        world.append("orders", Some(1), None, 20).unwrap();
        world.pass(250 * SECOND);
        world.append("orders", Some(1), None, 20).unwrap();
        world.pass(200 * SECOND);
        let states = &mut world.brokers.logs.get_mut(&tp(0)).unwrap().replica.states;
        states.expire();
        states.must_be_known = must_be_known;
        // A leader that has lost the producer's state accepts any sequence number, even that of a second batch.
        world.brokers.mishaps.push(Mishap::Before(E::NOT_ENOUGH_REPLICAS));
        for _ in 0..3 {
            send(&mut world, 0, 3);
        }
        world.pass(3 * SECOND);
        assert_written(&world);
    }
}
