//! Marks: records that a job reports as processed before its end.

use std::sync::atomic::Ordering;

use grete_proto::dispatch::{Committable, MarkError};
use grete_proto::share::AckType;

use super::Dispatcher;
use super::job::JobToken;
use crate::error::ClientError;

impl Dispatcher {
    /// Marks the job's records with offsets in `first..=last` as processed. Returns how many were not marked before.
    ///
    /// # Errors
    /// [`ClientError::Revoked`] if the lane was abandoned or lost, or its position was moved; [`ClientError::Forked`]
    /// in a forked child of the process that created the dispatcher.
    pub fn mark(&self, token: &JobToken, first: i64, last: i64) -> Result<u64, ClientError> {
        self.check_fork()?;
        let marked = token.shared.mark(first, last);
        self.after_mark(token, marked)
    }

    /// Marks just the records with these ascending offsets; see [`grete_proto::dispatch::JobState::mark_rows`].
    ///
    /// # Errors
    /// The same as [`Dispatcher::mark`].
    pub fn mark_rows(&self, token: &JobToken, offsets: &[i64]) -> Result<u64, ClientError> {
        self.check_fork()?;
        let marked = token.shared.mark_rows(offsets);
        self.after_mark(token, marked)
    }

    /// Acknowledges records of a share group with these offsets before the end of their job. Returns how many were not
    /// acknowledged before.
    ///
    /// # Errors
    /// The same as [`Dispatcher::mark`].
    pub fn acknowledge(&self, token: &JobToken, offsets: &[i64], kind: AckType) -> Result<u64, ClientError> {
        self.check_fork()?;
        let finished = token.shared.acknowledge(offsets, kind).map_err(|_| ClientError::Revoked)?;
        let mut state = self.lock();
        state.dispatch.on_acknowledged(token.lane);
        self.unlock_and_wake(state);
        Ok(finished)
    }

    fn after_mark(&self, token: &JobToken, marked: Result<u64, MarkError>) -> Result<u64, ClientError> {
        let marked = marked.map_err(|error| match error {
            MarkError::Fenced => ClientError::Revoked,
            MarkError::Undelivered => ClientError::Undelivered,
        })?;
        self.apply_late_mark(token);
        self.await_mark_outputs(token);
        Ok(marked)
    }

    fn apply_late_mark(&self, token: &JobToken) {
        // A job's marks count when the job ends. For a job that has already ended, the lane checks its marks now,
        // because it may wait for them (too many open records). The end of a job sets `ended` before it reads the
        // marks, and both sides access marks under the job's lock. If `ended` is not set here, the end reads the marks
        // later and finds this mark. If the end has read the marks before this mark, `ended` is set here, and this
        // check finds the mark.
        if token.ended.load(Ordering::Acquire) {
            let mut state = self.lock();
            state.dispatch.on_marks_resumed(token.lane);
            self.unlock_and_wake(state);
        }
    }

    /// Returns the offset of the job's lane that may be committed; `None`: there is none.
    ///
    /// # Errors
    /// [`ClientError::Revoked`] if the lane is gone or the job is fenced.
    pub(crate) fn committable(&self, token: &JobToken) -> Result<Option<Committable>, ClientError> {
        self.check_fork()?;
        if token.is_fenced() {
            return Err(ClientError::Revoked);
        }
        let mut state = self.lock();
        let committable = state.dispatch.committable(token.lane);
        self.unlock_and_wake(state); // a lane that waited for marks may continue
        committable.map_err(|_| ClientError::Revoked)
    }
}
