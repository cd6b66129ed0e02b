//! Finished batch, ready to be sent.

use std::fmt;
use std::sync::Arc;

use crate::records::batch_header::{CRC_START, HEADER_BYTES, put_at};

/// Attribute of a batch that is part of a transaction.
const TRANSACTIONAL: u8 = 1 << 4;

/// Finished batch. Call [`EncodedBatch::set_producer_info`] before sending it; without an idempotent producer, with -1,
/// -1, -1.
#[derive(Clone)]
pub struct EncodedBatch {
    pub(super) bytes: Arc<Vec<u8>>,
    count: u32,
    /// Bytes of the records before compression.
    pub(super) uncompressed_bytes: usize,
}

impl EncodedBatch {
    pub(in crate::records) fn new(bytes: Vec<u8>, count: u32, plain: usize) -> Self {
        Self { bytes: Arc::new(bytes), count, uncompressed_bytes: plain }
    }

    /// Marks the batch as part of a transaction. [`EncodedBatch::set_producer_info`] must follow, which writes the
    /// checksum.
    pub fn set_transactional(&mut self) {
        // The low byte of the attributes.
        if let Some(attributes) = Arc::make_mut(&mut self.bytes).get_mut(22) {
            *attributes |= TRANSACTIONAL;
        }
    }

    /// Writes the producer id and epoch, the sequence number of the first record, and the checksum. It writes in place,
    /// unless the bytes have another owner (for example an earlier request that is still being written), which keeps
    /// the old bytes.
    pub fn set_producer_info(&mut self, producer_id: i64, epoch: i16, base_sequence: i32) {
        let bytes = Arc::make_mut(&mut self.bytes);
        let Some(header) = bytes.first_chunk_mut::<HEADER_BYTES>() else { return };
        put_at(header, 43, producer_id.to_be_bytes());
        put_at(header, 51, epoch.to_be_bytes());
        put_at(header, 53, base_sequence.to_be_bytes());
        let crc = crc32c::crc32c(bytes.get(CRC_START..).unwrap_or_default());
        if let Some(header) = bytes.first_chunk_mut() {
            put_at(header, 17, crc.to_be_bytes());
        }
    }

    /// Returns the batch's bytes.
    pub fn bytes(&self) -> &Arc<Vec<u8>> {
        &self.bytes
    }

    /// Returns the number of records.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the length of the batch in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether the batch has no bytes; always `false`, as a batch has a header and records.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the buffer for reuse; `None`: the bytes have another owner.
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
