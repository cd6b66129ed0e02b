//! One writes, others read, and nobody waits: who is overtaken while reading finds out.
//!
//! There are two counts and two slots. Post number n goes to slot n % 2, between `begun = n` and `done = n`:
//!
//! ```text
//! writer                               reader
//! W1  begun = n        (relaxed)       R1  d = done           (acquire)   0: nothing was posted yet
//! W2  fence            (release)       R2  copy of slot d % 2 (relaxed)
//! W3  slot n % 2       (relaxed)       R3  fence              (acquire)
//! W4  done = n         (release)       R4  b = begun          (relaxed)   whole if b is d or d + 1
//! ```
//!
//! - W4 and R1 pair: whoever sees `done = d` finds all of post d in its slot, or what was written over it since.
//! - Over it goes post d + 2, and its W1 comes before. If R2 has read a single word of W3 of that post, then W2 and R3 pair,
//!   through that word: R4 sees `begun` at d + 2 or later, and the copy is thrown away. That holds on processors that reorder
//!   stores or loads (ARM), too: the fences are what orders them, and each word is an atomic of its own, so that reading what is
//!   just being written is no data race.
//! - Post d + 1 goes to the other slot. So a writer that is stopped or dies anywhere between W1 and W4 takes nothing away:
//!   post d stays legible. And a reader is too slow only if the writer has begun the next but one meanwhile.
//! - A writer that has gone mad can write anything anywhere. What is read is to be checked, whatever the counts say.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// An atomic word: the real one, or that of a model that tries all orders.
pub(crate) trait Word {
    fn load(&self, order: Ordering) -> u64;
    fn store(&self, value: u64, order: Ordering);
    fn fence(order: Ordering);
}

impl Word for AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }

    fn fence(order: Ordering) {
        fence(order);
    }
}

/// `fill` stores to the number's slot, relaxed. Numbers go up by one, from 1; only one thread of one process does this.
pub(crate) fn write<W: Word>(begun: &W, done: &W, number: u64, fill: impl FnOnce()) {
    begun.store(number, Ordering::Relaxed); // W1
    W::fence(Ordering::Release); // W2
    fill(); // W3
    done.store(number, Ordering::Release); // W4
}

/// `copy` loads from the slot of the number that it gets, relaxed; 0: nothing was posted yet. `None`: it was overtaken, and what
/// it has copied is nothing whole.
pub(crate) fn read<W: Word, T>(begun: &W, done: &W, copy: impl FnOnce(u64) -> T) -> Option<T> {
    let number = done.load(Ordering::Acquire); // R1
    let copied = copy(number); // R2
    W::fence(Ordering::Acquire); // R3
    let now = begun.load(Ordering::Relaxed); // R4
    (number == 0 || now.wrapping_sub(number) <= 1).then_some(copied)
}

#[cfg(test)]
mod tests {
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64 as Modelled;
    use loom::thread;

    use super::*;

    impl Word for Modelled {
        fn load(&self, order: Ordering) -> u64 {
            self.load(order)
        }

        fn store(&self, value: u64, order: Ordering) {
            self.store(value, order);
        }

        fn fence(order: Ordering) {
            loom::sync::atomic::fence(order);
        }
    }

    /// Two slots of two words, each of which holds the number of its post.
    #[derive(Default)]
    struct Shared {
        begun: Modelled,
        done: Modelled,
        slots: [[Modelled; 2]; 2],
    }

    impl Shared {
        fn slot(&self, number: u64) -> &[Modelled; 2] {
            &self.slots[usize::from(!number.is_multiple_of(2))]
        }

        fn write(&self, number: u64) {
            let fill = || self.slot(number).iter().for_each(|word| word.store(number, Ordering::Relaxed));
            write(&self.begun, &self.done, number, fill);
        }

        fn read(&self) -> Option<(u64, [u64; 2])> {
            let copy = |number| (number, [0, 1].map(|at: usize| self.slot(number)[at].load(Ordering::Relaxed)));
            read(&self.begun, &self.done, copy)
        }
    }

    /// In every order in which a processor may run this, weak ones included.
    #[test]
    fn what_is_read_is_whole_or_known_not_to_be() {
        loom::model(|| {
            let shared = Arc::new(Shared::default());
            shared.write(1);
            let writer = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || (2..=3).for_each(|number| shared.write(number)))
            };
            if let Some((number, words)) = shared.read() {
                assert_eq!(words, [number; 2]);
            }
            writer.join().expect("no panic");
            assert_eq!(shared.read(), Some((3, [3; 2])));
        });
    }

    /// Wherever the writer is stopped, the post before is there.
    #[test]
    fn one_post_overtakes_nobody() {
        loom::model(|| {
            let shared = Arc::new(Shared::default());
            shared.write(1);
            let writer = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.write(2))
            };
            let (number, words) = shared.read().expect("not overtaken");
            assert!(matches!(number, 1 | 2));
            assert_eq!(words, [number; 2]);
            writer.join().expect("no panic");
        });
    }
}
