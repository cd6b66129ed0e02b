//! Builder of a batch. Each record is encoded into the send buffer as soon as it is appended.

use std::fmt;

use super::encoded_batch::EncodedBatch;
use super::producer_record::{ProducerRecord, field_bytes, headers_bytes, put_field, put_headers, varlong_bytes};
use crate::compression::Compression;
use crate::error::WireError;
use crate::primitives::writer::{put_varint, put_varlong};
use crate::records::batch_header::{HEADER_BYTES, LENGTH_END, put_at};
use crate::records::codec::compressor::Compressor;

/// Maximum length of a batch: its length field counts the bytes after itself, and the batch has to fit into a request.
const MAX_LENGTH: usize = i32::MAX as usize;

/// Collects encoded records, after the space for the batch's header.
pub struct BatchBuilder {
    pub(in crate::records) buffer: Vec<u8>,
    pub(in crate::records) count: u32,
    base_timestamp: i64,
    pub(in crate::records) max_timestamp: i64,
}

impl BatchBuilder {
    /// Creates an empty batch in `buffer`. The buffer's content is dropped, its capacity kept.
    pub fn new(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        buffer.extend_from_slice(&[0; HEADER_BYTES]);
        Self { buffer, count: 0, base_timestamp: -1, max_timestamp: -1 }
    }

    /// Returns the length of the batch so far in bytes, uncompressed and with its header.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the bytes that fit into the buffer without growing it.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Returns the number of records.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns whether there is no record yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the timestamp of the first record; -1: there is none.
    pub fn base_timestamp(&self) -> i64 {
        self.base_timestamp
    }

    /// Returns the largest timestamp; -1: there is no record.
    pub fn max_timestamp(&self) -> i64 {
        self.max_timestamp
    }

    /// Reserves memory for `additional` more bytes, and no more than that.
    pub fn reserve(&mut self, additional: usize) {
        self.buffer.reserve_exact(additional);
    }

    /// Returns the buffer for reuse; the records are dropped.
    #[must_use]
    pub fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// Returns the exact number of bytes that [`BatchBuilder::append`] would add for this record.
    #[inline]
    pub fn record_bytes(&self, record: &ProducerRecord<'_>) -> usize {
        let body = self.body_bytes(record);
        varlong_bytes(body as i64).saturating_add(body)
    }

    /// Returns the bytes after the record's length field.
    #[inline(always)]
    fn body_bytes(&self, record: &ProducerRecord<'_>) -> usize {
        (self.head_bytes(record.timestamp) + field_bytes(record.key) + field_bytes(record.value))
            .saturating_add(headers_bytes(record.headers))
    }

    /// Returns the bytes of the body before the key: attributes and deltas.
    #[inline(always)]
    fn head_bytes(&self, timestamp: i64) -> usize {
        1 + varlong_bytes(self.timestamp_delta(timestamp)) + varlong_bytes(self.count.into())
    }

    /// Returns the difference to the first record's timestamp, which is the base. It wraps, like the decoders'
    /// addition.
    #[inline(always)]
    pub(in crate::records) fn timestamp_delta(&self, timestamp: i64) -> i64 {
        if self.count == 0 { 0 } else { timestamp.wrapping_sub(self.base_timestamp) }
    }

    /// Appends a record; the buffer grows if necessary. [`BatchBuilder::try_append`] is faster.
    ///
    /// # Errors
    /// The batch would exceed the protocol's maximum length; it is then unchanged.
    #[inline(never)]
    pub fn append(&mut self, record: &ProducerRecord<'_>) -> Result<(), WireError> {
        self.append_record_head(self.body_bytes(record), record.timestamp)?;
        put_field(&mut self.buffer, record.key);
        put_field(&mut self.buffer, record.value);
        put_headers(&mut self.buffer, record.headers);
        Ok(())
    }

    /// Appends a record whose key, value and headers are encoded already.
    pub(in crate::records) fn append_encoded(&mut self, timestamp: i64, rest: &[u8]) -> Result<(), WireError> {
        self.append_record_head(self.head_bytes(timestamp) + rest.len(), timestamp)?;
        self.buffer.extend_from_slice(rest);
        Ok(())
    }

    /// Counts a record, and writes the part before its key.
    fn append_record_head(&mut self, body: usize, timestamp: i64) -> Result<(), WireError> {
        let total = varlong_bytes(body as i64).saturating_add(body);
        let len = self.buffer.len().saturating_add(total);
        if len > MAX_LENGTH {
            return Err(WireError::TooLong { what: "a record batch", len, limit: MAX_LENGTH });
        }
        let delta = self.timestamp_delta(timestamp);
        if self.count == 0 {
            self.base_timestamp = timestamp;
            self.max_timestamp = timestamp;
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.buffer.reserve(total);
        put_varint(&mut self.buffer, body as i32);
        self.buffer.push(0);
        put_varlong(&mut self.buffer, delta);
        put_varint(&mut self.buffer, self.count as i32);
        self.count += 1;
        Ok(())
    }

    /// Finishes the batch in the same buffer: compresses the records, if that makes them smaller, and writes the header
    /// except for the fields that [`EncodedBatch::set_producer_info`] writes. `level` is clamped to
    /// [`Compression::level_range`]; `None`: the codec's default.
    ///
    /// # Errors
    /// The batch is empty, or the codec fails.
    pub fn finish(
        mut self,
        compression: Compression,
        level: Option<i32>,
        compressor: &mut Compressor,
    ) -> Result<EncodedBatch, WireError> {
        let Some(last_delta) = self.count.checked_sub(1) else {
            return Err(WireError::BadValue { what: "the record count of a record batch", value: 0 });
        };
        let plain = self.buffer.len() - HEADER_BYTES;
        let records = self.buffer.get(HEADER_BYTES..).unwrap_or_default();
        let codec = match compressor.compress(compression, level, records)? {
            Some(packed) => {
                self.buffer.truncate(HEADER_BYTES);
                self.buffer.extend_from_slice(packed);
                compression
            }
            None => Compression::None,
        };
        let length = (self.buffer.len() - LENGTH_END) as i32;
        let mut header = [0; HEADER_BYTES];
        put_at(&mut header, 8, length.to_be_bytes());
        put_at(&mut header, 12, (-1i32).to_be_bytes()); // leader epoch: set by the broker
        put_at(&mut header, 16, [2]);
        put_at(&mut header, 21, (codec as i16).to_be_bytes());
        put_at(&mut header, 23, (last_delta as i32).to_be_bytes());
        put_at(&mut header, 27, self.base_timestamp.to_be_bytes());
        put_at(&mut header, 35, self.max_timestamp.to_be_bytes());
        put_at(&mut header, 57, (self.count as i32).to_be_bytes());
        if let Some(place) = self.buffer.first_chunk_mut() {
            *place = header;
        }
        Ok(EncodedBatch::new(self.buffer, self.count, plain))
    }
}

impl fmt::Debug for BatchBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchBuilder({} records, {} of {} bytes)", self.count, self.len(), self.capacity())
    }
}
