//! Waits of callers: sleeping on futex words until the network thread changes them, and noticing its end.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};

use grete_proto::producer::BatchPromise;
use grete_proto::time::Nanos;
use grete_sys::futex::{futex_wait, futex_wake_all};

use super::inner::ProducerInner;
use super::wait_outcome::WaitOutcome;

impl ProducerInner {
    /// Writes pending log events, then sleeps while `word` equals `seen`.
    ///
    /// The end is published in two steps: `ended` is set, then every word changes. A waiter reads the word first and
    /// checks `ended` second. If it has read the word before the change, the kernel refuses the sleep or the wake-up
    /// ends it. If it has read the word after the change, `ended` is already set.
    pub(super) fn wait_on_word(&self, word: &AtomicU32, seen: u32, deadline: Option<Nanos>) -> WaitOutcome {
        if self.has_ended() {
            return WaitOutcome::Ended;
        }
        // A later log event changes the word too.
        if self.log_events.write_pending() {
            return WaitOutcome::Interrupted;
        }
        let timeout = deadline.map(|deadline| self.clock.monotonic().until(deadline));
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return WaitOutcome::TimedOut;
        }
        futex_wait(word, seen, timeout).into()
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
            futex_wake_all(word);
        }
        if let Some(transactions) = &self.transactions {
            transactions.wake_all();
        }
        self.wake_flag.raise();
    }

    /// Wakes all callers that wait for a batch.
    pub(super) fn wake_batch_waiters(&self) {
        for receipt in self.batch_waiters.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            receipt.invalidate_wait();
            futex_wake_all(receipt.futex());
        }
    }
}
