//! Wake flag: a futex word that makes a waiting caller check for completion queues and log events.

use std::sync::atomic::{AtomicU32, Ordering};

use grete_sys::futex::futex_wake_all;

const RAISED: u32 = 1;
const HAS_WAITER: u32 = 2;

#[derive(Debug, Default)]
pub(in crate::producer) struct WakeFlag {
    word: AtomicU32,
}

impl WakeFlag {
    #[inline]
    pub(in crate::producer) fn is_raised(&self) -> bool {
        self.word.load(Ordering::Relaxed) & RAISED != 0
    }

    /// Raises the flag. A waiter sets `HAS_WAITER` in the same word first: either this call sees the bit, or the kernel
    /// sees the changed word.
    pub(in crate::producer) fn raise(&self) {
        if self.word.swap(RAISED, Ordering::AcqRel) & HAS_WAITER != 0 {
            futex_wake_all(&self.word);
        }
    }

    pub(in crate::producer) fn clear(&self) {
        self.word.fetch_and(!RAISED, Ordering::AcqRel);
    }

    /// Returns the word and the value to sleep on; `None`: the flag is already raised.
    pub(in crate::producer) fn prepare_wait(&self) -> Option<(&AtomicU32, u32)> {
        let before = self.word.fetch_or(HAS_WAITER, Ordering::AcqRel);
        (before & RAISED == 0).then_some((&self.word, before | HAS_WAITER))
    }
}
