//! The loop as other threads see it: they step the protocol themselves instead of asking the network thread to.
//!
//! A request of a caller who waits for its answer is written on the caller's own thread. The network thread sleeps on
//! meanwhile and wakes once, when the answer is there.
//!
//! # Who steps
//!
//! All state lives behind one lock. The network thread holds it while it handles events, never while it waits in the
//! poll. A caller never waits for the lock: whoever holds it steps for those who found it taken.
//!
//! - **The lock is free.** The caller steps and writes. Nobody else has to know, unless the network thread sleeps too long
//!   for the new deadline: it wrote down, under the lock, until when it would sleep. It may not be in the poll yet, or no
//!   longer: a wake-up that comes too early ends the poll as soon as it begins, and one too many costs a look round.
//! - **The lock is taken.** The caller sets `wanted`, then tries the lock. The holder unlocks, then looks at `wanted`. With a
//!   fence between each one's two steps, one of them sees what the other did: either the caller finds the lock free after
//!   all, or the holder finds the wish, and takes the lock again. (Should yet another thread have taken it by then, the wish
//!   has become that thread's to find.) So no wish is left lying while everybody sleeps.
//! - **The network thread is just about to sleep.** It looks at `wanted` after it has unlocked and before it polls, like any
//!   holder: a wish makes the poll return at once. After that look the lock is free, which is the first case.
//! - **The step connects.** Look-ups answer through the waker, and a socket can be registered while another thread waits in
//!   the poll, so a caller's thread can do all that. The deadline of the connect wakes the network thread if need be.
//! - **The step panics.** The lock is poisoned, and the network thread woken. It finds the poison and panics in its turn, so
//!   that its owner hears of it there, as of any fault on that thread. The caller's own panic goes its way.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread;

use crate::protocol::{Protocol, Waker};
use crate::state::{FAVOURS, State};

pub(crate) struct Shared<P> {
    /// `None` once the loop has ended.
    state: Mutex<Option<State<P>>>,
    /// Somebody wants a step, and has not done it (yet).
    wanted: AtomicBool,
    waker: Waker,
}

/// Wakes the network thread if this thread panics, for it has poisoned the lock. To be made before the lock is taken.
struct WakeOnPanic<'a>(&'a Waker);

impl Drop for WakeOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.wake();
        }
    }
}

impl<P: Protocol> Shared<P> {
    pub(crate) fn new(state: State<P>, waker: Waker) -> Self {
        Self { state: Mutex::new(Some(state)), wanted: AtomicBool::new(false), waker }
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    pub(crate) fn wanted(&self) -> &AtomicBool {
        &self.wanted
    }

    /// For the network thread, which is to hear of another thread's panic.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<State<P>>> {
        self.state.lock().unwrap_or_else(|_| panic!("a step on another thread has panicked; stderr says where"))
    }

    /// Whether somebody found the lock taken. To be called without it: see the module.
    pub(crate) fn is_wanted(&self) -> bool {
        fence(Ordering::SeqCst);
        self.wanted.load(Ordering::SeqCst)
    }

    /// Drops protocol and sockets: nothing is stepped any more.
    pub(crate) fn end(&self) {
        let state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        drop(state);
    }

    fn step_here(&self) -> bool {
        self.wanted.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let _told = WakeOnPanic(&self.waker);
        let mut done = false;
        for _ in 0..FAVOURS {
            let mut guard = match self.state.try_lock() {
                Ok(guard) => guard,
                // The holder has the wish. Behind poison or an end nobody has wishes.
                Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => return done,
            };
            let Some(state) = guard.as_mut() else { return done };
            state.do_favours(&self.wanted);
            let wake = state.oversleeps();
            drop(guard);
            done = true;
            if wake {
                self.waker.wake();
            }
            if !self.is_wanted() {
                return done;
            }
        }
        // Others keep coming. The network thread goes on for them: this thread has its own work.
        self.waker.wake();
        done
    }
}

/// Steps the loop's protocol from any thread. In a forked child it must not be used: its sockets are the parent's.
pub struct Remote<P>(pub(crate) Arc<Shared<P>>);

impl<P: Protocol> Remote<P> {
    /// Steps the protocol with `Tick` on this thread if no other thread is at it: what it writes is with the kernel when
    /// this returns true, as far as the kernel took it. Otherwise the thread that is at it does the same before it rests.
    pub fn step_here(&self) -> bool {
        self.0.step_here()
    }

    /// Lets the network thread step with `Tick` soon.
    pub fn wake(&self) {
        self.0.waker.wake();
    }
}

impl<P> Clone for Remote<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P> fmt::Debug for Remote<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Remote")
    }
}
