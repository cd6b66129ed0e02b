//! How a thread sleeps until there is work.

use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::Duration;

use grete_net::EventFd;
use grete_net::event_fd::Waited;

use crate::error::ClientError;

/// Which kind of sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// For worker threads: a futex, the cheapest wake-up there is.
    Condvar,
    /// For a thread that must notice Unix signals while it waits (Python's main thread).
    EventFd,
}

#[derive(Debug)]
pub(crate) enum Waiter {
    Condvar(Condvar),
    EventFd(EventFd),
}

impl Waiter {
    pub(crate) fn new(wait: Wait) -> Result<Self, ClientError> {
        Ok(match wait {
            Wait::Condvar => Self::Condvar(Condvar::new()),
            Wait::EventFd => Self::EventFd(EventFd::new().map_err(|e| ClientError::os("opening an eventfd", &e))?),
        })
    }

    /// Gives the lock back, sleeps, takes it again. Spurious ends are told as [`Waited::Signalled`]: the caller looks
    /// again at what it waits for, and at its deadline.
    ///
    /// With the eventfd a signal may come between unlock and wait; it stays readable until cleared, so it is not lost.
    /// It is cleared under the lock and before the caller looks, so that a signal for later work stays.
    pub(crate) fn wait<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Option<Duration>,
        lock: impl FnOnce() -> MutexGuard<'a, T>,
    ) -> (MutexGuard<'a, T>, Waited) {
        match self {
            Self::Condvar(condvar) => match timeout {
                None => (condvar.wait(guard).unwrap_or_else(PoisonError::into_inner), Waited::Signalled),
                Some(timeout) => {
                    let (guard, result) = condvar.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner);
                    (guard, if result.timed_out() { Waited::TimedOut } else { Waited::Signalled })
                }
            },
            Self::EventFd(event) => {
                drop(guard);
                let waited = event.wait(timeout);
                let guard = lock();
                if waited == Waited::Signalled {
                    event.clear();
                }
                (guard, waited)
            }
        }
    }

    pub(crate) fn wake_one(&self) {
        match self {
            Self::Condvar(condvar) => condvar.notify_one(),
            Self::EventFd(event) => event.signal(),
        }
    }

    pub(crate) fn wake_all(&self) {
        match self {
            Self::Condvar(condvar) => condvar.notify_all(),
            Self::EventFd(event) => event.signal(),
        }
    }
}
