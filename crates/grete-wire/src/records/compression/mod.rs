//! Unpacking: a batch's records into a pooled buffer. No codec is believed about sizes: at first there is room for
//! twice the input and a mebibyte at most, or twice what the last batch really came to; then it is doubled, as long as
//! real bytes come out.

mod gzip;
mod lz4;
mod output;
mod snappy;
mod zstd;

use super::{Compression, RecordError};
use crate::slab::{Slab, SlabPool};
use output::{Output, Past};

/// Why unpacking ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The bytes are not what the codec wants.
    Broken(&'static str),
    /// They declare, or unpack to, this many bytes or more, and that is over the limit.
    TooLarge(u64),
}

impl From<crate::WireError> for Fault {
    fn from(_: crate::WireError) -> Self {
        Fault::Broken("the data ends too early")
    }
}

/// The codecs' contexts, each made when first needed and kept.
#[derive(Debug)]
pub(crate) struct Unpacker {
    pool: SlabPool,
    limit: usize,
    /// By codec.
    past: [Past; 5],
    gzip: gzip::Gzip,
    zstd: zstd::Zstd,
}

impl Unpacker {
    pub fn new(pool: SlabPool, limit: usize) -> Self {
        Self { pool, limit, past: Default::default(), gzip: gzip::Gzip::default(), zstd: zstd::Zstd::default() }
    }

    /// Unpacks `packed`, the part after the header of the batch at `base_offset`.
    pub fn unpack(&mut self, codec: Compression, packed: &[u8], base_offset: i64) -> Result<Slab, RecordError> {
        let past = self.past.get(codec as usize).copied().unwrap_or_default();
        let output = Output::new(&self.pool, self.limit, packed.len(), past);
        let unpacked = match codec {
            Compression::None => Err(Fault::Broken("the batch is not compressed")),
            Compression::Gzip => self.gzip.unpack(packed, output),
            Compression::Snappy => snappy::unpack(packed, output),
            Compression::Lz4 => lz4::unpack(packed, output),
            Compression::Zstd => self.zstd.unpack(packed, output),
        };
        if let (Ok(slab), Some(past)) = (&unpacked, self.past.get_mut(codec as usize)) {
            *past = Past { packed: packed.len(), unpacked: slab.len() };
        }
        unpacked.map_err(|fault| match fault {
            Fault::Broken(cause) => RecordError::Compression { codec, base_offset, cause },
            Fault::TooLarge(bytes) => RecordError::TooLarge { base_offset, bytes, limit: self.limit as u64 },
        })
    }
}
