//! Sleeping on futex words until the network thread has news, and being told of the end.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};

use grete_core::produce::Receipt;
use grete_core::time::Nanos;
use grete_net::Waited;
use grete_net::futex::{wait_on, wake_on};

use super::shared::Shared;

/// How a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slept {
    /// Look again.
    Woken,
    /// The time is up.
    TimedOut,
    /// A Unix signal: let its handler run, then go on.
    Interrupted,
    /// The network thread has ended: what is not settled never will be.
    Ended,
}

impl Shared {
    /// Sleeps while the word is what was `seen`.
    ///
    /// The end is told in two steps: it is noted, then every word changes. A sleeper reads the word first and looks for the
    /// end second: if it has read the word before the change, the kernel refuses the sleep or the wake-up ends it; if after,
    /// the end is noted already.
    pub(super) fn sleep(&self, word: &AtomicU32, seen: u32, deadline: Option<Nanos>) -> Slept {
        if self.has_ended() {
            return Slept::Ended;
        }
        let timeout = deadline.map(|deadline| self.stamps.clock().until(deadline));
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Slept::TimedOut;
        }
        match wait_on(word, seen, timeout) {
            Waited::Woken => Slept::Woken,
            Waited::TimedOut => Slept::TimedOut,
            Waited::Interrupted => Slept::Interrupted,
        }
    }

    /// Sleeps until there is news of the receipt, unless `done` says that there is nothing to wait for.
    pub(super) fn sleep_on_receipt(
        &self,
        receipt: &Arc<Receipt>,
        deadline: Option<Nanos>,
        done: impl Fn() -> bool,
    ) -> Slept {
        let lock = || self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        lock().push(Arc::clone(receipt));
        let seen = receipt.announce_wait();
        let slept = if done() { Slept::Woken } else { self.sleep(receipt.word(), seen, deadline) };
        let mut sleepers = lock();
        if let Some(place) = sleepers.iter().position(|sleeper| Arc::ptr_eq(sleeper, receipt)) {
            sleepers.swap_remove(place);
        }
        drop(sleepers);
        // The end may have come after the settlement.
        if slept == Slept::Ended && done() { Slept::Woken } else { slept }
    }

    /// Wakes whoever waits for room, metadata or a flush.
    pub(super) fn stir(&self) {
        let words = self.words();
        for word in [&words.room, &words.metadata, &words.progress] {
            word.fetch_add(1, Ordering::SeqCst);
            wake_on(word);
        }
        self.attention.want();
    }

    /// Wakes whoever waits for a receipt.
    pub(super) fn stir_receipts(&self) {
        for receipt in self.sleepers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            receipt.disturb();
            wake_on(receipt.word());
        }
    }
}
