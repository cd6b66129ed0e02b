//! Sleeps on words of memory that Unix signals interrupt, for a thread that must let signal handlers run (Python's main
//! thread).
//!
//! `kernel`: futex(2), on Linux. `table`: any other Unix, and `--cfg grete_portable`.
#![allow(unsafe_code)]

#[cfg(all(target_os = "linux", not(grete_portable)))]
mod kernel;
#[cfg(any(test, not(all(target_os = "linux", not(grete_portable)))))]
mod table;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[cfg(all(target_os = "linux", not(grete_portable)))]
pub use kernel::{futex_wait, futex_wake_all};
#[cfg(not(all(target_os = "linux", not(grete_portable))))]
pub use table::{futex_wait, futex_wake_all};

/// Reason for the end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeReason {
    /// The count may have changed since it was read: check the awaited condition again.
    Woken,
    /// The timeout has passed.
    TimedOut,
    /// A Unix signal arrived: let its handler run, then wait again.
    Interrupted,
}

/// Counter of wake-ups: a thread reads the count, then sleeps until it changes. A wake-up without waiters costs no
/// system call.
#[derive(Debug, Default)]
pub struct Futex {
    count: AtomicU32,
    waiters: AtomicU32,
}

impl Futex {
    /// Returns the count to pass to [`Futex::wait`]. Read the count before checking the awaited condition. A wake-up
    /// after that check changes the count, so the sleep does not begin.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }

    /// Wakes all threads that sleep.
    ///
    /// A waiter increments `waiters` before the count is compared, and `wake` changes the count before it reads
    /// `waiters`. So either `wake` sees the waiter, or the waiter's comparison sees the new count.
    pub fn wake(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.waiters.load(Ordering::SeqCst) > 0 {
            futex_wake_all(&self.count);
        }
    }

    /// Sleeps unless the count differs from `seen`.
    pub fn wait(&self, seen: u32, timeout: Option<Duration>) -> WakeReason {
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let reason = futex_wait(&self.count, seen, timeout);
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        reason
    }
}

#[cfg(test)]
mod tests;
