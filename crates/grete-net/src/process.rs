//! Ending this process without help from any interpreter.
#![allow(unsafe_code)]

/// Raises `signal` on the calling thread, whose handler has returned when this goes on, then leaves at once with `status`: no
/// exit handlers, no destructors, because the process is past asking.
pub fn raise_and_exit(signal: i32, status: i32) -> ! {
    // SAFETY: raise(3) delivers to this thread synchronously; _exit(2) does not return. Neither takes pointers.
    unsafe {
        if signal > 0 {
            libc::raise(signal);
        }
        libc::_exit(status)
    }
}
