//! Where unpacked bytes go: a pooled buffer that grows as they come, up to the limit.

use super::Fault;
use crate::slab::{Slab, SlabMut, SlabPool};

/// What is reserved on a codec's word alone, besides twice the input.
const TRUSTED_BYTES: usize = 1 << 20;

pub(super) struct Output<'p> {
    pool: &'p SlabPool,
    buffer: Option<SlabMut>,
    len: usize,
    limit: usize,
    trusted: usize,
}

impl<'p> Output<'p> {
    /// For `packed` bytes of input that may unpack to `limit` bytes.
    pub fn new(pool: &'p SlabPool, limit: usize, packed: usize) -> Self {
        let trusted = packed.saturating_mul(2).saturating_add(TRUSTED_BYTES);
        Self { pool, buffer: None, len: 0, limit, trusted }
    }

    /// Refuses a declared size that is over the limit.
    pub fn check(&self, declared: u64) -> Result<(), Fault> {
        if declared > self.limit as u64 { Err(Fault::TooLarge(declared)) } else { Ok(()) }
    }

    /// Notes an upper bound, so that the first buffer is not larger than that.
    pub fn expect(&mut self, bound: usize) {
        self.trusted = self.trusted.min(bound);
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The bytes written, and room for at least `wanted` more, or for as many as the limit allows, but never none.
    pub fn room(&mut self, wanted: usize) -> Result<(&[u8], &mut [u8]), Fault> {
        let allowed = self.limit - self.len;
        if allowed == 0 && wanted > 0 {
            return Err(Fault::TooLarge(self.limit as u64 + 1));
        }
        let needed = self.len + wanted.min(allowed);
        if self.buffer.as_deref().is_none_or(|buffer| buffer.len() < needed) {
            self.grow(needed);
        }
        let (written, room) =
            self.buffer.as_deref_mut().and_then(|buffer| buffer.split_at_mut_checked(self.len)).unwrap_or_default();
        Ok((written, room))
    }

    fn grow(&mut self, needed: usize) {
        let doubled = self.len.saturating_mul(2).max(self.trusted).min(self.limit);
        let mut larger = self.pool.take(needed.max(doubled));
        if let Some(old) = self.buffer.take()
            && let (Some(to), Some(from)) = (larger.get_mut(..self.len), old.get(..self.len))
        {
            to.copy_from_slice(from);
        }
        self.buffer = Some(larger);
    }

    /// Counts `bytes` of the room as written.
    pub fn wrote(&mut self, bytes: usize) {
        self.len += bytes;
    }

    /// Appends bytes as they are.
    pub fn copy(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let total = (self.len + bytes.len()) as u64;
        let (_, room) = self.room(bytes.len())?;
        let room = room.get_mut(..bytes.len()).ok_or(Fault::TooLarge(total))?;
        room.copy_from_slice(bytes);
        self.wrote(bytes.len());
        Ok(())
    }

    /// The whole buffer anew, for a codec that starts over: nothing is kept, the size is doubled from `tried` bytes, or
    /// the first one's if `tried` is 0.
    pub fn fresh(&mut self, tried: usize) -> Result<&mut [u8], Fault> {
        if tried > 0 && tried >= self.limit {
            return Err(Fault::TooLarge(self.limit as u64 + 1));
        }
        // The old buffer goes back before the new one is taken.
        self.buffer = None;
        let size = tried.saturating_mul(2).max(self.trusted).min(self.limit);
        Ok(self.buffer.insert(self.pool.take(size)))
    }

    /// What was written.
    pub fn freeze(self) -> Slab {
        let mut buffer = self.buffer.unwrap_or_else(|| self.pool.take(0));
        buffer.truncate(self.len);
        buffer.freeze()
    }
}
