//! Splits a byte stream into frames.

use super::Frame;
use crate::buffer_pool::{BufferPool, PooledBufMut};
use crate::error::WireError;

const BUFFER_BYTES: usize = 64 * 1024;
/// An unfinished frame beyond this size gets its own buffer, so that the rest of it is read into place.
const LARGE_FRAME_BYTES: usize = 16 * 1024;
/// Maximum memory for an announced size of which little has arrived.
const UNVERIFIED_MAX: usize = 1024 * 1024;

/// Splits a byte stream into frames. The caller reads into [`read_buf`](Self::read_buf), reports the bytes read with
/// [`advance`](Self::advance), then calls [`next`](Self::next) until it returns `None`.
///
/// Small frames are copied out of a common buffer. Of a large frame, only the part that arrived with its size is
/// copied; the rest is read into place. An announced size costs memory only in proportion to received bytes. The limit
/// is 1 MiB, four times the received part of the frame, or twice the largest complete frame so far, whichever is
/// greatest.
#[derive(Debug)]
pub struct FrameReader {
    pool: BufferPool,
    max_frame_bytes: usize,
    buffer: PooledBufMut,
    /// Start of the unread part of `buffer`.
    start: usize,
    end: usize,
    large: Option<LargeFrame>,
    /// Size of the largest complete frame; `None` before the first.
    largest_complete: Option<usize>,
}

#[derive(Debug)]
struct LargeFrame {
    buffer: PooledBufMut,
    filled: usize,
    size: usize,
}

impl FrameReader {
    /// Creates a reader at the start of a stream. A frame of more than `max_frame_bytes` (without its size field) is an
    /// error.
    pub fn new(pool: BufferPool, max_frame_bytes: usize) -> Self {
        let buffer = pool.allocate(BUFFER_BYTES);
        Self { pool, max_frame_bytes, buffer, start: 0, end: 0, large: None, largest_complete: None }
    }

    /// Returns the buffer for the next bytes of the stream. Never empty, provided that `next` was called until it
    /// returned `None`.
    pub fn read_buf(&mut self) -> &mut [u8] {
        if let Some(large) = &mut self.large {
            return large.buffer.get_mut(large.filled..).unwrap_or_default();
        }
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 && BUFFER_BYTES - self.end < LARGE_FRAME_BYTES {
            // Only the beginning of a small frame is left here, so the move is cheap.
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// Returns the bytes of memory of the frame that has not arrived whole: the buffer of a large frame counts in full.
    #[must_use]
    pub fn unfinished_bytes(&self) -> usize {
        self.large.as_ref().map_or(self.end - self.start, |large| large.buffer.len())
    }

    /// Marks the first `n` bytes of [`read_buf`](Self::read_buf) as filled.
    pub fn advance(&mut self, n: usize) {
        match &mut self.large {
            Some(large) => large.filled = (large.filled + n).min(large.buffer.len()),
            None => self.end = (self.end + n).min(BUFFER_BYTES),
        }
    }

    /// Returns the next complete frame; `None`: more bytes are needed. After an error the stream is unusable: close the
    /// connection.
    #[expect(clippy::should_implement_trait, reason = "there may be more after nothing: it is no iterator")]
    pub fn next(&mut self) -> Result<Option<Frame>, WireError> {
        if self.large.is_some() {
            return Ok(self.next_large());
        }
        let unread = self.buffer.get(self.start..self.end).unwrap_or_default();
        let Some((&prefix, rest)) = unread.split_first_chunk::<4>() else { return Ok(None) };
        let size = self.parse_frame_size(prefix)?;
        if let Some(frame) = rest.get(..size) {
            let mut slab = self.pool.allocate(size);
            slab.copy_from_slice(frame);
            self.start += 4 + size;
            self.largest_complete = self.largest_complete.max(Some(size));
            return Ok(Some(slab.freeze().into()));
        }
        if size > LARGE_FRAME_BYTES {
            let mut slab = self.pool.allocate(size.min(self.max_allocation(rest.len())));
            let filled = rest.len();
            if let Some(head) = slab.get_mut(..filled) {
                head.copy_from_slice(rest);
            }
            self.large = Some(LargeFrame { buffer: slab, filled, size });
            (self.start, self.end) = (0, 0);
        }
        Ok(None)
    }

    fn next_large(&mut self) -> Option<Frame> {
        let large = self.large.as_ref()?;
        if large.filled < large.buffer.len() {
            return None;
        }
        let (filled, size) = (large.filled, large.size);
        if filled < size {
            let mut slab = self.pool.allocate(size.min(self.max_allocation(filled)));
            if let (Some(large), Some(head)) = (&mut self.large, slab.get_mut(..filled)) {
                head.copy_from_slice(&large.buffer);
                large.buffer = slab;
            }
            return None;
        }
        self.largest_complete = self.largest_complete.max(Some(size));
        self.large.take().map(|large| large.buffer.freeze().into())
    }

    /// Returns the memory that a frame may take of which `received` bytes have arrived. Always more than `received`, so
    /// that there is room to read into.
    fn max_allocation(&self, received: usize) -> usize {
        UNVERIFIED_MAX.max(received.saturating_mul(4)).max(self.largest_complete.unwrap_or_default().saturating_mul(2))
    }

    fn parse_frame_size(&self, prefix: [u8; 4]) -> Result<usize, WireError> {
        if self.largest_complete.is_none() {
            // As sizes, these prefixes would be over 1 GB and about 360 MB, so no legitimate frame is mistaken for them.
            match prefix {
                // Some servers answer what is no request line with a page alone, as HTTP/0.9 does.
                [b'H', b'T', b'T', b'P'] | [b'<', b'!' | b'h' | b'H', ..] => return Err(WireError::LooksLikeHttp),
                [0x15 | 0x16, 0x03, ..] => return Err(WireError::LooksLikeTls),
                _ => {}
            }
        }
        let size = i32::from_be_bytes(prefix);
        match usize::try_from(size) {
            Ok(size) if size <= self.max_frame_bytes => Ok(size),
            Ok(size) => Err(WireError::FrameTooLarge { size, limit: self.max_frame_bytes }),
            Err(_) => Err(WireError::BadLength { what: "a frame", value: size.into() }),
        }
    }
}
