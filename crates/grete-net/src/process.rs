//! Ending this process without help from any interpreter.
#![allow(unsafe_code)]

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
