//! Tests of sequence numbers: assignment, counting and restarts.

use grete_wire::error_code::ErrorCode as E;

use super::harness::{Harness, config, outcome};
use crate::producer::{Outcome, ProduceConfig, SenderAction, SenderLogEvent};
use crate::request::RequestError;
use crate::time::SECOND;

fn stamps(rig: &mut Harness) -> Vec<(i64, i16, i32, usize)> {
    rig.all_sent().iter().map(|sent| sent.only().stamp()).collect()
}

#[test]
fn p37_nothing_is_stamped_before_there_is_an_identity() {
    let mut rig = Harness::new(config());
    rig.lead("orders", &[1]);
    rig.topic("orders");
    rig.produce(0, "a");
    assert_eq!((rig.sent.len(), rig.producer_id_requests.len()), (0, 1), "asked for once, and nothing is sent before");
    rig.identify(42, 3);
    assert_eq!(rig.next_sent().only().stamp(), (42, 3, 0, 1));
}

#[test]
fn p37_sequences_count_records() {
    let mut rig = Harness::ready(config(), &[1, 1]);
    rig.batches(0, &[&["a", "b", "c"], &["d"], &["e", "f"]]);
    rig.batches(1, &[&["x", "y"]]);
    assert_eq!(stamps(&mut rig), [(7, 0, 0, 3), (7, 0, 3, 1), (7, 0, 4, 2), (7, 0, 0, 2)], "each partition by itself");
}

#[test]
fn p37_sequences_wrap_at_i32_max() {
    let mut rig = Harness::ready(config(), &[1]);
    rig.sender.set_next_sequence(0, i32::MAX - 1);
    rig.batches(0, &[&["a", "b", "c"], &["d"]]);
    assert_eq!(stamps(&mut rig), [(7, 0, i32::MAX - 1, 3), (7, 0, 1, 1)]);
}

#[test]
fn p37_numbers_of_a_refused_batch_after_the_turn_are_used_again() {
    let mut rig = Harness::ready(config(), &[1]);
    rig.sender.set_next_sequence(0, i32::MAX);
    rig.batches(0, &[&["a", "b"]]);
    let sent = rig.next_sent();
    rig.accept(&sent, 0);
    rig.batches(0, &[&["c"]]);
    let sent = rig.next_sent();
    assert_eq!(sent.only().sequence, 1);
    rig.reject(&sent, E::INVALID_RECORD);
    rig.batches(0, &[&["d"]]);
    assert_eq!(rig.next_sent().only().sequence, 1);
}

#[test]
fn p37_a_retry_keeps_batch_and_sequence() {
    let mut rig = Harness::ready(config(), &[1]);
    let receipt = rig.batches(0, &[&["a", "b"]]).remove(0);
    let first = rig.next_sent();
    rig.fail(&first, RequestError::Disconnected);
    assert_eq!(rig.sent.len(), 0, "not at once");
    // Records appended meanwhile must not join the batch that is retried.
    rig.batches(0, &[&["c"]]);
    rig.pass(SECOND);
    let again = rig.next_sent();
    assert_eq!(again.batches, first.batches);
    assert_eq!(rig.sent.len(), 0, "one at a time until the head is resolved");
    rig.accept(&again, 5);
    assert_eq!(outcome(&receipt), Some(Outcome::Written));
    assert_eq!(rig.next_sent().only().stamp(), (7, 0, 2, 1));
}

#[test]
fn p37_batches_that_fail_together_are_sent_again_in_order() {
    let mut rig = Harness::ready(config(), &[1]);
    rig.batches(0, &[&["a"], &["b"], &["c"]]);
    let sent = rig.all_sent();
    // The responses arrive in reverse order, as they may from two leaders.
    for sent in sent.iter().rev() {
        rig.fail(sent, RequestError::Disconnected);
    }
    let mut seen = Vec::new();
    for _ in 0..3 {
        rig.pass(2 * SECOND);
        let sent = rig.next_sent();
        assert_eq!(rig.sent.len(), 0, "one at a time");
        seen.push((sent.only().sequence, sent.only().values.clone()));
        rig.accept(&sent, 0);
    }
    assert_eq!(seen, [(0, vec!["a".to_owned()]), (1, vec!["b".into()]), (2, vec!["c".into()])]);
}

