//! Packing: a batch's records into a scratch buffer, in the forms that Kafka's own classes write.

mod gzip;
mod lz4;
mod snappy;
mod zstd;

use std::fmt;

use super::Compression;
use crate::error::WireError;

/// The codecs' contexts, each made when first needed and kept from batch to batch.
#[derive(Default)]
pub struct Compressor {
    /// What was packed last. As long as the longest batch so far, so that it is zeroed once.
    packed: Vec<u8>,
    gzip: gzip::Gzip,
    snappy: snappy::Snappy,
    lz4: lz4::Lz4,
    zstd: zstd::Zstd,
}

impl Compressor {
    /// A compressor without any context yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// `plain`, packed; `None` when that would not make it shorter.
    pub(super) fn pack(
        &mut self,
        codec: Compression,
        level: Option<i32>,
        plain: &[u8],
    ) -> Result<Option<&[u8]>, WireError> {
        if codec == Compression::None || plain.is_empty() {
            return Ok(None);
        }
        if self.packed.len() < plain.len() {
            self.packed.resize(plain.len(), 0);
        }
        let level = codec.levels().zip(level).map(|(levels, level)| level.clamp(*levels.start(), *levels.end()));
        // A byte less than it was: what does not fit there is not worth it.
        let room = self.packed.get_mut(..plain.len() - 1).unwrap_or_default();
        let packed = match codec {
            Compression::None => Ok(None),
            Compression::Gzip => self.gzip.pack(level, plain, room),
            Compression::Snappy => self.snappy.pack(plain, room),
            Compression::Lz4 => self.lz4.pack(plain, room),
            Compression::Zstd => self.zstd.pack(level, plain, room),
        };
        let bytes = packed.map_err(|cause| WireError::Pack { codec, cause })?;
        Ok(bytes.and_then(|bytes| self.packed.get(..bytes)))
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Compressor({} bytes of scratch)", self.packed.len())
    }
}

/// Copies `bytes` to `at` of `room` and says where they end, if they fit.
fn put(room: &mut [u8], at: usize, bytes: &[u8]) -> Option<usize> {
    let end = at + bytes.len();
    room.get_mut(at..end)?.copy_from_slice(bytes);
    Some(end)
}
