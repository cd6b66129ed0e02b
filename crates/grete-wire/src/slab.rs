//! Recycled byte buffers: a response is read into one, records point into it, the last user gives it back.
//!
//! A buffer is zeroed once, when it is first made; on reuse the old bytes are simply overwritten, so that steady
//! state neither allocates nor clears. Sizes are rounded up, by a quarter at most, to make buffers interchangeable: answers
//! are as long as the limit that was asked for and some bytes, and powers of two would make each of them half empty.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SMALLEST: usize = 4 * 1024;
/// Sizes from one power of two to the next.
const STEPS: usize = 4;
const CLASSES: usize = 15 * STEPS + 1; // 4 KiB .. 128 MiB
/// How many classes larger than needed a buffer may be: less than twice the size.
const LARGER: usize = STEPS - 1;

/// A pool of buffers. Clones share it.
#[derive(Clone, Debug)]
pub struct SlabPool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    free: Mutex<Free>,
}

#[derive(Debug)]
struct Free {
    classes: [Vec<Vec<u8>>; CLASSES],
    bytes: usize,
    retain_bytes: usize,
}

impl Free {
    /// The smallest one that is large enough, and not too large.
    fn fitting(&mut self, class: usize) -> Option<Vec<u8>> {
        let buffer = self.classes.iter_mut().skip(class).take(1 + LARGER).find_map(Vec::pop);
        self.bytes -= buffer.as_ref().map_or(0, Vec::len);
        buffer
    }

    /// Idle ones that are too small, as many as it takes for one of this class to be kept when it comes back: else those
    /// would fill the pool for good, and all larger ones be made anew each time.
    fn outgrown(&mut self, class: usize) -> Vec<Vec<u8>> {
        let mut outgrown = Vec::new();
        for smaller in self.classes.iter_mut().take(class).rev() {
            while self.bytes.saturating_add(size_of(class)) > self.retain_bytes {
                let Some(buffer) = smaller.pop() else { break };
                self.bytes -= buffer.len();
                outgrown.push(buffer);
            }
        }
        outgrown
    }
}

impl SlabPool {
    /// A pool that keeps at most `retain_bytes` of idle buffers; what comes back beyond that is freed.
    #[must_use]
    pub fn new(retain_bytes: usize) -> Self {
        let free = Free { classes: std::array::from_fn(|_| Vec::new()), bytes: 0, retain_bytes };
        Self { shared: Arc::new(Shared { free: Mutex::new(free) }) }
    }

    /// From now on it keeps so much more, up to `most` in all.
    pub fn retain_more(&self, bytes: usize, most: usize) {
        let mut free = self.lock();
        free.retain_bytes = free.retain_bytes.saturating_add(bytes).min(most).max(free.retain_bytes);
    }

    /// A buffer of exactly `len` bytes. Its content is whatever an earlier user left there.
    #[must_use]
    pub fn take(&self, len: usize) -> SlabMut {
        let buffer = match class_of(len) {
            None => vec![0; len],
            Some(class) => {
                let mut free = self.lock();
                if let Some(buffer) = free.fitting(class) {
                    buffer
                } else {
                    let outgrown = free.outgrown(class);
                    drop(free);
                    drop(outgrown);
                    vec![0; size_of(class)]
                }
            }
        };
        SlabMut { inner: Inner { buffer, pool: Some(Arc::clone(&self.shared)) }, len }
    }

    /// Bytes that wait idle in the pool.
    #[must_use]
    pub fn idle_bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Free> {
        self.shared.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first class whose buffers hold `len` bytes; None: it is larger than all of them.
fn class_of(len: usize) -> Option<usize> {
    let len = len.max(SMALLEST);
    let doublings = (len.ilog2() - SMALLEST.ilog2()) as usize;
    let step = (SMALLEST << doublings) / STEPS;
    let class = doublings * STEPS + (len - (SMALLEST << doublings)).div_ceil(step);
    (class < CLASSES).then_some(class)
}

/// How large the buffers of a class are.
fn size_of(class: usize) -> usize {
    (SMALLEST << (class / STEPS)) / STEPS * (STEPS + class % STEPS)
}

struct Inner {
    buffer: Vec<u8>,
    pool: Option<Arc<Shared>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Some(pool) = self.pool.take() else { return };
        let Some(class) = class_of(self.buffer.len()) else { return };
        if self.buffer.len() != size_of(class) {
            return;
        }
        let mut free = pool.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.bytes + self.buffer.len() <= free.retain_bytes {
            free.bytes += self.buffer.len();
            let buffer = std::mem::take(&mut self.buffer);
            if let Some(list) = free.classes.get_mut(class) {
                list.push(buffer);
            }
        }
    }
}

/// A buffer that has one owner and is being filled.
pub struct SlabMut {
    inner: Inner,
    len: usize,
}

impl SlabMut {
    /// Shortens the visible part; a longer `len` changes nothing.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Ends the filling; from here on it is shared and read-only.
    #[must_use]
    pub fn freeze(self) -> Slab {
        Slab { len: self.len, inner: Arc::new(self.inner) }
    }
}

impl Deref for SlabMut {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.inner.buffer.get(..self.len).unwrap_or_default()
    }
}

