//! Wait until a client has processed all of its partitions, for tests of handlers.
//!
//! A thread that waits is counted under the lock before it checks the lanes. Each thread that changes lanes reads the
//! count under the lock, so a change after the check wakes the waiter.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use grete_proto::dispatch::ClientId;
use grete_proto::ids::TopicPartition;
use grete_sys::WakeReason;

use super::Dispatcher;
use crate::error::ClientError;

/// Condition of a wait.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Condition<'a> {
    /// All partitions are assigned, and their positions are known.
    Assigned,
    /// All partitions are read up to these ends, and nothing is left to do; `end_backoffs`: backoffs end at once.
    Settled { ends: &'a HashMap<TopicPartition, i64>, end_backoffs: bool },
}

/// Result of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settling {
    /// The condition holds.
    Settled,
    /// The timeout has passed.
    TimedOut,
    /// A Unix signal arrived: let its handler run, then wait again.
    Interrupted,
}

impl Dispatcher {
    /// Waits until the condition holds for a client; see [`crate::Consumer::wait_until_settled`]. `lanes` returns the number of assigned partitions; `None`: the
    /// client waits for its assignment.
    pub(crate) fn wait_for(
        &self,
        client: ClientId,
        lanes: impl Fn() -> Option<usize>,
        condition: Condition<'_>,
        timeout: Option<Duration>,
    ) -> Result<Settling, ClientError> {
        self.check_fork()?;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.lock().settling_waiters += 1;
        let result = loop {
            let seen = self.inner.settling_futex.count();
            if let Some(error) = self.fatal() {
                break Err(error);
            }
            let assigned = lanes();
            let mut state = self.lock();
            if self.inner.released.load(Ordering::Relaxed) || state.dispatch.is_stopping() {
                break Err(ClientError::Closed { what: "consumer" });
            }
            let holds = |lanes| match condition {
                Condition::Assigned => state.dispatch.is_assigned(client, lanes),
                Condition::Settled { ends, .. } => state.dispatch.is_settled(client, lanes, ends),
            };
            if assigned.is_some_and(holds) {
                break Ok(Settling::Settled);
            }
            if matches!(condition, Condition::Settled { end_backoffs: true, .. }) && state.dispatch.end_backoffs() {
                self.unlock_and_wake(state);
                continue;
            }
            drop(state);
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break Ok(Settling::TimedOut);
            }
            if self.inner.settling_futex.wait(seen, left) == WakeReason::Interrupted {
                break Ok(Settling::Interrupted);
            }
        };
        self.lock().settling_waiters -= 1;
        result
    }

    /// Wakes the threads that wait until all is processed, after a change outside of the lock.
    pub(crate) fn wake_settling(&self) {
        if self.lock().settling_waiters > 0 {
            self.inner.settling_futex.wake();
        }
    }
}
