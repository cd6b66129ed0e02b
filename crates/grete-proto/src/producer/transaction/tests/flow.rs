//! Transactions from begin to end, under both protocols.

use grete_wire::api::ApiKey;
use grete_wire::error_code::ErrorCode;

use super::harness::{ANSWERED, FIRST, Harness, in_flight, offsets, tp, undelivered};
use crate::producer::transaction::response_class::RequestKind;
use crate::producer::transaction::{
    CONCURRENT_BACKOFF, TransactionAction, TransactionCall, TransactionError, TransactionEvent, TransactionGate,
};
use crate::request::{Request, RequestError, Target};

fn gates(harness: &Harness) -> Vec<&TransactionGate> {
    let gates = harness.actions.iter().map(|action| match action {
        TransactionAction::Gate(gate) => Some(gate),
        _ => None,
    });
    gates.flatten().collect()
}

#[test]
fn partitions_and_groups_are_added_by_request_before_version_2() {
    let mut harness = Harness::open(1);
    harness.step(TransactionEvent::PartitionsWanted(vec![tp(0), tp(2)]));
    assert_eq!(harness.respond(ErrorCode::NONE), ApiKey::AddPartitionsToTxn);
    assert!(harness.actions.contains(&TransactionAction::PartitionsAdded(vec![tp(0), tp(2)])));
    let sent = harness.call(offsets(1));
    let apis = [(); 3].map(|()| harness.respond(ErrorCode::NONE));
    assert_eq!(apis, [ApiKey::AddOffsetsToTxn, ApiKey::FindCoordinator, ApiKey::TxnOffsetCommit]);
    assert_eq!(harness.result(sent), Some(Ok(())));
    let again = harness.call(offsets(1));
    assert_eq!(harness.respond(ErrorCode::NONE), ApiKey::TxnOffsetCommit, "the group is part of it already");
    assert_eq!(harness.result(again), Some(Ok(())));
    let commit = harness.call(TransactionCall::Commit);
    assert!(harness.sent.is_empty() && harness.manager.awaits_settled(), "batches come first");
    harness.step(TransactionEvent::Settled { gap: false });
    let end = harness.sent.front().expect("EndTxn");
    assert!(matches!(end.request, Request::DynUpTo(_, 4)), "version 5 belongs to transaction.version 2 (P40)");
    assert_eq!(harness.respond(ErrorCode::NONE), ApiKey::EndTxn);
    assert_eq!(harness.result(commit), Some(Ok(())));
    assert_eq!(gates(&harness), [&TransactionGate::Open, &TransactionGate::Ending, &TransactionGate::Closed]);
}

#[test]
fn brokers_add_them_from_version_2_on_and_each_end_has_a_new_epoch() {
    let mut harness = Harness::open(2);
    harness.step(TransactionEvent::PartitionsWanted(vec![tp(0)]));
    assert!(harness.sent.is_empty() && harness.actions.contains(&TransactionAction::PartitionsAdded(vec![tp(0)])));
    let sent = harness.call(offsets(1));
    assert_eq!([(); 2].map(|()| harness.respond(ErrorCode::NONE)), [ApiKey::FindCoordinator, ApiKey::TxnOffsetCommit]);
    assert_eq!(harness.result(sent), Some(Ok(())));
    harness.call(TransactionCall::Commit);
    harness.step(TransactionEvent::Settled { gap: false });
    harness.producer = (FIRST.0, 1);
    harness.respond(ErrorCode::NONE);
    let identity = |action: &TransactionAction| matches!(action, TransactionAction::Identity { identity, explicit: false } if identity.epoch == 1);
    assert!(harness.actions.iter().any(identity), "{:?}", harness.actions);
}

