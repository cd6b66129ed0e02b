//! Tests of routing: which node gets which batch, and which conditions delay a batch.

use grete_wire::error_code::ErrorCode as E;

use super::harness::{Harness, config, outcome};
use crate::cluster::NO_LEADER;
use crate::producer::{Outcome, ProduceConfig, SenderAction, SenderEvent};
use crate::request::RequestError;
use crate::time::SECOND;

#[test]
fn one_request_carries_one_batch_of_each_partition() {
    let mut rig = Harness::ready(ProduceConfig { linger: SECOND, ..config() }, &[1, 2, 1, 1]);
    for partition in [3, 0, 2, 1, 0] {
        rig.try_append(partition, "a").expect("taken");
    }
    rig.lock().flush();
    rig.step(SenderEvent::Drain);
    let sent = rig.all_sent();
    let places = |node| -> Vec<i32> {
        let to = sent.iter().filter(|sent| sent.node == node);
        to.flat_map(|sent| &sent.batches).map(|batch| batch.partition).collect()
    };
    assert_eq!((sent.len(), places(1), places(2)), (2, vec![0, 2, 3], vec![1]));
}

#[test]
fn a_request_is_filled_up_to_its_limit_and_in_turn() {
    let config =
        ProduceConfig { linger: SECOND, max_request_size: 3000, batch_size: 1500, max_in_flight: 1, ..config() };
    let mut rig = Harness::ready(config, &[1, 1, 1]);
    let value = "v".repeat(1200);
    for partition in [0, 0, 0, 1, 2] {
        rig.try_append(partition, &value).expect("taken");
    }
    rig.lock().flush();
    rig.step(SenderEvent::Drain);
    let mut seen = Vec::new();
    while let Some(sent) = rig.sent.pop_front() {
        assert!(rig.sent.is_empty(), "one at a time");
        assert!(sent.bytes < 3200, "{}", sent.bytes);
        seen.push(sent.batches.iter().map(|batch| batch.partition).collect::<Vec<_>>());
        rig.accept(&sent, 0);
    }
    assert_eq!(seen, [vec![0, 1], vec![0, 2], vec![0]], "no other partition waits for the third of partition 0");
}

#[test]
fn so_many_requests_and_no_more_are_on_their_way() {
    for (max_in_flight, expected) in [(1, 1), (3, 3), (9, 5)] {
        let mut rig = Harness::ready(ProduceConfig { max_in_flight, ..config() }, &[1]);
        rig.batches(0, &[&["a"][..]; 12]);
        assert_eq!(rig.sent.len(), expected);
        let sent = rig.next_sent();
        rig.accept(&sent, 0);
        assert_eq!(rig.sent.len(), expected, "one more");
    }
}

#[test]
fn a_partition_without_a_leader_waits_for_one() {
    let mut rig = Harness::ready(config(), &[NO_LEADER]);
    let (receipt, _) = rig.produce(0, "a");
    assert!(rig.has(|action| matches!(action, SenderAction::RefreshMetadata)));
    rig.lead("orders", &[4]);
    let sent = rig.next_sent();
    assert_eq!(sent.node, 4);
    rig.accept(&sent, 0);
    assert_eq!(outcome(&receipt), Some(Outcome::Written));
}

#[test]
fn batches_follow_the_leader_in_order() {
    let mut rig = Harness::ready(config(), &[1]);
    rig.batches(0, &[&["a"], &["b"]]);
    let (a, b) = (rig.next_sent(), rig.next_sent());
    rig.lead("orders", &[2]);
    rig.batches(0, &[&["c"]]);
    assert_eq!(rig.sent.len(), 0, "nothing overtakes what is at the old leader");
    rig.reject(&a, E::NOT_LEADER_OR_FOLLOWER);
    assert_eq!(rig.sent.len(), 0);
    rig.fail(&b, RequestError::Disconnected);
    let mut values = Vec::new();
    for _ in 0..3 {
        rig.pass(2 * SECOND);
        let sent = rig.next_sent();
        assert_eq!((sent.node, sent.only().epoch), (2, 0));
        values.push((sent.only().sequence, sent.only().values[0].clone()));
        rig.accept(&sent, 0);
    }
    assert_eq!(values, [(0, "a".to_owned()), (1, "b".into()), (2, "c".into())]);
}

