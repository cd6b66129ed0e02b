//! epoll(7) calls that mio does not offer: registrations that wake one of two selectors, and a second selector.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use grete_sys::NotInherited;

/// Kinds of readiness to report, as bits of epoll(7).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interest(libc::c_int);

impl Interest {
    /// Reports the result of connect(2). No thread but the network thread waits for it.
    pub(crate) const CONNECT: Self = Self(libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET);
    /// Reports bytes to read, level-triggered. Of several selectors, the kernel wakes the first one in which a thread waits.
    pub(crate) const READ: Self = Self(libc::EPOLLIN | libc::EPOLLEXCLUSIVE);
    /// Reports room to write, too.
    pub(crate) const READ_AND_WRITE: Self = Self(libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLEXCLUSIVE);
    /// Reports that a nested selector has something to report.
    pub(crate) const NESTED: Self = Self(libc::EPOLLIN);
    /// Reports nothing.
    pub(crate) const NOTHING: Self = Self(0);
    /// Reports each signal of an eventfd once, without a read in between.
    pub(crate) const SIGNAL: Self = Self(libc::EPOLLIN | libc::EPOLLET);
}

/// Readiness of one descriptor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Readiness {
    pub(crate) token: usize,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The stream has ended or failed.
    pub(crate) ended: bool,
}

/// Buffer for the events of one wait.
pub(crate) struct EventBuffer {
    events: [libc::epoll_event; Self::CAPACITY],
    len: usize,
}

impl EventBuffer {
    const CAPACITY: usize = 32;

    pub(crate) fn new() -> Self {
        Self { events: [libc::epoll_event { events: 0, u64: 0 }; Self::CAPACITY], len: 0 }
    }

    /// Returns whether more descriptors may be ready than the buffer holds.
    pub(crate) fn is_full(&self) -> bool {
        self.len == Self::CAPACITY
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Readiness> {
        self.events.iter().take(self.len).map(|event| {
            let (bits, token) = (event.events, event.u64);
            let has = |flag: libc::c_int| bits & flag.cast_unsigned() != 0;
            let ended = has(libc::EPOLLHUP) || has(libc::EPOLLERR);
            Readiness {
                token: usize::try_from(token).unwrap_or(usize::MAX),
                readable: has(libc::EPOLLIN) || ended,
                writable: has(libc::EPOLLOUT),
                ended,
            }
        })
    }
}

/// Selector of its own, beside that of the network thread.
#[derive(Debug)]
pub(crate) struct Epoll(NotInherited<OwnedFd>);

impl Epoll {
    pub(crate) fn new() -> io::Result<Self> {
        let open = || {
            // SAFETY: epoll_create1(2) takes no pointers.
            let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
            // SAFETY: `fd` was just opened and has no other owner.
            if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(unsafe { OwnedFd::from_raw_fd(fd) }) }
        };
        Ok(Self(NotInherited::create(open)?))
    }

    /// Waits until a descriptor is ready, a Unix signal arrives (`Interrupted`) or the time is up (an empty buffer).
    /// `timeout` is rounded up to milliseconds; `None`: no limit.
    pub(crate) fn wait(&self, buffer: &mut EventBuffer, timeout: Option<Duration>) -> io::Result<()> {
        let millis = |timeout: Duration| {
            libc::c_int::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX)
        };
        let timeout = timeout.map_or(-1, millis);
        let capacity = libc::c_int::try_from(EventBuffer::CAPACITY).unwrap_or(1);
        buffer.len = 0;
        // SAFETY: the buffer has room for `capacity` events and lives for the call.
        let found = unsafe { libc::epoll_wait(self.0.as_raw_fd(), buffer.events.as_mut_ptr(), capacity, timeout) };
        buffer.len = usize::try_from(found).map_err(|_| io::Error::last_os_error())?;
        Ok(())
    }
}

impl AsRawFd for Epoll {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Registers `fd` with a selector. A descriptor that is ready already is reported at once.
pub(crate) fn add(selector: RawFd, fd: RawFd, token: usize, interest: Interest) -> io::Result<()> {
    control(selector, libc::EPOLL_CTL_ADD, fd, token, interest)
}

/// Changes the registration of `fd`, which must not be an exclusive one. What is ready already is reported at once.
pub(crate) fn modify(selector: RawFd, fd: RawFd, token: usize, interest: Interest) -> io::Result<()> {
    control(selector, libc::EPOLL_CTL_MOD, fd, token, interest)
}

fn control(selector: RawFd, operation: libc::c_int, fd: RawFd, token: usize, interest: Interest) -> io::Result<()> {
    let mut event = libc::epoll_event { events: interest.0.cast_unsigned(), u64: token as u64 };
    // SAFETY: the event lives for the call; the kernel copies it.
    match unsafe { libc::epoll_ctl(selector, operation, fd, &raw mut event) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends the registration of `fd` with a selector. A descriptor without a registration is no error.
pub(crate) fn remove(selector: RawFd, fd: RawFd) {
    // SAFETY: EPOLL_CTL_DEL reads nothing through the pointer.
    unsafe { libc::epoll_ctl(selector, libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use std::os::unix::thread::JoinHandleExt;
    use std::thread;

    use super::*;

    #[test]
    fn a_signal_interrupts_the_wait() {
        extern "C" fn nothing(_: libc::c_int) {}
        // SAFETY: installs a handler that does nothing, without SA_RESTART, for a signal that nothing else uses here.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as usize;
            assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
        }
        let epoll = Epoll::new().expect("a descriptor");
        let sleeper = thread::spawn(move || epoll.wait(&mut EventBuffer::new(), None));
        // A signal that arrives before the wait interrupts nothing, so it is sent until the wait has ended.
        while !sleeper.is_finished() {
            // SAFETY: the thread is joined below, so its id is valid until then.
            unsafe { libc::pthread_kill(sleeper.as_pthread_t(), libc::SIGUSR1) };
            thread::yield_now();
        }
        let error = sleeper.join().expect("no panic").expect_err("it was interrupted");
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }
}
