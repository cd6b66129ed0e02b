//! Tests of record outcomes: which result the user gets, and when.

use std::sync::Arc;

use grete_wire::error_code::ErrorCode as E;

use super::harness::{FakePartitionResponse, Harness, config, outcome, result};
use crate::ids::TopicPartition;
use crate::producer::{
    BatchPromise, DropReason, DroppedRecords, LastError, Outcome, ProduceConfig, ProduceError, SenderAction,
    SenderLogEvent,
};
use crate::request::RequestError;
use crate::time::SECOND;

fn short() -> ProduceConfig {
    ProduceConfig { delivery_timeout: 10 * SECOND, ..config() }
}

#[test]
fn each_record_learns_its_offset() {
    let mut rig = Harness::ready(config(), &[1]);
    let receipt = rig.batches(0, &[&["a", "b", "c"]]).remove(0);
    let sent = rig.next_sent();
    rig.now += 5;
    rig.respond(&sent, |_| FakePartitionResponse {
        offset: 100,
        appended_at: Some(77),
        ..FakePartitionResponse::default()
    });
    for index in 0..3 {
        let settled = result(&receipt, index);
        assert_eq!((settled.outcome, settled.offset), (Outcome::Written, Some(100 + i64::from(index))));
        assert_eq!((settled.timestamp, settled.error, settled.at), (Some(77), None, rig.now));
    }
    assert_eq!((rig.used(), rig.pending()), (0, 0));
}

#[test]
fn p38_an_unanswered_batch_is_unknown_not_unwritten() {
    let mut rig = Harness::ready(short(), &[1]);
    let (receipt, _) = rig.produce(0, "a");
    rig.next_sent();
    rig.pass(10 * SECOND);
    let settled = result(&receipt, 0);
    assert_eq!(settled.outcome, Outcome::Unknown);
    let error = settled.error.expect("an error");
    assert!(
        matches!(&*error, ProduceError::DeliveryTimeout { last: Some(LastError::AwaitingResponse), .. }),
        "{error:?}"
    );
    assert!(error.to_string().starts_with("orders[0]: not delivered within 10000 ms"), "{error}");
}

#[test]
fn p38_a_batch_whose_connection_was_lost_is_unknown_when_it_expires() {
    let mut rig = Harness::ready(short(), &[1]);
    let (receipt, _) = rig.produce(0, "a");
    let sent = rig.next_sent();
    rig.fail(&sent, RequestError::Disconnected);
    rig.metadata.unready.insert(1);
    rig.pass(10 * SECOND);
    assert_eq!(outcome(&receipt), Some(Outcome::Unknown));
}

#[test]
fn p38_so_is_one_whose_leader_was_deposed_while_it_waited_for_its_followers() {
    let mut rig = Harness::ready(short(), &[1]);
    let (receipt, _) = rig.produce(0, "a");
    let sent = rig.next_sent();
    rig.reject(&sent, E::NOT_LEADER_OR_FOLLOWER);
    rig.metadata.unready.insert(1);
    rig.pass(10 * SECOND);
    assert_eq!(outcome(&receipt), Some(Outcome::Unknown));
}

#[test]
fn a_batch_that_was_never_sent_is_not_written() {
    let mut rig = Harness::ready(short(), &[1]);
    rig.metadata.unready.insert(1);
    let (receipt, _) = rig.produce(0, "a");
    rig.pass(10 * SECOND - 1);
    assert_eq!(outcome(&receipt), None);
    rig.pass(1);
    let settled = result(&receipt, 0);
    assert_eq!(settled.outcome, Outcome::NotWritten);
    let error = settled.error.expect("an error");
    assert!(
        matches!(&*error, ProduceError::DeliveryTimeout { last: Some(LastError::NotConnected(1)), .. }),
        "{error:?}"
    );
    let expired = rig.log_events().into_iter().find_map(|notice| match notice {
        SenderLogEvent::RecordsDropped { reason: DropReason::Expired, dropped: lost } => Some(lost),
        _ => None,
    });
    let tp = TopicPartition::new(receipt.topic().clone(), 0);
    assert_eq!(expired, Some(&vec![DroppedRecords { tp, batches: 1, records: 1, unknown: 0 }]));
    assert_eq!((rig.used(), rig.pending()), (0, 0));
}