#[test]
fn p37_idle_partitions_restart_after_an_epoch_bump() {
    let config = ProduceConfig { delivery_timeout: 10 * SECOND, request_timeout: 30 * SECOND, ..config() };
    let mut rig = Harness::ready(config, &[1, 1]);
    // Partition 1 has written records and is idle.
    rig.batches(1, &[&["x", "y"]]);
    let sent = rig.next_sent();
    rig.accept(&sent, 0);
    // Partition 0 loses track: a batch with an unknown outcome is dropped.
    rig.batches(0, &[&["a"]]);
    let sent = rig.next_sent();
    rig.pass(11 * SECOND);
    rig.fail(&sent, RequestError::TimedOut);
    rig.batches(0, &[&["b"]]);
    rig.pass(SECOND);
    assert_eq!(rig.next_sent().only().stamp(), (7, 1, 0, 1), "the same id, the next epoch, from zero");
    assert!(rig.producer_id_requests.is_empty(), "which needs no broker (KIP-360)");
    assert!(rig.log_events().contains(&&SenderLogEvent::ProducerIdAssigned { producer_id: 7, epoch: 1 }));
    rig.batches(1, &[&["z"]]);
    assert_eq!(rig.next_sent().only().stamp(), (7, 1, 0, 1), "a new epoch starts at zero, or the broker refuses it");
}

#[test]
fn p37_a_partition_with_batches_on_their_way_keeps_its_epoch_until_they_are_resolved() {
    let config = ProduceConfig { delivery_timeout: 10 * SECOND, request_timeout: 30 * SECOND, ..config() };
    let mut rig = Harness::ready(config, &[1, 2]);
    rig.batches(0, &[&["a"]]);
    let lost = rig.next_sent();
    rig.pass(9 * SECOND);
    rig.batches(1, &[&["x"], &["y"]]);
    let (x, y) = (rig.next_sent(), rig.next_sent());
    rig.pass(2 * SECOND);
    rig.fail(&lost, RequestError::TimedOut);
    rig.batches(0, &[&["b"]]);
    rig.pass(SECOND);
    assert_eq!(rig.next_sent().only().stamp(), (7, 1, 0, 1));
    rig.fail(&x, RequestError::Disconnected);
    rig.fail(&y, RequestError::Disconnected);
    rig.pass(SECOND);
    let again = rig.next_sent();
    assert_eq!(again.only().stamp(), (7, 0, 0, 1), "it may have been written under these numbers");
    rig.accept(&again, 0);
    let again = rig.next_sent();
    assert_eq!(again.only().stamp(), (7, 0, 1, 1));
    rig.accept(&again, 1);
    rig.batches(1, &[&["z"]]);
    assert_eq!(rig.next_sent().only().stamp(), (7, 1, 0, 1), "all is resolved");
}

