//! Control records, which end transactions (KIP-98).

use super::batch_header::{BatchHeader, HEADER_BYTES};
use super::decode::check_crc;
use super::{Columns, Compression, DecodeLimits, Decoder, RecordError};
use crate::buffer_pool::{BufferPool, PooledBuf};
use crate::primitives::Reader;

/// Type of a control record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlType {
    /// The transaction is aborted.
    Abort,
    /// The transaction is committed.
    Commit,
    /// Another type, as a leader change, which only concerns brokers.
    Other,
}

/// Decodes a control record's key: version and type, 16 bits each. `Other`: the key is too short.
#[must_use]
pub fn control_type(key: &[u8]) -> ControlType {
    match key {
        [_, _, 0, 0, ..] => ControlType::Abort,
        [_, _, 0, 1, ..] => ControlType::Commit,
        _ => ControlType::Other,
    }
}

/// Returns the type of the first record in a control batch, after a check of the CRC. `Other`: compaction left no
/// record.
pub(crate) fn control_batch_type(batch: &[u8], header: &BatchHeader) -> Result<ControlType, RecordError> {
    check_crc(batch, header)?;
    let base_offset = header.base_offset;
    let malformed = |cause| RecordError::Malformed { base_offset, cause };
    if header.record_count == 0 {
        return Ok(ControlType::Other);
    }
    if header.compression() != Ok(Compression::None) {
        return compressed_batch_type(batch, header);
    }
    let mut r = Reader::new(batch.get(HEADER_BYTES..).unwrap_or_default());
    let mut key = || {
        let (_length, _attributes, _timestamp, _offset) = (r.varint()?, r.i8()?, r.varlong()?, r.varint()?);
        let len = r.varint()?;
        r.take(usize::try_from(len).unwrap_or(0))
    };
    key().map(control_type).map_err(malformed)
}

/// Decodes a compressed control batch. No known broker writes one, but the format allows it.
#[cold]
fn compressed_batch_type(batch: &[u8], header: &BatchHeader) -> Result<ControlType, RecordError> {
    let mut decoder = Decoder::new(BufferPool::new(0), DecodeLimits { max_decompressed_batch_bytes: 64 * 1024 });
    let mut columns = Columns::default();
    let slab = PooledBuf::from(batch.to_vec());
    decoder.decode_verified(&slab, 0..batch.len(), header, 0, &mut columns)?;
    Ok(control_type(columns.key(0).unwrap_or_default()))
}
