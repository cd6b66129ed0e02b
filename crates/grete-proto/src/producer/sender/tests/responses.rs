//! Tests of produce responses and their consequences.

use grete_wire::error_code::ErrorCode as E;
use grete_wire::records::Compression;

use super::harness::{FakePartitionResponse, Harness, config, outcome, result};
use crate::cluster::ClusterEvent;
use crate::producer::{BatchPromise, Outcome, ProduceConfig, ProduceError, SenderAction, SenderLogEvent};
use crate::request::RequestError;
use crate::time::SECOND;

fn outcomes(receipt: &BatchPromise, count: u32) -> Vec<Option<(Outcome, Option<i64>)>> {
    (0..count).map(|index| receipt.result(index).map(|settled| (settled.outcome, settled.offset))).collect()
}

#[test]
fn a_duplicate_is_written() {
    let mut rig = Harness::ready(config(), &[1]);
    let (receipt, _) = rig.produce(0, "a");
    let sent = rig.next_sent();
    rig.reject(&sent, E::DUPLICATE_SEQUENCE_NUMBER);
    let settled = result(&receipt, 0);
    assert_eq!((settled.outcome, settled.offset, settled.error), (Outcome::Written, None, None));
    rig.produce(0, "b");
    assert_eq!(rig.next_sent().only().stamp(), (7, 0, 1, 1));
}

#[test]
fn p39_an_unreadable_answer_never_splits() {
    let mut rig = Harness::ready(config(), &[1]);
    let receipt = rig.batches(0, &[&["a", "b"]]).remove(0);
    let sent = rig.next_sent();
    rig.reply_bytes(&sent, vec![0xff; 3]);
    assert_eq!(outcome(&receipt), None, "the outcome is unknown");
    rig.pass(SECOND);
    let again = rig.next_sent();
    assert_eq!(again.batches, sent.batches, "the same batch under the same numbers");
    rig.fail(&again, RequestError::Protocol(grete_wire::WireError::BadVarint));
    rig.pass(SECOND);
    let again = rig.next_sent();
    assert_eq!(again.batches, sent.batches);
    assert_eq!(rig.sender.stats().splits, 0);
}

#[test]
fn p39_and_expires_as_unknown() {
    let mut rig = Harness::ready(ProduceConfig { delivery_timeout: 10 * SECOND, ..config() }, &[1]);
    let (receipt, _) = rig.produce(0, "a");
    let sent = rig.next_sent();
    rig.reply_bytes(&sent, vec![0xff; 3]);
    rig.metadata.unready.insert(1);
    rig.pass(10 * SECOND);
    assert_eq!(outcome(&receipt), Some(Outcome::Unknown));
}

#[test]
fn an_answer_that_leaves_a_batch_out_says_nothing_of_it() {
    let mut rig = Harness::ready(ProduceConfig { linger: SECOND, ..config() }, &[1, 1]);
    let (x, _, _) = rig.try_append(0, "x").expect("taken");
    let (y, _, _) = rig.try_append(1, "y").expect("taken");
    rig.lock().flush();
    rig.step(crate::producer::SenderEvent::Drain);
    let sent = rig.next_sent();
    assert_eq!(sent.batches.len(), 2);
    rig.answer_some(&sent, |batch| (batch.partition == 0).then(FakePartitionResponse::default));
    assert_eq!((outcome(&x), outcome(&y)), (Some(Outcome::Written), None));
    rig.pass(SECOND);
    assert_eq!(rig.next_sent().only().stamp(), (7, 0, 0, 1));
}

