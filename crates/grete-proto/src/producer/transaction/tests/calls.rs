//! Every call in every state, cancelled calls, and close.

use grete_wire::error_code::ErrorCode;

use super::harness::{Harness, in_flight, offsets, tp, undelivered};
use crate::producer::transaction::response_class::RequestKind;
use crate::producer::transaction::{
    TransactionAction, TransactionCall, TransactionCause, TransactionError, TransactionEvent,
};
use crate::time::SECOND;

/// Result of a call: done, an error of this kind, or not yet.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Done,
    Waits,
    NotOpen,
    AlreadyOpen,
    Ending,
    Failed,
    CommitBegun,
}

fn fate(harness: &mut Harness, call: TransactionCall) -> Fate {
    let id = harness.call(call);
    match harness.result(id) {
        None => Fate::Waits,
        Some(Ok(())) => Fate::Done,
        Some(Err(TransactionError::NotOpen)) => Fate::NotOpen,
        Some(Err(TransactionError::AlreadyOpen)) => Fate::AlreadyOpen,
        Some(Err(TransactionError::Ending)) => Fate::Ending,
        Some(Err(TransactionError::Failed(_))) => Fate::Failed,
        Some(Err(TransactionError::CommitBegun)) => Fate::CommitBegun,
        other => panic!("{other:?}"),
    }
}

/// Brings a manager to a state.
type MakeHarness = Box<dyn Fn() -> Harness>;

#[test]
fn every_call_in_every_state() {
    use Fate::{AlreadyOpen, CommitBegun, Done, Ending, Failed, NotOpen, Waits};
    let ready = || {
        let mut harness = Harness::open(1);
        harness.call(TransactionCall::Commit);
        harness.settle();
        harness
    };
    let failed = || {
        let mut harness = Harness::open(1);
        harness.step(TransactionEvent::BatchFailed(undelivered(None)));
        harness
    };
    let states: [(&str, MakeHarness, [Fate; 5]); 7] = [
        // Init, Begin, SendOffsets, Commit, Abort
        ("new", Box::new(|| Harness::new(1)), [Waits, Waits, NotOpen, NotOpen, NotOpen]),
        (
            "initializing",
            Box::new(|| in_flight(1, RequestKind::InitProducerId).0),
            [Waits, Waits, NotOpen, NotOpen, NotOpen],
        ),
        ("ready", Box::new(ready), [Done, Done, NotOpen, NotOpen, NotOpen]),
        ("open", Box::new(|| Harness::open(1)), [Done, AlreadyOpen, Waits, Waits, Waits]),
        ("failed", Box::new(failed), [Done, AlreadyOpen, Failed, Waits, Waits]),
        ("committing", Box::new(|| in_flight(1, RequestKind::Commit).0), [Done, Ending, Ending, Waits, CommitBegun]),
        ("aborting", Box::new(|| in_flight(1, RequestKind::Abort).0), [Done, Ending, Ending, Waits, Waits]),
    ];
    for (name, state, expected) in states {
        let calls = [
            TransactionCall::Init,
            TransactionCall::Begin,
            offsets(1),
            TransactionCall::Commit,
            TransactionCall::Abort,
        ];
        for (call, expected) in calls.into_iter().zip(expected) {
            assert_eq!(fate(&mut state(), call.clone()), expected, "{name}: {call:?}");
        }
    }
}

#[test]
fn offsets_of_nothing_need_no_request() {
    let mut harness = Harness::open(1);
    assert_eq!(fate(&mut harness, offsets(0)), Fate::Done);
    assert!(harness.sent.is_empty());
}

#[test]
fn one_transaction_at_a_time() {
    let mut harness = Harness::new(1);
    let (first, second) = (harness.call(TransactionCall::Begin), harness.call(TransactionCall::Begin));
    harness.respond(ErrorCode::NONE);
    harness.respond(ErrorCode::NONE);
    assert_eq!(harness.result(first), Some(Ok(())));
    assert_eq!(harness.result(second), Some(Err(TransactionError::AlreadyOpen)));
}

#[test]
fn a_begin_that_nobody_waits_for_opens_nothing() {
    let (mut harness, begin) = in_flight(1, RequestKind::InitProducerId);
    harness.call(TransactionCall::Cancel(begin));
    assert_eq!(harness.result(begin), Some(Err(TransactionError::Cancelled)));
    harness.respond(ErrorCode::NONE);
    assert!(harness.manager.is_at_rest());
    assert_eq!(fate(&mut harness, TransactionCall::Begin), Fate::Done);
}

