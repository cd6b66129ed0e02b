//! Snappy: raw, as librdkafka and others write it, or in xerial's framing, as Java does.

use super::{Fault, Output};
use crate::primitives::Reader;
use crate::slab::Slab;

const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\0";
/// A copy of 64 bytes takes 3.
const BEST_RATIO: u64 = 22;

pub(super) fn unpack(packed: &[u8], mut output: Output<'_>) -> Result<Slab, Fault> {
    let Some(framed) = packed.strip_prefix(XERIAL_MAGIC) else {
        output.declared(declared(packed)?)?;
        block(packed, &mut output)?;
        return Ok(output.freeze());
    };
    let mut r = Reader::new(framed);
    r.take(8)?; // version, oldest compatible version
    let mut total = 0u64;
    let mut blocks = r.clone();
    while blocks.remaining() > 0 {
        total = total.saturating_add(declared(next(&mut blocks)?)?);
    }
    output.declared(total)?;
    while r.remaining() > 0 {
        block(next(&mut r)?, &mut output)?;
    }
    Ok(output.freeze())
}

fn next<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], Fault> {
    let len = usize::try_from(r.i32()?).map_err(|_| Fault::Broken("a block has a negative size"))?;
    Ok(r.take(len)?)
}

/// What a block says it unpacks to, if it can.
fn declared(block: &[u8]) -> Result<u64, Fault> {
    let size = Reader::new(block).uvarint()?.into();
    if size > BEST_RATIO * block.len() as u64 {
        return Err(Fault::Broken("a block declares more than it can hold"));
    }
    Ok(size)
}

fn block(packed: &[u8], output: &mut Output<'_>) -> Result<(), Fault> {
    let size = declared(packed)? as usize;
    let (_, room) = output.room(size)?;
    let room = room.get_mut(..size).ok_or(Fault::TooLarge(size as u64))?;
    snap::raw::Decoder::new().decompress(packed, room).map_err(|_| Fault::Broken("a snappy block is invalid"))?;
    output.wrote(size);
    Ok(())
}
