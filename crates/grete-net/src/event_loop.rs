//! The loop: waits for sockets, for the next deadline or for a wake-up, steps the protocol, performs what it asks for.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use grete_wire::slab::SlabPool;
use mio::{Events, Poll};

use crate::clock::Clock;
use crate::fork::CloseInChild;
use crate::protocol::{Protocol, Waker};
use crate::remote::{Remote, Shared};
use crate::resolver::Resolver;
use crate::state::{State, WAKE};

/// The poll of one client; sockets and protocol are shared with its [`Remote`]s.
pub struct EventLoop<P: Protocol> {
    _close_in_child: CloseInChild,
    poll: Poll,
    shared: Arc<Shared<P>>,
}

impl<P: Protocol> EventLoop<P> {
    /// Opens the poll; connects nowhere. `max_frame_bytes` bounds what one response may be.
    ///
    /// # Errors
    /// What the kernel says, descriptors exhausted for one.
    pub fn new(
        clock: Clock,
        slabs: SlabPool,
        max_frame_bytes: usize,
        protocol: impl FnOnce(Waker) -> P,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let close_in_child = CloseInChild::new(poll.as_raw_fd());
        let waker = Waker(Arc::new(mio::Waker::new(poll.registry(), WAKE)?));
        let registry = poll.registry().try_clone()?;
        let resolver = Resolver::new(waker.clone());
        let state = State::new(registry, resolver, clock, slabs, max_frame_bytes, protocol(waker.clone()));
        Ok(Self { _close_in_child: close_in_child, poll, shared: Arc::new(Shared::new(state, waker)) })
    }

    /// Lets the network thread never sleep longer than that in one go. Deadlines that callers set beyond it wake nobody: a
    /// request timeout per request would else be a wake-up per request.
    #[must_use]
    pub fn with_longest_sleep(self, longest: Duration) -> Self {
        if let Some(state) = self.shared.lock().as_mut() {
            state.set_longest_sleep(longest);
        }
        self
    }

    /// A handle for other threads.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.shared.waker().clone()
    }

    /// A handle for threads that step the protocol themselves.
    #[must_use]
    pub fn remote(&self) -> Remote<P> {
        Remote(Arc::clone(&self.shared))
    }

    /// Runs until the protocol has finished. Then, or on a panic, protocol and sockets are dropped.
    ///
    /// # Errors
    /// When the poll itself fails, which only a broken kernel or a stolen descriptor can cause.
    ///
    /// # Panics
    /// When the protocol does, here or on the thread of a [`Remote`].
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        // No events: the first turn is a tick.
        while let Some(sleep) = self.turn(&events) {
            // Without the lock, so that nobody's wish is left lying: see `remote`.
            let sleep = if self.shared.is_wanted() { Some(Duration::ZERO) } else { sleep };
            match self.poll.poll(&mut events, sleep) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {} // no events: a tick more
                other => other?,
            }
        }
        Ok(())
    }

    fn turn(&self, events: &Events) -> Option<Option<Duration>> {
        let mut guard = self.shared.lock();
        let state = guard.as_mut()?;
        state.turn(events, self.shared.wanted());
        state.sleep()
    }
}

impl<P: Protocol> Drop for EventLoop<P> {
    fn drop(&mut self) {
        self.shared.end();
    }
}
