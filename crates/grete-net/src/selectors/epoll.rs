//! Selectors of a loop, on epoll(7).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use grete_sys::NotInherited;

/// Name of a descriptor in the events of its selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) usize);

/// Whether the kernel has no epoll_pwait2(2) (Linux before 5.11), or a filter of system calls refuses it.
static COARSE_TIMEOUTS: AtomicBool = AtomicBool::new(false);

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
    pub(crate) token: Token,
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

    pub(crate) fn has(&self, token: Token) -> bool {
        self.iter().any(|event| event.token == token)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Readiness> {
        self.events.iter().take(self.len).map(|event| {
            let (bits, token) = (event.events, event.u64);
            let has = |flag: libc::c_int| bits & flag.cast_unsigned() != 0;
            let ended = has(libc::EPOLLHUP) || has(libc::EPOLLERR) || has(libc::EPOLLRDHUP);
            Readiness {
                token: Token(usize::try_from(token).unwrap_or(usize::MAX)),
                readable: has(libc::EPOLLIN) || ended,
                writable: has(libc::EPOLLOUT),
                ended,
            }
        })
    }
}

/// Set of registered descriptors in which a thread waits.
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
    /// `timeout` `None`: no limit. A kernel without epoll_pwait2(2) rounds `timeout` up to milliseconds.
    pub(crate) fn wait(&self, buffer: &mut EventBuffer, timeout: Option<Duration>) -> io::Result<()> {
        buffer.len = 0;
        let found = match self.wait_precisely(buffer, timeout) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                COARSE_TIMEOUTS.store(true, Ordering::Relaxed);
                self.wait_millis(buffer, timeout)?
            }
            found => found?,
        };
        buffer.len = found;
        Ok(())
    }

    fn wait_precisely(&self, buffer: &mut EventBuffer, timeout: Option<Duration>) -> io::Result<usize> {
        let Some(timeout) = timeout.filter(|timeout| !timeout.is_zero() && !COARSE_TIMEOUTS.load(Ordering::Relaxed))
        else {
            return self.wait_millis(buffer, timeout);
        };
        let timeout = libc::timespec {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(timeout.subsec_nanos()),
        };
        let no_mask = std::ptr::null::<libc::sigset_t>();
        let (fd, events) = (self.0.as_raw_fd(), buffer.events.as_mut_ptr());
        // SAFETY: the buffer has room for `CAPACITY` events; it and the timespec live for the call. Without a mask, the
        // kernel reads none, and its size does not count.
        let found = unsafe {
            libc::syscall(libc::SYS_epoll_pwait2, fd, events, EventBuffer::CAPACITY, &raw const timeout, no_mask, 0)
        };
        usize::try_from(found).map_err(|_| io::Error::last_os_error())
    }

    fn wait_millis(&self, buffer: &mut EventBuffer, timeout: Option<Duration>) -> io::Result<usize> {
        let millis = |timeout: Duration| {
            libc::c_int::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX)
        };
        let timeout = timeout.map_or(-1, millis);
        let capacity = libc::c_int::try_from(EventBuffer::CAPACITY).unwrap_or(1);
        // SAFETY: the buffer has room for `capacity` events and lives for the call.
        let found = unsafe { libc::epoll_wait(self.0.as_raw_fd(), buffer.events.as_mut_ptr(), capacity, timeout) };
        usize::try_from(found).map_err(|_| io::Error::last_os_error())
    }
}

impl AsRawFd for Epoll {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Registers `fd` with a selector. A descriptor that is ready already is reported at once.
pub(crate) fn add(selector: RawFd, fd: RawFd, token: Token, interest: Interest) -> io::Result<()> {
    control(selector, libc::EPOLL_CTL_ADD, fd, token, interest)
}

/// Changes the registration of `fd`, which must not be an exclusive one. What is ready already is reported at once.
pub(crate) fn modify(selector: RawFd, fd: RawFd, token: Token, interest: Interest) -> io::Result<()> {
    control(selector, libc::EPOLL_CTL_MOD, fd, token, interest)
}

fn control(selector: RawFd, operation: libc::c_int, fd: RawFd, token: Token, interest: Interest) -> io::Result<()> {
    let mut event = libc::epoll_event { events: interest.0.cast_unsigned(), u64: token.0 as u64 };
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