#[test]
fn too_large_goes_in_halves_under_the_same_numbers() {
    for (compression, code) in [
        (Compression::None, E::MESSAGE_TOO_LARGE),
        (Compression::Zstd, E::MESSAGE_TOO_LARGE),
        (Compression::Gzip, E::RECORD_LIST_TOO_LARGE),
        (Compression::Lz4, E::MESSAGE_TOO_LARGE),
        (Compression::Snappy, E::MESSAGE_TOO_LARGE),
    ] {
        let mut rig = Harness::ready(ProduceConfig { compression, ..config() }, &[1]);
        let long = "abcdefgh".repeat(50);
        let values: Vec<String> = (0..5).map(|n| format!("{n}{long}")).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let receipt = rig.batches(0, &[&values]).remove(0);
        rig.batches(0, &[&["behind"]]);
        let (large, behind) = (rig.next_sent(), rig.next_sent());
        rig.reject(&large, code);
        rig.reject(&behind, E::OUT_OF_ORDER_SEQUENCE_NUMBER);
        assert!(rig.log_events().iter().any(|notice| matches!(notice, SenderLogEvent::Split { records: 5, .. })));
        let first = rig.next_sent();
        assert_eq!((first.only().stamp(), &*first.only().values), ((7, 0, 0, 3), &large.only().values[..3]));
        rig.accept(&first, 10);
        assert_eq!(outcomes(&receipt, 5)[2..], [Some((Outcome::Written, Some(12))), None, None]);
        let second = rig.next_sent();
        assert_eq!((second.only().stamp(), &*second.only().values), ((7, 0, 3, 2), &large.only().values[3..]));
        // Still too large: split again.
        rig.reject(&second, code);
        let third = rig.next_sent();
        assert_eq!(third.only().stamp(), (7, 0, 3, 1));
        rig.accept(&third, 20);
        let fourth = rig.next_sent();
        assert_eq!(fourth.only().stamp(), (7, 0, 4, 1));
        assert!(!receipt.is_complete());
        // A single record that is too large fails, and the next record takes its sequence number.
        rig.reject(&fourth, code);
        assert!(receipt.is_complete());
        let error = result(&receipt, 4).error.expect("an error");
        assert!(matches!(&*error, ProduceError::TooLarge { .. }), "{error:?}");
        assert_eq!(
            outcomes(&receipt, 5)[2..],
            [Some((Outcome::Written, Some(12))), Some((Outcome::Written, Some(20))), Some((Outcome::NotWritten, None))]
        );
        let again = rig.next_sent();
        assert_eq!((again.only().stamp(), &*again.only().values), ((7, 0, 4, 1), &["behind".to_owned()][..]));
        rig.accept(&again, 21);
        assert_eq!((rig.used(), rig.pending()), (0, 0));
    }
}

/// The first response for a new topic is often NOT_LEADER, so the batch is ambiguous from then on. If its first half is
/// written in order, the broker did not have the whole batch. The other halves are then certain again.
#[test]
fn a_half_that_is_written_in_order_shows_that_the_whole_was_not() {
    let mut rig = Harness::ready(config(), &[1]);
    let receipt = rig.batches(0, &[&["a", "large", "b", "c"]]).remove(0);
    let whole = rig.next_sent();
    rig.reject(&whole, E::NOT_LEADER_OR_FOLLOWER);
    rig.pass(SECOND);
    let whole = rig.next_sent();
    rig.reject(&whole, E::MESSAGE_TOO_LARGE);
    let half = rig.next_sent();
    rig.reject(&half, E::MESSAGE_TOO_LARGE);
    let quarter = rig.next_sent();
    assert_eq!(quarter.only().stamp(), (7, 0, 0, 1));
    rig.accept(&quarter, 10);
    let large = rig.next_sent();
    rig.reject(&large, E::MESSAGE_TOO_LARGE);
    let rest = rig.next_sent();
    assert_eq!(rest.only().stamp(), (7, 0, 1, 2), "numbered anew, because nothing of it is in doubt");
    rig.accept(&rest, 11);
    assert_eq!(
        outcomes(&receipt, 4),
        [
            Some((Outcome::Written, Some(10))),
            Some((Outcome::NotWritten, None)),
            Some((Outcome::Written, Some(11))),
            Some((Outcome::Written, Some(12))),
        ]
    );
}

