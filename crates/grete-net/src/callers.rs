//! Selector of the callers: a caller that leads waits here, and other threads wake it.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use grete_sys::{EventFd, NotInherited};
use mio::{Registry, Token};

use crate::epoll::{self, Epoll, EventBuffer, Interest};
use crate::leadership::{Lead, Leadership};

/// Token of the eventfd that wakes a leader.
pub(crate) const NOTIFY: Token = Token(usize::MAX - 1);

/// Selector of the caller that leads, and the state of the lead; see the module `leadership`.
#[derive(Debug)]
pub(crate) struct CallersSelector {
    epoll: Epoll,
    wake: EventFd,
    leadership: Leadership<AtomicU32>,
}

impl CallersSelector {
    pub(crate) fn new() -> io::Result<Self> {
        let (epoll, wake) = (Epoll::new()?, EventFd::new()?);
        epoll::add(epoll.as_raw_fd(), wake.as_raw_fd(), NOTIFY.0, Interest::SIGNAL)?;
        Ok(Self { epoll, wake, leadership: Leadership::default() })
    }

    /// Takes the lead. `None`: another caller leads.
    pub(crate) fn take_lead(&self) -> Option<Lead<'_, AtomicU32>> {
        self.leadership.take()
    }

    /// Makes the leader check what it waits for, after a change. Costs no system call while no leader sleeps.
    pub(crate) fn notify(&self) {
        if self.leadership.notify() {
            self.wake.signal();
        }
    }

    pub(crate) fn wait(&self, buffer: &mut EventBuffer, timeout: Option<Duration>) -> io::Result<()> {
        self.epoll.wait(buffer, timeout)
    }
}

/// The two selectors with which sockets are registered.
pub(crate) struct Selectors {
    /// Separate descriptor of the network thread's poll. That thread waits on the poll meanwhile.
    network: NotInherited<Registry>,
    callers: Arc<CallersSelector>,
}

impl Selectors {
    pub(crate) fn new(network: NotInherited<Registry>, callers: Arc<CallersSelector>) -> Self {
        Self { network, callers }
    }

    /// Registers a socket that connects.
    pub(crate) fn watch_connecting(&self, fd: RawFd, token: Token) -> io::Result<()> {
        epoll::add(self.network.as_raw_fd(), fd, token.0, Interest::CONNECT)
    }

    /// Registers a socket that is connected now. The callers' selector is first, so that a leader is told first.
    pub(crate) fn watch_connected(&self, fd: RawFd, token: Token) -> io::Result<()> {
        epoll::remove(self.network.as_raw_fd(), fd);
        epoll::add(self.callers.epoll.as_raw_fd(), fd, token.0, Interest::READ)?;
        epoll::add(self.network.as_raw_fd(), fd, token.0, Interest::READ)
    }

    /// Begins or ends to tell the network thread when a connected socket can be written. An exclusive registration
    /// cannot be modified, so the socket is registered again; what is ready then is reported again.
    pub(crate) fn watch_writable(&self, fd: RawFd, token: Token, wanted: bool) -> io::Result<()> {
        let interest = if wanted { Interest::READ_AND_WRITE } else { Interest::READ };
        epoll::remove(self.network.as_raw_fd(), fd);
        epoll::add(self.network.as_raw_fd(), fd, token.0, interest)
    }

    /// Ends all registrations of a socket, before it is closed.
    pub(crate) fn forget(&self, fd: RawFd) {
        epoll::remove(self.network.as_raw_fd(), fd);
        epoll::remove(self.callers.epoll.as_raw_fd(), fd);
    }
}