#[test]
fn nor_is_one_that_was_refused_until_its_time_was_over() {
    let mut rig = Harness::ready(short(), &[1]);
    let (receipt, _) = rig.produce(0, "a");
    while outcome(&receipt).is_none() {
        if let Some(sent) = rig.sent.pop_front() {
            rig.reject(&sent, E::NOT_ENOUGH_REPLICAS);
        }
        rig.pass(SECOND / 2);
    }
    let settled = result(&receipt, 0);
    assert_eq!(settled.outcome, Outcome::NotWritten);
    assert_eq!(settled.error.expect("an error").code(), Some(E::NOT_ENOUGH_REPLICAS));
    // The sequence numbers are free again.
    rig.all_sent();
    rig.pass(2 * SECOND);
    rig.produce(0, "b");
    assert_eq!(rig.next_sent().only().stamp(), (7, 0, 0, 1));
}

#[test]
fn the_users_bound_holds_and_the_brokers_answer_still_counts() {
    let mut rig = Harness::ready(short(), &[1]);
    let (receipt, _) = rig.produce(0, "a");
    let late = rig.next_sent();
    rig.pass(10 * SECOND);
    assert_eq!(outcome(&receipt), Some(Outcome::Unknown));
    rig.accept(&late, 3);
    assert_eq!(outcome(&receipt), Some(Outcome::Unknown), "the first word is the last");
    assert_eq!(rig.used(), 0);
    rig.produce(0, "b");
    assert_eq!(rig.next_sent().only().stamp(), (7, 0, 1, 1), "no hole, and no new epoch");
}

#[test]
fn memory_is_held_for_as_long_as_a_request_holds_it() {
    let mut rig = Harness::ready(short(), &[1]);
    rig.produce(0, "a");
    let late = rig.next_sent();
    rig.pass(10 * SECOND);
    assert!(rig.used() > 0 && rig.pending() == 0);
    rig.fail(&late, RequestError::TimedOut);
    assert_eq!(rig.used(), 0);
}

#[test]
fn the_second_attempt_of_a_refusal_may_hide_a_first_that_was_written() {
    let mut rig = Harness::ready(config(), &[1]);
    let (receipt, _) = rig.produce(0, "a");
    let sent = rig.next_sent();
    rig.fail(&sent, RequestError::Disconnected);
    rig.pass(SECOND);
    let again = rig.next_sent();
    rig.reject(&again, E::TOPIC_AUTHORIZATION_FAILED);
    let settled = result(&receipt, 0);
    assert_eq!(settled.outcome, Outcome::Unknown);
    assert!(matches!(&**settled.error.as_ref().expect("an error"), ProduceError::Authorization { .. }));
}

#[test]
fn an_unknown_topic_is_waited_for_and_then_named() {
    let mut rig = Harness::ready(short(), &[1]);
    let (receipt, _) = rig.produce(0, "a");
    while outcome(&receipt).is_none() {
        if let Some(sent) = rig.sent.pop_front() {
            rig.reject(&sent, E::UNKNOWN_TOPIC_OR_PARTITION);
            assert!(rig.has(|action| matches!(action, SenderAction::RefreshMetadata)));
        }
        rig.pass(SECOND / 2);
    }
    let error = result(&receipt, 0).error.expect("an error");
    assert!(matches!(&*error, ProduceError::UnknownTopic { .. }), "{error:?}");
}

#[test]
fn authorization_errors_fail_at_once() {
    let mut rig = Harness::ready(config(), &[1]);
    let (receipt, _) = rig.produce(0, "a");
    let sent = rig.next_sent();
    rig.respond(&sent, |_| FakePartitionResponse { message: Some("no"), ..E::TOPIC_AUTHORIZATION_FAILED.into() });
    let settled = result(&receipt, 0);
    assert_eq!(settled.outcome, Outcome::NotWritten);
    assert!(matches!(&**settled.error.as_ref().expect("an error"), ProduceError::Authorization { .. }));
}

