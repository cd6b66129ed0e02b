//! Histories that lanes wait for: a thread of the caller reads the records, see [`HistoryRequest`].

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use grete_proto::dispatch::HistoryRequest;
use grete_wire::records::Columns;

use super::Dispatcher;

/// Requests that no thread has taken yet.
#[derive(Debug, Default)]
pub(super) struct HistoryQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    waiting: Vec<HistoryRequest>,
    is_closed: bool,
}

impl HistoryQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// History that a lane waits for.
#[derive(Debug, Clone)]
pub struct History {
    dispatcher: Dispatcher,
    request: Arc<HistoryRequest>,
}

impl History {
    /// Returns what to read.
    #[must_use]
    pub fn request(&self) -> &HistoryRequest {
        &self.request
    }

    /// Learns the ids of records, in the order of their offsets.
    pub fn learn(&self, columns: &Columns, rows: std::ops::Range<usize>) {
        self.request.filter.learn(columns, rows);
    }

    /// Returns whether the lane still waits. If not, its position has moved, or the partition is gone.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.dispatcher.lock().dispatch.awaits_history(&self.request)
    }

    /// Ends the wait: all records are learned.
    pub fn end(&self) {
        let mut state = self.dispatcher.lock();
        state.dispatch.end_history(&self.request);
        self.dispatcher.unlock_and_wake(state);
    }

    /// Records why the records cannot be read now.
    pub fn fail(&self, error: &str) {
        self.dispatcher.lock().dispatch.fail_history(&self.request, error);
    }
}

impl Dispatcher {
    pub(crate) fn add_histories(&self, requests: Vec<HistoryRequest>) {
        if requests.is_empty() {
            return;
        }
        self.inner.histories.lock().waiting.extend(requests);
        self.inner.histories.changed.notify_all();
    }

    /// Waits for histories to read, and takes them. `None`: [`Dispatcher::close_histories`] was called. `timeout`: longest
    /// wait; without one, the wait has no limit.
    #[must_use]
    pub fn next_histories(&self, timeout: Option<Duration>) -> Option<Vec<History>> {
        let queue = &self.inner.histories;
        let idle = |state: &mut QueueState| state.waiting.is_empty() && !state.is_closed;
        let mut state = match timeout {
            Some(timeout) => {
                let waited = queue.changed.wait_timeout_while(queue.lock(), timeout, idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => queue.changed.wait_while(queue.lock(), idle).unwrap_or_else(PoisonError::into_inner),
        };
        if state.is_closed {
            return None;
        }
        let found = std::mem::take(&mut state.waiting);
        drop(state);
        let history = |request| History { dispatcher: self.clone(), request: Arc::new(request) };
        Some(found.into_iter().map(history).collect())
    }

    /// Ends [`Dispatcher::next_histories`].
    pub fn close_histories(&self) {
        self.inner.histories.lock().is_closed = true;
        self.inner.histories.changed.notify_all();
    }
}
