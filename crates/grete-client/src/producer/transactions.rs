//! Calls about transactions: from any thread to the network thread, and their results.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use grete_proto::producer::{CallId, TransactionCall, TransactionError};
use grete_sys::futex::futex_wake_all;

use super::log_messages::transaction_error;
use super::wait_outcome::WaitOutcome;
use super::{Deadline, Producer};
use crate::error::ClientError;

/// Time that a caller which gives up waits for the confirmation. The network thread answers at once.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Calls that wait for their results.
#[derive(Debug, Default)]
pub(super) struct TransactionCalls {
    queue: Mutex<Vec<(CallId, TransactionCall)>>,
    waiting: Mutex<HashMap<CallId, Arc<CallState>>>,
    next_id: AtomicU32,
}

#[derive(Debug, Default)]
struct CallState {
    /// Counts the events that end a wait.
    futex: AtomicU32,
    result: OnceLock<Result<(), TransactionError>>,
}

/// Call about transactions that was begun.
#[derive(Debug)]
pub struct PendingTransactionCall {
    id: CallId,
    state: Arc<CallState>,
}

/// Result of [`Producer::await_transaction`].
#[derive(Debug, Clone)]
pub enum TransactionStatus {
    /// Result of the call.
    Done(Result<(), ClientError>),
    /// No result yet: call again.
    Pending,
    /// A Unix signal arrived: let its handler run, then call again.
    Interrupted,
    /// The deadline has passed.
    TimedOut,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TransactionCalls {
    fn begin(&self, call: TransactionCall) -> PendingTransactionCall {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let state = Arc::new(CallState::default());
        lock(&self.waiting).insert(id, Arc::clone(&state));
        lock(&self.queue).push((id, call));
        PendingTransactionCall { id, state }
    }

    /// Returns the calls that the core does not know yet, in order.
    pub(super) fn take(&self) -> Vec<(CallId, TransactionCall)> {
        std::mem::take(&mut *lock(&self.queue))
    }

    pub(super) fn complete(&self, id: CallId, result: Result<(), TransactionError>) {
        let Some(state) = lock(&self.waiting).remove(&id) else { return };
        // The first result is final.
        let _ = state.result.set(result);
        state.futex.fetch_add(1, Ordering::AcqRel);
        futex_wake_all(&state.futex);
    }

    /// Wakes all callers, so that they check for an event of another kind.
    pub(super) fn wake_all(&self) {
        for state in lock(&self.waiting).values() {
            state.futex.fetch_add(1, Ordering::AcqRel);
            futex_wake_all(&state.futex);
        }
    }
}

impl Producer {
    /// Returns whether the producer has a `transactional.id`.
    pub fn is_transactional(&self) -> bool {
        self.inner.transactions.is_some()
    }

    /// Begins a call about transactions.
    ///
    /// # Errors
    /// Fails in a forked child, after a close, after a fatal error, and without a `transactional.id`.
    pub fn begin_transaction_call(&self, call: TransactionCall) -> Result<PendingTransactionCall, ClientError> {
        self.check()?;
        let Some(calls) = &self.inner.transactions else {
            let cure = "this producer has no transactions: make it with the setting transactional.id, a name that is its \
                        own and stays the same after a restart";
            return Err(ClientError::TransactionState(cure.to_owned()));
        };
        let pending = calls.begin(call);
        self.loop_handle.step_here();
        // Another thread may have held the loop and have taken the queue before.
        self.wake_loop();
        Ok(pending)
    }

    /// Sleeps until the call has its result or another event ends the wait: check again.
    #[must_use]
    pub fn await_transaction(&self, pending: &PendingTransactionCall, deadline: Option<Deadline>) -> TransactionStatus {
        let seen = pending.state.futex.load(Ordering::Acquire);
        if let Some(result) = pending.state.result.get() {
            return TransactionStatus::Done(
                result.clone().map_err(|error| transaction_error(&error, &self.inner.principal)),
            );
        }
        if let Some(fatal) = self.inner.fatal() {
            return TransactionStatus::Done(Err(fatal));
        }
        match self.inner.wait_on_word(&pending.state.futex, seen, deadline) {
            WaitOutcome::Woken => TransactionStatus::Pending,
            WaitOutcome::Interrupted => TransactionStatus::Interrupted,
            WaitOutcome::TimedOut => TransactionStatus::TimedOut,
            WaitOutcome::Ended if pending.state.result.get().is_some() => TransactionStatus::Pending,
            WaitOutcome::Ended => TransactionStatus::Done(Err(self.inner.closed_error())),
        }
    }

    /// Gives up a call. Returns its result if it has one by now; `None`: the call has no result, and has no effect
    /// that its caller would have to know of. A commit continues.
    pub fn cancel_transaction_call(&self, pending: &PendingTransactionCall) -> Option<Result<(), ClientError>> {
        let calls = self.inner.transactions.as_ref()?;
        if self.inner.is_forked() {
            return None;
        }
        calls.begin(TransactionCall::Cancel(pending.id));
        self.loop_handle.step_here();
        self.wake_loop();
        let deadline = self.deadline(CANCEL_TIMEOUT);
        while pending.state.result.get().is_none() {
            match self.await_transaction(pending, Some(deadline)) {
                TransactionStatus::TimedOut => break,
                TransactionStatus::Done(Err(_)) if pending.state.result.get().is_none() => break,
                _ => {}
            }
        }
        match pending.state.result.get() {
            None | Some(Err(TransactionError::Cancelled)) => None,
            Some(result) => Some(result.clone().map_err(|error| transaction_error(&error, &self.inner.principal))),
        }
    }
}
