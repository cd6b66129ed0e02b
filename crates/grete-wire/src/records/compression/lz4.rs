//! LZ4 frames, walked here so that a block unpacks straight into the batch's buffer. Checksums are left alone: the
//! batch's CRC32C covers every byte already.

use lz4_flex::block::{DecompressError, decompress_into, decompress_into_with_dict};

use super::{Fault, Output};
use crate::primitives::Reader;
use crate::slab::Slab;

const MAGIC: u32 = 0x184D_2204;
const SKIPPABLE: u32 = 0x184D_2A50;
/// How far a linked block may reach back.
const WINDOW: usize = 64 * 1024;
/// LZ4 cannot do better.
const BEST_RATIO: usize = 255;

pub(super) fn unpack(packed: &[u8], mut output: Output<'_>) -> Result<Slab, Fault> {
    let mut r = Reader::new(packed);
    while r.remaining() > 0 {
        let magic = r.u32()?.swap_bytes();
        if magic & 0xffff_fff0 == SKIPPABLE {
            let size = r.u32()?.swap_bytes();
            r.take(size as usize)?;
        } else if magic == MAGIC {
            let frame = FrameHeader::read(&mut r)?;
            if output.len() == 0 {
                match frame.content_size {
                    Some(size) => output.declared(size)?,
                    None => output.bounded(bound(r.clone(), &frame)),
                }
            }
            while block(&mut r, &frame, &mut output)? {}
        } else {
            return Err(Fault::Broken("the lz4 magic is missing"));
        }
    }
    Ok(output.freeze())
}

struct FrameHeader {
    block_max: usize,
    linked: bool,
    block_checksums: bool,
    content_checksum: bool,
    content_size: Option<u64>,
}

impl FrameHeader {
    fn read(r: &mut Reader<'_>) -> Result<Self, Fault> {
        let flags = r.u8()?;
        if flags >> 6 != 1 {
            return Err(Fault::Broken("the lz4 frame is of an unknown version"));
        }
        let block_max = match r.u8()? >> 4 & 7 {
            4 => 64 << 10,
            5 => 256 << 10,
            6 => 1 << 20,
            7 => 4 << 20,
            _ => return Err(Fault::Broken("the lz4 frame has an unknown block size")),
        };
        let content_size = if flags & 0x08 != 0 { Some(u64::from_le_bytes(r.i64()?.to_be_bytes())) } else { None };
        if flags & 0x01 != 0 {
            return Err(Fault::Broken("the lz4 frame needs a dictionary"));
        }
        r.u8()?; // header checksum
        Ok(Self {
            block_max,
            linked: flags & 0x20 == 0,
            block_checksums: flags & 0x10 != 0,
            content_checksum: flags & 0x04 != 0,
            content_size,
        })
    }

    /// What a packed block cannot exceed.
    fn most(&self, block: &[u8]) -> usize {
        block.len().saturating_mul(BEST_RATIO).min(self.block_max)
    }

    /// The next block, and whether it is packed; `None` after the last.
    fn next<'a>(&self, r: &mut Reader<'a>) -> Result<Option<(&'a [u8], bool)>, Fault> {
        let size = r.u32()?.swap_bytes();
        if size == 0 {
            if self.content_checksum {
                r.u32()?;
            }
            return Ok(None);
        }
        let block = r.take((size & 0x7fff_ffff) as usize)?;
        if self.block_checksums {
            r.u32()?;
        }
        Ok(Some((block, size & 0x8000_0000 == 0)))
    }
}

/// What the frame's blocks cannot exceed.
fn bound(mut r: Reader<'_>, frame: &FrameHeader) -> usize {
    let mut bound = 0usize;
    while let Ok(Some((block, packed))) = frame.next(&mut r) {
        bound = bound.saturating_add(if packed { frame.most(block) } else { block.len() });
    }
    bound
}

/// Unpacks the next block; false after the last.
fn block(r: &mut Reader<'_>, frame: &FrameHeader, output: &mut Output<'_>) -> Result<bool, Fault> {
    let Some((block, packed)) = frame.next(r)? else { return Ok(false) };
    if !packed {
        if block.len() > frame.block_max {
            return Err(Fault::Broken("an lz4 block is larger than its frame allows"));
        }
        output.copy(block)?;
        return Ok(true);
    }
    let most = frame.most(block);
    // At first with the room that there is: nearly always the block takes less than it could.
    let mut wanted = 1.min(most);
    loop {
        let (written, room) = output.room(wanted)?;
        let available = room.len().min(most);
        let room = room.get_mut(..available).unwrap_or_default();
        let unpacked = if frame.linked {
            let window = written.get(written.len().saturating_sub(WINDOW)..).unwrap_or_default();
            decompress_into_with_dict(block, room, window)
        } else {
            decompress_into(block, room)
        };
        match unpacked {
            Ok(bytes) => {
                output.wrote(bytes);
                return Ok(true);
            }
            Err(DecompressError::OutputTooSmall { .. }) if available < most && wanted < most => wanted = most,
            Err(DecompressError::OutputTooSmall { .. }) if available < most => {
                return Err(Fault::TooLarge((output.len() + available) as u64 + 1));
            }
            Err(_) => return Err(Fault::Broken("an lz4 block is invalid")),
        }
    }
}
