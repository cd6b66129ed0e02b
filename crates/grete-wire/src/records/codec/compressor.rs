//! Compresses a batch's records into a scratch buffer, in the forms that Kafka's own classes write.

use std::fmt;

use crate::error::WireError;
use crate::records::Compression;

/// Contexts of the codecs, each created on first use and kept from batch to batch.
#[derive(Default)]
pub struct Compressor {
    /// Compressed bytes of the last batch. As long as the longest batch so far, so that it is zeroed once.
    scratch: Vec<u8>,
    gzip: super::gzip::GzipEncoder,
    snappy: super::snappy::SnappyEncoder,
    lz4: super::lz4::Lz4Encoder,
    zstd: super::zstd::ZstdEncoder,
}

impl Compressor {
    /// Creates a compressor without any context.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns `plain` compressed; `None`: the result would not be shorter.
    pub(in crate::records) fn compress(
        &mut self,
        codec: Compression,
        level: Option<i32>,
        plain: &[u8],
    ) -> Result<Option<&[u8]>, WireError> {
        if codec == Compression::None || plain.is_empty() {
            return Ok(None);
        }
        if self.scratch.len() < plain.len() {
            self.scratch.resize(plain.len(), 0);
        }
        let level = codec.level_range().zip(level).map(|(levels, level)| level.clamp(*levels.start(), *levels.end()));
        // One byte less than the input: a longer result is not worth it.
        let room = self.scratch.get_mut(..plain.len() - 1).unwrap_or_default();
        let packed = match codec {
            Compression::None => Ok(None),
            Compression::Gzip => self.gzip.compress(level, plain, room),
            Compression::Snappy => self.snappy.compress(plain, room),
            Compression::Lz4 => self.lz4.compress(plain, room),
            Compression::Zstd => self.zstd.compress(level, plain, room),
        };
        let bytes = packed.map_err(|cause| WireError::Compress { codec, cause })?;
        Ok(bytes.and_then(|bytes| self.scratch.get(..bytes)))
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Compressor({} bytes of scratch)", self.scratch.len())
    }
}
