//! zstd codec (RFC 8878). The decoder decompresses in one call into a buffer that is large enough. Streaming would copy
//! everything once more, and would let a frame's header choose the size of a window. The encoder compresses in one
//! call, too, so that the frame contains its decompressed size, and readers reserve memory once.

use std::fmt;

use zstd::zstd_safe::{CCtx, DCtx, ErrorCode, get_error_name};

use super::CodecError;
use super::output::OutputBuffer;
use crate::buffer_pool::PooledBuf;
use crate::primitives::Reader;

const MAGIC: u32 = 0xFD2F_B528;
const SKIPPABLE: u32 = 0x184D_2A50;
/// Maximum decompressed size of a block.
const BLOCK_MAX: usize = 128 * 1024;
/// ZSTD_error_dstSize_tooSmall, as returned by zstd's functions.
const OUTPUT_TOO_SMALL: ErrorCode = 0usize.wrapping_sub(70);

/// Decoder with one context, reused from batch to batch.
#[derive(Default)]
pub(super) struct ZstdDecoder {
    context: Option<DCtx<'static>>,
}

impl ZstdDecoder {
    pub fn decompress(&mut self, compressed: &[u8], mut output: OutputBuffer<'_>) -> Result<PooledBuf, CodecError> {
        let sizes = ContentSize::from_frames(compressed);
        match sizes.declared {
            Some(size) => output.set_declared_size(size)?,
            None => output.set_upper_bound(sizes.bound),
        }
        let context = match &mut self.context {
            Some(context) => context,
            none => none.insert(DCtx::try_create().ok_or(CodecError::Corrupt("no memory for a zstd context"))?),
        };
        let mut tried = 0;
        loop {
            let room = output.restart(tried)?;
            tried = room.len().max(1);
            match context.decompress(room, compressed) {
                Ok(written) => {
                    output.advance(written);
                    return Ok(output.freeze());
                }
                Err(OUTPUT_TOO_SMALL) => {}
                Err(code) => return Err(CodecError::Corrupt(zstd::zstd_safe::get_error_name(code))),
            }
        }
    }
}

impl fmt::Debug for ZstdDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Zstd")
    }
}

/// Declared size and upper bound of the decompressed data, from the frame headers and the three-byte block headers.
/// Errors are ignored here; zstd itself reports them.
struct ContentSize {
    /// Sum over all frames; `None`: a frame does not declare its size.
    declared: Option<u64>,
    bound: usize,
}

impl ContentSize {
    fn from_frames(compressed: &[u8]) -> Self {
        let mut sizes = Self { declared: Some(0), bound: 0 };
        let mut r = Reader::new(compressed);
        while r.remaining() > 0 && sizes.frame(&mut r).is_some() {}
        if r.remaining() > 0 {
            sizes = Self { declared: sizes.declared.filter(|&size| size > 0), bound: usize::MAX };
        }
        sizes
    }

    fn frame(&mut self, r: &mut Reader<'_>) -> Option<()> {
        let magic = r.u32().ok()?.swap_bytes();
        if magic & 0xffff_fff0 == SKIPPABLE {
            let size = r.u32().ok()?.swap_bytes();
            return r.take(size as usize).ok().map(drop);
        }
        if magic != MAGIC {
            return None;
        }
        let descriptor = r.u8().ok()?;
        let single_segment = descriptor & 0x20 != 0;
        let window = usize::from(!single_segment);
        let dictionary = [0, 1, 2, 4].get(usize::from(descriptor & 3)).copied()?;
        r.take(window + dictionary).ok()?;
        let content = match descriptor >> 6 {
            0 if single_segment => Some(u64::from(r.u8().ok()?)),
            0 => None,
            1 => Some(u64::from(r.u16().ok()?.swap_bytes()) + 256),
            2 => Some(u64::from(r.u32().ok()?.swap_bytes())),
            _ => Some(u64::from_le_bytes(r.i64().ok()?.to_be_bytes())),
        };
        self.declared = self.declared.zip(content).map(|(sum, size)| sum.saturating_add(size));
        loop {
            let [a, b, c] = *r.take(3).ok()?.first_chunk()?;
            let header = u32::from_le_bytes([a, b, c, 0]);
            let size = (header >> 3) as usize;
            let (stored, most) = match header >> 1 & 3 {
                0 => (size, size),
                1 => (1, size),
                _ => (size, BLOCK_MAX),
            };
            r.take(stored).ok()?;
            self.bound = self.bound.saturating_add(most);
            if header & 1 != 0 {
                break;
            }
        }
        if descriptor & 0x04 != 0 {
            r.u32().ok()?;
        }
        Some(())
    }
}

/// Default level of zstd, and of Java.
const DEFAULT_LEVEL: i32 = 3;

/// Encoder with one context, reused from batch to batch.
#[derive(Default)]
pub(super) struct ZstdEncoder {
    context: Option<CCtx<'static>>,
}

impl ZstdEncoder {
    /// Compresses into `room`. Returns the bytes written; `None`: `room` is too small.
    pub fn compress(
        &mut self,
        level: Option<i32>,
        plain: &[u8],
        room: &mut [u8],
    ) -> Result<Option<usize>, &'static str> {
        let context = match &mut self.context {
            Some(context) => context,
            none => none.insert(CCtx::try_create().ok_or("there is no memory for its context")?),
        };
        match context.compress(room, plain, level.unwrap_or(DEFAULT_LEVEL)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(OUTPUT_TOO_SMALL) => Ok(None),
            Err(code) => Err(get_error_name(code)),
        }
    }
}
