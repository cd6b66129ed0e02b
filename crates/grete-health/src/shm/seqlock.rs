//! Double-buffered seqlock: one writer, many readers, wait-free. A reader that is overtaken by two writes detects it.
//!
//! There are two counters and two buffers. Write number n goes to buffer n % 2, between `begun = n` and `done = n`:
//!
//! ```text
//! writer                               reader
//! W1  begun = n        (relaxed)       R1  d = done             (acquire)   0: nothing was written yet
//! W2  fence            (release)       R2  copy of buffer d % 2 (relaxed)
//! W3  buffer n % 2     (relaxed)       R3  fence                (acquire)
//! W4  done = n         (release)       R4  b = begun            (relaxed)   valid if b is d or d + 1
//! ```
//!
//! - W4 and R1 pair: a reader that sees `done = d` finds all of write d in its buffer, or data written over it since.
//! - Write d + 2 uses the same buffer, and its W1 comes first. If R2 has read a single word of W3 of that write, then
//!   W2 and R3 pair through that word. R4 then sees `begun` at d + 2 or later, and the reader discards the copy. That
//!   holds on processors that reorder stores or loads (ARM), too, because the fences order them. Each word is an
//!   atomic, so reading a word while it is written is no data race.
//! - Write d + 1 goes to the other buffer. So a writer that stops or dies anywhere between W1 and W4 destroys nothing:
//!   write d stays readable. And a reader is too slow only if the writer has begun write d + 2 meanwhile.
//! - A corrupt writer can store anything anywhere. The reader must validate the data, whatever the counters say.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Atomic word: the real one, or that of a model checker that tries all orders.
pub(crate) trait AtomicWord {
    fn load(&self, order: Ordering) -> u64;
    fn store(&self, value: u64, order: Ordering);
    fn fence(order: Ordering);
}

impl AtomicWord for AtomicU64 {
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

/// Writes one buffer. `fill` stores to the buffer of `number`, relaxed. Numbers count up by one, from 1; only one
/// thread of one process writes.
pub(crate) fn write<W: AtomicWord>(begun: &W, done: &W, number: u64, fill: impl FnOnce()) {
    begun.store(number, Ordering::Relaxed); // W1
    W::fence(Ordering::Release); // W2
    fill(); // W3
    done.store(number, Ordering::Release); // W4
}

/// Reads the last write. `copy` loads, relaxed, from the buffer of the number that it gets; 0: nothing was written yet.
/// `None`: the reader was overtaken, and the copy may be torn.
pub(crate) fn read<W: AtomicWord, T>(begun: &W, done: &W, copy: impl FnOnce(u64) -> T) -> Option<T> {
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

    impl AtomicWord for Modelled {
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

    /// Two buffers of two words; each word holds the number of its write.
    #[derive(Default)]
    struct Shared {
        begun: Modelled,
        done: Modelled,
        buffers: [[Modelled; 2]; 2],
    }

    impl Shared {
        fn buffer(&self, number: u64) -> &[Modelled; 2] {
            &self.buffers[usize::from(!number.is_multiple_of(2))]
        }

        fn write(&self, number: u64) {
            let fill = || self.buffer(number).iter().for_each(|word| word.store(number, Ordering::Relaxed));
            write(&self.begun, &self.done, number, fill);
        }

        fn read(&self) -> Option<(u64, [u64; 2])> {
            let copy = |number| (number, [0, 1].map(|at: usize| self.buffer(number)[at].load(Ordering::Relaxed)));
            read(&self.begun, &self.done, copy)
        }
    }

    /// Tries every order in which a processor may run this, weak memory included.
    #[test]
    fn reads_are_whole_or_detected_as_torn() {
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

    /// The previous write stays readable, wherever the writer stops.
    #[test]
    fn a_single_write_never_invalidates_a_read() {
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
