//! A batch as it is sent.

use std::fmt;
use std::sync::Arc;

use super::builder::{BatchBuilder, put};
use super::compression::Unpacker;
use super::error::RecordError;
use super::header::{BatchHeader, CRC_START, Compression, HEADER_BYTES};
use crate::error::WireError;
use crate::primitives::Reader;
use crate::slab::{Slab, SlabPool};

/// A finished batch. It is to be stamped before it is sent; without an idempotent producer with -1, -1, -1.
#[derive(Clone)]
pub struct EncodedBatch {
    bytes: Arc<Vec<u8>>,
    count: u32,
    /// Bytes of the records before they were packed.
    plain: usize,
}

impl EncodedBatch {
    pub(super) fn new(bytes: Vec<u8>, count: u32, plain: usize) -> Self {
        Self { bytes: Arc::new(bytes), count, plain }
    }

    /// Writes who sends the batch and the sequence number of its first record, and the checksum. In place, unless
    /// somebody else holds the bytes (an earlier request that is still being written, say), who keeps the old ones.
    pub fn stamp(&mut self, producer_id: i64, epoch: i16, base_sequence: i32) {
        let bytes = Arc::make_mut(&mut self.bytes);
        let Some(header) = bytes.first_chunk_mut::<HEADER_BYTES>() else { return };
        put(header, 43, producer_id.to_be_bytes());
        put(header, 51, epoch.to_be_bytes());
        put(header, 53, base_sequence.to_be_bytes());
        let crc = crc32c::crc32c(bytes.get(CRC_START..).unwrap_or_default());
        if let Some(header) = bytes.first_chunk_mut() {
            put(header, 17, crc.to_be_bytes());
        }
    }

    /// The batch's bytes, to be sent.
    #[must_use]
    pub fn bytes(&self) -> &Arc<Vec<u8>> {
        &self.bytes
    }

    /// Records.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Bytes as they are sent.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never: a batch has a header and records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The same records in two batches, for a broker that finds one too large: half of them in the first, and one more
    /// if they are odd. Their bytes but for the deltas stay the same.
    ///
    /// # Errors
    /// When there is but one record.
    pub fn split(&self) -> Result<(BatchBuilder, BatchBuilder), RecordError> {
        let header = BatchHeader::parse(&self.bytes).map_err(malformed)?;
        let packed = self.bytes.get(HEADER_BYTES..).unwrap_or_default();
        match header.compression() {
            Ok(Compression::None) => halves(packed, &header),
            Ok(codec) => halves(&self.unpack(codec, packed)?, &header),
            Err(code) => Err(WireError::BadValue { what: "the compression codec", value: code.into() }),
        }
        .map_err(malformed)
    }

    fn unpack(&self, codec: Compression, packed: &[u8]) -> Result<Slab, RecordError> {
        // Rare enough that the codec's context is made anew.
        Unpacker::new(SlabPool::new(0), self.plain).unpack(codec, packed, 0)
    }

    /// Gives the buffer back, for another batch, unless somebody else still holds it.
    #[must_use]
    pub fn into_buffer(self) -> Option<Vec<u8>> {
        Arc::try_unwrap(self.bytes).ok()
    }
}

impl fmt::Debug for EncodedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncodedBatch({} records, {} bytes)", self.count, self.len())
    }
}

fn malformed(cause: WireError) -> RecordError {
    RecordError::Malformed { base_offset: 0, cause }
}

/// Re-encodes unpacked records as two batches.
fn halves(records: &[u8], header: &BatchHeader) -> Result<(BatchBuilder, BatchBuilder), WireError> {
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
