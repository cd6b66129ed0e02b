//! gzip codec (RFC 1952). The decoder ignores gzip's checksum, because the batch's CRC-32C covers every byte. The
//! encoder writes one member.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::CodecError;
use super::output::OutputBuffer;
use crate::buffer_pool::PooledBuf;
use crate::primitives::Reader;

const TRAILER_BYTES: usize = 8;
/// Maximum ratio of DEFLATE: 258 bytes in 2 bits.
const MAX_RATIO: u64 = 1032;

/// Decoder with one inflater, which is reset from batch to batch.
#[derive(Debug, Default)]
pub(super) struct GzipDecoder {
    inflater: Option<Decompress>,
}

impl GzipDecoder {
    pub fn decompress(&mut self, compressed: &[u8], mut output: OutputBuffer<'_>) -> Result<PooledBuf, CodecError> {
        let mut input = compressed;
        output.set_declared_size(declared_size(compressed))?;
        // Several members may follow each other (RFC 1952, 2.2).
        while !input.is_empty() {
            input = self.member(skip_header(input)?, &mut output)?;
        }
        Ok(output.freeze())
    }

    fn member<'a>(&mut self, mut input: &'a [u8], output: &mut OutputBuffer<'_>) -> Result<&'a [u8], CodecError> {
        let inflater = self.inflater.get_or_insert_with(|| Decompress::new(false));
        inflater.reset(false);
        loop {
            let (_, room) = output.spare(1)?;
            let (consumed, written) = (inflater.total_in(), inflater.total_out());
            let status = inflater
                .decompress(input, room, FlushDecompress::Finish)
                .map_err(|_| CodecError::Corrupt("the deflate stream is invalid"))?;
            let (consumed, written) = (inflater.total_in() - consumed, inflater.total_out() - written);
            let full = written as usize == room.len();
            output.advance(written as usize);
            input = input.get(consumed as usize..).unwrap_or_default();
            if status == Status::StreamEnd {
                break;
            }
            if !full {
                return Err(CodecError::Corrupt("the deflate stream ends too early"));
            }
        }
        input.get(TRAILER_BYTES..).ok_or(CodecError::Corrupt("the trailer is cut off"))
    }
}

/// Returns the size in the trailer (of the last member, modulo 4 GiB), bounded by what the input can hold.
fn declared_size(compressed: &[u8]) -> u64 {
    let declared = compressed.last_chunk().map_or(0, |size| u32::from_le_bytes(*size));
    u64::from(declared).min(compressed.len() as u64 * MAX_RATIO)
}

fn skip_header(input: &[u8]) -> Result<&[u8], CodecError> {
    let mut r = Reader::new(input);
    if r.u16()? != 0x1f8b || r.u8()? != 8 {
        return Err(CodecError::Corrupt("the gzip magic is missing"));
    }
    let flags = r.u8()?;
    r.take(6)?; // time, hints, system
    if flags & 0x04 != 0 {
        let extra = r.u16()?.swap_bytes();
        r.take(extra.into())?;
    }
    for text in [0x08, 0x10] {
        if flags & text != 0 {
            while r.u8()? != 0 {}
        }
    }
    if flags & 0x02 != 0 {
        r.u16()?;
    }
    Ok(r.rest())
}

/// Encoder with one deflater, which is reset from batch to batch.
#[derive(Default)]
pub(super) struct GzipEncoder {
    deflater: Option<(u32, Compress)>,
}

/// zlib's default level.
const DEFAULT_LEVEL: u32 = 6;
/// Window of 32 KiB, which every inflater supports.
const WINDOW_BITS: u8 = 15;

impl GzipEncoder {
    /// Compresses into `room`. Returns the bytes written; `None`: `room` is too small.
    pub fn compress(
        &mut self,
        level: Option<i32>,
        plain: &[u8],
        room: &mut [u8],
    ) -> Result<Option<usize>, &'static str> {
        let level = level.map_or(DEFAULT_LEVEL, i32::cast_unsigned);
        let deflater = match &mut self.deflater {
            Some((made, deflater)) if *made == level => {
                deflater.reset();
                deflater
            }
            other => &mut other.insert((level, Compress::new_gzip(Compression::new(level), WINDOW_BITS))).1,
        };
        match deflater.compress(plain, room, FlushCompress::Finish) {
            Ok(Status::StreamEnd) => Ok(Some(deflater.total_out() as usize)),
            Ok(_) => Ok(None),
            Err(_) => Err("the deflater failed"),
        }
    }
}
