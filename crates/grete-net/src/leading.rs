//! Leading caller: a thread that waits for a response polls the sockets itself, and steps the protocol with what arrives.
//!
//! Without a leader, the network thread reads a response and wakes the caller: two context switches. A leader reads it
//! on its own thread while the network thread sleeps on. The modules `leadership` and `gate` walk through the races.

use std::fmt;
use std::io;
use std::time::Duration;

use grete_sys::WakeReason;

use crate::handle::{LoopHandle, SharedLoop, WakeOnPanic};
use crate::protocol::Protocol;
use crate::selectors::NOTIFY;
use crate::selectors::epoll::EventBuffer;

/// Loop of a client as its callers see it.
pub trait CallerLoop: fmt::Debug + Send + Sync {
    /// Same as [`LoopHandle::step_here`].
    fn step_here(&self) -> bool;

    /// Leads the loop on this thread until `is_over` returns true. `None`: another caller leads, many callers wait, or the
    /// loop has ended, so wait with [`CallerLoop::sleep_beside`]. The thread that completes what is awaited must end that
    /// wait, too.
    ///
    /// `is_over` is called after each step and after each [`notify_leader`](crate::Waker::notify_leader). It must not
    /// step the protocol. Must not be called in a forked child, or under a lock that the protocol takes.
    fn lead_until(&self, is_over: &dyn Fn() -> bool, timeout: Option<Duration>) -> Option<WakeReason>;

    /// Calls `sleep`, which returns once the thread that completes what is awaited ends it. Responses are read meanwhile,
    /// by the leader or by the network thread.
    fn sleep_beside(&self, sleep: &dyn Fn() -> WakeReason) -> WakeReason;

    /// Same as [`Waker::notify_leader`](crate::Waker::notify_leader).
    fn notify_leader(&self);
}

impl<P: Protocol + Send> CallerLoop for LoopHandle<P> {
    fn step_here(&self) -> bool {
        self.0.step_here()
    }

    fn lead_until(&self, is_over: &dyn Fn() -> bool, timeout: Option<Duration>) -> Option<WakeReason> {
        self.0.lead_until(is_over, timeout)
    }

    fn sleep_beside(&self, sleep: &dyn Fn() -> WakeReason) -> WakeReason {
        self.0.waker().callers.sleep_beside(sleep)
    }

    fn notify_leader(&self) {
        self.0.waker().notify_leader();
    }
}

impl<P: Protocol> SharedLoop<P> {
    fn lead_until(&self, is_over: &dyn Fn() -> bool, timeout: Option<Duration>) -> Option<WakeReason> {
        let callers = &self.waker().callers;
        let lead = callers.take_lead()?;
        let now = self.clock.now();
        let deadline = timeout.map(|timeout| now.saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)));
        // Left before another caller can lead, because the guard is dropped before that of the lead.
        let _gate = callers.take_gate(now, is_over(), &self.waker().network);
        let mut events = EventBuffer::new();
        while !is_over() {
            if !lead.fall_asleep() {
                continue;
            }
            let waited = callers.wait(&mut events, deadline.map(|deadline| self.clock.until(deadline)));
            lead.wake_up();
            match waited {
                Ok(()) if events.is_empty() && !is_over() => return Some(WakeReason::TimedOut),
                Ok(()) => self.handle_ready(&mut events, is_over)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Some(WakeReason::Interrupted),
                Err(_) => return None,
            }
        }
        Some(WakeReason::Woken)
    }

    /// Handles all sockets that a wait has reported. The network thread was not woken for them. `None`: the loop has
    /// ended, or a step has panicked.
    fn handle_ready(&self, events: &mut EventBuffer, is_over: &dyn Fn() -> bool) -> Option<()> {
        let mut partly_read = false;
        loop {
            let notified_only = events.iter().all(|event| event.token == NOTIFY);
            if !notified_only || partly_read {
                partly_read = self.step_with(events)?;
            }
            // More sockets may be ready than the buffer holds, and one socket may have more than its turn allowed.
            if !events.is_full() {
                if !partly_read {
                    return Some(());
                }
                if is_over() {
                    self.waker().wake();
                    return Some(());
                }
            }
            self.waker().callers.wait(events, Some(Duration::ZERO)).ok()?;
        }
    }

    /// Steps the protocol with the sockets of one wait, like a turn of the network thread. Returns whether a socket has
    /// more to read. `None`: the loop has ended, or a step has panicked.
    fn step_with(&self, events: &EventBuffer) -> Option<bool> {
        let _wake_on_panic = WakeOnPanic(self.waker());
        let mut guard = self.state.lock().ok()?;
        let state = guard.as_mut()?;
        state.handle_sockets(events.iter().filter(|event| event.token != NOTIFY));
        state.step_for_waiters(self.step_requested());
        let partly_read = state.has_partly_read();
        // The network thread keeps the timers.
        let wake = state.sleeps_past_deadline();
        drop(guard);
        if wake {
            self.waker().wake();
        }
        if self.is_step_requested() {
            self.step_here();
        }
        Some(partly_read)
    }
}
