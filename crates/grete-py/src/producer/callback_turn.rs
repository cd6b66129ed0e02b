//! Turn of the thread that runs the callbacks of a producer.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

/// One thread at a time runs callbacks, so that callbacks run in the order of the outcomes. Callbacks that become due
/// meanwhile are run by the thread that has the turn.
#[derive(Debug, Default)]
pub(super) struct CallbackTurn {
    holder: Mutex<Option<ThreadId>>,
    ended: Condvar,
}

impl CallbackTurn {
    fn holder(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.holder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the turn until the guard is dropped; `None`: a thread has it, maybe this one, in a callback.
    pub(super) fn try_take(&self) -> Option<CallbackTurnGuard<'_>> {
        let mut holder = self.holder();
        if holder.is_some() {
            return None;
        }
        *holder = Some(std::thread::current().id());
        Some(CallbackTurnGuard(self))
    }

    /// Returns whether no thread runs callbacks.
    pub(super) fn is_free(&self) -> bool {
        self.holder().is_none()
    }

    /// Returns whether another thread runs callbacks.
    pub(super) fn is_of_another_thread(&self) -> bool {
        self.holder().is_some_and(|holder| holder != std::thread::current().id())
    }

    /// Sleeps until no other thread runs callbacks, at most `timeout`.
    pub(super) fn await_another_thread(&self, timeout: Duration) {
        let holder = self.holder();
        let own = Some(std::thread::current().id());
        let waits = |holder: &mut Option<ThreadId>| holder.is_some() && *holder != own;
        drop(self.ended.wait_timeout_while(holder, timeout, waits));
    }
}

/// Drop guard that ends the turn.
#[derive(Debug)]
pub(super) struct CallbackTurnGuard<'a>(&'a CallbackTurn);

impl Drop for CallbackTurnGuard<'_> {
    fn drop(&mut self) {
        *self.0.holder() = None;
        self.0.ended.notify_all();
    }
}