#[test]
fn a_transaction_without_records_ends_without_a_request() {
    for version in [1, 2] {
        for call in [TransactionCall::Commit, TransactionCall::Abort] {
            let mut harness = Harness::open(version);
            let end = harness.call(call);
            harness.step(TransactionEvent::Settled { gap: false });
            assert_eq!((harness.result(end), harness.sent.len()), (Some(Ok(())), 0));
        }
    }
}

#[test]
fn lost_sequence_numbers_need_another_epoch_before_version_2() {
    for (version, gap, raises) in [(1, true, true), (1, false, false), (2, true, false)] {
        let mut harness = Harness::open(version);
        harness.step(TransactionEvent::PartitionsWanted(vec![tp(0)]));
        if version < 2 {
            harness.respond(ErrorCode::NONE);
        }
        harness.step(TransactionEvent::BatchFailed(undelivered(None)));
        let abort = harness.call(TransactionCall::Abort);
        harness.step(TransactionEvent::Settled { gap });
        assert_eq!(harness.respond(ErrorCode::NONE), ApiKey::EndTxn);
        assert_eq!(harness.in_flight(), raises.then_some(ApiKey::InitProducerId), "{version} {gap}");
        harness.settle();
        assert_eq!(harness.result(abort), Some(Ok(())));
    }
}

#[test]
fn concurrent_transactions_is_no_success_and_soon_repeated() {
    for kind in [RequestKind::AddPartitions, RequestKind::Commit, RequestKind::InitProducerId] {
        let (mut harness, call) = in_flight(1, kind);
        harness.actions.clear();
        harness.respond(ErrorCode::CONCURRENT_TRANSACTIONS);
        assert_eq!(harness.result(call), None, "{kind:?}");
        assert!(!harness.actions.iter().any(|action| matches!(action, TransactionAction::PartitionsAdded(_))));
        let wait = harness.manager.deadline().expect("it is repeated") - harness.now;
        assert!(wait <= CONCURRENT_BACKOFF && wait > 0, "{kind:?}: {wait}");
    }
}

#[test]
fn a_commit_without_an_answer_is_repeated_and_never_aborted() {
    let (mut harness, commit) = in_flight(2, RequestKind::Commit);
    harness.fail(RequestError::Disconnected);
    assert_eq!(harness.respond(ErrorCode::NONE), ApiKey::FindCoordinator, "the coordinator may have moved");
    let abort = harness.call(TransactionCall::Abort);
    assert_eq!(harness.result(abort), Some(Err(TransactionError::CommitBegun)));
    harness.respond(ErrorCode::NONE);
    assert_eq!(harness.result(commit), Some(Ok(())));
}

