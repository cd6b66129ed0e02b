//! Ending this process without help from any interpreter, and with its parent.
#![allow(unsafe_code)]

use std::io;

/// Raises `signal` (0: none) on the calling thread; its handler has returned when this does.
pub fn raise_here(signal: i32) {
    if signal > 0 {
        // SAFETY: raise(3) delivers to this thread synchronously and takes no pointers.
        unsafe { libc::raise(signal) };
    }
}

/// Leaves at once with `status`: no exit handlers, no destructors, because the process is past asking.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit(2) takes no pointers and does not return.
    unsafe { libc::_exit(status) }
}

/// Status of a process that is ended by force.
pub const FORCED: i32 = 2;

/// From now on a crash of this process is its forced end, without a core dump.
pub fn exit_on_crash() {
    extern "C" fn exit(_signal: libc::c_int) {
        exit_now(FORCED)
    }
    let handler = exit as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: the handler calls nothing but _exit(2), which is async-signal-safe.
        unsafe { libc::signal(signal, handler) };
    }
}

/// From now on SIGKILL comes to this process when the thread that forked it ends. `false`: the system has no such thing.
///
/// A parent that was gone before does not count: whoever calls this looks at its parent's pid afterwards.
pub fn die_with_parent() -> io::Result<bool> {
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

/// Whether orphans become children of this process, as they do of PID 1.
pub fn is_subreaper() -> bool {
    #[cfg(target_os = "linux")]
    {
        let mut answer: libc::c_int = 0;
        // SAFETY: PR_GET_CHILD_SUBREAPER writes one int, through a pointer that lives as long as the call.
        let status = unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut answer, 0, 0, 0) };
        status == 0 && answer != 0
    }
    #[cfg(not(target_os = "linux"))]
    false
}
