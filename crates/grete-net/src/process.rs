//! Process control without an interpreter: signals, forced exits, and exit with the parent.
#![allow(unsafe_code)]

use std::io;

/// Raises `signal` on the calling thread; 0 raises none. The signal's handler has returned when this function returns.
pub fn raise_signal(signal: i32) {
    if signal > 0 {
        // SAFETY: raise(3) delivers to this thread synchronously and takes no pointers.
        unsafe { libc::raise(signal) };
    }
}

/// Exit status of a process that is ended by force.
pub const EXIT_FORCED: i32 = 2;

/// Turns every later crash of this process into a forced exit, without a core dump.
pub fn install_crash_exit() {
    extern "C" fn exit(_signal: libc::c_int) {
        grete_sys::exit_now(EXIT_FORCED)
    }
    let handler = exit as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: the handler calls nothing but _exit(2), which is async-signal-safe.
        unsafe { libc::signal(signal, handler) };
    }
}

/// Makes the kernel send SIGKILL to this process when the thread that forked it ends. Returns `false` if the system has
/// no such feature.
///
/// A parent that ended before the call goes unnoticed, so the caller must check its parent's pid afterwards.
pub fn set_parent_death_signal() -> io::Result<bool> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: PR_SET_PDEATHSIG takes one number and no pointers.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0) } {
            0 => Ok(true),
            _ => Err(io::Error::last_os_error()),
        }
    }
    #[cfg(not(target_os = "linux"))]
    Ok(false)
}

/// Returns whether orphans become children of this process, as they do of PID 1.
pub fn is_subreaper() -> bool {
    #[cfg(target_os = "linux")]
    {
        let mut flag: libc::c_int = 0;
        // SAFETY: PR_GET_CHILD_SUBREAPER writes one int, through a pointer that lives as long as the call.
        let status = unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut flag, 0, 0, 0) };
        status == 0 && flag != 0
    }
    #[cfg(not(target_os = "linux"))]
    false
}
