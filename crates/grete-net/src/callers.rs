//! Selectors of a loop: that of the callers, in which a leader waits, and that of the network thread.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use grete_sys::EventFd;

use crate::epoll::{self, Epoll, EventBuffer, Interest, Token};
use crate::leadership::{Lead, Leadership};

/// Token of the eventfd that wakes a leader.
pub(crate) const NOTIFY: Token = Token(usize::MAX - 1);
/// Token of the [`Gate`] in the selector of the network thread.
pub(crate) const GATE: Token = Token(usize::MAX - 2);

/// Selector of the caller that leads, and the state of the lead; see the module `leadership`.
#[derive(Debug)]
pub(crate) struct CallersSelector {
    epoll: Epoll,
    wake: EventFd,
    leadership: Leadership<AtomicU32>,
    /// Unset: the network thread waits for the sockets in its own poll.
    gate: OnceLock<Gate>,
}

/// Selector between the sockets and that of the network thread. A leader closes the gate.
///
/// Without a gate the network thread is woken for bytes that arrive while the leader is awake: the kernel wakes the first
/// selector in which a thread waits. A broker writes a Fetch response in two pieces, and the second one arrives while
/// the leader wakes up for the first. With a gate that costs two system calls for each lead instead of a wake-up. What
/// is ready when the gate opens wakes the network thread then.
#[derive(Debug)]
pub(crate) struct Gate {
    sockets: Epoll,
    network: Arc<Epoll>,
}

impl Gate {
    fn set(&self, interest: Interest) {
        // Both descriptors are open and registered, so this cannot fail.
        let set = epoll::modify(self.network.as_raw_fd(), self.sockets.as_raw_fd(), GATE, interest);
        debug_assert!(set.is_ok(), "{set:?}");
    }

    /// Finds the sockets that are ready, without waiting.
    pub(crate) fn find_ready(&self, buffer: &mut EventBuffer) -> io::Result<()> {
        self.sockets.wait(buffer, Some(Duration::ZERO))
    }
}

/// Guard that opens the gate when its leader leaves, also by a panic.
pub(crate) struct ClosedGate<'a>(&'a Gate);

impl Drop for ClosedGate<'_> {
    fn drop(&mut self) {
        self.0.set(Interest::NESTED);
    }
}

impl CallersSelector {
    pub(crate) fn new() -> io::Result<Self> {
        let (epoll, wake) = (Epoll::new()?, EventFd::new()?);
        epoll::add(epoll.as_raw_fd(), wake.as_raw_fd(), NOTIFY, Interest::SIGNAL)?;
        Ok(Self { epoll, wake, leadership: Leadership::default(), gate: OnceLock::new() })
    }

    /// Puts a gate before the sockets. Call it before any socket is registered.
    pub(crate) fn build_gate(&self, network: Arc<Epoll>) -> io::Result<()> {
        let gate = Gate { sockets: Epoll::new()?, network };
        epoll::add(gate.network.as_raw_fd(), gate.sockets.as_raw_fd(), GATE, Interest::NESTED)?;
        let _ = self.gate.set(gate); // one gate is enough
        Ok(())
    }

    pub(crate) fn gate(&self) -> Option<&Gate> {
        self.gate.get()
    }

    /// Takes the lead. `None`: another caller leads.
    pub(crate) fn take_lead(&self) -> Option<Lead<'_, AtomicU32>> {
        self.leadership.take()
    }

    /// Closes the gate, if there is one, until the guard is dropped. For the leader.
    pub(crate) fn close_gate(&self) -> Option<ClosedGate<'_>> {
        let gate = self.gate.get()?;
        gate.set(Interest::NOTHING);
        Some(ClosedGate(gate))
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

/// The selectors with which sockets are registered.
pub(crate) struct Selectors {
    network: Arc<Epoll>,
    callers: Arc<CallersSelector>,
}

impl Selectors {
    pub(crate) fn new(network: Arc<Epoll>, callers: Arc<CallersSelector>) -> Self {
        Self { network, callers }
    }

    /// Returns the selector through which connected sockets wake the network thread.
    fn sockets(&self) -> RawFd {
        self.callers.gate().map_or(self.network.as_raw_fd(), |gate| gate.sockets.as_raw_fd())
    }

    /// Registers a socket that connects, before the gate: a leader does not wait for it.
    pub(crate) fn watch_connecting(&self, fd: RawFd, token: Token) -> io::Result<()> {
        epoll::add(self.network.as_raw_fd(), fd, token, Interest::CONNECT)
    }

    /// Registers a socket that is connected now.
    pub(crate) fn watch_connected(&self, fd: RawFd, token: Token) -> io::Result<()> {
        epoll::remove(self.network.as_raw_fd(), fd);
        self.register(fd, token, Interest::READ)
    }

    /// Begins or ends to report when a connected socket can be written. An exclusive registration cannot be modified, so
    /// the socket is registered again. What is ready then is reported again.
    pub(crate) fn watch_writable(&self, fd: RawFd, token: Token, wanted: bool) -> io::Result<()> {
        self.forget(fd);
        self.register(fd, token, if wanted { Interest::READ_AND_WRITE } else { Interest::READ })
    }

    /// Registers with the callers' selector first, so that the kernel wakes a leader first.
    fn register(&self, fd: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        epoll::add(self.callers.epoll.as_raw_fd(), fd, token, interest)?;
        epoll::add(self.sockets(), fd, token, interest)
    }

    /// Ends all registrations of a socket, before it is closed.
    pub(crate) fn forget(&self, fd: RawFd) {
        epoll::remove(self.sockets(), fd);
        epoll::remove(self.callers.epoll.as_raw_fd(), fd);
    }

    /// Ends the registration of a socket that has not connected.
    pub(crate) fn forget_connecting(&self, fd: RawFd) {
        epoll::remove(self.network.as_raw_fd(), fd);
    }
}