#[test]
fn a_leader_that_moves_back_and_forth_gets_each_batch_once() {
    let mut rig = Harness::ready(config(), &[1]);
    rig.metadata.unready.extend([1, 2]);
    rig.produce(0, "a");
    for leader in [2, 1, 2, 1] {
        rig.lead("orders", &[leader]);
    }
    rig.metadata.unready.clear();
    rig.step(SenderEvent::NodeReady(1));
    assert_eq!(rig.next_sent().node, 1);
    assert_eq!(rig.sent.len(), 0);
}

#[test]
fn a_connection_is_asked_for_when_there_is_something_to_send() {
    let mut rig = Harness::ready(config(), &[1]);
    let asked = |rig: &Harness| rig.actions.iter().filter(|action| matches!(action, SenderAction::NeedNode(1))).count();
    rig.metadata.unready.insert(1);
    rig.step(SenderEvent::Tick);
    assert_eq!(asked(&rig), 0);
    rig.produce(0, "a");
    rig.produce(0, "b");
    assert_eq!(asked(&rig), 1, "once");
    rig.step(SenderEvent::NodeLost(1));
    assert_eq!(asked(&rig), 2, "it did not come about");
    rig.pass(SECOND);
    assert_eq!(asked(&rig), 3);
    rig.metadata.unready.clear();
    rig.step(SenderEvent::NodeReady(1));
    assert_eq!(rig.next_sent().only().values, ["a", "b"]);
}

#[test]
fn muted_nodes_get_nothing_and_batches_go_on_to_fill() {
    let mut rig = Harness::ready(config(), &[1, 2]);
    let until = rig.now + 3 * SECOND;
    rig.metadata.muted.insert(1, until);
    rig.produce(0, "a");
    rig.produce(0, "b");
    rig.produce(1, "x");
    assert_eq!(rig.next_sent().node, 2);
    rig.pass(2 * SECOND);
    assert_eq!(rig.sent.len(), 0);
    rig.now = until;
    rig.step(SenderEvent::Unmuted(1));
    assert_eq!(rig.next_sent().only().values, ["a", "b"]);
}

#[test]
fn failures_wait_longer_and_longer() {
    let mut rig = Harness::ready(config(), &[1]);
    rig.produce(0, "a");
    let mut waits = Vec::new();
    for _ in 0..6 {
        let sent = rig.next_sent();
        rig.reject(&sent, E::NOT_ENOUGH_REPLICAS);
        let before = rig.now;
        while rig.sent.is_empty() {
            rig.now = rig.sender.deadline().expect("a retry is due");
            rig.step(SenderEvent::Tick);
        }
        waits.push((rig.now - before) / 1_000_000);
    }
    for (wait, expected) in waits.iter().zip([100, 200, 400, 800, 1000, 1000]) {
        assert!((expected * 8 / 10..=expected * 12 / 10).contains(wait), "{waits:?}");
    }
}

#[test]
fn partitions_that_fail_together_are_sent_again_together() {
    let mut rig = Harness::ready(ProduceConfig { linger: SECOND, ..config() }, &[1; 50]);
    for partition in 0..50 {
        rig.try_append(partition, "a").expect("taken");
    }
    rig.lock().flush();
    rig.step(SenderEvent::Drain);
    let sent = rig.next_sent();
    rig.fail(&sent, RequestError::Disconnected);
    rig.pass(SECOND);
    assert_eq!(rig.next_sent().batches.len(), 50);
}

#[test]
fn a_drain_looks_at_ready_partitions_only() {
    // Ten thousand idle partitions: a step with one ready partition takes about as long as with a single partition.
    let mut rig = Harness::ready(ProduceConfig { max_in_flight: 5, ..config() }, &vec![1; 10_000]);
    for round in 0..3 {
        rig.produce(9_999, "a");
        let sent = rig.next_sent();
        assert_eq!(sent.only().sequence, round);
        rig.accept(&sent, 0);
        assert_eq!(rig.sender.queued(), 0, "no idle partition was visited");
    }
}
