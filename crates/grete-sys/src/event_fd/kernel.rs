//! The event as an eventfd(2), a kernel counter.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::fork::NotInherited;

/// Kernel counter whose descriptor is readable while the counter is not zero.
#[derive(Debug)]
pub struct EventFd {
    fd: NotInherited<OwnedFd>,
}

impl EventFd {
    /// Opens an event that is not signaled.
    ///
    /// # Errors
    /// The error of the system call, for example when descriptors are exhausted.
    pub fn new() -> io::Result<Self> {
        let open = || {
            // SAFETY: eventfd(2) takes no pointers.
            let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
            // SAFETY: `fd` was just opened and has no other owner.
            if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(unsafe { OwnedFd::from_raw_fd(fd) }) }
        };
        Ok(Self { fd: NotInherited::create(open)? })
    }

    /// Makes the descriptor readable. Never blocks.
    pub fn signal(&self) {
        let one = 1_u64;
        // SAFETY: writes eight bytes from a live u64 to an owned descriptor. A full counter (EAGAIN) is readable anyway.
        unsafe { libc::write(self.fd.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Resets the counter: the descriptor is no longer readable.
    pub fn clear(&self) {
        let mut count = 0_u64;
        // SAFETY: reads eight bytes into a live u64. Nothing to read (EAGAIN) is fine.
        unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
