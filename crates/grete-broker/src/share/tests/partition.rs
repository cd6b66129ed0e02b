//! States of records: acquisition, acknowledgements, locks.

use std::sync::Arc;

use grete_wire::ErrorCode;

use crate::effects::share_group::StoredRange;
use crate::share::partition::{AckBatch, AckKind, AckRules, Acquired, BatchSpan, Claim, SharePartition};

const RULES: AckRules = AckRules { lock_ends: 2_000, delivery_count_limit: 3 };

fn claim(member: &str, max_records: i64) -> Claim {
    Claim { member: Arc::from(member), lock_ends: 1_000, max_records, whole_batches: false, max_locks: 100 }
}

fn span(first: i64, last: i64) -> BatchSpan {
    BatchSpan { first, last, is_aborted: false }
}

fn acquired(first: i64, last: i64, deliveries: i16) -> Acquired {
    Acquired { first, last, deliveries }
}

fn ack(first: i64, last: i64, kind: AckKind) -> AckBatch {
    AckBatch { first, last, kinds: vec![kind] }
}

fn stored(first: i64, last: i64, deliveries: Option<i16>) -> StoredRange {
    StoredRange { first, last, deliveries }
}

#[test]
fn members_get_different_records_and_the_start_follows_what_is_done() {
    let mut partition = SharePartition::new(0, 1);
    let batches = [span(0, 4), span(5, 9)];
    assert_eq!(partition.acquire(&claim("a", 3), &batches).0, [acquired(0, 2, 1)]);
    assert_eq!(partition.acquire(&claim("b", 3), &batches).0, [acquired(3, 5, 1)]);
    assert_eq!((partition.start(), partition.next(), partition.first_acquirable(100)), (0, 6, Some(6)));
    let changed = partition.acknowledge("b", &[ack(3, 5, AckKind::Accept)], RULES).unwrap();
    assert_eq!(changed, [stored(3, 5, None)]);
    assert_eq!((partition.start(), partition.done()), (0, 3));
    partition.acknowledge("a", &[ack(0, 2, AckKind::Accept)], RULES).unwrap();
    assert_eq!((partition.start(), partition.next(), partition.done()), (6, 6, 0));
}

#[test]
fn whole_batches_go_beyond_the_number_that_is_asked_for() {
    let mut partition = SharePartition::new(2, 1);
    let claim = Claim { whole_batches: true, ..claim("a", 1) };
    assert_eq!(partition.acquire(&claim, &[span(0, 4), span(5, 9)]).0, [acquired(2, 4, 1)]);
}

#[test]
fn the_number_of_locks_is_bounded() {
    let mut partition = SharePartition::new(0, 1);
    let claim = Claim { max_locks: 4, ..claim("a", 10) };
    assert_eq!(partition.acquire(&claim, &[span(0, 9)]).0, [acquired(0, 3, 1)]);
    assert_eq!(partition.first_acquirable(4), None);
    partition.acknowledge("a", &[ack(0, 1, AckKind::Reject)], RULES).unwrap();
    assert_eq!(partition.first_acquirable(4), Some(4));
    assert_eq!(partition.acquire(&claim, &[span(0, 9)]).0, [acquired(4, 5, 1)]);
}

#[test]
fn released_records_come_again_until_the_limit() {
    let mut partition = SharePartition::new(0, 1);
    for delivery in 1..=3 {
        assert_eq!(partition.acquire(&claim("a", 1), &[span(0, 9)]).0, [acquired(0, 0, delivery)]);
        partition.acknowledge("a", &[ack(0, 0, AckKind::Release)], RULES).unwrap();
    }
    assert_eq!((partition.start(), partition.first_acquirable(100)), (1, Some(1)));
}

#[test]
fn locks_end_and_renewed_ones_end_later() {
    let mut partition = SharePartition::new(0, 1);
    partition.acquire(&claim("a", 4), &[span(0, 9)]);
    assert_eq!(partition.deadline(), Some(1_000));
    partition.acknowledge("a", &[ack(1, 2, AckKind::Renew)], RULES).unwrap();
    assert_eq!(partition.expire(999, 3), []);
    assert_eq!(partition.expire(1_000, 3), [stored(0, 0, Some(1)), stored(3, 3, Some(1))]);
    assert_eq!(partition.deadline(), Some(2_000));
    assert_eq!(
        partition.acquire(&claim("b", 9), &[span(0, 9)]).0,
        [acquired(0, 0, 2), acquired(3, 3, 2), acquired(4, 9, 1)]
    );
    assert_eq!(partition.expire(5_000, 2).iter().filter(|range| range.deliveries.is_none()).count(), 2);
}

#[test]
fn a_session_that_ends_gives_its_records_back_until_the_limit() {
    let mut partition = SharePartition::new(0, 1);
    partition.acquire(&claim("a", 2), &[span(0, 9)]);
    partition.acquire(&claim("b", 2), &[span(0, 9)]);
    assert_eq!(partition.release_member("a", 2), [stored(0, 1, Some(1))]);
    assert_eq!(partition.acquire(&claim("c", 9), &[span(0, 9)]).0, [acquired(0, 1, 2), acquired(4, 9, 1)]);
    assert_eq!(partition.release_member("c", 2), [stored(0, 1, None), stored(4, 9, Some(1))]);
}

