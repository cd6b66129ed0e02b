//! Tests of batches in transactions.

use std::sync::Arc;

use grete_wire::error_code::ErrorCode as E;
use grete_wire::records::BatchHeader;

use super::harness::{Harness, Sent, config, outcome};
use crate::ids::{ProducerIdAndEpoch, TopicPartition};
use crate::producer::{
    AppendError, Outcome, ProduceConfig, SenderAction, SenderEvent, TransactionCause, TransactionError, TransactionGate,
};
use crate::request::RequestError;

fn begin(rig: &mut Harness) {
    rig.lock().set_gate(TransactionGate::Open);
    rig.step(SenderEvent::TransactionBegun);
}

fn identify(rig: &mut Harness, epoch: i16, explicit: bool) {
    let identity = ProducerIdAndEpoch { id: 7, epoch };
    rig.step(SenderEvent::TransactionIdentity { identity, explicit });
}

fn open(explicit: bool) -> Harness {
    let mut rig = Harness::ready(ProduceConfig { transactional_id: Some("t".into()), ..config() }, &[1, 1]);
    identify(&mut rig, 0, explicit);
    begin(&mut rig);
    rig
}

fn wanted(rig: &mut Harness) -> Vec<TopicPartition> {
    let mut found = Vec::new();
    rig.actions.retain_mut(|action| match action {
        SenderAction::PartitionsWanted(partitions) => {
            found.append(partitions);
            false
        }
        _ => true,
    });
    found
}

fn add(rig: &mut Harness, partition: i32) {
    rig.step(SenderEvent::PartitionsAdded(vec![TopicPartition::new("orders", partition)]));
}

fn abort(rig: &mut Harness) {
    let cause = Arc::new(TransactionCause::Requested);
    rig.lock().set_gate(TransactionGate::Ending);
    rig.lock().abort_transaction(&cause);
    rig.step(SenderEvent::TransactionAborted(cause));
}

fn failures(rig: &Harness) -> usize {
    rig.actions.iter().filter(|action| matches!(action, SenderAction::BatchFailed(_))).count()
}

fn is_transactional(sent: &Sent) -> bool {
    let batches = sent.body.topics.iter().flat_map(|topic| &topic.partitions);
    batches.map(|(_, bytes)| BatchHeader::parse(bytes).expect("a header")).all(|header| header.is_transactional())
}

#[test]
fn no_record_is_taken_outside_of_a_transaction() {
    let mut rig = open(true);
    for (gate, error) in
        [(TransactionGate::Closed, TransactionError::NotOpen), (TransactionGate::Ending, TransactionError::Ending)]
    {
        rig.lock().set_gate(gate);
        assert_eq!(rig.try_append(0, "a").expect_err("refused"), AppendError::Transaction(error));
    }
    begin(&mut rig);
    assert!(rig.try_append(0, "a").is_ok());
}

#[test]
fn a_partition_is_asked_for_once_and_its_batches_wait() {
    for explicit in [true, false] {
        let mut rig = open(explicit);
        rig.produce(0, "a");
        rig.produce(0, "b");
        assert_eq!(wanted(&mut rig), [TopicPartition::new("orders", 0)]);
        assert!(rig.sent.is_empty());
        rig.produce(1, "c");
        assert_eq!(wanted(&mut rig), [TopicPartition::new("orders", 1)]);
        add(&mut rig, 0);
        let sent = rig.next_sent();
        assert!(rig.sent.is_empty(), "partition 1 is not added");
        assert_eq!((sent.only().id, sent.only().epoch, sent.only().sequence), (7, 0, 0));
        assert!(is_transactional(&sent));
        assert_eq!((sent.body.transactional_id.as_deref(), sent.body.has_added_partitions), (Some("t"), explicit));
    }
}

#[test]
fn the_next_transaction_asks_again() {
    let mut rig = open(true);
    rig.produce(0, "a");
    add(&mut rig, 0);
    let sent = rig.next_sent();
    rig.accept(&sent, 0);
    wanted(&mut rig);
    rig.lock().set_gate(TransactionGate::Closed);
    begin(&mut rig);
    rig.produce(0, "b");
    assert_eq!((wanted(&mut rig).len(), rig.sent.len()), (1, 0));
    add(&mut rig, 0);
    assert_eq!(rig.next_sent().only().sequence, 1, "the numbers go on in the same epoch");
}

#[test]
fn an_abort_ends_what_waits_what_is_on_its_way_and_what_is_written() {
    let mut rig = open(true);
    let (written, _) = rig.produce(0, "a");
    add(&mut rig, 0);
    let sent = rig.next_sent();
    rig.accept(&sent, 0);
    assert_eq!(outcome(&written), Some(Outcome::Written));
    let (in_flight, _) = rig.produce(0, "b");
    let sent = rig.next_sent();
    let (queued, _) = rig.produce(1, "c");
    abort(&mut rig);
    for promise in [&written, &in_flight, &queued] {
        assert_eq!(outcome(promise), Some(Outcome::Aborted));
    }
    assert!(!rig.sender.is_settled(), "a response is pending");
    rig.accept(&sent, 1);
    assert!(rig.sender.is_settled() && !rig.sender.has_sequence_gap());
    assert_eq!((rig.used(), rig.pending(), failures(&rig)), (0, 0, 0));
    assert_eq!((rig.sender.stats().written, rig.sender.stats().aborted), (1, 2));
}

#[test]
fn a_batch_that_fails_leaves_a_gap_that_the_next_epoch_closes() {
    for code in [E::OUT_OF_ORDER_SEQUENCE_NUMBER, E::UNKNOWN_PRODUCER_ID, E::INVALID_PRODUCER_EPOCH, E::INVALID_RECORD]
    {
        let mut rig = open(true);
        rig.produce(0, "a");
        add(&mut rig, 0);
        let sent = rig.next_sent();
        rig.reject(&sent, code);
        assert_eq!((failures(&rig), rig.sent.len()), (1, 0), "{code}: not repeated under another epoch");
        abort(&mut rig);
        assert!(rig.sender.is_settled() && rig.sender.has_sequence_gap(), "{code}");
        identify(&mut rig, 1, true);
        assert!(!rig.sender.has_sequence_gap());
        begin(&mut rig);
        rig.produce(0, "b");
        add(&mut rig, 0);
        assert_eq!(rig.next_sent().only().stamp(), (7, 1, 0, 1), "{code}");
    }
}

#[test]
fn a_lost_response_is_repeated_under_the_same_number() {
    let mut rig = open(false);
    rig.produce(0, "a");
    add(&mut rig, 0);
    let lost = rig.next_sent();
    rig.fail(&lost, RequestError::Disconnected);
    rig.pass(1_000_000_000);
    let again = rig.next_sent();
    assert_eq!(lost.only(), again.only());
    rig.accept(&again, 0);
    assert_eq!((failures(&rig), rig.sender.has_sequence_gap()), (0, false));
}

#[test]
fn halves_of_a_batch_are_transactional_too() {
    let mut rig = open(true);
    rig.batches(0, &[&["a", "b"]]);
    add(&mut rig, 0);
    let sent = rig.next_sent();
    rig.reject(&sent, E::MESSAGE_TOO_LARGE);
    let half = rig.next_sent();
    assert!(is_transactional(&half) && half.only().values == ["a"]);
}
