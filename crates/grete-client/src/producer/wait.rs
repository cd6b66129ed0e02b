//! Waits of callers: leading the loop, or sleeping on futex words, until a step changes them; and noticing the end of the
//! network thread.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use grete_proto::producer::BatchPromise;
use grete_proto::time::Nanos;
use grete_sys::WakeReason;
use grete_sys::futex::{futex_wait, futex_wake_all};

use super::inner::ProducerInner;
use super::wait_outcome::WaitOutcome;

impl ProducerInner {
    /// Writes pending log events, then leads the loop, or sleeps, while `word` equals `seen`.
    ///
    /// Only for words whose every change is followed by [`ProducerInner::notify_leader`]: those that a step of this loop
    /// changes. For other words, [`ProducerInner::sleep_on_word`].
    ///
    /// The end is published in two steps: `ended` is set, then every word changes. A waiter reads the word first and
    /// checks `ended` second. If it has read the word before the change, the kernel refuses the sleep or the wake-up
    /// ends it. If it has read the word after the change, `ended` is already set.
    pub(super) fn wait_on_word(&self, word: &AtomicU32, seen: u32, deadline: Option<Nanos>) -> WaitOutcome {
        match self.prepare_wait(deadline) {
            Ok(timeout) => self.await_change(word, seen, timeout).into(),
            Err(outcome) => outcome,
        }
    }

    /// Same as [`ProducerInner::wait_on_word`] for a word that every change wakes by itself.
    pub(super) fn sleep_on_word(&self, word: &AtomicU32, seen: u32, deadline: Option<Nanos>) -> WaitOutcome {
        match self.prepare_wait(deadline) {
            Ok(timeout) => futex_wait(word, seen, timeout).into(),
            Err(outcome) => outcome,
        }
    }

    /// Returns for how long to wait, or the outcome of a wait that is over before it begins.
    fn prepare_wait(&self, deadline: Option<Nanos>) -> Result<Option<Duration>, WaitOutcome> {
        if self.has_ended() {
            return Err(WaitOutcome::Ended);
        }
        // A later log event changes the word too.
        if self.log_events.write_pending() {
            return Err(WaitOutcome::Interrupted);
        }
        let timeout = deadline.map(|deadline| self.clock.monotonic().until(deadline));
        if timeout.is_some_and(|timeout| timeout.is_zero()) { Err(WaitOutcome::TimedOut) } else { Ok(timeout) }
    }

    /// Leads the loop until `word` changes. If another caller leads, or many wait, sleeps on the futex: the leader or the
    /// network thread changes the word and wakes this thread.
    fn await_change(&self, word: &AtomicU32, seen: u32, timeout: Option<Duration>) -> WakeReason {
        let changed = || word.load(Ordering::SeqCst) != seen;
        let sleep = || {
            self.futex_sleepers.fetch_add(1, Ordering::SeqCst);
            let reason = futex_wait(word, seen, timeout);
            self.futex_sleepers.fetch_sub(1, Ordering::SeqCst);
            reason
        };
        let Some(event_loop) = self.caller_loop.get() else { return sleep() };
        event_loop.lead_until(&changed, timeout).unwrap_or_else(|| event_loop.sleep_beside(&sleep))
    }

    /// Wakes the callers that sleep on `word`, after a change of it. Costs no system call while none sleeps.
    ///
    /// A sleeper is counted before the kernel compares the word, and the word changes before the count is read. So
    /// either this call sees the sleeper, or the kernel sees the change.
    pub(super) fn wake_sleepers(&self, word: &AtomicU32) {
        fence(Ordering::SeqCst);
        if self.futex_sleepers.load(Ordering::SeqCst) > 0 {
            futex_wake_all(word);
        }
    }

    /// Makes the caller that leads check its word, after changes.
    pub(super) fn notify_leader(&self) {
        if let Some(event_loop) = self.caller_loop.get() {
            event_loop.notify_leader();
        }
    }

    /// Sleeps until the promise changes, unless `done` returns true.
    pub(super) fn wait_for_batch(
        &self,
        receipt: &Arc<BatchPromise>,
        deadline: Option<Nanos>,
        done: impl Fn() -> bool,
    ) -> WaitOutcome {
        let lock = || self.batch_waiters.lock().unwrap_or_else(PoisonError::into_inner);
        lock().push(Arc::clone(receipt));
        let seen = receipt.register_waiter();
        let outcome = if done() { WaitOutcome::Woken } else { self.wait_on_word(receipt.futex(), seen, deadline) };
        let mut sleepers = lock();
        if let Some(place) = sleepers.iter().position(|sleeper| Arc::ptr_eq(sleeper, receipt)) {
            sleepers.swap_remove(place);
        }
        drop(sleepers);
        // The network thread may have ended after the batch completed.
        if outcome == WaitOutcome::Ended && done() { WaitOutcome::Woken } else { outcome }
    }

    /// Wakes all callers that wait for memory, metadata, a flush or a transaction.
    pub(super) fn wake_all(&self) {
        let words = self.futexes();
        for word in [&words.memory, &words.metadata, &words.flush] {
            word.fetch_add(1, Ordering::SeqCst);
            self.wake_sleepers(word);
        }
        if let Some(transactions) = &self.transactions {
            transactions.wake_all();
        }
        self.wake_flag.raise();
        self.notify_leader();
    }

    /// Wakes all callers that wait for a batch.
    pub(super) fn wake_batch_waiters(&self) {
        for receipt in self.batch_waiters.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            receipt.invalidate_wait();
            self.wake_sleepers(receipt.futex());
        }
        self.notify_leader();
    }
}
