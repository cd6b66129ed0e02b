//! An eventfd: something that a selector, or a thread that must notice signals, can wait on.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::fork::CloseInChild;

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// Somebody signalled since the last [`EventFd::clear`].
    Signalled,
    /// The time was up.
    TimedOut,
    /// A Unix signal arrived: let its handler run, then wait again.
    Interrupted,
}

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

    /// Waits until readable. Does not clear.
    #[must_use]
    pub fn wait(&self, timeout: Option<Duration>) -> Waited {
        let mut poll = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let spec = timeout.map(|timeout| libc::timespec {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(timeout.subsec_nanos()),
        });
        let spec = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: one pollfd and an optional timespec, both alive for the call.
        match unsafe { libc::ppoll(&raw mut poll, 1, spec, std::ptr::null()) } {
            0 => Waited::TimedOut,
            n if n > 0 => Waited::Signalled,
            _ => Waited::Interrupted,
        }
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

    #[test]
    fn it_is_readable_from_signal_to_clear() {
        let event = EventFd::new().expect("a descriptor");
        assert_eq!(event.wait(Some(Duration::ZERO)), Waited::TimedOut);
        event.signal();
        assert_eq!(event.wait(None), Waited::Signalled);
        event.clear();
        assert_eq!(event.wait(Some(Duration::ZERO)), Waited::TimedOut);
    }
}
