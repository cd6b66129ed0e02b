//! futex(2).

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use super::WakeReason;

/// Sleeps while `word` equals `expected`; `timeout` `None` means without a limit. A thread that changes `word` must
/// call [`futex_wake_all`] if another thread may sleep on it. The owner of the word decides how to know this, for
/// example by a bit that a waiter sets first.
pub fn futex_wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> WakeReason {
    let spec = timeout.map(|timeout| libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(timeout.subsec_nanos().cast_signed()),
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
