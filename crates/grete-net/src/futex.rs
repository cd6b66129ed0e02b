//! Futex sleeps that Unix signals interrupt, for a thread that must let signal handlers run (Python's main thread).
#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

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

/// Sleeps while `word` equals `expected`; `timeout` `None` means without a limit. A thread that changes `word` must
/// call [`futex_wake_all`] if another thread may sleep on it. The owner of the word decides how to know this, for
/// example by a bit that a waiter sets first.
pub fn futex_wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> WakeReason {
    let spec = timeout.map(|timeout| libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(timeout.subsec_nanos()),
    });
    let spec = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: FUTEX_WAIT compares a live, aligned u32 with `expected`; the optional timespec lives for the call.
    let result = unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, expected, spec)
    };
    match io::Error::last_os_error().raw_os_error() {
        _ if result == 0 => WakeReason::Woken,
        Some(libc::ETIMEDOUT) => WakeReason::TimedOut,
        Some(libc::EINTR) => WakeReason::Interrupted,
        // The word did not equal `expected`.
        _ => WakeReason::Woken,
    }
}

/// Wakes all threads that sleep on `word`.
pub fn futex_wake_all(word: &AtomicU32) {
    let everybody = libc::c_int::MAX;
    // SAFETY: FUTEX_WAKE takes the address of a live, aligned u32 and reads nothing from it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, everybody) };
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
    /// A waiter increments `waiters` before the kernel compares the count, and `wake` changes the count before it reads
    /// `waiters`. So either `wake` sees the waiter, or the kernel sees the new count.
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
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_wake_up_between_the_check_and_the_wait_is_not_lost() {
        let futex = Futex::default();
        let seen = futex.count();
        futex.wake();
        assert_eq!(futex.wait(seen, None), WakeReason::Woken);
        assert_eq!(futex.wait(futex.count(), Some(Duration::from_millis(1))), WakeReason::TimedOut);
    }

    #[test]
    fn a_wait_lasts_until_the_word_changes() {
        let word = &AtomicU32::new(7);
        assert_eq!(futex_wait(word, 6, None), WakeReason::Woken);
        assert_eq!(futex_wait(word, 7, Some(Duration::from_millis(1))), WakeReason::TimedOut);
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                while word.load(Ordering::SeqCst) == 7 {
                    assert_ne!(futex_wait(word, 7, Some(Duration::from_secs(60))), WakeReason::TimedOut);
                }
            });
            word.store(8, Ordering::SeqCst);
            futex_wake_all(word);
            sleeper.join().expect("it woke");
        });
    }

    #[test]
    fn a_waiter_is_woken_by_another_thread() {
        let futex = &Futex::default();
        thread::scope(|scope| {
            for _ in 0..1000 {
                let seen = futex.count();
                let sleeper = scope.spawn(move || {
                    let mut now = seen;
                    while now == seen {
                        assert_ne!(futex.wait(seen, Some(Duration::from_secs(60))), WakeReason::TimedOut);
                        now = futex.count();
                    }
                });
                futex.wake();
                sleeper.join().expect("it woke");
            }
        });
    }

    #[test]
    fn a_signal_interrupts_the_wait() {
        extern "C" fn nothing(_: libc::c_int) {}
        // SAFETY: installs a handler that does nothing, without SA_RESTART, for a signal that nothing else uses here.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as usize;
            assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()), 0);
        }
        let futex = Futex::default();
        let (sender, receiver) = std::sync::mpsc::channel();
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                // SAFETY: pthread_self has no preconditions.
                sender.send(unsafe { libc::pthread_self() } as usize).expect("a receiver");
                futex.wait(futex.count(), Some(Duration::from_secs(60)))
            });
            let thread = receiver.recv().expect("the sleeper's name");
            // A signal that arrives before the sleep interrupts nothing, so it is sent until the sleep has ended.
            while !sleeper.is_finished() {
                // SAFETY: the thread is joined below, so its id is valid until then.
                unsafe { libc::pthread_kill(thread as libc::pthread_t, libc::SIGUSR2) };
                thread::yield_now();
            }
            assert_eq!(sleeper.join().expect("it woke"), WakeReason::Interrupted);
        });
    }
}
