//! `buffer.memory`: accounts for the memory of batches and keeps large buffers for reuse.

/// Memory limit of a producer. It counts the capacity of buffers, not their length.
#[derive(Debug)]
pub(super) struct BatchBufferPool {
    limit: usize,
    used: usize,
    /// Free buffers of at least `large` bytes, cleared. They count against the limit and are freed first.
    free: Vec<Vec<u8>>,
    free_bytes: usize,
    large: usize,
}

impl BatchBufferPool {
    /// Creates a pool of `limit` bytes. Only buffers of at least `large` bytes are kept, because the system allocator
    /// maps and unmaps such buffers page by page.
    pub fn new(limit: usize, large: usize) -> Self {
        Self { limit, used: 0, free: Vec::new(), free_bytes: 0, large: large.max(4096) }
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    pub fn used(&self) -> usize {
        self.used
    }

    /// Returns whether `bytes`, or an eighth of the limit if that is more, are free: enough that waking a waiter pays
    /// off.
    pub fn has_free_memory(&self, bytes: usize) -> bool {
        self.used <= self.limit.saturating_sub(bytes.max(self.limit / 8))
    }

    /// Reserves `bytes`; returns false if they exceed the limit.
    pub fn reserve(&mut self, bytes: usize) -> bool {
        let Some(used) = self.used.checked_add(bytes).filter(|&used| used <= self.limit) else { return false };
        self.used = used;
        self.trim();
        true
    }

    /// Corrects a reservation of `planned` bytes to the `got` bytes of the actual buffer.
    pub fn adjust(&mut self, planned: usize, got: usize) {
        self.used = self.used.saturating_add(got).saturating_sub(planned);
    }

    /// Returns a buffer of at least `bytes` and reserves its capacity; `None`: no memory is free.
    pub fn allocate(&mut self, bytes: usize) -> Option<Vec<u8>> {
        if bytes >= self.large
            && let Some(spare) = self.free.pop_if(|spare| spare.capacity() >= bytes)
        {
            self.free_bytes -= spare.capacity();
            if self.reserve(spare.capacity()) {
                return Some(spare);
            }
            return None;
        }
        self.reserve(bytes).then(|| {
            let buffer = Vec::with_capacity(bytes);
            self.adjust(bytes, buffer.capacity());
            buffer
        })
    }

    /// Releases `bytes` of a reservation.
    pub fn release(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// Keeps a returned buffer for reuse if its size is suitable.
    pub fn recycle(&mut self, mut buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        // A buffer that was made for an oversized record would never shrink again.
        if (self.large..=self.large.saturating_mul(2)).contains(&bytes)
            && self.used.saturating_add(self.free_bytes).saturating_add(bytes) <= self.limit
        {
            buffer.clear();
            self.free_bytes += bytes;
            self.free.push(buffer);
        }
    }

    fn trim(&mut self) {
        while self.used.saturating_add(self.free_bytes) > self.limit {
            let Some(spare) = self.free.pop() else { return };
            self.free_bytes -= spare.capacity();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_and_what_is_spare_stay_within_the_limit() {
        let mut memory = BatchBufferPool::new(30_000, 8192);
        let first = memory.allocate(8192).expect("room");
        let second = memory.allocate(8192).expect("room");
        memory.release(8192 * 2);
        let address = second.as_ptr();
        memory.recycle(first);
        memory.recycle(second);
        assert_eq!((memory.used(), memory.free_bytes), (0, 8192 * 2));
        assert_eq!(memory.allocate(8192).map(|buffer| buffer.as_ptr()), Some(address), "used again");
        assert!(memory.reserve(20_000), "the other one makes way");
        assert_eq!((memory.used(), memory.free_bytes), (28_192, 0));
        assert!(!memory.reserve(2000) && memory.allocate(1809).is_none());
        assert_eq!(memory.used(), 28_192);
    }

    #[test]
    fn odd_sizes_are_not_kept() {
        let mut memory = BatchBufferPool::new(1 << 20, 8192);
        memory.recycle(Vec::with_capacity(100));
        memory.recycle(Vec::with_capacity(100_000));
        assert_eq!(memory.free_bytes, 0);
    }
}
