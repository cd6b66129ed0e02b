//! Sleeps of threads that wait for a job or a deadline, and their wake-ups.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use grete_proto::dispatch::{ClientId, Pool};
use grete_proto::time::Nanos;
use grete_sys::WakeReason;

use super::Dispatcher;
use super::state::State;
use super::waiters::{Sleep, WakeList};
use crate::dispatcher::lane_events;
use crate::dispatcher::worker_context::WorkerContext;

impl State {
    /// Returns the threads to wake for ready lanes.
    fn wake_list_for_jobs(&mut self) -> WakeList {
        let ready = |pool: &Pool| self.dispatch.has_ready(*pool);
        let poller = (self.interruptible_waiters > 0 || self.poll_armed) && ready(&Pool::Threads);
        WakeList { threads: self.waiters.next_to_wake_each(Pool::ALL.into_iter().filter(ready)), interruptible: poller }
    }

    /// Returns the threads to wake for ready lanes, or for a deadline that no thread keeps. A thread that is already
    /// waking up will also check the deadline.
    fn wake_list(&mut self) -> WakeList {
        let mut wakes = self.wake_list_for_jobs();
        if !self.waiters.is_wake_pending() && self.unheld_deadline().is_some() {
            wakes.threads[0] = self.waiters.next_for_deadline();
        }
        wakes
    }

    /// Returns the dispatcher's next deadline, unless a waiter or a network thread wakes up for it or before it.
    fn unheld_deadline(&self) -> Option<Nanos> {
        let kept =
            self.clients.iter().filter_map(|client| client.held_deadline).chain(self.waiters.held_deadline()).min();
        self.dispatch.next_deadline().filter(|due| kept.is_none_or(|kept| kept > *due))
    }

    /// Assigns the deadline that no other thread keeps to the client's network thread, and returns it.
    pub(crate) fn hold_deadline(&mut self, client: ClientId) -> Option<Nanos> {
        self.client_mut(client)?.held_deadline = None;
        let due = self.unheld_deadline();
        self.client_mut(client)?.held_deadline = due;
        due
    }
}

impl Dispatcher {
    /// Releases the lock and wakes the threads that have work. Every thread that has changed the state releases the
    /// lock this way.
    pub(crate) fn unlock_and_wake(&self, mut state: MutexGuard<'_, State>) {
        let wakes = state.wake_list();
        self.wake(state, wakes);
    }

    /// Like [`Dispatcher::unlock_and_wake`] for a network thread, which keeps the deadlines itself.
    pub(crate) fn unlock_and_wake_for_jobs(&self, mut state: MutexGuard<'_, State>) {
        let wakes = state.wake_list_for_jobs();
        self.wake(state, wakes);
    }

    /// Wakes the threads without the lock, because a thread woken under the lock would block on it.
    fn wake(&self, mut state: MutexGuard<'_, State>, wakes: WakeList) {
        let settling = state.settling_waiters > 0;
        let polling = wakes.interruptible && std::mem::take(&mut state.poll_armed);
        drop(state);
        if settling {
            self.inner.settling_futex.wake();
        }
        if wakes.interruptible {
            self.wake_interruptible();
        }
        if polling {
            self.inner.poll_fd.signal();
        }
        self.end_sleeps(wakes.threads.into_iter().flatten());
    }

    /// Runs the timers on a client's network thread: reports jobs that run for too long and advances lanes whose
    /// deadline has passed. Returns the time of the next call.
    pub(crate) fn run_timers(&self, now: Nanos, client: ClientId) -> Option<Nanos> {
        let mut state = self.lock();
        state.dispatch.set_wall_clock_offset(self.wall_clock_offset_ms(now));
        state.dispatch.advance(now);
        let (blocked, look) = self.monitor_event_loop(now, &state);
        let stalls = state.dispatch.take_stalled_jobs(now, client);
        let lanes = state.hold_deadline(client);
        let stall = state.dispatch.next_stall_check(client);
        self.unlock_and_wake(state);
        self.emit(stalls.iter().map(|stall| lane_events::stalled(stall, blocked)).collect());
        [lanes, stall, look].into_iter().flatten().min()
    }

