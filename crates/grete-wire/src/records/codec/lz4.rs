//! LZ4 frame codec. The decoder parses the frames itself, so that blocks are decompressed directly into the batch's
//! buffer. It ignores LZ4's checksums, because the batch's CRC-32C covers every byte.
//!
//! The encoder writes frames as Java does (KIP-57): independent blocks of at most 64 KiB, and no checksum except the
//! header's.

use lz4_flex::block::{
    CompressTable, DecompressError, compress_into_with_table, decompress_into, decompress_into_with_dict,
    get_maximum_output_size,
};

use super::output::OutputBuffer;
use super::{CodecError, write_at};
use crate::buffer_pool::PooledBuf;
use crate::primitives::Reader;

const MAGIC: u32 = 0x184D_2204;
const SKIPPABLE: u32 = 0x184D_2A50;
/// Maximum distance of references in linked blocks, in bytes.
const WINDOW: usize = 64 * 1024;
/// Maximum compression ratio of LZ4.
const MAX_RATIO: usize = 255;

pub(super) fn decompress(compressed: &[u8], mut output: OutputBuffer<'_>) -> Result<PooledBuf, CodecError> {
    let mut r = Reader::new(compressed);
    while r.remaining() > 0 {
        let magic = r.u32()?.swap_bytes();
        if magic & 0xffff_fff0 == SKIPPABLE {
            let size = r.u32()?.swap_bytes();
            r.take(size as usize)?;
        } else if magic == MAGIC {
            let frame = FrameHeader::read(&mut r)?;
            if output.len() == 0 {
                match frame.content_size {
                    Some(size) => output.set_declared_size(size)?,
                    None => output.set_upper_bound(max_size(r.clone(), &frame)),
                }
            }
            while decompress_block(&mut r, &frame, &mut output)? {}
        } else {
            return Err(CodecError::Corrupt("the lz4 magic is missing"));
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
    fn read(r: &mut Reader<'_>) -> Result<Self, CodecError> {
        let flags = r.u8()?;
        if flags >> 6 != 1 {
            return Err(CodecError::Corrupt("the lz4 frame is of an unknown version"));
        }
        let block_max = match r.u8()? >> 4 & 7 {
            4 => 64 << 10,
            5 => 256 << 10,
            6 => 1 << 20,
            7 => 4 << 20,
            _ => return Err(CodecError::Corrupt("the lz4 frame has an unknown block size")),
        };
        let content_size = if flags & 0x08 != 0 { Some(u64::from_le_bytes(r.i64()?.to_be_bytes())) } else { None };
        if flags & 0x01 != 0 {
            return Err(CodecError::Corrupt("the lz4 frame needs a dictionary"));
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

    /// Returns the maximum decompressed size of a compressed block.
    fn max_block_size(&self, block: &[u8]) -> usize {
        block.len().saturating_mul(MAX_RATIO).min(self.block_max)
    }

    /// Returns the next block, and whether it is compressed; `None`: there are no more.
    fn next<'a>(&self, r: &mut Reader<'a>) -> Result<Option<(&'a [u8], bool)>, CodecError> {
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

/// Returns the maximum decompressed size of the frame's blocks.
fn max_size(mut r: Reader<'_>, frame: &FrameHeader) -> usize {
    let mut bound = 0usize;
    while let Ok(Some((block, packed))) = frame.next(&mut r) {
        bound = bound.saturating_add(if packed { frame.max_block_size(block) } else { block.len() });
    }
    bound
}

/// Decompresses the next block; `false`: there are no more.
fn decompress_block(
    r: &mut Reader<'_>,
    frame: &FrameHeader,
    output: &mut OutputBuffer<'_>,
) -> Result<bool, CodecError> {
    let Some((block, packed)) = frame.next(r)? else { return Ok(false) };
    if !packed {
        if block.len() > frame.block_max {
            return Err(CodecError::Corrupt("an lz4 block is larger than its frame allows"));
        }
        output.append(block)?;
        return Ok(true);
    }
    let most = frame.max_block_size(block);
    // The first attempt uses the room that is there: nearly always the block takes less than its maximum.
    let mut wanted = 1.min(most);
    loop {
        let (written, room) = output.spare(wanted)?;
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
                output.advance(bytes);
                return Ok(true);
            }
            Err(DecompressError::OutputTooSmall { .. }) if available < most && wanted < most => wanted = most,
            Err(DecompressError::OutputTooSmall { .. }) if available < most => {
                return Err(CodecError::TooLarge((output.len() + available) as u64 + 1));
            }
            Err(_) => return Err(CodecError::Corrupt("an lz4 block is invalid")),
        }
    }
}

/// Magic; version 1 and independent blocks; maximum block size 64 KiB; the second byte of XXH32 over the previous two.
const HEADER: &[u8; 7] = &[0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];
const MAX_BLOCK_BYTES: usize = 64 * 1024;
/// Flag of an uncompressed block.
const STORED: u32 = 1 << 31;
const END: [u8; 4] = [0; 4];

/// Encoder with one match table, and room for a block of maximum size.
#[derive(Default)]
pub(super) struct Lz4Encoder {
    table: Option<CompressTable>,
    block: Vec<u8>,
}

impl Lz4Encoder {
    /// Compresses into `room`. Returns the bytes written; `None`: `room` is too small.
    pub fn compress(&mut self, plain: &[u8], room: &mut [u8]) -> Result<Option<usize>, &'static str> {
        let table = self.table.get_or_insert_default();
        self.block.resize(get_maximum_output_size(MAX_BLOCK_BYTES), 0);
        let Some(mut end) = write_at(room, 0, HEADER) else { return Ok(None) };
        for chunk in plain.chunks(MAX_BLOCK_BYTES) {
            let packed = compress_into_with_table(chunk, &mut self.block, table).map_err(|_| "the encoder failed")?;
            let (block, flag) = match self.block.get(..packed) {
                Some(block) if packed < chunk.len() => (block, 0),
                _ => (chunk, STORED),
            };
            let Some(start) = write_at(room, end, &(block.len() as u32 | flag).to_le_bytes()) else {
                return Ok(None);
            };
            let Some(next) = write_at(room, start, block) else { return Ok(None) };
            end = next;
        }
        Ok(write_at(room, end, &END))
    }
}
