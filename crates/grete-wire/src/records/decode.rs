//! Decodes batches to columns: checksum, decompression, records.

use std::ops::Range;

use super::batch_header::{BatchHeader, CRC_START, HEADER_BYTES};
use super::codec::decompressor::Decompressor;
use super::decode_columns::decode_into_columns;
use super::{Columns, Compression, RecordError};
use crate::buffer_pool::{BufferPool, PooledBuf};
use crate::error::WireError;

/// Limits of a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Maximum bytes of one decompressed batch.
    pub max_decompressed_batch_bytes: usize,
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self { max_decompressed_batch_bytes: 128 << 20 }
    }
}

/// Decoder of batches. One per worker thread: it keeps the codecs' contexts from batch to batch.
#[derive(Debug)]
pub struct Decoder {
    decompressor: Decompressor,
}

impl Decoder {
    /// Creates a decoder that decompresses into buffers of `pool`.
    pub fn new(pool: BufferPool, limits: DecodeLimits) -> Self {
        Self { decompressor: Decompressor::new(pool, limits.max_decompressed_batch_bytes) }
    }

    /// Appends the records at or after `from_offset` of the batch at `batch` of `slab`. `header` is the batch's header
    /// from [`iter_batches`](super::iter_batches). A control batch is checked, and appends nothing.
    ///
    /// # Errors
    /// The checksum differs, or the data cannot be decompressed, exceeds the limit, or is malformed. `columns` is then
    /// unchanged.
    pub fn decode(
        &mut self,
        slab: &PooledBuf,
        batch: Range<usize>,
        header: &BatchHeader,
        from_offset: i64,
        columns: &mut Columns,
    ) -> Result<(), RecordError> {
        check_crc(slab.get(batch.clone()).unwrap_or_default(), header)?;
        if header.is_control() || header.record_count == 0 {
            return Ok(());
        }
        self.decode_verified(slab, batch, header, from_offset, columns)
    }

    /// Decodes a batch after the check of its checksum.
    pub(crate) fn decode_verified(
        &mut self,
        slab: &PooledBuf,
        batch: Range<usize>,
        header: &BatchHeader,
        from_offset: i64,
        columns: &mut Columns,
    ) -> Result<(), RecordError> {
        let malformed = |cause| RecordError::Malformed { base_offset: header.base_offset, cause };
        let codec = header
            .compression()
            .map_err(|code| malformed(WireError::BadValue { what: "the compression codec", value: code.into() }))?;
        let rows = columns.len();
        let buffers = columns.buffers.len();
        let decoded = if codec == Compression::None {
            decode_into_columns(slab, batch.start + HEADER_BYTES, batch.end, header, from_offset, columns)
        } else {
            let packed = slab.get(batch.start + HEADER_BYTES..batch.end).unwrap_or_default();
            let unpacked = self.decompressor.decompress(codec, packed, header.base_offset)?;
            decode_into_columns(&unpacked, 0, unpacked.len(), header, from_offset, columns)
        };
        decoded.map_err(|cause| {
            columns.truncate(rows);
            columns.buffers.truncate(buffers);
            malformed(cause)
        })
    }
}

/// Checks the CRC of a batch. [`Decoder::decode`] does so itself.
///
/// # Errors
/// [`RecordError::Crc`] if the checksum differs.
pub fn check_crc(batch: &[u8], header: &BatchHeader) -> Result<(), RecordError> {
    let actual = crc32c::crc32c(batch.get(CRC_START..).unwrap_or_default());
    if actual == header.crc {
        return Ok(());
    }
    Err(RecordError::Crc { expected: header.crc, actual, base_offset: header.base_offset })
}
