//! Pool of byte buffers. A response is read into a buffer, records point into it, and the last reference returns it to
//! the pool.
//!
//! A buffer is zeroed once, when it is allocated. On reuse the old bytes are overwritten, so that the steady state
//! neither allocates nor clears. Sizes are rounded up to powers of two to make buffers interchangeable.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const MIN_BUFFER_BYTES: usize = 4 * 1024;
const SIZE_CLASSES: usize = 16; // 4 KiB .. 128 MiB

/// Pool of buffers. Clones share it.
#[derive(Clone, Debug)]
pub struct BufferPool {
    shared: Arc<PoolState>,
}

#[derive(Debug)]
struct PoolState {
    free: Mutex<FreeLists>,
    retain_bytes: AtomicUsize,
}

#[derive(Debug)]
struct FreeLists {
    classes: [Vec<Vec<u8>>; SIZE_CLASSES],
    bytes: usize,
}

impl BufferPool {
    /// Creates a pool that keeps at most `retain_bytes` of idle buffers; further returned buffers are freed.
    pub fn new(retain_bytes: usize) -> Self {
        let free = FreeLists { classes: std::array::from_fn(|_| Vec::new()), bytes: 0 };
        Self { shared: Arc::new(PoolState { free: Mutex::new(free), retain_bytes: AtomicUsize::new(retain_bytes) }) }
    }

    /// Sets how many bytes of idle buffers are kept from now on.
    pub fn set_retained(&self, retain_bytes: usize) {
        self.shared.retain_bytes.store(retain_bytes, Ordering::Relaxed);
    }

    /// Returns a buffer of exactly `len` bytes. Its content is unspecified: bytes of an earlier use.
    #[must_use]
    pub fn allocate(&self, len: usize) -> PooledBufMut {
        let buffer = size_class(len).and_then(|class| {
            let mut free = self.shared.free.lock().unwrap_or_else(PoisonError::into_inner);
            let buffer = free.classes.get_mut(class).and_then(Vec::pop);
            if let Some(buffer) = &buffer {
                free.bytes -= buffer.len();
            }
            buffer
        });
        let buffer = buffer.unwrap_or_else(|| {
            let size = size_class(len).map_or(len, |class| MIN_BUFFER_BYTES << class);
            vec![0; size]
        });
        PooledBufMut { inner: PooledVec { buffer, pool: Some(Arc::clone(&self.shared)) }, len }
    }

    /// Returns the bytes of idle buffers in the pool.
    pub fn idle_bytes(&self) -> usize {
        self.shared.free.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }
}

fn size_class(len: usize) -> Option<usize> {
    let class = len.max(MIN_BUFFER_BYTES).next_power_of_two().trailing_zeros() - MIN_BUFFER_BYTES.trailing_zeros();
    let class = class as usize;
    (class < SIZE_CLASSES).then_some(class)
}

struct PooledVec {
    buffer: Vec<u8>,
    pool: Option<Arc<PoolState>>,
}

impl Drop for PooledVec {
    fn drop(&mut self) {
        let Some(pool) = self.pool.take() else { return };
        let Some(class) = size_class(self.buffer.len()) else { return };
        if self.buffer.len() != MIN_BUFFER_BYTES << class {
            return;
        }
        let mut free = pool.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.bytes + self.buffer.len() <= pool.retain_bytes.load(Ordering::Relaxed) {
            free.bytes += self.buffer.len();
            let buffer = std::mem::take(&mut self.buffer);
            if let Some(list) = free.classes.get_mut(class) {
                list.push(buffer);
            }
        }
    }
}

/// Buffer with one owner, which fills it.
pub struct PooledBufMut {
    inner: PooledVec,
    len: usize,
}

impl PooledBufMut {
    /// Shortens the visible part to `len`; a longer `len` has no effect.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Makes the buffer shared and read-only.
    #[must_use]
    pub fn freeze(self) -> PooledBuf {
        PooledBuf { len: self.len, inner: Arc::new(self.inner) }
    }
}

impl Deref for PooledBufMut {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.inner.buffer.get(..self.len).unwrap_or_default()
    }
}

impl DerefMut for PooledBufMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.inner.buffer.get_mut(..self.len).unwrap_or_default()
    }
}

/// Shared, read-only bytes. The last drop returns the buffer to its pool.
#[derive(Clone)]
pub struct PooledBuf {
    inner: Arc<PooledVec>,
    len: usize,
}

impl PooledBuf {
    /// Returns whether both handles share one buffer (not: equal bytes).
    pub fn ptr_eq(&self, other: &PooledBuf) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Deref for PooledBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.inner.buffer.get(..self.len).unwrap_or_default()
    }
}

impl From<Vec<u8>> for PooledBuf {
    fn from(buffer: Vec<u8>) -> Self {
        let len = buffer.len();
        Self { inner: Arc::new(PooledVec { buffer, pool: None }), len }
    }
}

impl fmt::Debug for PooledBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PooledBuf({} bytes)", self.len)
    }
}

impl fmt::Debug for PooledBufMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PooledBufMut({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_drop_recycles_and_the_next_take_reuses() {
        let pool = BufferPool::new(1 << 20);
        let mut buffer = pool.allocate(5000);
        assert_eq!(buffer.len(), 5000);
        buffer[0] = 7;
        let slab = buffer.freeze();
        let other = slab.clone();
        drop(slab);
        assert_eq!(pool.idle_bytes(), 0);
        drop(other);
        assert_eq!(pool.idle_bytes(), 8192);
        let again = pool.allocate(8000);
        assert_eq!(again[0], 7);
        assert_eq!(pool.idle_bytes(), 0);
    }

    #[test]
    fn what_exceeds_the_bound_is_freed() {
        let pool = BufferPool::new(8192);
        let (a, b) = (pool.allocate(8192), pool.allocate(8192));
        drop(a);
        drop(b);
        assert_eq!(pool.idle_bytes(), 8192);
    }

    #[test]
    fn a_lower_bound_holds_for_buffers_that_come_back() {
        let pool = BufferPool::new(1 << 20);
        let buffer = pool.allocate(8192);
        pool.set_retained(4096);
        drop(buffer);
        assert_eq!(pool.idle_bytes(), 0);
    }

    #[test]
    fn sizes_beyond_the_classes_are_exact_and_not_kept() {
        let pool = BufferPool::new(usize::MAX);
        let big = pool.allocate((MIN_BUFFER_BYTES << (SIZE_CLASSES - 1)) + 1);
        assert_eq!(big.len(), (MIN_BUFFER_BYTES << (SIZE_CLASSES - 1)) + 1);
        drop(big);
        assert_eq!(pool.idle_bytes(), 0);
    }
}
