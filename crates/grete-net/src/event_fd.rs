//! An eventfd: something that a selector can wait on.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::fork::CloseInChild;

/// A counter in the kernel that becomes readable when signalled.
#[derive(Debug)]
pub struct EventFd {
    _close_in_child: CloseInChild,
    fd: OwnedFd,
}

impl EventFd {
    /// A new one, not signalled.
    ///
    /// # Errors
    /// What the kernel says, descriptors exhausted for one.
    pub fn new() -> io::Result<Self> {
        // SAFETY: eventfd(2) takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just opened and nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { _close_in_child: CloseInChild::new(fd.as_raw_fd()), fd })
    }

    /// Makes it readable. Never blocks.
    pub fn signal(&self) {
        let one = 1_u64;
        // SAFETY: writes eight bytes from a live u64 to an owned descriptor. A full counter (EAGAIN) is readable anyway.
        unsafe { libc::write(self.fd.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Makes it unreadable again.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn is_readable(event: &EventFd) -> bool {
        let mut poll = libc::pollfd { fd: event.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live pollfd.
        unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
    }

    #[test]
    fn it_is_readable_from_signal_to_clear() {
        let event = EventFd::new().expect("a descriptor");
        assert!(!is_readable(&event));
        event.signal();
        assert!(is_readable(&event));
        event.clear();
        assert!(!is_readable(&event));
    }
}
