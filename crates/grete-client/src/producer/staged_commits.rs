//! Commits of staged records: from another network thread to that of the producer, and their results.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use grete_proto::producer::{StagedCommit, StagedCommitResult, TransactionError};

use super::Producer;
use crate::error::ClientError;

/// Receiver of a result. The thread that steps the producer's loop calls the receiver, under the lock of that loop.
type OnDone = Box<dyn FnOnce(StagedCommitResult) + Send>;

/// Commits that wait for the network thread, and for their results.
#[derive(Default)]
pub(super) struct StagedCommits {
    queue: Mutex<Vec<StagedCommit>>,
    waiting: Mutex<HashMap<u32, OnDone>>,
}

impl fmt::Debug for StagedCommits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagedCommits").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StagedCommits {
    /// Returns the commits that the core does not know yet, in order.
    pub(super) fn take(&self) -> Vec<StagedCommit> {
        std::mem::take(&mut *lock(&self.queue))
    }

    pub(super) fn complete(&self, id: u32, result: StagedCommitResult) {
        let done = lock(&self.waiting).remove(&id);
        if let Some(done) = done {
            done(result);
        }
    }

    /// Fails all commits, because the network thread has ended.
    pub(super) fn close(&self) {
        lock(&self.queue).clear();
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        waiting.into_values().for_each(|done| done(StagedCommitResult::Failed(TransactionError::Closed)));
    }
}

impl Producer {
    /// Commits staged records and offsets in one transaction. `done` gets the result, once. One commit at a time, and
    /// none beside calls about transactions.
    ///
    /// # Errors
    /// Fails in a forked child, after a close and after a fatal error; `done` is dropped then.
    pub(crate) fn commit_staged(
        &self,
        commit: StagedCommit,
        done: impl FnOnce(StagedCommitResult) + Send + 'static,
    ) -> Result<(), ClientError> {
        self.check()?;
        let commits = &self.inner.staged_commits;
        lock(&commits.waiting).insert(commit.id, Box::new(done));
        lock(&commits.queue).push(commit);
        if self.inner.has_ended() {
            commits.close(); // the thread has ended after the check
        }
        self.wake_loop();
        Ok(())
    }
}
