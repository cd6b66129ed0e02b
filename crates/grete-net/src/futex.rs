//! A sleep that Unix signals end: for a thread that must let signal handlers run (Python's main thread).
#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// Somebody woke since the count was read; perhaps: look at what was waited for.
    Woken,
    /// The time was up.
    TimedOut,
    /// A Unix signal arrived: let its handler run, then wait again.
    Interrupted,
}

/// Sleeps while `word` is as `expected`. Whoever changes it has to call [`wake_on`] if somebody may sleep; how that is known
/// is the word's owner's business (a bit in the word that a sleeper sets first).
pub fn wait_on(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> Waited {
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
        _ if result == 0 => Waited::Woken,
        Some(libc::ETIMEDOUT) => Waited::TimedOut,
        Some(libc::EINTR) => Waited::Interrupted,
        // The word was not as expected.
        _ => Waited::Woken,
    }
}

/// Wakes all who sleep on `word`.
pub fn wake_on(word: &AtomicU32) {
    let everybody = libc::c_int::MAX;
    // SAFETY: FUTEX_WAKE takes the address of a live, aligned u32 and reads nothing from it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, everybody) };
}

/// Counts wake-ups. Whoever read the count sleeps until it changes; waking nobody costs no system call.
#[derive(Debug, Default)]
pub struct Futex {
    count: AtomicU32,
    sleepers: AtomicU32,
}

impl Futex {
    /// What [`Futex::wait`] is to be given. Read it before the look at whatever is waited for: a wake-up after that look
    /// changes it, so that the sleep does not begin.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }

    /// Wakes all who sleep.
    ///
    /// A sleeper announces itself before the kernel compares the count, and the count changes before this looks for
    /// sleepers: either this sees the sleeper, or the kernel sees the new count.
    pub fn wake(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            wake_on(&self.count);
        }
    }

    /// Sleeps unless the count has changed since it was `seen`.
    pub fn wait(&self, seen: u32, timeout: Option<Duration>) -> Waited {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let waited = wait_on(&self.count, seen, timeout);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        waited
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_wake_up_between_the_look_and_the_sleep_is_not_lost() {
        let futex = Futex::default();
        let seen = futex.count();
        futex.wake();
        assert_eq!(futex.wait(seen, None), Waited::Woken);
        assert_eq!(futex.wait(futex.count(), Some(Duration::from_millis(1))), Waited::TimedOut);
    }

    #[test]
    fn a_word_is_slept_on_until_it_changes() {
        let word = &AtomicU32::new(7);
        assert_eq!(wait_on(word, 6, None), Waited::Woken);
        assert_eq!(wait_on(word, 7, Some(Duration::from_millis(1))), Waited::TimedOut);
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                while word.load(Ordering::SeqCst) == 7 {
                    assert_ne!(wait_on(word, 7, Some(Duration::from_secs(60))), Waited::TimedOut);
                }
            });
            word.store(8, Ordering::SeqCst);
            wake_on(word);
            sleeper.join().expect("it woke");
        });
    }

    #[test]
    fn a_sleeper_is_woken_by_another_thread() {
        let futex = &Futex::default();
        thread::scope(|scope| {
            for _ in 0..1000 {
                let seen = futex.count();
                let sleeper = scope.spawn(move || {
                    let mut now = seen;
                    while now == seen {
                        assert_ne!(futex.wait(seen, Some(Duration::from_secs(60))), Waited::TimedOut);
                        now = futex.count();
                    }
                });
                futex.wake();
                sleeper.join().expect("it woke");
            }
        });
    }

    #[test]
    fn a_signal_ends_the_sleep() {
        extern "C" fn nothing(_: libc::c_int) {}
        // SAFETY: installs a handler that does nothing, without SA_RESTART, for a signal that nobody else uses here.
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
                sender.send(unsafe { libc::pthread_self() } as usize).expect("somebody listens");
                futex.wait(futex.count(), Some(Duration::from_secs(60)))
            });
            let thread = receiver.recv().expect("the sleeper's name");
            // A signal that comes before the sleep ends nothing, so it is sent until the sleep has ended.
            while !sleeper.is_finished() {
                // SAFETY: the thread is joined below, so its id is valid until then.
                unsafe { libc::pthread_kill(thread as libc::pthread_t, libc::SIGUSR2) };
                thread::yield_now();
            }
            assert_eq!(sleeper.join().expect("it woke"), Waited::Interrupted);
        });
    }
}
