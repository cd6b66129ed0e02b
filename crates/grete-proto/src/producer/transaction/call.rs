//! Calls of users, and failures that the sender reports.

use std::sync::Arc;

use grete_wire::error_code::ErrorCode;

use super::error::{TransactionCause, TransactionError};
use super::event::{CallId, TransactionAction, TransactionCall, TransactionGate};
use super::response_class::RequestKind;
use super::{IMPLICIT_VERSION, OffsetsCall, Phase, State, TransactionManager};
use crate::time::Nanos;

impl TransactionManager {
    pub(super) fn on_call(&mut self, now: Nanos, id: CallId, call: TransactionCall, out: &mut Vec<TransactionAction>) {
        let answer = match call {
            TransactionCall::Cancel(call) => return self.cancel(call, out),
            _ if matches!(self.state, State::Ended(_)) => Some(Err(self.ended_error())),
            _ if self.is_closing => Some(Err(TransactionError::Closed)),
            TransactionCall::Init => self.init(id),
            TransactionCall::Begin => self.begin(now, id, out),
            TransactionCall::SendOffsets { group, offsets } => match &self.state {
                State::Open if offsets.is_empty() => Some(Ok(())),
                State::Open => {
                    self.contents.offsets.push_back(OffsetsCall { call: id, group, offsets });
                    None
                }
                _ => Some(Err(self.not_open())),
            },
            TransactionCall::Commit => self.commit(id, out),
            TransactionCall::Abort => self.abort(id, out),
        };
        out.extend(answer.map(|answer| TransactionAction::Done(id, answer)));
    }

    fn ended_error(&self) -> TransactionError {
        match &self.state {
            State::Ended(error) => error.clone(),
            _ => TransactionError::Closed,
        }
    }

    /// Returns the error of a call that needs an open transaction.
    fn not_open(&self) -> TransactionError {
        match &self.state {
            State::Failed(cause) => TransactionError::Failed(Arc::clone(cause)),
            State::Committing { .. } | State::Aborting { .. } => TransactionError::Ending,
            _ => TransactionError::NotOpen,
        }
    }

    fn init(&mut self, id: CallId) -> Option<Result<(), TransactionError>> {
        match &mut self.state {
            State::Uninitialized => self.state = State::Initializing(vec![(id, false)]),
            State::Initializing(calls) => calls.push((id, false)),
            _ => return Some(Ok(())),
        }
        None
    }

    fn begin(
        &mut self,
        now: Nanos,
        id: CallId,
        out: &mut Vec<TransactionAction>,
    ) -> Option<Result<(), TransactionError>> {
        match &mut self.state {
            State::Uninitialized => self.state = State::Initializing(vec![(id, true)]),
            State::Initializing(calls) => calls.push((id, true)),
            // The cluster has changed its protocol: no epoch is used with both.
            State::Ready if (self.cluster_version < IMPLICIT_VERSION) != (self.version < IMPLICIT_VERSION) => {
                self.state = State::Initializing(vec![(id, true)]);
            }
            State::Ready => {
                self.open(now, out);
                return Some(Ok(()));
            }
            State::Open | State::Failed(_) => return Some(Err(TransactionError::AlreadyOpen)),
            _ => return Some(Err(TransactionError::Ending)),
        }
        None
    }

    fn commit(&mut self, id: CallId, out: &mut Vec<TransactionAction>) -> Option<Result<(), TransactionError>> {
        match &mut self.state {
            State::Open => {
                self.state = State::Committing { phase: Phase::Settling, calls: vec![id] };
                out.push(TransactionAction::Gate(TransactionGate::Ending));
                out.push(TransactionAction::Flush);
            }
            State::Committing { calls, .. } => calls.push(id),
            State::Aborting { calls, .. } => calls.push((id, true)),
            State::Failed(cause) => {
                let cause = Arc::clone(cause);
                self.begin_abort(cause, vec![(id, true)], out);
            }
            // The result of a commit whose caller did not wait for it.
            _ => return Some(self.unreported.take().unwrap_or(Err(TransactionError::NotOpen))),
        }
        None
    }

