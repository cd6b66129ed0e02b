//! Batches to columns: checksum, unpack, append.

use std::ops::Range;

use super::append::append;
use super::compression::Unpacker;
use super::header::{BatchHeader, CRC_START, Compression, HEADER_BYTES};
use super::{Columns, RecordError};
use crate::error::WireError;
use crate::slab::{Slab, SlabPool};

/// What a decoder accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Bytes that one batch may unpack to.
    pub max_decompressed_batch_bytes: usize,
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self { max_decompressed_batch_bytes: 128 << 20 }
    }
}

/// Decodes batches. One per worker thread: it keeps the codecs' contexts from batch to batch.
#[derive(Debug)]
pub struct Decoder {
    unpacker: Unpacker,
}

impl Decoder {
    /// A decoder that unpacks into buffers of `pool`.
    #[must_use]
    pub fn new(pool: SlabPool, limits: DecodeLimits) -> Self {
        Self { unpacker: Unpacker::new(pool, limits.max_decompressed_batch_bytes) }
    }

    /// Appends the records at or after `from_offset` of the batch at `batch` of `slab`, whose `header` the walk gave.
    /// A control batch is checked, and appends nothing.
    ///
    /// # Errors
    /// When the checksum differs, the data does not unpack, exceeds the limit, or is malformed; `columns` is then as
    /// it was before.
    pub fn decode(
        &mut self,
        slab: &Slab,
        batch: Range<usize>,
        header: &BatchHeader,
        from_offset: i64,
        columns: &mut Columns,
    ) -> Result<(), RecordError> {
        check_crc(slab.get(batch.clone()).unwrap_or_default(), header)?;
        if header.is_control() || header.record_count == 0 {
            return Ok(());
        }
        self.append(slab, batch, header, from_offset, columns)
    }

    /// What is left after the checksum.
    pub(crate) fn append(
        &mut self,
        slab: &Slab,
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
            append(slab, batch.start + HEADER_BYTES, batch.end, header, from_offset, columns)
        } else {
            let packed = slab.get(batch.start + HEADER_BYTES..batch.end).unwrap_or_default();
            let unpacked = self.unpacker.unpack(codec, packed, header.base_offset)?;
            append(&unpacked, 0, unpacked.len(), header, from_offset, columns)
        };
        decoded.map_err(|cause| {
            columns.truncate(rows);
            columns.buffers.truncate(buffers);
            malformed(cause)
        })
    }
}

/// Whether the batch's bytes are those that were checksummed; [`Decoder::decode`] looks by itself.
///
/// # Errors
/// When they are not.
pub fn check_crc(batch: &[u8], header: &BatchHeader) -> Result<(), RecordError> {
    let actual = crc32c::crc32c(batch.get(CRC_START..).unwrap_or_default());
    if actual == header.crc {
        return Ok(());
    }
    Err(RecordError::Crc { expected: header.crc, actual, base_offset: header.base_offset })
}