#[test]
fn the_next_call_gets_the_result_of_a_commit_that_nobody_waited_for() {
    for code in [ErrorCode::NONE, ErrorCode::TRANSACTION_ABORTABLE] {
        let (mut harness, commit) = in_flight(1, RequestKind::Commit);
        harness.call(TransactionCall::Cancel(commit));
        assert_eq!(harness.result(commit), Some(Err(TransactionError::Cancelled)));
        harness.respond(code);
        harness.settle();
        let again = harness.call(TransactionCall::Commit);
        match (code, harness.result(again)) {
            (ErrorCode::NONE, Some(Ok(()))) | (_, Some(Err(TransactionError::Aborted(_)))) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(fate(&mut harness, TransactionCall::Commit), Fate::NotOpen, "once");
    }
}

#[test]
fn offsets_that_nobody_waits_for_are_not_committed() {
    let (mut harness, call) = in_flight(1, RequestKind::CommitOffsets);
    harness.call(TransactionCall::Cancel(call));
    assert_eq!(harness.result(call), Some(Err(TransactionError::Cancelled)));
    let commit = harness.call(TransactionCall::Commit);
    harness.settle();
    let Some(Err(TransactionError::Aborted(cause))) = harness.result(commit) else { panic!("{:?}", harness.actions) };
    assert_eq!(*cause, TransactionCause::OffsetsUnknown);
}

#[test]
fn a_replaced_member_is_named() {
    let (mut harness, call) = in_flight(2, RequestKind::CommitOffsets);
    harness.respond(ErrorCode::ILLEGAL_GENERATION);
    let Some(Err(error @ TransactionError::Failed(_))) = harness.result(call) else { panic!("{:?}", harness.actions) };
    let text = error.to_string();
    assert!(text.contains("group g") && text.contains("rebalanced") && text.contains("run the transaction again"));
}

#[test]
fn a_failure_of_a_batch_turns_a_commit_into_an_abort() {
    let mut harness = Harness::open(2);
    harness.step(TransactionEvent::PartitionsWanted(vec![tp(0)]));
    let commit = harness.call(TransactionCall::Commit);
    harness.step(TransactionEvent::BatchFailed(undelivered(Some(ErrorCode::MESSAGE_TOO_LARGE))));
    assert!(harness.actions.iter().any(|action| matches!(action, TransactionAction::Drop(_))));
    harness.settle();
    assert!(matches!(harness.result(commit), Some(Err(TransactionError::Aborted(_)))));
}

#[test]
fn a_leader_that_fences_ends_the_producer_and_a_late_one_does_not() {
    let mut harness = Harness::open(2);
    harness.step(TransactionEvent::BatchFailed(undelivered(Some(ErrorCode::PRODUCER_FENCED))));
    assert!(matches!(harness.fatal(), Some(TransactionError::Fenced { .. })));
    let mut harness = Harness::open(2);
    harness.step(TransactionEvent::BatchFailed(undelivered(Some(ErrorCode::INVALID_PRODUCER_EPOCH))));
    assert_eq!(harness.fatal(), None, "the coordinator decides (P41)");
}

#[test]
fn a_transaction_that_was_open_for_too_long_is_named_as_the_cause() {
    let (mut harness, commit) = in_flight(1, RequestKind::Commit);
    harness.now += 61 * SECOND;
    harness.respond(ErrorCode::PRODUCER_FENCED);
    let Some(Err(error)) = harness.result(commit) else { panic!("{:?}", harness.actions) };
    assert!(error.to_string().contains("longer than transaction.timeout.ms (60000 ms)"), "{error}");
    let (mut harness, commit) = in_flight(1, RequestKind::Commit);
    harness.respond(ErrorCode::PRODUCER_FENCED);
    let Some(Err(error)) = harness.result(commit) else { panic!("{:?}", harness.actions) };
    assert!(error.to_string().contains("another producer has started"), "{error}");
}

#[test]
fn a_close_aborts_what_is_open_and_finishes_a_commit() {
    let mut harness = Harness::open(1);
    harness.step(TransactionEvent::Close);
    assert!(!harness.manager.is_at_rest());
    harness.settle();
    assert!(harness.manager.is_at_rest());
    let (mut harness, commit) = in_flight(1, RequestKind::Commit);
    harness.step(TransactionEvent::Close);
    harness.settle();
    assert_eq!(harness.result(commit), Some(Ok(())));
    let (mut harness, begin) = in_flight(1, RequestKind::InitProducerId);
    harness.step(TransactionEvent::Close);
    assert_eq!(harness.result(begin), Some(Err(TransactionError::Closed)));
    assert!(harness.manager.is_at_rest());
}
