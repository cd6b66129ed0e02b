//! Output of a decoder: a pooled buffer that grows with the data, up to the limit.

use super::CodecError;
use crate::buffer_pool::{BufferPool, PooledBuf, PooledBufMut};

/// Bytes reserved for a declared size that is not trusted, in addition to twice the input.
const INITIAL_RESERVE: usize = 1 << 20;

/// Sizes of a codec's last batch: the next batch of the topic will be similar.
#[derive(Debug, Clone, Copy)]
pub(super) struct SizeHint {
    pub compressed: usize,
    pub decompressed: usize,
}

impl Default for SizeHint {
    fn default() -> Self {
        Self { compressed: 1, decompressed: 4 }
    }
}

pub(super) struct OutputBuffer<'p> {
    pool: &'p BufferPool,
    buffer: Option<PooledBufMut>,
    len: usize,
    limit: usize,
    max_reserve: usize,
    estimate: usize,
    initial_bytes: usize,
}

impl<'p> OutputBuffer<'p> {
    /// Creates the output for `compressed` bytes of input, with at most `limit` bytes of output.
    pub fn new(pool: &'p BufferPool, limit: usize, compressed: usize, hint: SizeHint) -> Self {
        let trusted =
            compressed.saturating_mul(2).saturating_add(INITIAL_RESERVE).max(hint.decompressed.saturating_mul(2));
        // Half as much again, since a buffer that is too small costs more than one that is too large.
        let estimate = compressed as u128 * hint.decompressed as u128 * 3 / (hint.compressed.max(1) as u128 * 2) + 64;
        let estimate = usize::try_from(estimate).unwrap_or(usize::MAX).min(trusted);
        Self { pool, buffer: None, len: 0, limit, max_reserve: trusted, estimate, initial_bytes: estimate }
    }

    /// Sets the size declared in the data. A size over the limit is an error; otherwise the first buffer has that size,
    /// as far as it is trusted.
    pub fn set_declared_size(&mut self, bytes: u64) -> Result<(), CodecError> {
        if bytes > self.limit as u64 {
            return Err(CodecError::TooLarge(bytes));
        }
        self.initial_bytes = self.max_reserve.min(bytes as usize);
        Ok(())
    }

    /// Sets an upper bound. The first buffer follows the last batch's ratio, but does not exceed the bound.
    pub fn set_upper_bound(&mut self, bound: usize) {
        self.max_reserve = self.max_reserve.min(bound);
        self.initial_bytes = self.max_reserve.min(self.estimate);
    }

    /// Returns the bytes written so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the bytes written, and room for at least `wanted` more, or for as many as the limit allows, but never
    /// none.
    pub fn spare(&mut self, wanted: usize) -> Result<(&[u8], &mut [u8]), CodecError> {
        let allowed = self.limit - self.len;
        if allowed == 0 && wanted > 0 {
            return Err(CodecError::TooLarge(self.limit as u64 + 1));
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
        // If there is a buffer already, the estimate was too small.
        let least = if self.buffer.is_some() { self.max_reserve } else { self.initial_bytes };
        let doubled = self.len.saturating_mul(2).max(least).min(self.limit);
        let mut larger = self.pool.allocate(needed.max(doubled));
        if let Some(old) = self.buffer.take()
            && let (Some(to), Some(from)) = (larger.get_mut(..self.len), old.get(..self.len))
        {
            to.copy_from_slice(from);
        }
        self.buffer = Some(larger);
    }

    /// Marks `bytes` of the room as written.
    pub fn advance(&mut self, bytes: usize) {
        self.len += bytes;
    }

    /// Appends bytes unchanged.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), CodecError> {
        let total = (self.len + bytes.len()) as u64;
        let (_, room) = self.spare(bytes.len())?;
        let room = room.get_mut(..bytes.len()).ok_or(CodecError::TooLarge(total))?;
        room.copy_from_slice(bytes);
        self.advance(bytes.len());
        Ok(())
    }

    /// Returns a new buffer for a codec that starts over, without the bytes written so far. `tried`: size that was too
    /// small; 0 at first.
    pub fn restart(&mut self, tried: usize) -> Result<&mut [u8], CodecError> {
        if tried > 0 && tried >= self.limit {
            return Err(CodecError::TooLarge(self.limit as u64 + 1));
        }
        // The old buffer is returned to the pool before the new one is allocated.
        self.buffer = None;
        let size = if tried == 0 { self.initial_bytes } else { tried.saturating_mul(2).max(self.max_reserve) };
        Ok(self.buffer.insert(self.pool.allocate(size.min(self.limit))))
    }

    /// Returns the bytes written.
    pub fn freeze(self) -> PooledBuf {
        let mut buffer = self.buffer.unwrap_or_else(|| self.pool.allocate(0));
        buffer.truncate(self.len);
        buffer.freeze()
    }
}
