//! Every request with every error of the protocol: the class, and what the manager makes of it.

use grete_wire::api::ApiKey;
use grete_wire::error_code::ErrorCode;

use super::harness::{in_flight, undelivered};
use crate::producer::transaction::response_class::{RequestKind, ResponseClass};
use crate::producer::transaction::{
    TransactionAction, TransactionCall, TransactionError, TransactionEvent, TransactionGate,
};
use crate::request::RequestError;

/// Requests of a protocol: brokers of version 2 add partitions and groups by themselves.
fn requests(version: i16) -> impl Iterator<Item = RequestKind> {
    let explicit = [RequestKind::AddPartitions, RequestKind::AddOffsets];
    RequestKind::ALL.into_iter().filter(move |kind| version < 2 || !explicit.contains(kind))
}

#[test]
fn kafkas_client_and_this_one_agree_on_the_errors_of_each_request() {
    use ErrorCode as E;
    use RequestKind as K;
    use ResponseClass as C;
    let rows: &[(&[K], &[E], C)] = &[
        (&K::ALL, &[E::NONE], C::Done),
        (&K::ALL, &[E::COORDINATOR_LOAD_IN_PROGRESS], C::Retry),
        (&K::ALL, &[E::TRANSACTIONAL_ID_AUTHORIZATION_FAILED], C::Unauthorized),
        (&K::ALL[2..], &[E::NOT_COORDINATOR, E::COORDINATOR_NOT_AVAILABLE], C::FindAgain),
        (&K::ALL[2..], &[E::CONCURRENT_TRANSACTIONS], C::RetrySoon),
        (&K::ALL[2..], &[E::PRODUCER_FENCED, E::INVALID_PRODUCER_EPOCH], C::Fenced),
        (&[K::AddPartitions, K::AddOffsets, K::CommitOffsets, K::Commit], &[E::TRANSACTION_ABORTABLE], C::Abortable),
        (&[K::Abort], &[E::TRANSACTION_ABORTABLE], C::AbortableWithoutEnd),
        (
            &[K::AddPartitions, K::AddOffsets, K::CommitOffsets, K::Commit, K::Abort],
            &[E::INVALID_PRODUCER_ID_MAPPING, E::UNKNOWN_PRODUCER_ID],
            C::AbortableWithoutEnd,
        ),
        (&[K::AddPartitions], &[E::TOPIC_AUTHORIZATION_FAILED], C::Abortable),
        (&[K::AddPartitions, K::CommitOffsets], &[E::UNKNOWN_TOPIC_OR_PARTITION], C::Retry),
        (&[K::AddOffsets, K::CommitOffsets, K::FindGroupCoordinator], &[E::GROUP_AUTHORIZATION_FAILED], C::Abortable),
        (
            &[K::CommitOffsets],
            &[E::ILLEGAL_GENERATION, E::UNKNOWN_MEMBER_ID, E::FENCED_INSTANCE_ID, E::STALE_MEMBER_EPOCH],
            C::Abortable,
        ),
        (&[K::CommitOffsets], &[E::REQUEST_TIMED_OUT], C::FindAgain),
        (&[K::AddPartitions, K::Commit, K::Abort], &[E::INVALID_TXN_STATE], C::Fatal),
        (&[K::InitProducerId], &[E::INVALID_TRANSACTION_TIMEOUT], C::Fatal),
        (&[K::FindCoordinator], &[E::COORDINATOR_NOT_AVAILABLE], C::Retry),
        (&[K::CommitOffsets], &[E::UNSUPPORTED_FOR_MESSAGE_FORMAT], C::Fatal),
    ];
    for (kinds, codes, class) in rows {
        for (kind, code) in kinds.iter().flat_map(|kind| codes.iter().map(move |code| (*kind, *code))) {
            assert_eq!(ResponseClass::from_code(kind, code), *class, "{kind:?} {code}");
        }
    }
}

#[test]
fn every_error_of_every_request_ends_in_success_an_abort_or_a_named_error() {
    for version in [0, 2] {
        for kind in requests(version) {
            for &code in ErrorCode::ALL {
                check(version, kind, code);
            }
            check(version, kind, ErrorCode(999));
        }
    }
}

fn check(version: i16, kind: RequestKind, code: ErrorCode) {
    let about = format!("transaction.version {version}, {kind:?}, {code}");
    let (mut harness, call) = in_flight(version, kind);
    harness.respond(code);
    let gate_failed = |action: &TransactionAction| {
        matches!(action, TransactionAction::Gate(TransactionGate::Failed(_) | TransactionGate::Ending))
    };
    match ResponseClass::from_code(kind, code) {
        ResponseClass::Done | ResponseClass::Retry | ResponseClass::RetrySoon | ResponseClass::FindAgain => {
            harness.settle();
            assert_eq!(harness.result(call), Some(Ok(())), "{about}");
            assert_eq!(harness.fatal(), None, "{about}");
        }
        ResponseClass::Abortable | ResponseClass::AbortableWithoutEnd => {
            assert!(harness.actions.iter().any(gate_failed), "{about}: no record is taken any more");
            harness.settle();
            let result = harness.result(call);
            match kind {
                RequestKind::Abort => assert_eq!(result, Some(Ok(())), "{about}"),
                RequestKind::Commit | RequestKind::AddPartitions => {
                    assert!(matches!(result, Some(Err(TransactionError::Aborted(_)))), "{about}: {result:?}");
                }
                _ => {
                    assert!(matches!(result, Some(Err(TransactionError::Failed(_)))), "{about}: {result:?}");
                    let abort = harness.call(TransactionCall::Abort);
                    harness.settle();
                    assert_eq!(harness.result(abort), Some(Ok(())), "{about}");
                }
            }
            // Another transaction follows.
            let begin = harness.call(TransactionCall::Begin);
            harness.settle();
            assert_eq!(harness.result(begin), Some(Ok(())), "{about}");
        }
        ResponseClass::Fenced | ResponseClass::Unauthorized | ResponseClass::Fatal => {
            let is_nothing_to_abort = kind == RequestKind::Abort && code == ErrorCode::INVALID_TXN_STATE;
            assert!(!is_nothing_to_abort || harness.fatal().is_some(), "{about}: the partition was added");
            let error = harness.fatal().cloned().unwrap_or_else(|| panic!("{about}: no error"));
            assert!(error.is_fatal() && error.code() == Some(code), "{about}: {error}");
            assert_eq!(harness.result(call), Some(Err(error.clone())), "{about}");
            for next in [TransactionCall::Begin, TransactionCall::Commit, TransactionCall::Abort] {
                let next = harness.call(next);
                assert_eq!(harness.result(next), Some(Err(error.clone())), "{about}");
            }
            assert!(harness.sent.is_empty() && harness.manager.is_at_rest(), "{about}");
        }
    }
}

#[test]
fn an_abort_without_a_transaction_at_the_coordinator_is_done() {
    // AddPartitionsToTxn may not have arrived.
    let (mut harness, _) = in_flight(0, RequestKind::AddPartitions);
    harness.fail(RequestError::Disconnected);
    harness.step(TransactionEvent::BatchFailed(undelivered(None)));
    harness.step(TransactionEvent::Settled { gap: false });
    assert_eq!(harness.respond(ErrorCode::NONE), ApiKey::FindCoordinator);
    assert_eq!(harness.respond(ErrorCode::INVALID_TXN_STATE), ApiKey::EndTxn);
    assert_eq!(harness.fatal(), None);
    let begin = harness.call(TransactionCall::Begin);
    assert_eq!(harness.result(begin), Some(Ok(())));
}
