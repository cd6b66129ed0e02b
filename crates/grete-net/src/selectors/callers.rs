//! Selectors of a loop: that of the callers, in which a leader waits, and that of the network thread.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use grete_proto::time::Nanos;
use grete_sys::EventFd;

use super::crowd::Crowd;
use super::epoll::{self, Epoll, EventBuffer, Interest, Token};
use super::gate::{Gate, GateUse, LedGate};
use super::leadership::{Lead, Leadership};

/// Token of the eventfd that wakes a leader.
pub(crate) const NOTIFY: Token = Token(usize::MAX - 1);

/// Selector of the caller that leads, and the state of the lead; see the module `leadership`.
#[derive(Debug)]
pub(crate) struct CallersSelector {
    epoll: Epoll,
    wake: EventFd,
    leadership: Leadership<AtomicU32>,
    crowd: Crowd,
    /// Unset: the network thread waits for the sockets in its own selector.
    gate: OnceLock<Gate>,
}

impl CallersSelector {
    pub(crate) fn new() -> io::Result<Self> {
        let (epoll, wake) = (Epoll::new()?, EventFd::new()?);
        epoll::add(epoll.as_raw_fd(), wake.as_raw_fd(), NOTIFY, Interest::SIGNAL)?;
        Ok(Self { epoll, wake, leadership: Leadership::default(), crowd: Crowd::default(), gate: OnceLock::new() })
    }

    /// Puts a gate before the sockets. Call it before any socket is registered.
    pub(crate) fn build_gate(&self, network: Arc<Epoll>, gate_use: GateUse) -> io::Result<()> {
        let _ = self.gate.set(Gate::new(network, gate_use)?); // one gate is enough
        Ok(())
    }

    pub(crate) fn gate(&self) -> Option<&Gate> {
        self.gate.get()
    }

    /// Takes the lead. `None`: another caller leads, or many wait.
    pub(crate) fn take_lead(&self) -> Option<Lead<'_, AtomicU32>> {
        if self.crowd.may_lead() { self.leadership.take() } else { None }
    }

    /// Keeps the network thread asleep for the leader, until the guard is dropped; see [`Gate::take`].
    pub(crate) fn take_gate<'a>(&'a self, now: Nanos, is_over: bool, waker: &'a EventFd) -> Option<LedGate<'a>> {
        self.gate.get()?.take(now, is_over, &self.crowd, waker)
    }

    /// Calls `sleep` for a caller that does not lead.
    pub(crate) fn sleep_beside<T>(&self, sleep: impl FnOnce() -> T) -> T {
        self.crowd.begin_sleep();
        if let Some(gate) = self.gate.get() {
            gate.follow();
        }
        let result = sleep();
        self.crowd.end_sleep();
        result
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