    /// Sleeps until woken. The worker is in the list before the lock is released. A thread that changes the state
    /// checks the list under the lock afterwards. An `unpark` before the `park` makes the `park` return at once. So no
    /// wake-up is lost. Spurious wake-ups are harmless, because the caller checks again.
    ///
    /// One idle worker leads the client's loop meanwhile, if the dispatcher has one client: it reads the next response
    /// itself. Its flag is cleared under the lock, before the worker is in the list. A thread that sets the flag has
    /// found the worker in the list; it does so after it has released the lock, so it may be late and end the next sleep
    /// instead. A worker that cannot lead, because another caller does, is parked, and no other worker tries meanwhile.
    pub(super) fn park<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        worker: &WorkerContext,
        now: Nanos,
        deadline: Option<Nanos>,
    ) -> (MutexGuard<'a, State>, WakeReason) {
        let led = self.inner.caller_loop.get().filter(|_| state.clients.len() == 1 && !state.worker_leads);
        if led.is_some() {
            state.worker_leads = true;
            worker.lead_over.store(false, Ordering::Release);
        }
        let id = state.waiters.add(worker.pool, worker.number, led.map(|_| Arc::clone(&worker.lead_over)));
        let mut until = deadline;
        if let Some(due) = state.unheld_deadline() {
            state.waiters.hold_deadline(id, due);
            until = Some(until.map_or(due, |until| until.min(due)));
        }
        // This thread may have made lanes ready that belong to another pool. For example, it woke up for a deadline,
        // and the lane belongs to an event loop. (Its own pool has no ready lane: this thread has just found none.)
        let State { dispatch, waiters: sleepers, .. } = &mut *state;
        let others = Pool::ALL.into_iter().filter(|pool| *pool != worker.pool && dispatch.has_ready(*pool));
        let wakes = WakeList { threads: sleepers.next_to_wake_each(others), interruptible: false };
        self.wake(state, wakes);
        let left = until.map(|until| Duration::from_nanos(until.saturating_sub(now)));
        let is_over = || worker.lead_over.load(Ordering::Acquire);
        match led.and_then(|event_loop| event_loop.lead_until(&is_over, left)) {
            // The thread that set the flag unparks, too.
            Some(_) if is_over() => std::thread::park_timeout(Duration::ZERO),
            Some(_) => {}
            None => match left {
                Some(left) => std::thread::park_timeout(left),
                None => std::thread::park(),
            },
        }
        let mut state = self.lock();
        state.waiters.remove(id);
        if led.is_some() {
            state.worker_leads = false;
        }
        (state, WakeReason::Woken)
    }

    /// Ends sleeps, without the lock.
    pub(super) fn end_sleeps(&self, sleeps: impl IntoIterator<Item = Sleep>) {
        let event_loop = self.inner.caller_loop.get().map(|event_loop| &**event_loop);
        sleeps.into_iter().for_each(|sleep| sleep.end(event_loop));
    }

    /// Leads the client's loop until woken, or sleeps while another caller leads; or until a Unix signal or a log event
    /// arrives. The count is read under the lock. A later change under the lock is followed by a wake-up that changes the
    /// count, so the sleep does not begin.
    pub(super) fn wait_interruptibly<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        now: Nanos,
        deadline: Option<Nanos>,
    ) -> (MutexGuard<'a, State>, WakeReason) {
        let due = state.dispatch.next_deadline();
        let until = [deadline, due].into_iter().flatten().min();
        state.interruptible_waiters += 1;
        let seen = self.inner.interruptible_futex.count();
        drop(state);
        let left = until.map(|until| Duration::from_nanos(until.saturating_sub(now)));
        let reason = match self.inner.log_events.has_pending() {
            true => WakeReason::Interrupted,
            false => self.await_interruptible(seen, left),
        };
        let mut state = self.lock();
        state.interruptible_waiters -= 1;
        (state, reason)
    }

    fn await_interruptible(&self, seen: u32, timeout: Option<Duration>) -> WakeReason {
        let futex = &self.inner.interruptible_futex;
        let changed = || futex.count() != seen;
        let sleep = || futex.wait(seen, timeout);
        let Some(event_loop) = self.inner.caller_loop.get() else { return sleep() };
        event_loop.lead_until(&changed, timeout).unwrap_or_else(|| event_loop.sleep_beside(&sleep))
    }

    fn wake_interruptible(&self) {
        self.inner.interruptible_futex.wake();
        if let Some(event_loop) = self.inner.caller_loop.get().filter(|_| self.is_polled()) {
            event_loop.notify_leader();
        }
    }

    /// Wakes the threads and the event loop that poll.
    pub(super) fn wake_pollers(&self) {
        self.wake_interruptible();
        self.inner.poll_fd.signal();
    }

    pub(super) fn wake_all(&self) {
        // Under the lock, so that no worker is between its check and its sleep.
        let sleeps = self.lock().waiters.all();
        self.end_sleeps(sleeps);
        self.wake_pollers();
        self.wake_settling();
    }
}
