//! How a thread sleeps until there is work.

use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::Duration;

use grete_net::{Futex, Waited};

/// Which kind of sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// For worker threads: a condition variable.
    Condvar,
    /// For a thread that must notice Unix signals while it waits (Python's main thread).
    Interruptible,
}

#[derive(Debug)]
pub(crate) enum Waiter {
    Condvar(Condvar),
    Interruptible(Futex),
}

impl Waiter {
    pub(crate) fn new(wait: Wait) -> Self {
        match wait {
            Wait::Condvar => Self::Condvar(Condvar::new()),
            Wait::Interruptible => Self::Interruptible(Futex::default()),
        }
    }

    /// Gives the lock back, sleeps, takes it again. Spurious ends are told as [`Waited::Woken`]: the caller looks again at
    /// what it waits for, and at its deadline. Whoever changes what is waited for does so under the lock and wakes
    /// afterwards, so that a count read under the lock misses nothing.
    pub(crate) fn wait<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Option<Duration>,
        lock: impl FnOnce() -> MutexGuard<'a, T>,
    ) -> (MutexGuard<'a, T>, Waited) {
        match self {
            Self::Condvar(condvar) => match timeout {
                None => (condvar.wait(guard).unwrap_or_else(PoisonError::into_inner), Waited::Woken),
                Some(timeout) => {
                    let (guard, result) = condvar.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner);
                    (guard, if result.timed_out() { Waited::TimedOut } else { Waited::Woken })
                }
            },
            Self::Interruptible(futex) => {
                let seen = futex.count();
                drop(guard);
                let waited = futex.wait(seen, timeout);
                (lock(), waited)
            }
        }
    }

    pub(crate) fn wake_one(&self) {
        match self {
            Self::Condvar(condvar) => condvar.notify_one(),
            Self::Interruptible(futex) => futex.wake(),
        }
    }

    pub(crate) fn wake_all(&self) {
        match self {
            Self::Condvar(condvar) => condvar.notify_all(),
            Self::Interruptible(futex) => futex.wake(),
        }
    }
}
