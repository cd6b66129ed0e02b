//! Idempotent and transactional producers.

use grete_wire::ErrorCode;

use super::*;
use crate::log::transactional_producers;

fn code(result: AppendResult<Appended>) -> ErrorCode {
    result.map_or_else(|error| error.code, |_| ErrorCode::NONE)
}

fn send(f: &mut Fixture, count: usize, options: &BatchOptions) -> ErrorCode {
    code(f.append(&batch(count, options)))
}

#[test]
fn the_last_five_batches_are_recognized() {
    let mut f = Fixture::new();
    for sequence in 0..6 {
        assert_eq!(send(&mut f, 2, &producer(7, 0, sequence * 2)), ErrorCode::NONE);
    }
    for sequence in 1..6 {
        let appended = f.append(&batch(2, &producer(7, 0, sequence * 2))).expect("a duplicate");
        assert!(appended.is_duplicate());
        let expected = i64::from(sequence) * 2;
        assert_eq!((appended.base_offset, appended.last_offset), (expected, expected + 1));
        assert_eq!(appended.log_append_time, NOW, "the timestamp of the stored batch");
    }
    assert_eq!(send(&mut f, 2, &producer(7, 0, 0)), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_eq!(send(&mut f, 1, &producer(7, 0, 10)), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, "a part of a batch");
    assert_eq!(f.log.high_watermark(), 12);
    f.check_restore();
}

#[test]
fn sequence_numbers_have_no_gaps_and_wrap() {
    let mut f = Fixture::new();
    // The state of an unknown producer may have expired.
    assert_eq!(send(&mut f, 2, &producer(7, 0, i32::MAX - 2)), ErrorCode::NONE);
    assert_eq!(send(&mut f, 2, &producer(7, 0, 1)), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_eq!(send(&mut f, 2, &producer(7, 0, i32::MAX)), ErrorCode::NONE);
    assert!(f.append(&batch(2, &producer(7, 0, i32::MAX))).expect("accepted").is_duplicate());
    assert_eq!(send(&mut f, 1, &producer(7, 0, 1)), ErrorCode::NONE);
    assert_eq!(f.log.producers().next().map(|state| state.last_sequence), Some(1));
}

#[test]
fn a_new_epoch_begins_with_zero_and_fences_the_old() {
    let mut f = Fixture::new();
    assert_eq!(send(&mut f, 1, &producer(7, 3, 0)), ErrorCode::NONE);
    assert_eq!(send(&mut f, 1, &producer(7, 4, 1)), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_eq!(send(&mut f, 1, &producer(7, 4, 0)), ErrorCode::NONE);
    assert_eq!(send(&mut f, 1, &producer(7, 3, 1)), ErrorCode::INVALID_PRODUCER_EPOCH);
    assert_eq!(send(&mut f, 1, &producer(8, 0, 0)), ErrorCode::NONE, "another producer");
    let states: Vec<_> = f.log.producers().map(|state| (state.producer_id, state.producer_epoch)).collect();
    assert_eq!(states, [(7, 4), (8, 0)]);
}

#[test]
fn a_transaction_must_be_known_to_the_coordinator() {
    let mut f = Fixture::new();
    let unverified = AppendChecks { transaction_verified: false, ..CHECKS };
    let first = batch(1, &transactional(7, 0, 0));
    assert_eq!(code(f.append_checked(&first, unverified)), ErrorCode::INVALID_TXN_STATE);
    f.append(&first).expect("accepted");
    f.append_checked(&batch(1, &transactional(7, 0, 1)), unverified).expect("the transaction is ongoing");
    assert!(f.log.has_ongoing_transaction(7) && !f.log.has_ongoing_transaction(8));
    assert_eq!(send(&mut f, 1, &producer(7, 0, 2)), ErrorCode::INVALID_TXN_STATE, "outside of the transaction");
    f.marker(7, 0, true);
    assert!(!f.log.has_ongoing_transactions());
    let late = batch(1, &transactional(7, 0, 2));
    assert_eq!(code(f.append_checked(&late, unverified)), ErrorCode::INVALID_TXN_STATE);
    assert_eq!(send(&mut f, 1, &producer(7, 0, 2)), ErrorCode::NONE, "idempotent only");
    f.check_restore();
}

#[test]
fn with_epochs_per_transaction_an_unknown_producer_begins_with_zero() {
    let mut f = Fixture::new();
    let checks = AppendChecks { epoch_bump: true, ..CHECKS };
    let skipped = batch(1, &transactional(7, 0, 3));
    assert_eq!(code(f.append_checked(&skipped, checks)), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    f.append_checked(&batch(1, &transactional(7, 0, 0)), checks).expect("accepted");
    f.append_checked(&batch(1, &transactional(7, 0, 1)), checks).expect("accepted");
}

#[test]
fn the_last_stable_offset_waits_for_the_oldest_transaction() {
    let mut f = Fixture::new();
    send(&mut f, 1, &BatchOptions::default());
    send(&mut f, 2, &transactional(7, 0, 0)); // 1, 2
    send(&mut f, 1, &transactional(8, 0, 0)); // 3
    send(&mut f, 1, &BatchOptions::default()); // 4
    assert_eq!(f.log.last_stable_offset(), 1);
    assert_eq!(f.marker(8, 0, false), 5);
    assert_eq!(f.log.last_stable_offset(), 1);
    assert_eq!(f.read(0, true).batches.len(), 1);
    assert!(f.read(4, true).batches.is_empty(), "between last stable offset and high watermark");
    assert_eq!(f.read(0, false).batches.len(), 5);
    f.marker(7, 0, true);
    let read = f.read(0, true);
    assert_eq!((read.last_stable_offset, read.batches.len()), (7, 6));
    let aborted = read.aborted.expect("read_committed");
    assert_eq!(aborted.iter().map(|a| (a.producer_id, a.first_offset)).collect::<Vec<_>>(), [(8, 3)]);
    assert_eq!(f.log.read(0, 1, true, true).expect("in range").aborted, Some(vec![]), "not in the first batch");
    assert_eq!(f.read(6, true).aborted, Some(vec![]));
    assert_eq!(f.read(0, false).aborted, None);
    f.check_restore();
}

#[test]
fn markers_fence_producers_and_coordinators() {
    let mut f = Fixture::new();
    send(&mut f, 1, &transactional(7, 2, 0));
    let mut marker = |producer_epoch, coordinator_epoch, version| {
        let marker = EndTransactionMarker { producer_id: 7, producer_epoch, coordinator_epoch, commit: false };
        let result = f.log.append_marker(NOW, 0, &marker, version, &f.config);
        result.map(|(offset, _)| offset)
    };
    assert_eq!(marker(1, 5, 0), Err(ErrorCode::INVALID_PRODUCER_EPOCH));
    assert_eq!(marker(2, 5, 2), Err(ErrorCode::INVALID_PRODUCER_EPOCH), "the epoch was to be bumped");
    assert_eq!(marker(3, 5, 2), Ok(1));
    assert_eq!(marker(3, 5, 2), Ok(2), "written again");
    assert_eq!(marker(3, 4, 2), Err(ErrorCode::TRANSACTION_COORDINATOR_FENCED));
    assert_eq!(marker(3, 5, 0), Ok(3));
    assert_eq!(send(&mut f, 1, &transactional(7, 2, 1)), ErrorCode::INVALID_PRODUCER_EPOCH);
    assert_eq!(send(&mut f, 1, &transactional(7, 3, 1)), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_eq!(send(&mut f, 1, &transactional(7, 3, 0)), ErrorCode::NONE);
}

#[test]
fn silent_producers_expire() {
    let mut f = Fixture::new();
    send(&mut f, 1, &producer(7, 0, 0));
    send(&mut f, 1, &transactional(8, 0, 0));
    assert_eq!(f.log.expire_producers(NOW + 999, 1_000), None);
    let change = f.log.expire_producers(NOW + 1_000, 1_000).expect("expired");
    f.changes.push(change);
    assert_eq!(f.log.producers().map(|state| state.producer_id).collect::<Vec<_>>(), [8], "has a transaction");
    assert_eq!(send(&mut f, 1, &producer(7, 0, 5)), ErrorCode::NONE);
    f.now = NOW + 5_000;
    f.marker(8, 0, true);
    assert_eq!(f.log.expire_producers(NOW + 5_000, 1_000), Some(LogChange::ProducersExpired(vec![7])));
    assert_eq!(f.log.expire_producers(NOW + 5_999, 1_000), None, "the marker counts");
    f.changes.push(LogChange::ProducersExpired(vec![7]));
    f.check_restore();
}

#[test]
fn a_verification_refuses_later_batches_until_the_transaction_has_one() {
    let mut f = Fixture::new();
    f.log.begin_verification(NOW, 7, 0, 3, false);
    f.log.begin_verification(NOW, 7, 0, 1, false);
    f.log.begin_verification(NOW, 7, 0, 2, false);
    assert_eq!(send(&mut f, 1, &transactional(7, 0, 2)), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_eq!(send(&mut f, 1, &producer(7, 0, 2)), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, "of no transaction");
    assert!(!f.log.has_begun_transaction(7, 0));
    assert_eq!(send(&mut f, 1, &transactional(7, 0, 1)), ErrorCode::NONE);
    assert!(f.log.has_begun_transaction(7, 0) && !f.log.has_begun_transaction(7, 1));
    assert_eq!(send(&mut f, 1, &transactional(7, 0, 2)), ErrorCode::NONE);
    // A new epoch begins anew, and the verification expires.
    f.log.begin_verification(NOW, 8, 0, 0, false);
    f.log.begin_verification(NOW, 8, 1, 4, false);
    assert_eq!(send(&mut f, 1, &transactional(8, 1, 5)), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    f.log.expire_producers(NOW + 999, 1_000);
    assert_eq!(send(&mut f, 1, &transactional(8, 1, 5)), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    f.log.expire_producers(NOW + 1_000, 1_000);
    assert_eq!(send(&mut f, 1, &transactional(8, 1, 5)), ErrorCode::NONE);
}

#[test]
fn a_batch_before_magic_2_is_in_no_transaction() {
    let mut bytes = batch(1, &transactional(7, 3, 0));
    assert_eq!(transactional_producers(&bytes), [(7, 3)]);
    bytes[16] = 1;
    assert_eq!(transactional_producers(&bytes), []);
}

#[test]
fn the_request_that_begins_a_verification_decides_about_the_first_sequence_number() {
    let mut f = Fixture::new();
    let checks = AppendChecks { epoch_bump: true, ..CHECKS };
    for (producer_id, first, expected) in
        [(7, true, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER), (8, false, ErrorCode::NONE)]
    {
        f.log.begin_verification(NOW, producer_id, 0, 5, first);
        f.log.begin_verification(NOW, producer_id, 1, 5, true);
        assert_eq!(code(f.append_checked(&batch(1, &transactional(producer_id, 1, 5)), checks)), expected);
    }
}
