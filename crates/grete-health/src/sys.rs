//! Wrappers of libc calls.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Duplicates a descriptor, close-on-exec and non-blocking. The original becomes non-blocking, too: both share the open
/// file description.
pub(crate) fn duplicate_nonblocking(fd: RawFd) -> io::Result<File> {
    // SAFETY: F_DUPFD_CLOEXEC takes and returns plain numbers.
    let copy = check(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: `copy` is open and new, and nothing else owns it.
    let copy = unsafe { OwnedFd::from_raw_fd(copy) };
    // SAFETY: F_GETFL takes and returns plain numbers.
    let flags = check(unsafe { libc::fcntl(copy.as_raw_fd(), libc::F_GETFL) })?;
    if flags & libc::O_ACCMODE == libc::O_RDONLY {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the descriptor is open for reading only"));
    }
    // SAFETY: F_SETFL takes and returns plain numbers.
    check(unsafe { libc::fcntl(copy.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    Ok(File::from(copy))
}

/// Identity of an open file: device and inode. Each pipe has its own.
pub(crate) type FileId = (u64, u64);

/// Returns the identity of an open descriptor.
pub(crate) fn file_id(fd: BorrowedFd<'_>) -> io::Result<FileId> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `stat` has room for what fstat writes.
    check(unsafe { libc::fstat(fd.as_raw_fd(), stat.as_mut_ptr()) })?;
    // SAFETY: fstat has filled it in.
    let stat = unsafe { stat.assume_init() };
    // Device numbers are signed on some systems: only their bits count.
    #[allow(clippy::unnecessary_cast)]
    Ok((stat.st_dev as u64, stat.st_ino))
}

/// Waits for two descriptors and returns the events of each. Both are 0 after the timeout or a signal.
pub(crate) fn poll(
    watched: BorrowedFd<'_>,
    readable: BorrowedFd<'_>,
    timeout: Duration,
) -> io::Result<(libc::c_short, libc::c_short)> {
    // poll reports hang-up and errors without being asked for them.
    let mut fds = [pollfd(Some(watched), 0), pollfd(Some(readable), libc::POLLIN)];
    poll_all(&mut fds, timeout)?;
    Ok((fds[0].revents, fds[1].revents))
}

/// Returns an entry for [`poll_all`]. `None`: the entry is ignored.
pub(crate) fn pollfd(fd: Option<BorrowedFd<'_>>, events: libc::c_short) -> libc::pollfd {
    libc::pollfd { fd: fd.map_or(-1, |fd| fd.as_raw_fd()), events, revents: 0 }
}

/// Waits for events and fills in `revents`. All are 0 after the timeout or a signal.
pub(crate) fn poll_all(fds: &mut [libc::pollfd], timeout: Duration) -> io::Result<()> {
    match grete_sys::poll::poll(fds, Some(timeout)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            fds.iter_mut().for_each(|fd| fd.revents = 0);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Returns whether something waits to be read or accepted, or an error does.
pub(crate) fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [pollfd(Some(fd), libc::POLLIN)];
    poll_all(&mut fds, Duration::ZERO).is_err() || fds[0].revents != 0
}

/// Closes the descriptor if it still is the file `expected`.
pub(crate) fn close_if_same_file(fd: RawFd, expected: FileId) {
    // SAFETY: borrowed for fstat only; nothing is read, written or closed.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    if fd >= 0 && file_id(borrowed).is_ok_and(|now| now == expected) {
        // SAFETY: takes a plain number. The caller guarantees that the code that opened the descriptor no longer uses
        // it.
        unsafe { libc::close(fd) };
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
