//! Cuts a byte stream into frames.

use super::Frame;
use crate::error::WireError;
use crate::slab::{SlabMut, SlabPool};

const BUFFER: usize = 64 * 1024;
/// An unfinished frame beyond this gets a slab of its own, so that the rest of it is read to where it stays.
const LARGE: usize = 16 * 1024;
/// Memory that a mere announcement may cost.
const UNPROVEN: usize = 1024 * 1024;

/// Cuts a byte stream into frames. The caller reads into [`space`](Self::space), says how much came with
/// [`filled`](Self::filled), then calls [`next`](Self::next) until there is nothing.
///
/// Small frames are copied out of a common buffer; of a large one, only what came along with its size is copied, the
/// rest is read into place. What a peer announces costs memory only as far as it also sends: at most 1 MiB, or four
/// times what the frame has brought, or twice the largest frame that ever came in full.
#[derive(Debug)]
pub struct FrameReader {
    pool: SlabPool,
    max_frame_bytes: usize,
    buffer: SlabMut,
    /// The unread part of `buffer`.
    start: usize,
    end: usize,
    large: Option<Large>,
    /// Size of the largest frame that came in full; `None` before the first.
    proven: Option<usize>,
}

#[derive(Debug)]
struct Large {
    slab: SlabMut,
    filled: usize,
    size: usize,
}

impl FrameReader {
    /// A reader at the beginning of a stream. A frame of more than `max_frame_bytes` (its size field apart) is an error.
    #[must_use]
    pub fn new(pool: SlabPool, max_frame_bytes: usize) -> Self {
        let buffer = pool.take(BUFFER);
        Self { pool, max_frame_bytes, buffer, start: 0, end: 0, large: None, proven: None }
    }

    /// Where the next bytes of the stream belong. Never empty, as long as `next` was called until it gave nothing.
    pub fn space(&mut self) -> &mut [u8] {
        if let Some(large) = &mut self.large {
            return large.slab.get_mut(large.filled..).unwrap_or_default();
        }
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 && BUFFER - self.end < LARGE {
            // What is left here is the beginning of a small frame: moving it is cheap.
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// Says that the first `n` bytes of [`space`](Self::space) have been filled.
    pub fn filled(&mut self, n: usize) {
        match &mut self.large {
            Some(large) => large.filled = (large.filled + n).min(large.slab.len()),
            None => self.end = (self.end + n).min(BUFFER),
        }
    }

    /// The next complete frame. After an error the stream cannot be read on: close the connection.
    #[expect(clippy::should_implement_trait, reason = "there may be more after nothing: it is no iterator")]
    pub fn next(&mut self) -> Result<Option<Frame>, WireError> {
        if self.large.is_some() {
            return Ok(self.next_large());
        }
        let unread = self.buffer.get(self.start..self.end).unwrap_or_default();
        let Some((&prefix, rest)) = unread.split_first_chunk::<4>() else { return Ok(None) };
        let size = self.check(prefix)?;
        if let Some(frame) = rest.get(..size) {
            let mut slab = self.pool.take(size);
            slab.copy_from_slice(frame);
            self.start += 4 + size;
            self.proven = self.proven.max(Some(size));
            return Ok(Some(slab.freeze().into()));
        }
        if size > LARGE {
            let mut slab = self.pool.take(size.min(self.allowed(rest.len())));
            let filled = rest.len();
            if let Some(head) = slab.get_mut(..filled) {
                head.copy_from_slice(rest);
            }
            self.large = Some(Large { slab, filled, size });
            (self.start, self.end) = (0, 0);
        }
        Ok(None)
    }

    fn next_large(&mut self) -> Option<Frame> {
        let large = self.large.as_ref()?;
        if large.filled < large.slab.len() {
            return None;
        }
        let (filled, size) = (large.filled, large.size);
        if filled < size {
            let mut slab = self.pool.take(size.min(self.allowed(filled)));
            if let (Some(large), Some(head)) = (&mut self.large, slab.get_mut(..filled)) {
                head.copy_from_slice(&large.slab);
                large.slab = slab;
            }
            return None;
        }
        self.proven = self.proven.max(Some(size));
        self.large.take().map(|large| large.slab.freeze().into())
    }

    /// How much memory a frame may take of which `received` bytes have come. More than `received`, so that there is
    /// always room to read into.
    fn allowed(&self, received: usize) -> usize {
        UNPROVEN.max(received.saturating_mul(4)).max(self.proven.unwrap_or_default().saturating_mul(2))
    }

    fn check(&self, prefix: [u8; 4]) -> Result<usize, WireError> {
        if self.proven.is_none() {
            // Read as sizes these would be 1.2 GB and some 360 MB, so that nothing legitimate is mistaken.
            match prefix {
                [b'H', b'T', b'T', b'P'] => return Err(WireError::LooksLikeHttp),
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
