//! Where unpacked bytes go: a pooled buffer that grows as they come, up to the limit.

use super::Fault;
use crate::slab::{Slab, SlabMut, SlabPool};

/// What is reserved on a codec's word alone, besides twice the input.
const TRUSTED_BYTES: usize = 1 << 20;

/// What the last batch of a codec came to: the next one of the topic will be alike.
#[derive(Debug, Clone, Copy)]
pub(super) struct Past {
    pub packed: usize,
    pub unpacked: usize,
}

impl Default for Past {
    fn default() -> Self {
        Self { packed: 1, unpacked: 4 }
    }
}

pub(super) struct Output<'p> {
    pool: &'p SlabPool,
    buffer: Option<SlabMut>,
    len: usize,
    limit: usize,
    trusted: usize,
    estimate: usize,
    first: usize,
}

impl<'p> Output<'p> {
    /// For `packed` bytes of input that may unpack to `limit` bytes.
    pub fn new(pool: &'p SlabPool, limit: usize, packed: usize, past: Past) -> Self {
        let trusted = packed.saturating_mul(2).saturating_add(TRUSTED_BYTES).max(past.unpacked.saturating_mul(2));
        // Half as much again, since a buffer that is too small costs more than one that is too large.
        let estimate = packed as u128 * past.unpacked as u128 * 3 / (past.packed.max(1) as u128 * 2) + 64;
        let estimate = usize::try_from(estimate).unwrap_or(usize::MAX).min(trusted);
        Self { pool, buffer: None, len: 0, limit, trusted, estimate, first: estimate }
    }

    /// Notes a declared size: refused over the limit, else the first buffer is as large, as far as that is trusted.
    pub fn declared(&mut self, bytes: u64) -> Result<(), Fault> {
        if bytes > self.limit as u64 {
            return Err(Fault::TooLarge(bytes));
        }
        self.first = self.trusted.min(bytes as usize);
        Ok(())
    }

    /// Notes an upper bound: the first buffer is as large as the past tells, but not larger than that.
    pub fn bounded(&mut self, bound: usize) {
        self.trusted = self.trusted.min(bound);
        self.first = self.trusted.min(self.estimate);
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
        // What the past told was too little, if there is a buffer already.
        let least = if self.buffer.is_some() { self.trusted } else { self.first };
        let doubled = self.len.saturating_mul(2).max(least).min(self.limit);
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

    /// The whole buffer anew, for a codec that starts over: nothing is kept. `tried` bytes were too few; 0 at first.
    pub fn fresh(&mut self, tried: usize) -> Result<&mut [u8], Fault> {
        if tried > 0 && tried >= self.limit {
            return Err(Fault::TooLarge(self.limit as u64 + 1));
        }
        // The old buffer goes back before the new one is taken.
        self.buffer = None;
        let size = if tried == 0 { self.first } else { tried.saturating_mul(2).max(self.trusted) };
        Ok(self.buffer.insert(self.pool.take(size.min(self.limit))))
    }

    /// What was written.
    pub fn freeze(self) -> Slab {
        let mut buffer = self.buffer.unwrap_or_else(|| self.pool.take(0));
        buffer.truncate(self.len);
        buffer.freeze()
    }
}
