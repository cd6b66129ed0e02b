//! gzip (RFC 1952). Its checksum is left alone: the batch's CRC32C covers every byte already.

use flate2::{Decompress, FlushDecompress, Status};

use super::{Fault, Output};
use crate::primitives::Reader;
use crate::slab::Slab;

const TRAILER_BYTES: usize = 8;
/// DEFLATE cannot do better than 258 bytes in 2 bits.
const BEST_RATIO: u64 = 1032;

/// One inflater, reset from batch to batch.
#[derive(Debug, Default)]
pub(super) struct Gzip {
    inflater: Option<Decompress>,
}

impl Gzip {
    pub fn unpack(&mut self, packed: &[u8], mut output: Output<'_>) -> Result<Slab, Fault> {
        let mut input = packed;
        output.declared(estimate(packed))?;
        // Members may follow each other (RFC 1952, 2.2).
        while !input.is_empty() {
            input = self.member(skip_header(input)?, &mut output)?;
        }
        Ok(output.freeze())
    }

    fn member<'a>(&mut self, mut input: &'a [u8], output: &mut Output<'_>) -> Result<&'a [u8], Fault> {
        let inflater = self.inflater.get_or_insert_with(|| Decompress::new(false));
        inflater.reset(false);
        loop {
            let (_, room) = output.room(1)?;
            let (consumed, written) = (inflater.total_in(), inflater.total_out());
            let status = inflater
                .decompress(input, room, FlushDecompress::Finish)
                .map_err(|_| Fault::Broken("the deflate stream is invalid"))?;
            let (consumed, written) = (inflater.total_in() - consumed, inflater.total_out() - written);
            let full = written as usize == room.len();
            output.wrote(written as usize);
            input = input.get(consumed as usize..).unwrap_or_default();
            if status == Status::StreamEnd {
                break;
            }
            if !full {
                return Err(Fault::Broken("the deflate stream ends too early"));
            }
        }
        input.get(TRAILER_BYTES..).ok_or(Fault::Broken("the trailer is cut off"))
    }
}

/// What the trailer says (of the last member, modulo 4 GiB), if the input can hold that.
fn estimate(packed: &[u8]) -> u64 {
    let declared = packed.last_chunk().map_or(0, |size| u32::from_le_bytes(*size));
    u64::from(declared).min(packed.len() as u64 * BEST_RATIO)
}

fn skip_header(input: &[u8]) -> Result<&[u8], Fault> {
    let mut r = Reader::new(input);
    if r.u16()? != 0x1f8b || r.u8()? != 8 {
        return Err(Fault::Broken("the gzip magic is missing"));
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