#[test]
fn a_server_that_failed_in_between_leaves_it_open() {
    let mut rig = Harness::ready(config(), &[1]);
    let (receipt, _) = rig.produce(0, "a");
    let sent = rig.next_sent();
    rig.reject(&sent, E::UNKNOWN_SERVER_ERROR);
    assert_eq!(outcome(&receipt), Some(Outcome::Unknown));
}

#[test]
fn with_acks_0_the_outcome_is_unknown() {
    let config = ProduceConfig { acks: 0, ..config() };
    let mut rig = Harness::ready(config, &[1]);
    let (receipt, _) = rig.produce(0, "a");
    let sent = rig.next_sent();
    assert_eq!(sent.only().stamp(), (-1, -1, -1, 1), "idempotence is off");
    rig.fail(&sent, RequestError::Unanswered);
    let settled = result(&receipt, 0);
    assert_eq!((settled.outcome, settled.offset, settled.error), (Outcome::Unknown, None, None));
    assert!(rig.used() > 0, "the socket has it still");
    drop(sent);
    rig.pass(SECOND);
    assert_eq!(rig.used(), 0);
    // A batch that was never handed to a socket is retried.
    let (receipt, _) = rig.produce(0, "b");
    let sent = rig.next_sent();
    rig.fail(&sent, RequestError::NoConnection);
    assert_eq!(outcome(&receipt), None);
    rig.pass(SECOND);
    assert_eq!(rig.next_sent().only().values, ["b"]);
}

#[test]
fn with_acks_1_what_a_deposed_leader_refuses_was_not_written() {
    let config = ProduceConfig { acks: 1, ..short() };
    let mut rig = Harness::ready(config, &[1]);
    let (receipt, _) = rig.produce(0, "a");
    let sent = rig.next_sent();
    rig.reject(&sent, E::NOT_LEADER_OR_FOLLOWER);
    rig.metadata.unready.insert(1);
    rig.pass(10 * SECOND);
    assert_eq!(outcome(&receipt), Some(Outcome::NotWritten));
}

#[test]
fn without_idempotence_a_rejected_batch_does_not_block_the_next() {
    let config = ProduceConfig { idempotent: false, ..config() };
    let mut rig = Harness::ready(config, &[1]);
    let receipts = rig.batches(0, &[&["a"], &["b"]]);
    let (a, b) = (rig.next_sent(), rig.next_sent());
    rig.reject(&a, E::INVALID_RECORD);
    rig.accept(&b, 0);
    assert_eq!(outcome(&receipts[0]), Some(Outcome::NotWritten));
    assert_eq!(outcome(&receipts[1]), Some(Outcome::Written));
    rig.produce(0, "c");
    assert_eq!(rig.next_sent().only().values, ["c"]);
}

#[test]
fn only_waiters_and_watchers_are_notified() {
    let mut rig = Harness::ready(config(), &[1]);
    let completed_count =
        |rig: &Harness| rig.actions.iter().filter(|action| matches!(action, SenderAction::Completed(_))).count();
    let (receipt, _) = rig.produce(0, "a");
    let sent = rig.next_sent();
    rig.accept(&sent, 0);
    assert_eq!((completed_count(&rig), receipt.watch()), (0, false));
    let wait = |receipt: &BatchPromise| assert_ne!(receipt.register_waiter(), 0);
    let watch = |receipt: &BatchPromise| assert!(receipt.watch());
    for ask in [wait, watch] {
        let before = completed_count(&rig);
        let (receipt, _) = rig.produce(0, "b");
        ask(&receipt);
        let sent = rig.next_sent();
        rig.accept(&sent, 1);
        assert_eq!(completed_count(&rig), before + 1);
        let last = rig.actions.iter().rev().find_map(|action| match action {
            SenderAction::Completed(receipt) => Some(Arc::clone(receipt)),
            _ => None,
        });
        assert!(Arc::ptr_eq(&last.expect("reported"), &receipt));
    }
}