#[test]
fn a_commit_whose_answer_is_lost_and_that_is_refused_then_is_unknown() {
    for code in [ErrorCode::PRODUCER_FENCED, ErrorCode::INVALID_TXN_STATE, ErrorCode::TRANSACTION_ABORTABLE] {
        let (mut harness, commit) = in_flight(1, RequestKind::Commit);
        harness.fail(RequestError::TimedOut);
        harness.respond(ErrorCode::NONE);
        harness.respond(code);
        let result = harness.result(commit);
        assert!(matches!(result, Some(Err(TransactionError::CommitUnknown(_)))), "{code}: {result:?}");
    }
    // The coordinator may have written the commit before it lost its place.
    for answer in [ErrorCode::NOT_COORDINATOR, ErrorCode::COORDINATOR_NOT_AVAILABLE, ErrorCode::REQUEST_TIMED_OUT] {
        let (mut harness, commit) = in_flight(2, RequestKind::Commit);
        harness.respond(answer);
        if harness.in_flight() == Some(ApiKey::FindCoordinator) {
            harness.respond(ErrorCode::NONE);
        }
        harness.respond(ErrorCode::INVALID_TXN_STATE);
        let result = harness.result(commit);
        assert!(matches!(result, Some(Err(TransactionError::CommitUnknown(_)))), "{answer}: {result:?}");
    }
    // A request that was not sent leaves no doubt, nor does a coordinator that loads.
    let (mut harness, commit) = in_flight(2, RequestKind::Commit);
    harness.respond(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    harness.respond(ErrorCode::TRANSACTION_ABORTABLE);
    harness.settle();
    assert!(matches!(harness.result(commit), Some(Err(TransactionError::Aborted(_)))));
    let (mut harness, commit) = in_flight(1, RequestKind::Commit);
    harness.fail(RequestError::NoConnection);
    harness.respond(ErrorCode::NONE);
    harness.respond(ErrorCode::TRANSACTION_ABORTABLE);
    harness.settle();
    assert!(matches!(harness.result(commit), Some(Err(TransactionError::Aborted(_)))));
}

#[test]
fn a_moved_coordinator_is_found_again() {
    let (mut harness, commit) = in_flight(1, RequestKind::Commit);
    harness.respond(ErrorCode::NOT_COORDINATOR);
    let lookup = harness.take_request();
    assert!(lookup.request.api() == ApiKey::FindCoordinator && lookup.target == Target::Any);
    harness.sent.push_back(lookup);
    harness.respond(ErrorCode::NONE);
    harness.respond(ErrorCode::NONE);
    assert_eq!(harness.result(commit), Some(Ok(())));
}

#[test]
fn a_response_without_a_partition_is_no_success() {
    let mut harness = Harness::open(1);
    harness.step(TransactionEvent::PartitionsWanted(vec![tp(20); 1 + ANSWERED as usize]));
    harness.respond(ErrorCode::NONE);
    assert!(!harness.actions.iter().any(|action| matches!(action, TransactionAction::PartitionsAdded(_))));
    assert!(harness.manager.deadline().is_some(), "the request is repeated");
}

#[test]
fn an_epoch_is_used_with_one_protocol() {
    let mut harness = Harness::open(1);
    harness.set_version(2);
    harness.step(TransactionEvent::PartitionsWanted(vec![tp(0)]));
    assert_eq!(harness.respond(ErrorCode::NONE), ApiKey::AddPartitionsToTxn, "a transaction keeps its protocol");
    harness.set_version(1);
    harness.call(TransactionCall::Commit);
    harness.settle();
    harness.set_version(2);
    let begin = harness.call(TransactionCall::Begin);
    assert_eq!((harness.in_flight(), harness.result(begin)), (Some(ApiKey::InitProducerId), None));
    harness.producer = (FIRST.0, 1);
    harness.respond(ErrorCode::NONE);
    assert_eq!(harness.result(begin), Some(Ok(())));
    harness.step(TransactionEvent::PartitionsWanted(vec![tp(0)]));
    assert!(harness.sent.is_empty());
}

#[test]
fn an_unsupported_request_ends_the_producer() {
    let mut harness = Harness::new(1);
    let begin = harness.call(TransactionCall::Begin);
    harness.respond(ErrorCode::NONE);
    harness.fail(RequestError::Unsupported { api: ApiKey::InitProducerId, broker: None, ours: (2, 5) });
    assert!(matches!(harness.result(begin), Some(Err(TransactionError::Unsupported(_)))));
}

#[test]
fn offsets_come_before_the_end() {
    for version in [1, 2] {
        let mut harness = Harness::open(version);
        harness.step(TransactionEvent::PartitionsWanted(vec![tp(0)]));
        if version < 2 {
            harness.respond(ErrorCode::NONE);
        }
        let (sent, commit) = (harness.call(offsets(1)), harness.call(TransactionCall::Commit));
        harness.step(TransactionEvent::Settled { gap: false });
        let mut apis = Vec::new();
        while harness.result(commit).is_none() {
            apis.push(harness.respond(ErrorCode::NONE));
        }
        assert_eq!(harness.result(sent), Some(Ok(())));
        assert_eq!(apis[apis.len() - 2..], [ApiKey::TxnOffsetCommit, ApiKey::EndTxn], "{version}");
    }
}