#[test]
fn a_batch_is_not_renumbered_while_an_earlier_attempt_is_ambiguous() {
    let config = ProduceConfig { delivery_timeout: 10 * SECOND, ..config() };
    let mut rig = Harness::ready(config, &[1]);
    let a = rig.batches(0, &[&["a"]]).remove(0);
    let first = rig.next_sent();
    rig.pass(5 * SECOND);
    let b = rig.batches(0, &[&["b"]]).remove(0);
    let second = rig.next_sent();
    rig.fail(&first, RequestError::Disconnected);
    rig.fail(&second, RequestError::Disconnected);
    // The leader is unreachable until the first batch has expired.
    rig.metadata.unready.insert(1);
    rig.pass(6 * SECOND);
    assert_eq!((outcome(&a), outcome(&b)), (Some(Outcome::Unknown), None));
    rig.metadata.unready.clear();
    rig.pass(SECOND);
    let again = rig.next_sent();
    assert_eq!(again.only().stamp(), (7, 0, 1, 1), "b may have been written as number 1");
    // Perhaps a is missing, or the broker has b and remembers only later batches.
    rig.reject(&again, E::OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_eq!(outcome(&b), Some(Outcome::Unknown), "it is not sent under other numbers");
    rig.batches(0, &[&["c"]]);
    rig.pass(SECOND);
    assert_eq!((rig.next_sent().only().stamp(), rig.sent.len()), ((7, 1, 0, 1), 0));
}

#[test]
fn an_ambiguous_batch_behind_an_expired_one_that_was_written_is_not_written_twice() {
    let config = ProduceConfig { delivery_timeout: 10 * SECOND, ..config() };
    let mut rig = Harness::ready(config, &[1]);
    rig.batches(0, &[&["a"]]);
    let first = rig.next_sent();
    rig.pass(5 * SECOND);
    rig.batches(0, &[&["b"], &["c"]]);
    let (second, third) = (rig.next_sent(), rig.next_sent());
    for sent in [&first, &second, &third] {
        rig.fail(sent, RequestError::Disconnected);
    }
    rig.metadata.unready.insert(1);
    rig.pass(6 * SECOND);
    rig.metadata.unready.clear();
    rig.pass(SECOND);
    let again = rig.next_sent();
    rig.reject(&again, E::DUPLICATE_SEQUENCE_NUMBER);
    let again = rig.next_sent();
    assert_eq!(again.only().stamp(), (7, 0, 2, 1), "c is ambiguous as well");
    rig.accept(&again, 9);
    rig.batches(0, &[&["d"]]);
    assert_eq!(rig.next_sent().only().stamp(), (7, 1, 0, 1));
}

#[test]
fn the_first_batch_of_an_identity_goes_alone() {
    // A leader without state of the producer accepts any sequence number: a second batch could overtake a first one
    // that is refused.
    let mut rig = Harness::new(config());
    rig.lead("orders", &[1]);
    rig.topic("orders");
    rig.identify(7, 0);
    rig.batches(0, &[&["a"], &["b"]]);
    let first = rig.next_sent();
    assert_eq!(rig.sent.len(), 0);
    rig.accept(&first, 0);
    rig.batches(0, &[&["c"]]);
    assert_eq!(stamps(&mut rig), [(7, 0, 1, 1), (7, 0, 2, 1)], "from now on several");
}

#[test]
fn what_follows_a_refused_batch_gets_its_numbers() {
    let mut rig = Harness::ready(config(), &[1]);
    let receipts = rig.batches(0, &[&["a", "b"], &["c"], &["d"]]);
    let (a, c, d) = (rig.next_sent(), rig.next_sent(), rig.next_sent());
    rig.reject(&a, E::INVALID_RECORD);
    assert_eq!(outcome(&receipts[0]), Some(Outcome::NotWritten));
    assert_eq!(rig.sent.len(), 0, "what is on its way may be anything yet");
    rig.reject(&c, E::OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_eq!(rig.sent.len(), 0);
    rig.reject(&d, E::OUT_OF_ORDER_SEQUENCE_NUMBER);
    let again = rig.next_sent();
    assert_eq!((again.only().stamp(), &*again.only().values[0]), ((7, 0, 0, 1), "c"), "without a wait");
    rig.accept(&again, 0);
    let again = rig.next_sent();
    assert_eq!((again.only().stamp(), &*again.only().values[0]), ((7, 0, 1, 1), "d"));
    rig.accept(&again, 1);
    rig.batches(0, &[&["e"]]);
    assert_eq!(rig.next_sent().only().stamp(), (7, 0, 2, 1));
}

#[test]
fn what_was_written_behind_a_refused_batch_stays_written() {
    // A broker without state of the producer accepts any sequence number.
    let mut rig = Harness::ready(config(), &[1]);
    rig.batches(0, &[&["a"], &["b", "c"]]);
    let (a, b) = (rig.next_sent(), rig.next_sent());
    rig.reject(&a, E::INVALID_RECORD);
    rig.accept(&b, 0);
    rig.batches(0, &[&["d"]]);
    assert_eq!(rig.next_sent().only().stamp(), (7, 0, 3, 1), "it goes on from what the broker has");
}

#[test]
fn out_of_order_behind_an_unresolved_batch_waits_for_it() {
    let mut rig = Harness::ready(config(), &[1]);
    rig.batches(0, &[&["a"], &["b"]]);
    let (a, b) = (rig.next_sent(), rig.next_sent());
    rig.reject(&a, E::NOT_ENOUGH_REPLICAS);
    rig.reject(&b, E::OUT_OF_ORDER_SEQUENCE_NUMBER);
    rig.pass(SECOND);
    let again = rig.next_sent();
    assert_eq!(again.batches, a.batches);
    rig.accept(&again, 0);
    let again = rig.next_sent();
    assert_eq!(again.batches, b.batches, "the same numbers: nothing is missing before them");
    assert!(rig.log_events().iter().all(|notice| !matches!(notice, SenderLogEvent::ProducerIdAssigned { .. })));
}

#[test]
fn out_of_order_without_reason_costs_an_epoch() {
    let mut rig = Harness::ready(config(), &[1]);
    let receipt = rig.batches(0, &[&["a"]]).remove(0);
    let sent = rig.next_sent();
    rig.reject(&sent, E::OUT_OF_ORDER_SEQUENCE_NUMBER);
    rig.pass(SECOND);
    let again = rig.next_sent();
    assert_eq!(again.only().stamp(), (7, 1, 0, 1));
    rig.accept(&again, 0);
    assert_eq!(outcome(&receipt), Some(Outcome::Written));
}

#[test]
fn a_producer_that_the_broker_has_forgotten_goes_on_under_the_next_epoch() {
    let mut rig = Harness::ready(config(), &[1]);
    rig.batches(0, &[&["a"], &["b"]]);
    let (a, b) = (rig.next_sent(), rig.next_sent());
    rig.reject(&a, E::UNKNOWN_PRODUCER_ID);
    rig.reject(&b, E::OUT_OF_ORDER_SEQUENCE_NUMBER);
    rig.pass(SECOND);
    let again = rig.next_sent();
    assert_eq!((again.only().stamp(), &*again.only().values[0]), ((7, 1, 0, 1), "a"));
    rig.accept(&again, 0);
    assert_eq!(rig.next_sent().only().stamp(), (7, 1, 1, 1));
}

#[test]
fn a_fenced_producer_gets_another_id() {
    for code in [E::INVALID_PRODUCER_EPOCH, E::PRODUCER_FENCED] {
        let mut rig = Harness::ready(config(), &[1]);
        let receipt = rig.batches(0, &[&["a"]]).remove(0);
        let sent = rig.next_sent();
        rig.reject(&sent, code);
        rig.pass(SECOND);
        assert_eq!(rig.sent.len(), 0, "nothing goes out under the old one");
        rig.identify(8, 0);
        let again = rig.next_sent();
        assert_eq!(again.only().stamp(), (8, 0, 0, 1));
        rig.accept(&again, 0);
        assert_eq!(outcome(&receipt), Some(Outcome::Written));
    }
}

#[test]
fn a_fenced_batch_that_may_have_been_written_is_not_sent_under_another_id() {
    let mut rig = Harness::ready(config(), &[1]);
    let receipt = rig.batches(0, &[&["a"]]).remove(0);
    let sent = rig.next_sent();
    rig.fail(&sent, RequestError::Disconnected);
    rig.pass(SECOND);
    let again = rig.next_sent();
    rig.reject(&again, E::INVALID_PRODUCER_EPOCH);
    assert_eq!(outcome(&receipt), Some(Outcome::Unknown));
    rig.identify(8, 0);
    rig.pass(SECOND);
    assert_eq!(rig.sent.len(), 0);
}

#[test]
fn an_identity_is_asked_for_until_there_is_one() {
    let mut rig = Harness::new(config());
    rig.lead("orders", &[1]);
    rig.topic("orders");
    rig.produce(0, "a");
    rig.respond_to_init_producer_id(E::COORDINATOR_LOAD_IN_PROGRESS, -1, -1);
    assert_eq!(rig.producer_id_requests.len(), 0, "not at once");
    rig.pass(SECOND);
    assert_eq!(rig.producer_id_requests.len(), 1);
    rig.respond_to_init_producer_id(E::NONE, -1, -1);
    rig.pass(2 * SECOND);
    rig.identify(9, 0);
    assert_eq!(rig.next_sent().only().stamp(), (9, 0, 0, 1));
}

#[test]
fn who_may_not_have_an_identity_fails_until_it_may() {
    let mut rig = Harness::new(config());
    rig.lead("orders", &[1]);
    rig.topic("orders");
    let (receipt, _) = rig.produce(0, "a");
    rig.respond_to_init_producer_id(E::CLUSTER_AUTHORIZATION_FAILED, -1, -1);
    assert!(!rig.has(|action| matches!(action, SenderAction::Fatal(_))));
    assert_eq!(outcome(&receipt), Some(Outcome::NotWritten));
    let (receipt, _) = rig.produce(0, "b");
    rig.pass(SECOND);
    rig.respond_to_init_producer_id(E::CLUSTER_AUTHORIZATION_FAILED, -1, -1);
    assert_eq!(outcome(&receipt), Some(Outcome::NotWritten));
    rig.produce(0, "c");
    rig.pass(2 * SECOND);
    rig.identify(9, 0);
    assert_eq!(rig.next_sent().only().stamp(), (9, 0, 0, 1));
}

#[test]
fn without_idempotence_there_are_no_numbers() {
    let config = ProduceConfig { idempotent: false, acks: 1, ..config() };
    let mut rig = Harness::ready(config, &[1]);
    rig.batches(0, &[&["a"], &["b"]]);
    assert_eq!(stamps(&mut rig), [(-1, -1, -1, 1), (-1, -1, -1, 1)]);
    assert!(rig.producer_id_requests.is_empty());
}