#[test]
fn a_new_leader_knows_no_locks_and_the_log_moves_the_start() {
    let mut partition = SharePartition::new(0, 1);
    partition.acquire(&claim("a", 4), &[span(0, 9)]);
    assert_eq!(partition.follow(1, 0), []);
    assert_eq!(partition.follow(2, 0), [stored(0, 3, Some(0))]);
    let error = partition.acknowledge("a", &[ack(0, 3, AckKind::Accept)], RULES);
    assert_eq!(error, Err(ErrorCode::INVALID_RECORD_STATE));
    assert_eq!(partition.follow(2, 2), [stored(0, 1, None)]);
    assert_eq!((partition.start(), partition.next()), (2, 4));
    partition.follow(2, 50);
    assert_eq!((partition.start(), partition.next()), (50, 50));
    // Acknowledgements of records that the log no longer has are late, and no error.
    assert_eq!(partition.acknowledge("a", &[ack(0, 3, AckKind::Accept)], RULES), Ok(vec![]));
}

#[test]
fn acknowledgements_are_applied_whole_or_not_at_all() {
    let mut partition = SharePartition::new(0, 1);
    partition.acquire(&claim("a", 2), &[span(0, 9)]);
    partition.acquire(&claim("b", 2), &[span(0, 9)]);
    let before = partition.clone();
    for (acks, error) in [
        (vec![ack(0, 0, AckKind::Accept), ack(2, 2, AckKind::Accept)], ErrorCode::INVALID_RECORD_STATE),
        (vec![ack(1, 2, AckKind::Accept)], ErrorCode::INVALID_RECORD_STATE),
        (vec![ack(0, i64::MAX, AckKind::Accept)], ErrorCode::INVALID_RECORD_STATE),
        (vec![ack(7, 7, AckKind::Gap)], ErrorCode::INVALID_REQUEST),
    ] {
        assert_eq!(partition.acknowledge("a", &acks, RULES), Err(error), "{acks:?}");
        assert_eq!(partition, before);
    }
    let each = AckBatch { first: 0, last: 1, kinds: vec![AckKind::Accept, AckKind::Release] };
    assert_eq!(partition.acknowledge("a", &[each], RULES), Ok(vec![stored(0, 0, None), stored(1, 1, Some(1))]));
    let again = partition.acknowledge("a", &[ack(1, 1, AckKind::Accept)], RULES);
    assert_eq!(again, Err(ErrorCode::INVALID_RECORD_STATE));
}

#[test]
fn acknowledgements_in_a_request_are_checked() {
    let read = |batches: &[(i64, i64, &[i8])], renew| AckBatch::read(batches.iter().copied(), renew);
    assert_eq!(read(&[(0, 1, &[1]), (2, 3, &[2, 3])], false).unwrap().len(), 2);
    assert_eq!(read(&[(0, 1, &[4])], true).unwrap(), [ack(0, 1, AckKind::Renew)]);
    let wrong: [&[(i64, i64, &[i8])]; 8] = [
        &[(1, 0, &[1])],
        &[(0, 1, &[])],
        &[(0, 2, &[1, 1])],
        &[(0, 0, &[5])],
        &[(0, 0, &[-1])],
        &[(3, 4, &[1]), (4, 5, &[1])],
        &[(-3, 4, &[1])],
        &[(0, i64::MAX, &[1]), (1, 1, &[1])],
    ];
    for batches in wrong {
        assert_eq!(read(batches, true), Err(ErrorCode::INVALID_REQUEST), "{batches:?}");
    }
    assert_eq!(read(&[(0, 1, &[4])], false), Err(ErrorCode::INVALID_REQUEST));
    assert_eq!(read(&[(i64::MIN, i64::MAX, &[1])], false), Err(ErrorCode::INVALID_REQUEST));
}

#[test]
fn gaps_between_batches_and_aborted_transactions_are_done() {
    let mut partition = SharePartition::new(0, 1);
    let aborted = BatchSpan { is_aborted: true, ..span(4, 6) };
    let (got, done) = partition.acquire(&claim("a", 10), &[span(2, 3), aborted, span(7, 7)]);
    assert_eq!(got, [acquired(2, 3, 1), acquired(7, 7, 1)]);
    assert_eq!(done, [stored(0, 1, None), stored(4, 6, None)]);
    assert_eq!((partition.start(), partition.done()), (2, 3));
}

#[test]
fn stored_changes_restore_all_but_locks() {
    let mut partition = SharePartition::new(0, 1);
    let mut restored = SharePartition::new(0, -1);
    let batches = [span(0, 9)];
    partition.acquire(&claim("a", 6), &batches);
    let acks = [ack(1, 1, AckKind::Accept), ack(3, 3, AckKind::Release), ack(4, 4, AckKind::Reject)];
    let changed = partition.acknowledge("a", &acks, RULES).unwrap();
    restored.restore(partition.start(), &changed);
    let got = restored.acquire(&claim("b", 10), &batches).0;
    assert_eq!(got, [acquired(0, 0, 1), acquired(2, 2, 1), acquired(3, 3, 2), acquired(5, 9, 1)]);
    let mut copied = SharePartition::new(partition.start(), -1);
    copied.restore(partition.start(), &partition.snapshot());
    assert_eq!((copied.start(), copied.next(), copied.done()), (0, 6, 2));
}
