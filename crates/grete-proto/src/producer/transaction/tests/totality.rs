//! Random calls, answers and failures: no panic, one request at a time, each call has one result, and the manager always
//! is at rest in the end.

use std::collections::BTreeSet;

use grete_wire::error_code::ErrorCode;

use super::harness::{Harness, offsets, tp, undelivered};
use crate::producer::transaction::{TransactionAction, TransactionCall, TransactionEvent};
use crate::request::RequestError;
use crate::rng::Rng;

fn code(rng: &mut Rng) -> ErrorCode {
    match rng.below(3) {
        0 => ErrorCode::ALL[usize::try_from(rng.below(ErrorCode::ALL.len() as u64)).unwrap_or(0)],
        _ => ErrorCode::NONE,
    }
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let version = i16::try_from(rng.below(3)).unwrap_or(0);
    let mut harness = Harness::new(version);
    let mut waiting = BTreeSet::new();
    for _ in 0..60 {
        match rng.below(12) {
            0 => {
                waiting.insert(harness.call(TransactionCall::Init));
            }
            1 | 2 => {
                waiting.insert(harness.call(TransactionCall::Begin));
            }
            3 => {
                waiting.insert(harness.call(TransactionCall::Commit));
            }
            4 => {
                waiting.insert(harness.call(TransactionCall::Abort));
            }
            5 => {
                waiting.insert(harness.call(offsets(2)));
            }
            6 => harness.step(TransactionEvent::PartitionsWanted(vec![tp(0), tp(1)])),
            7 if rng.below(4) == 0 => harness.step(TransactionEvent::BatchFailed(undelivered(Some(code(&mut rng))))),
            8 if rng.below(4) == 0 => {
                if let Some(&call) = waiting.first() {
                    harness.call(TransactionCall::Cancel(call));
                }
            }
            _ => {
                if harness.manager.awaits_settled() {
                    harness.step(TransactionEvent::Settled { gap: rng.below(4) == 0 });
                }
                harness.wait_for_request();
                if harness.sent.is_empty() {
                    continue;
                }
                match rng.below(8) {
                    0 => harness.fail(RequestError::Disconnected),
                    1 => harness.fail(RequestError::NoConnection),
                    _ => {
                        harness.respond(code(&mut rng));
                    }
                }
            }
        }
        for action in std::mem::take(&mut harness.actions) {
            if let TransactionAction::Done(call, _) = action {
                assert!(waiting.remove(&call), "seed {seed}: call {call} has two results");
            }
        }
    }
    harness.step(TransactionEvent::Close);
    harness.settle();
    assert!(harness.manager.is_at_rest(), "seed {seed}: {:?}", harness.manager);
    for action in &harness.actions {
        if let TransactionAction::Done(call, _) = action {
            waiting.remove(call);
        }
    }
    assert!(waiting.is_empty(), "seed {seed}: calls without a result: {waiting:?}");
}

#[test]
fn each_call_has_one_result_whatever_brokers_answer() {
    for seed in 0..20_000 {
        run(seed);
    }
}