/// Only the attempt of the common whole is disproved: another half may have been written by an attempt of its own.
#[test]
fn a_half_stays_in_doubt_over_its_own_attempts() {
    let mut rig = Harness::ready(config(), &[1]);
    let receipt = rig.batches(0, &[&["a", "b", "c", "d"]]).remove(0);
    let whole = rig.next_sent();
    rig.reject(&whole, E::MESSAGE_TOO_LARGE);
    let first = rig.next_sent();
    rig.accept(&first, 10);
    let second = rig.next_sent();
    rig.fail(&second, RequestError::Disconnected);
    rig.pass(SECOND);
    let second = rig.next_sent();
    rig.reject(&second, E::MESSAGE_TOO_LARGE);
    let third = rig.next_sent();
    rig.reject(&third, E::MESSAGE_TOO_LARGE);
    assert_eq!(outcomes(&receipt, 3)[2], Some((Outcome::Unknown, None)));
}

#[test]
fn halves_expire_each_with_its_own_outcome() {
    let mut rig = Harness::ready(ProduceConfig { delivery_timeout: 10 * SECOND, ..config() }, &[1]);
    let receipt = rig.batches(0, &[&["a", "b"]]).remove(0);
    let _ = receipt.register_waiter();
    let sent = rig.next_sent();
    rig.reject(&sent, E::MESSAGE_TOO_LARGE);
    let half = rig.next_sent();
    rig.fail(&half, RequestError::Disconnected);
    rig.metadata.unready.insert(1);
    rig.pass(10 * SECOND);
    assert_eq!(outcomes(&receipt, 2), [Some((Outcome::Unknown, None)), Some((Outcome::NotWritten, None))]);
    assert!(receipt.is_complete());
    assert_eq!((rig.used(), rig.pending()), (0, 0));
}

#[test]
fn a_broker_that_leads_no_more_says_who_does() {
    let mut rig = Harness::ready(config(), &[1]);
    rig.produce(0, "a");
    let sent = rig.next_sent();
    rig.respond(&sent, |_| FakePartitionResponse { leader: Some((2, 9)), ..E::NOT_LEADER_OR_FOLLOWER.into() });
    let hint = |action: &SenderAction| {
        let SenderAction::Cluster(ClusterEvent::LeaderHint { tp, leader, epoch, endpoint }) = action else {
            return false;
        };
        (tp.partition, *leader, *epoch, endpoint.as_ref().map(|(host, port)| (host.as_str(), *port)))
            == (0, 2, 9, Some(("new", 9)))
    };
    assert!(rig.has(hint));
    rig.lead("orders", &[2]);
    let again = rig.next_sent();
    assert_eq!((again.node, again.batches), (2, sent.batches), "at once: the backoff was for the old leader");
}

#[test]
fn topics_are_named_by_id_where_they_have_one() {
    let mut rig = Harness::ready(config(), &[1]);
    rig.metadata.ids.insert("orders".into(), 0xabc);
    let (receipt, _) = rig.produce(0, "a");
    let sent = rig.next_sent();
    rig.accept(&sent, 4);
    assert_eq!(result(&receipt, 0).offset, Some(4));
}

#[test]
fn a_throttle_is_passed_on() {
    let mut rig = Harness::ready(config(), &[1]);
    rig.produce(0, "a");
    let sent = rig.next_sent();
    let mut body = Vec::new();
    let response = grete_wire::messages::ProduceResponse { throttle_time_ms: 250, ..Default::default() };
    response.encode(12, &mut body).expect("encodes");
    rig.reply_bytes(&sent, body);
    assert!(
        rig.has(|action| matches!(action, SenderAction::Cluster(ClusterEvent::Throttled { node: 1, millis: 250 })))
    );
}

#[test]
fn responses_to_no_request_are_ignored() {
    let mut rig = Harness::ready(config(), &[1]);
    let (receipt, _) = rig.produce(0, "a");
    let sent = rig.next_sent();
    rig.accept(&sent, 1);
    rig.reject(&sent, E::INVALID_RECORD);
    assert_eq!(outcome(&receipt), Some(Outcome::Written));
}
