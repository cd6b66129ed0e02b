//! One flag that says: somebody on the caller's side should look around. A futex word, so that it can be slept on.

use std::sync::atomic::{AtomicU32, Ordering};

use grete_net::futex::wake_on;

const WANTED: u32 = 1;
const SLEPT_ON: u32 = 2;

#[derive(Debug, Default)]
pub(super) struct Attention {
    word: AtomicU32,
}

impl Attention {
    #[inline]
    pub(super) fn is_wanted(&self) -> bool {
        self.word.load(Ordering::Relaxed) & WANTED != 0
    }

    /// Whoever sleeps set its bit first, in the same word: either it is seen here, or the kernel sees the changed word.
    pub(super) fn want(&self) {
        if self.word.swap(WANTED, Ordering::AcqRel) & SLEPT_ON != 0 {
            wake_on(&self.word);
        }
    }

    pub(super) fn clear(&self) {
        self.word.fetch_and(!WANTED, Ordering::AcqRel);
    }

    /// The word and the value to sleep on; `None`: attention is wanted already.
    pub(super) fn announce(&self) -> Option<(&AtomicU32, u32)> {
        let before = self.word.fetch_or(SLEPT_ON, Ordering::AcqRel);
        (before & WANTED == 0).then_some((&self.word, before | SLEPT_ON))
    }
}
