//! zstd (RFC 8878), in one shot into a buffer that is large enough: streaming would copy everything once more, and let
//! a frame's header reserve a window of its choice.

use std::fmt;

use zstd::zstd_safe::{DCtx, ErrorCode};

use super::{Fault, Output};
use crate::primitives::Reader;
use crate::slab::Slab;

const MAGIC: u32 = 0xFD2F_B528;
const SKIPPABLE: u32 = 0x184D_2A50;
/// No block unpacks to more.
const BLOCK_MAX: usize = 128 * 1024;
/// ZSTD_error_dstSize_tooSmall, as its functions return it.
const OUTPUT_TOO_SMALL: ErrorCode = 0usize.wrapping_sub(70);

/// One context, used from batch to batch.
#[derive(Default)]
pub(super) struct Zstd {
    context: Option<DCtx<'static>>,
}

impl Zstd {
    pub fn unpack(&mut self, packed: &[u8], mut output: Output<'_>) -> Result<Slab, Fault> {
        let sizes = Sizes::of(packed);
        match sizes.declared {
            Some(size) => output.declared(size)?,
            None => output.bounded(sizes.bound),
        }
        let context = match &mut self.context {
            Some(context) => context,
            none => none.insert(DCtx::try_create().ok_or(Fault::Broken("no memory for a zstd context"))?),
        };
        let mut tried = 0;
        loop {
            let room = output.fresh(tried)?;
            tried = room.len().max(1);
            match context.decompress(room, packed) {
                Ok(written) => {
                    output.wrote(written);
                    return Ok(output.freeze());
                }
                Err(OUTPUT_TOO_SMALL) => {}
                Err(code) => return Err(Fault::Broken(zstd::zstd_safe::get_error_name(code))),
            }
        }
    }
}

impl fmt::Debug for Zstd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Zstd")
    }
}

/// What the frames say, and what their blocks cannot exceed, found by walking the blocks' three-byte headers. Nothing is
/// judged here: what is broken, zstd itself will name.
struct Sizes {
    /// In all; `None` if a frame does not say.
    declared: Option<u64>,
    bound: usize,
}

impl Sizes {
    fn of(packed: &[u8]) -> Self {
        let mut sizes = Self { declared: Some(0), bound: 0 };
        let mut r = Reader::new(packed);
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
