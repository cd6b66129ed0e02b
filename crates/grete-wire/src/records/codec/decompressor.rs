//! Decompresses a batch's records into a pooled buffer. Sizes declared in the data are not trusted. The first buffer
//! has at most twice the input and one MiB, or twice the size of the last decompressed batch. The buffer is then
//! doubled as long as the codec really produces bytes.

use super::CodecError;
use super::output::{OutputBuffer, SizeHint};
use crate::buffer_pool::{BufferPool, PooledBuf};
use crate::records::{Compression, RecordError};

/// Contexts of the codecs, each created on first use and kept.
#[derive(Debug)]
pub(crate) struct Decompressor {
    pool: BufferPool,
    limit: usize,
    /// Indexed by codec.
    size_hints: [SizeHint; 5],
    gzip: super::gzip::GzipDecoder,
    zstd: super::zstd::ZstdDecoder,
}

impl Decompressor {
    pub fn new(pool: BufferPool, limit: usize) -> Self {
        Self {
            pool,
            limit,
            size_hints: Default::default(),
            gzip: super::gzip::GzipDecoder::default(),
            zstd: super::zstd::ZstdDecoder::default(),
        }
    }

    /// Decompresses `compressed`, the part after the header of the batch at `base_offset`.
    pub fn decompress(
        &mut self,
        codec: Compression,
        compressed: &[u8],
        base_offset: i64,
    ) -> Result<PooledBuf, RecordError> {
        let hint = self.size_hints.get(codec as usize).copied().unwrap_or_default();
        let output = OutputBuffer::new(&self.pool, self.limit, compressed.len(), hint);
        let decompressed = match codec {
            Compression::None => Err(CodecError::Corrupt("the batch is not compressed")),
            Compression::Gzip => self.gzip.decompress(compressed, output),
            Compression::Snappy => super::snappy::decompress(compressed, output),
            Compression::Lz4 => super::lz4::decompress(compressed, output),
            Compression::Zstd => self.zstd.decompress(compressed, output),
        };
        if let (Ok(slab), Some(past)) = (&decompressed, self.size_hints.get_mut(codec as usize)) {
            *past = SizeHint { compressed: compressed.len(), decompressed: slab.len() };
        }
        decompressed.map_err(|fault| match fault {
            CodecError::Corrupt(cause) => RecordError::Compression { codec, base_offset, cause },
            CodecError::TooLarge(bytes) => RecordError::TooLarge { base_offset, bytes, limit: self.limit as u64 },
        })
    }
}
