//! Loop handle for other threads: a caller steps the protocol itself instead of asking the network thread to.
//!
//! A caller that waits for a response writes its request on its own thread, and then leads (see the module `leading`) or
//! sleeps. The network thread sleeps meanwhile, and wakes for what arrives while no caller leads.
//!
//! # Which thread steps
//!
//! One lock guards all state. The network thread holds the lock while it handles events, never while it waits in the
//! poll. A caller that steps never waits for the lock: the thread that holds it also steps for callers that found it
//! taken. A leader waits for the lock, because it has sockets to handle for which no other thread was woken.
//!
//! - **The lock is free.** The caller steps and writes. No other thread needs to know, unless the network thread sleeps
//!   past the new deadline. The network thread has recorded, under the lock, until when it will sleep. It may not be in
//!   the poll yet, or may have left the poll already. A wake-up that comes too early ends the poll as soon as it
//!   begins, and a superfluous wake-up costs one extra turn of the loop.
//! - **The lock is taken.** The caller sets `step_requested`, then tries the lock. The holder unlocks, then reads
//!   `step_requested`. Each thread has a fence between its two steps, so one of them sees the other's. Either the
//!   caller finds the lock free after all, or the holder finds the request and takes the lock again. (If a third thread
//!   has taken the lock by then, that thread finds the request.) So no request is left while all threads sleep.
//! - **The network thread is about to sleep.** Like any holder, it reads `step_requested` after it has unlocked and
//!   before it polls. A request makes the poll return at once. After that read the lock is free, which is the first
//!   case.
//! - **The step connects.** DNS lookups answer through the waker, and a socket can be registered while another thread
//!   waits in the poll. So a caller's thread can connect. If necessary, the deadline of the connect wakes the network
//!   thread.
//! - **The step panics.** The lock is poisoned, and the network thread is woken. The network thread finds the poisoned
//!   lock and panics too, so its owner handles the panic like any fault of that thread. The panic of the caller
//!   propagates to the caller.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread;

use crate::clock::Clock;
use crate::loop_state::{LoopState, MAX_ASSISTED_STEPS};
use crate::protocol::{Protocol, Waker};

pub(crate) struct SharedLoop<P> {
    /// `None` once the loop has ended.
    pub(crate) state: Mutex<Option<LoopState<P>>>,
    /// A caller has requested a step that no thread has done yet.
    step_requested: AtomicBool,
    waker: Waker,
    pub(crate) clock: Clock,
}

/// Wakes the network thread if this thread panics, which poisons the lock. Create it before taking the lock.
pub(crate) struct WakeOnPanic<'a>(pub(crate) &'a Waker);

impl Drop for WakeOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.wake();
        }
    }
}

impl<P: Protocol> SharedLoop<P> {
    pub(crate) fn new(state: LoopState<P>, waker: Waker, clock: Clock) -> Self {
        Self { state: Mutex::new(Some(state)), step_requested: AtomicBool::new(false), waker, clock }
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    pub(crate) fn step_requested(&self) -> &AtomicBool {
        &self.step_requested
    }

    /// Locks the state for the network thread. Panics if a step on another thread has panicked.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<LoopState<P>>> {
        self.state.lock().unwrap_or_else(|_| panic!("a step on another thread has panicked; stderr says where"))
    }

    /// Returns whether a caller found the lock taken. Call it without holding the lock: see the module.
    pub(crate) fn is_step_requested(&self) -> bool {
        fence(Ordering::SeqCst);
        self.step_requested.load(Ordering::SeqCst)
    }

    /// Drops protocol and sockets: nothing is stepped any more.
    pub(crate) fn shut_down(&self) {
        let state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        drop(state);
    }

    pub(crate) fn step_here(&self) -> bool {
        self.step_requested.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let _wake_on_panic = WakeOnPanic(&self.waker);
        let mut done = false;
        for _ in 0..MAX_ASSISTED_STEPS {
            let mut guard = match self.state.try_lock() {
                Ok(guard) => guard,
                // The holder serves the request. A poisoned lock or an ended loop serves none.
                Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => return done,
            };
            let Some(state) = guard.as_mut() else { return done };
            state.step_for_waiters(&self.step_requested);
            let wake = state.sleeps_past_deadline();
            drop(guard);
            done = true;
            if wake {
                self.waker.wake();
            }
            if !self.is_step_requested() {
                return done;
            }
        }
        // Other callers keep requesting. The network thread continues for them, because this thread has its own work.
        self.waker.wake();
        done
    }
}

/// Steps the protocol of a loop from any thread. Must not be used in a forked child, because the sockets are the
/// parent's.
pub struct LoopHandle<P>(pub(crate) Arc<SharedLoop<P>>);

impl<P: Protocol> LoopHandle<P> {
    /// Steps the protocol with `Tick` on this thread, unless another thread holds the lock. Returns true if this thread
    /// stepped: everything written is then in the kernel, as far as the kernel accepted it. On false, the thread that
    /// holds the lock does the same before it sleeps.
    pub fn step_here(&self) -> bool {
        self.0.step_here()
    }

    /// Makes the network thread step with `Tick` soon.
    pub fn wake(&self) {
        self.0.waker.wake();
    }
}

impl<P> Clone for LoopHandle<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P> fmt::Debug for LoopHandle<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoopHandle")
    }
}
