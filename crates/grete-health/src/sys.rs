//! Calls into libc.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// A duplicate of the descriptor, closed on exec, that never blocks (and neither does the original: they share that).
pub(crate) fn duplicate_nonblocking(fd: RawFd) -> io::Result<File> {
    // SAFETY: F_DUPFD_CLOEXEC takes and returns plain numbers.
    let copy = check(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: `copy` is open, new, and nobody else's.
    let copy = unsafe { OwnedFd::from_raw_fd(copy) };
    // SAFETY: F_GETFL takes and returns plain numbers.
    let flags = check(unsafe { libc::fcntl(copy.as_raw_fd(), libc::F_GETFL) })?;
    if flags & libc::O_ACCMODE == libc::O_RDONLY {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is open for reading only"));
    }
    // SAFETY: F_SETFL takes and returns plain numbers.
    check(unsafe { libc::fcntl(copy.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    Ok(File::from(copy))
}

/// What a descriptor stands for: a device and a file on it. Each pipe is one.
pub(crate) type Identity = (u64, u64);

/// Of an open descriptor.
pub(crate) fn identity(fd: BorrowedFd<'_>) -> io::Result<Identity> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `stat` has room for what fstat writes.
    check(unsafe { libc::fstat(fd.as_raw_fd(), stat.as_mut_ptr()) })?;
    // SAFETY: fstat has filled it in.
    let stat = unsafe { stat.assume_init() };
    Ok((stat.st_dev, stat.st_ino))
}

/// What came of a wait for two descriptors: the events of each; none when the time is up, or a signal came.
pub(crate) fn poll(
    watched: BorrowedFd<'_>,
    readable: BorrowedFd<'_>,
    timeout: Duration,
) -> io::Result<(libc::c_short, libc::c_short)> {
    let mut fds = [
        // Hang-up and errors are told unasked.
        libc::pollfd { fd: watched.as_raw_fd(), events: 0, revents: 0 },
        libc::pollfd { fd: readable.as_raw_fd(), events: libc::POLLIN, revents: 0 },
    ];
    let timeout = libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(timeout.subsec_nanos().cast_signed()),
    };
    // SAFETY: two live pollfds and a live timespec; no signal mask.
    let count = unsafe { libc::ppoll(fds.as_mut_ptr(), 2, &raw const timeout, std::ptr::null()) };
    match check(count) {
        Ok(_) => Ok((fds[0].revents, fds[1].revents)),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok((0, 0)),
        Err(error) => Err(error),
    }
}

/// Bytes in a page.
pub(crate) fn page_size() -> u64 {
    // SAFETY: takes and returns plain numbers.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Leaves at once: no exit handlers, no destructors.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: _exit(2) takes no pointers and does not return.
    unsafe { libc::_exit(status) }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
