//! `buffer.memory`: what batches take until they are gone, and large buffers to be used again.

/// Counts capacities, not what is in them.
#[derive(Debug)]
pub(super) struct Memory {
    limit: usize,
    used: usize,
    /// Buffers of at least `large` bytes, emptied; part of the limit, and the first to go.
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
    large: usize,
}

impl Memory {
    /// Buffers of at least `large` bytes are worth keeping: the system hands them back and forth page by page.
    pub fn new(limit: usize, large: usize) -> Self {
        Self { limit, used: 0, spare: Vec::new(), spare_bytes: 0, large: large.max(4096) }
    }

    pub fn used(&self) -> usize {
        self.used
    }

    /// Whether so many bytes are free, and an eighth: enough that it pays to wake who waits.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.used <= self.limit.saturating_sub(bytes.max(self.limit / 8))
    }

    /// Charges so many bytes; whether there was room.
    pub fn take(&mut self, bytes: usize) -> bool {
        let Some(used) = self.used.checked_add(bytes).filter(|&used| used <= self.limit) else { return false };
        self.used = used;
        self.trim();
        true
    }

    /// A buffer was to have `planned` bytes and has got `got`.
    pub fn correct(&mut self, planned: usize, got: usize) {
        self.used = self.used.saturating_add(got).saturating_sub(planned);
    }

    /// A buffer with room for `bytes`, charged; `None` if there is no room for it.
    pub fn buffer(&mut self, bytes: usize) -> Option<Vec<u8>> {
        if bytes >= self.large
            && let Some(spare) = self.spare.pop_if(|spare| spare.capacity() >= bytes)
        {
            self.spare_bytes -= spare.capacity();
            if self.take(spare.capacity()) {
                return Some(spare);
            }
            return None;
        }
        self.take(bytes).then(|| {
            let buffer = Vec::with_capacity(bytes);
            self.correct(bytes, buffer.capacity());
            buffer
        })
    }

    /// No longer in use.
    pub fn give(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// Keeps an emptied buffer that has been given back, if that pays.
    pub fn recycle(&mut self, mut buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        // One that was made for a record beyond the usual would never be small again.
        if (self.large..=self.large.saturating_mul(2)).contains(&bytes)
            && self.used.saturating_add(self.spare_bytes).saturating_add(bytes) <= self.limit
        {
            buffer.clear();
            self.spare_bytes += bytes;
            self.spare.push(buffer);
        }
    }

    fn trim(&mut self) {
        while self.used.saturating_add(self.spare_bytes) > self.limit {
            let Some(spare) = self.spare.pop() else { return };
            self.spare_bytes -= spare.capacity();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_and_what_is_spare_stay_within_the_limit() {
        let mut memory = Memory::new(30_000, 8192);
        let first = memory.buffer(8192).expect("room");
        let second = memory.buffer(8192).expect("room");
        memory.give(8192 * 2);
        let address = second.as_ptr();
        memory.recycle(first);
        memory.recycle(second);
        assert_eq!((memory.used(), memory.spare_bytes), (0, 8192 * 2));
        assert_eq!(memory.buffer(8192).map(|buffer| buffer.as_ptr()), Some(address), "used again");
        assert!(memory.take(20_000), "the other one makes way");
        assert_eq!((memory.used(), memory.spare_bytes), (28_192, 0));
        assert!(!memory.take(2000) && memory.buffer(1809).is_none());
        assert_eq!(memory.used(), 28_192);
    }

    #[test]
    fn odd_sizes_are_not_kept() {
        let mut memory = Memory::new(1 << 20, 8192);
        memory.recycle(Vec::with_capacity(100));
        memory.recycle(Vec::with_capacity(100_000));
        assert_eq!(memory.spare_bytes, 0);
    }
}
