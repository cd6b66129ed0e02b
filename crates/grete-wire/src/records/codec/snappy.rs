//! Snappy codec. The decoder reads both forms: raw Snappy, as librdkafka and others write it, and xerial's framing, as
//! Java writes it. The encoder writes xerial's framing, which Java requires, and librdkafka and others read as well.

use snap::raw::{Encoder, max_compress_len};

use super::output::OutputBuffer;
use super::{CodecError, write_at};
use crate::buffer_pool::PooledBuf;
use crate::primitives::Reader;

const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\0";
/// Maximum compression ratio: a copy of 64 bytes takes 3.
const MAX_RATIO: u64 = 22;

pub(super) fn decompress(compressed: &[u8], mut output: OutputBuffer<'_>) -> Result<PooledBuf, CodecError> {
    let Some(framed) = compressed.strip_prefix(XERIAL_MAGIC) else {
        output.set_declared_size(declared_size(compressed)?)?;
        decompress_block(compressed, &mut output)?;
        return Ok(output.freeze());
    };
    let mut r = Reader::new(framed);
    r.take(8)?; // version, oldest compatible version
    let mut total = 0u64;
    let mut blocks = r.clone();
    while blocks.remaining() > 0 {
        total = total.saturating_add(declared_size(next_block(&mut blocks)?)?);
    }
    output.set_declared_size(total)?;
    while r.remaining() > 0 {
        decompress_block(next_block(&mut r)?, &mut output)?;
    }
    Ok(output.freeze())
}

fn next_block<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], CodecError> {
    let len = usize::try_from(r.i32()?).map_err(|_| CodecError::Corrupt("a block has a negative size"))?;
    Ok(r.take(len)?)
}

/// Returns the decompressed size that a block declares; an error if the block cannot hold it.
fn declared_size(block: &[u8]) -> Result<u64, CodecError> {
    let size = Reader::new(block).uvarint()?.into();
    if size > MAX_RATIO * block.len() as u64 {
        return Err(CodecError::Corrupt("a block declares more than it can hold"));
    }
    Ok(size)
}

fn decompress_block(compressed: &[u8], output: &mut OutputBuffer<'_>) -> Result<(), CodecError> {
    let size = declared_size(compressed)? as usize;
    let (_, room) = output.spare(size)?;
    let room = room.get_mut(..size).ok_or(CodecError::TooLarge(size as u64))?;
    snap::raw::Decoder::new()
        .decompress(compressed, room)
        .map_err(|_| CodecError::Corrupt("a snappy block is invalid"))?;
    output.advance(size);
    Ok(())
}

/// Magic, version, and the oldest version that can read the data.
const HEADER: &[u8; 16] = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
/// Block size of Java's encoder.
const MAX_BLOCK_BYTES: usize = 32 * 1024;

/// Encoder with its tables, and room for a block of maximum size.
#[derive(Default)]
pub(super) struct SnappyEncoder {
    encoder: Option<Box<Encoder>>,
    block: Vec<u8>,
}

impl SnappyEncoder {
    /// Compresses into `room`. Returns the bytes written; `None`: `room` is too small.
    pub fn compress(&mut self, plain: &[u8], room: &mut [u8]) -> Result<Option<usize>, &'static str> {
        let encoder = self.encoder.get_or_insert_with(|| Box::new(Encoder::new()));
        self.block.resize(max_compress_len(MAX_BLOCK_BYTES), 0);
        let Some(mut end) = write_at(room, 0, HEADER) else { return Ok(None) };
        for chunk in plain.chunks(MAX_BLOCK_BYTES) {
            let packed = encoder.compress(chunk, &mut self.block).map_err(|_| "the encoder failed")?;
            let block = self.block.get(..packed).unwrap_or_default();
            let Some(start) = write_at(room, end, &(packed as i32).to_be_bytes()) else { return Ok(None) };
            let Some(next) = write_at(room, start, block) else { return Ok(None) };
            end = next;
        }
        Ok(Some(end))
    }
}
