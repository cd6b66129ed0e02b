//! Recycled byte buffers: a response is read into one, records point into it, the last user gives it back.
//!
//! A buffer is zeroed once, when it is first made; on reuse the old bytes are simply overwritten, so that steady
//! state neither allocates nor clears. Sizes are rounded up to powers of two to make buffers interchangeable.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

const SMALLEST: usize = 4 * 1024;
const CLASSES: usize = 16; // 4 KiB .. 128 MiB

/// A pool of buffers. Clones share it.
#[derive(Clone, Debug)]
pub struct SlabPool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    free: Mutex<Free>,
    retain_bytes: usize,
}

#[derive(Debug)]
struct Free {
    classes: [Vec<Vec<u8>>; CLASSES],
    bytes: usize,
}

impl SlabPool {
    /// A pool that keeps at most `retain_bytes` of idle buffers; what comes back beyond that is freed.
    #[must_use]
    pub fn new(retain_bytes: usize) -> Self {
        let free = Free { classes: std::array::from_fn(|_| Vec::new()), bytes: 0 };
        Self { shared: Arc::new(Shared { free: Mutex::new(free), retain_bytes }) }
    }

    /// A buffer of exactly `len` bytes. Its content is whatever an earlier user left there.
    #[must_use]
    pub fn take(&self, len: usize) -> SlabMut {
        let buffer = class_of(len).and_then(|class| {
            let mut free = self.shared.free.lock().unwrap_or_else(PoisonError::into_inner);
            let buffer = free.classes.get_mut(class).and_then(Vec::pop);
            if let Some(buffer) = &buffer {
                free.bytes -= buffer.len();
            }
            buffer
        });
        let buffer = buffer.unwrap_or_else(|| {
            let size = class_of(len).map_or(len, |class| SMALLEST << class);
            vec![0; size]
        });
        SlabMut { inner: Inner { buffer, pool: Some(Arc::clone(&self.shared)) }, len }
    }

    /// Bytes that wait idle in the pool.
    #[must_use]
    pub fn idle_bytes(&self) -> usize {
        self.shared.free.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }
}

fn class_of(len: usize) -> Option<usize> {
    let class = len.max(SMALLEST).next_power_of_two().trailing_zeros() - SMALLEST.trailing_zeros();
    let class = class as usize;
    (class < CLASSES).then_some(class)
}

struct Inner {
    buffer: Vec<u8>,
    pool: Option<Arc<Shared>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Some(pool) = self.pool.take() else { return };
        let Some(class) = class_of(self.buffer.len()) else { return };
        if self.buffer.len() != SMALLEST << class {
            return;
        }
        let mut free = pool.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.bytes + self.buffer.len() <= pool.retain_bytes {
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
        assert_eq!(pool.idle_bytes(), 8192);
        let again = pool.take(8000);
        assert_eq!(again[0], 7);
        assert_eq!(pool.idle_bytes(), 0);
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
    fn sizes_beyond_the_classes_are_exact_and_not_kept() {
        let pool = SlabPool::new(usize::MAX);
        let big = pool.take((SMALLEST << (CLASSES - 1)) + 1);
        assert_eq!(big.len(), (SMALLEST << (CLASSES - 1)) + 1);
        drop(big);
        assert_eq!(pool.idle_bytes(), 0);
    }
}
