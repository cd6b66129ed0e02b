//! Event loop: waits for sockets, the next deadline or a wake-up, steps the protocol, and performs its actions.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use grete_wire::buffer_pool::BufferPool;

use crate::clock::Clock;
use crate::handle::{LoopHandle, SharedLoop};
use crate::kerberos;
use crate::loop_state::{LoopState, WAKE};
use crate::protocol::{Protocol, Waker};
use crate::resolver::Resolver;
use crate::selectors::epoll::{self, Epoll, EventBuffer, Interest};
use crate::selectors::{GATE, GateUse, Selectors, Watch};
use crate::tls::TlsContext;

/// Event loop of one client. The sockets and the protocol are shared with its [`LoopHandle`]s.
pub struct EventLoop<P: Protocol> {
    selector: Arc<Epoll>,
    shared: Arc<SharedLoop<P>>,
}

impl<P: Protocol> EventLoop<P> {
    /// Opens the selectors without connecting. `max_frame_bytes` limits the size of a response, in bytes.
    ///
    /// # Errors
    /// The error of the system call, for example when descriptors are exhausted.
    pub fn new(
        clock: Clock,
        slabs: BufferPool,
        max_frame_bytes: usize,
        protocol: impl FnOnce(Waker) -> P,
    ) -> io::Result<Self> {
        let selector = Arc::new(Epoll::new()?);
        let waker = Waker::new()?;
        epoll::add(selector.as_raw_fd(), waker.network.as_raw_fd(), WAKE, Interest::SIGNAL)?;
        let resolver = Resolver::new(waker.clone());
        let kerberos = kerberos::worker(waker.clone());
        let selectors = Selectors::new(Arc::clone(&selector), Arc::clone(&waker.callers));
        let state =
            LoopState::new(selectors, resolver, kerberos, clock, slabs, max_frame_bytes, protocol(waker.clone()));
        Ok(Self { selector, shared: Arc::new(SharedLoop::new(state, waker, clock)) })
    }

    /// Encrypts all connections. `None`: connections are not encrypted.
    #[must_use]
    pub fn with_tls(self, tls: Option<TlsContext>) -> Self {
        if let Some(state) = self.shared.lock().as_mut() {
            state.set_tls(tls);
        }
        self
    }

    /// Limits each sleep of the network thread to `longest`. A caller's deadline beyond this limit does not wake the
    /// network thread. Otherwise each request would cost a wake-up for its request timeout.
    #[must_use]
    pub fn with_max_sleep(self, longest: Duration) -> Self {
        if let Some(state) = self.shared.lock().as_mut() {
            state.set_max_sleep(longest);
        }
        self
    }

    /// Spares the network thread wake-ups for responses that arrive while a caller leads, or just before. What arrives
    /// soon after a lead, while no caller leads, may wait for 10 ms.
    ///
    /// # Errors
    /// The error of the system call, for example when descriptors are exhausted.
    pub fn with_gate(self, gate_use: GateUse) -> io::Result<Self> {
        self.shared.waker().callers.build_gate(Arc::clone(&self.selector), gate_use)?;
        Ok(self)
    }

    /// Returns a handle with which other threads wake the network thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.shared.waker().clone()
    }

    /// Returns a handle for threads that step the protocol themselves.
    #[must_use]
    pub fn handle(&self) -> LoopHandle<P> {
        LoopHandle(Arc::clone(&self.shared))
    }

    /// Runs until the protocol has finished. After that, or on a panic, the protocol and its sockets are dropped.
    ///
    /// # Errors
    /// Fails if the wait itself fails, which only a broken kernel or a stolen descriptor can cause.
    ///
    /// # Panics
    /// Panics if the protocol panics, here or on the thread of a [`LoopHandle`].
    pub fn run(self) -> io::Result<()> {
        let (mut events, mut behind_gate, mut watch) = (EventBuffer::new(), EventBuffer::new(), Watch::default());
        // There are no events yet, so the first turn is a tick.
        while let Some(sleep) = self.handle_events(&events, &behind_gate) {
            // Checked without the lock, so that no step request is left unserved: see the module `handle`.
            let sleep = if self.shared.is_step_requested() { Some(Duration::ZERO) } else { sleep };
            match self.wait(&mut events, sleep, &mut watch) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {} // no events: one more tick
                other => other?,
            }
            behind_gate.clear();
            if let Some(gate) = self.shared.waker().callers.gate().filter(|_| events.has(GATE)) {
                gate.find_ready(&mut behind_gate)?;
            }
        }
        Ok(())
    }

    /// Waits for events, or for `sleep`. Watches the gate meanwhile, without a step.
    fn wait(&self, events: &mut EventBuffer, sleep: Option<Duration>, watch: &mut Watch) -> io::Result<()> {
        let Some(gate) = self.shared.waker().callers.gate() else { return self.selector.wait(events, sleep) };
        let clock = self.shared.clock;
        let start = clock.now();
        loop {
            let now = clock.now();
            let left = sleep.map(|sleep| sleep.saturating_sub(Duration::from_nanos(now.saturating_sub(start))));
            let limit = gate.watch(watch, now);
            self.selector.wait(events, [left, limit].into_iter().flatten().min())?;
            if !events.is_empty() || limit.is_none_or(|limit| left.is_some_and(|left| left <= limit)) {
                return Ok(());
            }
        }
    }

    fn handle_events(&self, events: &EventBuffer, behind_gate: &EventBuffer) -> Option<Option<Duration>> {
        let mut guard = self.shared.lock();
        let state = guard.as_mut()?;
        state.handle_events(events, behind_gate, self.shared.step_requested());
        state.next_sleep()
    }
}

impl<P: Protocol> Drop for EventLoop<P> {
    fn drop(&mut self) {
        self.shared.shut_down();
    }
}
