//! poll(2): waits for descriptors.
#![allow(unsafe_code)]

use std::io;
use std::time::Duration;

/// Waits for events and fills in `revents`; `timeout` `None` means without a limit. Returns how many descriptors have
/// events; 0 after the timeout.
///
/// # Errors
/// `ErrorKind::Interrupted` after a signal, whose handler has run; other errors of the system call.
pub fn poll(fds: &mut [libc::pollfd], timeout: Option<Duration>) -> io::Result<usize> {
    let count = libc::nfds_t::try_from(fds.len()).unwrap_or_default();
    let result = wait(fds.as_mut_ptr(), count, timeout);
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

#[cfg(all(target_os = "linux", not(grete_portable)))]
fn wait(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: Option<Duration>) -> libc::c_int {
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(timeout.subsec_nanos().cast_signed()),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the caller's `count` live pollfds, and an optional live timespec; no signal mask. ppoll keeps no pointer.
    unsafe { libc::ppoll(fds, count, timeout, std::ptr::null()) }
}

/// poll(2) counts milliseconds. Rounding up keeps a caller with a deadline from spinning through its last one.
#[cfg(not(all(target_os = "linux", not(grete_portable))))]
fn wait(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: Option<Duration>) -> libc::c_int {
    let millis = |timeout: Duration| timeout.as_nanos().div_ceil(1_000_000);
    let timeout = timeout.map_or(-1, |timeout| libc::c_int::try_from(millis(timeout)).unwrap_or(libc::c_int::MAX));
    // SAFETY: the caller's `count` live pollfds. poll keeps no pointer to them.
    unsafe { libc::poll(fds, count, timeout) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn it_ends_with_an_event_or_with_the_timeout() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let mut fds = [libc::pollfd { fd: reader.as_raw_fd(), events: libc::POLLIN, revents: 0 }];
        assert_eq!(poll(&mut fds, Some(Duration::ZERO)).expect("a wait"), 0);
        assert_eq!(poll(&mut fds, Some(Duration::from_nanos(1))).expect("a wait"), 0);
        writer.write_all(b"x").expect("room");
        assert_eq!(poll(&mut fds, None).expect("a wait"), 1);
        assert_eq!(fds[0].revents, libc::POLLIN);
    }
}
