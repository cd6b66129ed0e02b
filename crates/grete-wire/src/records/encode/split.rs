//! Split of a finished batch in two.

use super::batch_builder::BatchBuilder;
use super::encoded_batch::EncodedBatch;
use crate::buffer_pool::{BufferPool, PooledBuf};
use crate::compression::Compression;
use crate::error::WireError;
use crate::primitives::Reader;
use crate::records::batch_header::{BatchHeader, HEADER_BYTES};
use crate::records::codec::decompressor::Decompressor;
use crate::records::error::RecordError;

impl EncodedBatch {
    /// Splits the batch in two, for a broker that finds it too large. The first half has one more record if the number
    /// is odd. The records' bytes stay the same, except for the deltas.
    ///
    /// # Errors
    /// The batch has only one record, or is corrupt.
    pub fn split(&self) -> Result<(BatchBuilder, BatchBuilder), RecordError> {
        let header = BatchHeader::parse(&self.bytes).map_err(malformed)?;
        let packed = self.bytes.get(HEADER_BYTES..).unwrap_or_default();
        match header.compression() {
            Ok(Compression::None) => split_in_two(packed, &header),
            Ok(codec) => split_in_two(&self.decompress(codec, packed)?, &header),
            Err(code) => Err(WireError::BadValue { what: "the compression codec", value: code.into() }),
        }
        .map_err(malformed)
    }

    fn decompress(&self, codec: Compression, packed: &[u8]) -> Result<PooledBuf, RecordError> {
        // Splits are rare enough to create the codec's context anew.
        Decompressor::new(BufferPool::new(0), self.uncompressed_bytes).decompress(codec, packed, 0)
    }
}

fn malformed(cause: WireError) -> RecordError {
    RecordError::Malformed { base_offset: 0, cause }
}

/// Encodes the decompressed records as two batches.
fn split_in_two(records: &[u8], header: &BatchHeader) -> Result<(BatchBuilder, BatchBuilder), WireError> {
    let count = header.record_count;
    if count < 2 {
        return Err(WireError::BadValue { what: "the record count of a batch to be split", value: count.into() });
    }
    let mut r = Reader::new(records);
    let mut half = |count: i32| {
        let mut builder = BatchBuilder::new(Vec::with_capacity(HEADER_BYTES + records.len() / 2));
        for _ in 0..count {
            let length = r.varint()?;
            let length =
                usize::try_from(length).map_err(|_| WireError::BadLength { what: "a record", value: length.into() })?;
            let mut record = Reader::new(r.take(length)?);
            let _attributes = record.i8()?;
            let timestamp = header.base_timestamp.wrapping_add(record.varlong()?);
            let _offset_delta = record.varint()?;
            builder.append_encoded(timestamp, record.rest())?;
        }
        Ok(builder)
    };
    let (first, second) = (half(count - count / 2)?, half(count / 2)?);
    r.finish()?;
    Ok((first, second))
}