impl DerefMut for SlabMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.inner.buffer.get_mut(..self.len).unwrap_or_default()
    }
}

/// Shared, read-only bytes; the last drop gives the buffer back to its pool.
#[derive(Clone)]
pub struct Slab {
    inner: Arc<Inner>,
    len: usize,
}

impl Slab {
    /// How many handles share these bytes.
    #[must_use]
    pub fn handles(&self) -> usize {
        Arc::strong_count(&self.inner)
    }

    /// Whether both are the same buffer (not: equal bytes).
    #[must_use]
    pub fn same(&self, other: &Slab) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Deref for Slab {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.inner.buffer.get(..self.len).unwrap_or_default()
    }
}

impl From<Vec<u8>> for Slab {
    fn from(buffer: Vec<u8>) -> Self {
        let len = buffer.len();
        Self { inner: Arc::new(Inner { buffer, pool: None }), len }
    }
}

impl fmt::Debug for Slab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slab({} bytes)", self.len)
    }
}

impl fmt::Debug for SlabMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlabMut({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_drop_recycles_and_the_next_take_reuses() {
        let pool = SlabPool::new(1 << 20);
        let mut buffer = pool.take(5000);
        assert_eq!(buffer.len(), 5000);
        buffer[0] = 7;
        let slab = buffer.freeze();
        let other = slab.clone();
        drop(slab);
        assert_eq!(pool.idle_bytes(), 0);
        drop(other);
        assert_eq!(pool.idle_bytes(), 5120);
        let again = pool.take(5100);
        assert_eq!(again[0], 7);
        assert_eq!(pool.idle_bytes(), 0);
    }

    #[test]
    fn a_size_is_rounded_up_by_a_quarter_at_most() {
        let mut len = SMALLEST;
        while let Some(class) = class_of(len) {
            let size = size_of(class);
            assert!(size >= len && size - len < len / 4 + 1, "{size} for {len}");
            assert_eq!(class_of(size), Some(class));
            len += len / 7;
        }
        assert!(len > 128 << 20);
        assert_eq!(class_of(0), Some(0));
        assert_eq!(size_of(CLASSES - 1), 128 << 20);
    }

    #[test]
    fn a_larger_one_serves_unless_it_is_twice_as_large() {
        let pool = SlabPool::new(1 << 20);
        drop(pool.take(7168));
        drop(pool.take(3000));
        assert_eq!(pool.idle_bytes(), 7168, "taken and given back");
        let large = pool.take(8192);
        assert_eq!(pool.idle_bytes(), 7168, "too small for this");
        drop(large);
        let small = pool.take(4096);
        assert_eq!(pool.idle_bytes(), 8192);
        let other = pool.take(4096);
        assert_eq!(pool.idle_bytes(), 8192, "twice as large as needed");
        drop((small, other));
    }

    #[test]
    fn what_exceeds_the_bound_is_freed() {
        let pool = SlabPool::new(8192);
        let (a, b) = (pool.take(8192), pool.take(8192));
        drop(a);
        drop(b);
        assert_eq!(pool.idle_bytes(), 8192);
    }

    #[test]
    fn the_bound_grows_up_to_a_limit() {
        let pool = SlabPool::new(0);
        drop(pool.take(4096));
        assert_eq!(pool.idle_bytes(), 0);
        pool.retain_more(8192, 12_288);
        pool.retain_more(8192, 12_288);
        pool.retain_more(8192, 4096);
        drop((pool.take(4096), pool.take(4096), pool.take(4096), pool.take(4096)));
        assert_eq!(pool.idle_bytes(), 12_288);
    }

    #[test]
    fn idle_ones_that_are_too_small_make_room() {
        let pool = SlabPool::new(16_384);
        drop((pool.take(4096), pool.take(4096), pool.take(5120)));
        let mut large = pool.take(10_240);
        assert_eq!(pool.idle_bytes(), 4096, "the others would have kept it out");
        large[0] = 7;
        drop(large);
        assert_eq!(pool.idle_bytes(), 14_336);
        assert_eq!(pool.take(10_000)[0], 7);
    }

    #[test]
    fn sizes_beyond_the_classes_are_exact_and_not_kept() {
        let pool = SlabPool::new(usize::MAX);
        let big = pool.take((128 << 20) + 1);
        assert_eq!(big.len(), (128 << 20) + 1);
        drop(big);
        assert_eq!(pool.idle_bytes(), 0);
    }
}