    fn abort(&mut self, id: CallId, out: &mut Vec<TransactionAction>) -> Option<Result<(), TransactionError>> {
        match &mut self.state {
            State::Open => self.begin_abort(Arc::new(TransactionCause::Requested), vec![(id, false)], out),
            State::Failed(cause) => {
                let cause = Arc::clone(cause);
                self.begin_abort(cause, vec![(id, false)], out);
            }
            State::Aborting { calls, .. } => calls.push((id, false)),
            State::Committing { .. } => return Some(Err(TransactionError::CommitBegun)),
            _ => {
                return Some(match self.unreported {
                    Some(Ok(())) => Err(TransactionError::CommitBegun),
                    Some(Err(_)) => {
                        self.unreported = None;
                        Ok(())
                    }
                    None => Err(TransactionError::NotOpen),
                });
            }
        }
        None
    }

    /// Completes a call whose caller waits no longer.
    fn cancel(&mut self, call: CallId, out: &mut Vec<TransactionAction>) {
        let is_waiting = match &mut self.state {
            State::Initializing(calls) | State::Aborting { calls, .. } => {
                let before = calls.len();
                calls.retain(|(id, _)| *id != call);
                calls.len() < before
            }
            State::Committing { calls, .. } => {
                let before = calls.len();
                calls.retain(|id| *id != call);
                calls.len() < before
            }
            _ => false,
        };
        if is_waiting {
            out.push(TransactionAction::Done(call, Err(TransactionError::Cancelled)));
        } else if let Some(index) = self.contents.offsets.iter().position(|offsets| offsets.call == call) {
            // Whether the group has the offsets is not known: a commit could leave them out.
            self.contents.offsets.remove(index);
            out.push(TransactionAction::Done(call, Err(TransactionError::Cancelled)));
            self.fail(Arc::new(TransactionCause::OffsetsUnknown), out);
        }
    }

    /// Handles records that were not delivered.
    pub(super) fn on_batch_failed(
        &mut self,
        now: Nanos,
        cause: Arc<TransactionCause>,
        out: &mut Vec<TransactionAction>,
    ) {
        // After `Settled` no batch is left that could fail, and EndTxn may be in flight.
        let is_open =
            matches!(self.state, State::Open | State::Committing { phase: Phase::Settling, .. } | State::Failed(_));
        if !is_open {
            return;
        }
        match cause.code() {
            Some(code @ ErrorCode::PRODUCER_FENCED) => {
                let error = self.fenced(now, code);
                self.end(error, out);
            }
            Some(
                code @ (ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED | ErrorCode::CLUSTER_AUTHORIZATION_FAILED),
            ) => {
                let transactional_id = Arc::clone(&self.transactional_id);
                self.end(TransactionError::Unauthorized { transactional_id, code }, out);
            }
            // A leader that answers INVALID_PRODUCER_EPOCH may only be late (P41): the coordinator decides, at the abort.
            code => {
                self.contents.skips_end |= code == Some(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
                let is_late = matches!(
                    code,
                    Some(
                        ErrorCode::INVALID_PRODUCER_EPOCH
                            | ErrorCode::INVALID_TXN_STATE
                            | ErrorCode::TRANSACTION_ABORTABLE
                    )
                );
                let timed_out = code.filter(|_| is_late).and_then(|code| self.timed_out(now, code));
                self.fail(timed_out.unwrap_or(cause), out);
            }
        }
    }

    /// Returns the topic or group that an error of a request is about.
    pub(super) fn place_of(&self, kind: RequestKind) -> Box<str> {
        match kind {
            RequestKind::FindGroupCoordinator | RequestKind::AddOffsets | RequestKind::CommitOffsets => {
                self.contents.offsets.front().map_or_else(Box::default, |front| front.group.group_id.as_ref().into())
            }
            _ => Box::default(),
        }
    }
}
