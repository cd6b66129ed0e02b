//! How threads sleep until there is work or a deadline has come, and how they are woken.

use std::sync::MutexGuard;
use std::time::Duration;

use grete_core::dispatch::{ClientId, Pool};
use grete_core::time::Nanos;
use grete_net::Waited;

use super::sleepers::Wakes;
use super::{Dispatcher, State};
use crate::remarks;
use crate::worker::Worker;

impl State {
    /// Who has to get up for what is ready.
    fn wakes_for_jobs(&mut self) -> Wakes {
        let ready = |pool: &Pool| self.dispatch.has_ready(*pool);
        let poller = self.polling > 0 && ready(&Pool::Threads);
        Wakes { threads: self.sleepers.rouse_all(Pool::ALL.into_iter().filter(ready)), poller }
    }

    /// Who has to get up for what is ready, or for a deadline that nobody keeps. Whoever is on the way already looks after
    /// that, too.
    fn wakes(&mut self) -> Wakes {
        let mut wakes = self.wakes_for_jobs();
        if !self.sleepers.is_one_rising() && self.unkept_deadline().is_some() {
            wakes.threads[0] = self.sleepers.rouse_for_time();
        }
        wakes
    }

    /// The dispatcher's next deadline, unless a sleeper or a network thread gets up for it or before it.
    fn unkept_deadline(&self) -> Option<Nanos> {
        let kept = self.clients.iter().filter_map(|client| client.keeps).chain(self.sleepers.kept()).min();
        self.dispatch.next_deadline().filter(|due| kept.is_none_or(|kept| kept > *due))
    }

    /// A client's network thread takes on the deadline that nobody else keeps. Returns it.
    pub(crate) fn keep_time(&mut self, client: ClientId) -> Option<Nanos> {
        self.client_mut(client)?.keeps = None;
        let due = self.unkept_deadline();
        self.client_mut(client)?.keeps = due;
        due
    }
}

impl Dispatcher {
    /// Gives the lock back and wakes whoever has to get up. So does everybody who has changed something.
    pub(crate) fn unlock(&self, mut state: MutexGuard<'_, State>) {
        let wakes = state.wakes();
        self.wake(state, wakes);
    }

    /// The same for a network thread, which is going to keep the time itself.
    pub(crate) fn unlock_for_jobs(&self, mut state: MutexGuard<'_, State>) {
        let wakes = state.wakes_for_jobs();
        self.wake(state, wakes);
    }

    /// Without the lock: a thread that is woken under it runs into it.
    fn wake(&self, state: MutexGuard<'_, State>, wakes: Wakes) {
        drop(state);
        if wakes.poller {
            self.shared.poller.wake();
        }
        wakes.threads.into_iter().flatten().for_each(|thread| thread.unpark());
    }

    /// For a client's network thread: tells its jobs that run for too long, hands on what is due by now, and returns when it
    /// has to be here again.
    pub(crate) fn tell_time(&self, now: Nanos, client: ClientId) -> Option<Nanos> {
        let mut state = self.lock();
        state.dispatch.set_wall(self.wall_minus_mono_ms(now));
        state.dispatch.advance(now);
        let stalls = state.dispatch.stalls(now, client);
        let lanes = state.keep_time(client);
        let stall = state.dispatch.stall_deadline(client);
        self.unlock(state);
        self.notify(stalls.iter().map(remarks::stalled).collect());
        [lanes, stall].into_iter().flatten().min()
    }

    /// Sleeps until woken. The sleeper is on the list before the lock is free, and whoever changes something looks at the
    /// list under the lock afterwards; an `unpark` that comes before the `park` makes it return at once. So no wake-up is
    /// lost. Spurious ones are harmless: the caller looks again.
    pub(super) fn park<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        worker: &Worker,
        now: Nanos,
        deadline: Option<Nanos>,
    ) -> (MutexGuard<'a, State>, Waited) {
        let id = state.sleepers.add(worker.pool, worker.number);
        let mut until = deadline;
        if let Some(due) = state.unkept_deadline() {
            state.sleepers.keep_time(id, due);
            until = Some(until.map_or(due, |until| until.min(due)));
        }
        // This thread's look may have made something ready that is not for its kind: it came for a deadline, say, and the
        // lane belongs to an event loop. (Its own kind's is not: it has just found nothing.)
        let State { dispatch, sleepers, .. } = &mut *state;
        let others = Pool::ALL.into_iter().filter(|pool| *pool != worker.pool && dispatch.has_ready(*pool));
        let wakes = Wakes { threads: sleepers.rouse_all(others), poller: false };
        self.wake(state, wakes);
        match until {
            Some(until) => std::thread::park_timeout(Duration::from_nanos(until.saturating_sub(now))),
            None => std::thread::park(),
        }
        let mut state = self.lock();
        state.sleepers.remove(id);
        (state, Waited::Woken)
    }

    /// Sleeps until woken or a Unix signal comes. The count is read under the lock: what is changed after that, under the
    /// lock, is followed by a wake-up that changes the count, so that the sleep does not begin.
    pub(super) fn sleep_interruptibly<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        now: Nanos,
        deadline: Option<Nanos>,
    ) -> (MutexGuard<'a, State>, Waited) {
        let due = state.dispatch.next_deadline();
        let until = [deadline, due].into_iter().flatten().min();
        state.polling += 1;
        let seen = self.shared.poller.count();
        drop(state);
        let waited = self.shared.poller.wait(seen, until.map(|until| Duration::from_nanos(until.saturating_sub(now))));
        let mut state = self.lock();
        state.polling -= 1;
        (state, waited)
    }

    pub(super) fn wake_all(&self) {
        // Under the lock, so that no worker is between its look and its sleep.
        let threads = self.lock().sleepers.all();
        threads.into_iter().for_each(|thread| thread.unpark());
        self.shared.poller.wake();
    }
}
