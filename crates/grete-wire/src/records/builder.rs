//! A batch while records come: each is encoded where it will be sent from, as soon as it is appended.

use std::fmt;

use super::compressor::Compressor;
use super::encoded::EncodedBatch;
use super::header::{Compression, HEADER_BYTES, LENGTH_END};
use super::new_record::{NewRecord, field_bytes, headers_bytes, put_field, put_headers, varlong_bytes};
use crate::error::WireError;
use crate::primitives::writer::{put_varint, put_varlong};

/// The longest batch: its length field counts from behind itself, and everything has to fit a request.
const LONGEST: usize = i32::MAX as usize;

/// Collects records, in wire form already, behind the room for a batch's header.
pub struct BatchBuilder {
    pub(super) buffer: Vec<u8>,
    pub(super) count: u32,
    base_timestamp: i64,
    pub(super) max_timestamp: i64,
}

impl BatchBuilder {
    /// An empty batch in `buffer`, whose content goes and whose capacity stays.
    #[must_use]
    pub fn new(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        buffer.extend_from_slice(&[0; HEADER_BYTES]);
        Self { buffer, count: 0, base_timestamp: -1, max_timestamp: -1 }
    }

    /// Bytes that the batch takes so far, uncompressed and with its header.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Bytes that the buffer has room for without growing.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Records so far.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether there is no record yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Timestamp of the first record; -1 before it.
    #[must_use]
    pub fn base_timestamp(&self) -> i64 {
        self.base_timestamp
    }

    /// Largest timestamp; -1 before the first record.
    #[must_use]
    pub fn max_timestamp(&self) -> i64 {
        self.max_timestamp
    }

    /// Makes room for `additional` bytes more; the buffer grows to that exactly, if it has to.
    pub fn reserve(&mut self, additional: usize) {
        self.buffer.reserve_exact(additional);
    }

    /// Gives the buffer back, for another batch; the records go.
    #[must_use]
    pub fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// Bytes that [`BatchBuilder::append`] would add for this record, exactly.
    #[must_use]
    #[inline]
    pub fn record_bytes(&self, record: &NewRecord<'_>) -> usize {
        let body = self.body_bytes(record);
        varlong_bytes(body as i64).saturating_add(body)
    }

    /// Bytes behind the record's length.
    #[inline(always)]
    fn body_bytes(&self, record: &NewRecord<'_>) -> usize {
        (self.head_bytes(record.timestamp) + field_bytes(record.key) + field_bytes(record.value))
            .saturating_add(headers_bytes(record.headers))
    }

    /// Bytes of them before the key: attributes and deltas.
    #[inline(always)]
    fn head_bytes(&self, timestamp: i64) -> usize {
        1 + varlong_bytes(self.timestamp_delta(timestamp)) + varlong_bytes(self.count.into())
    }

    /// The first record's is the base. It wraps as the decoders' addition does.
    #[inline(always)]
    pub(super) fn timestamp_delta(&self, timestamp: i64) -> i64 {
        if self.count == 0 { 0 } else { timestamp.wrapping_sub(self.base_timestamp) }
    }

    /// Appends a record; the buffer grows if it has to. [`BatchBuilder::append_within`] is faster.
    ///
    /// # Errors
    /// When the batch would be longer than the protocol can say; it is then as it was before.
    #[inline(never)]
    pub fn append(&mut self, record: &NewRecord<'_>) -> Result<(), WireError> {
        self.head(self.body_bytes(record), record.timestamp)?;
        put_field(&mut self.buffer, record.key);
        put_field(&mut self.buffer, record.value);
        put_headers(&mut self.buffer, record.headers);
        Ok(())
    }

    /// Appends a record of which key, value and headers are in wire form.
    pub(super) fn append_encoded(&mut self, timestamp: i64, rest: &[u8]) -> Result<(), WireError> {
        self.head(self.head_bytes(timestamp) + rest.len(), timestamp)?;
        self.buffer.extend_from_slice(rest);
        Ok(())
    }

    /// Counts a record, and writes what stands before its key.
    fn head(&mut self, body: usize, timestamp: i64) -> Result<(), WireError> {
        let total = varlong_bytes(body as i64).saturating_add(body);
        let len = self.buffer.len().saturating_add(total);
        if len > LONGEST {
            return Err(WireError::TooLong { what: "a record batch", len, limit: LONGEST });
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

    /// Ends the batch: packs the records, if that makes them smaller, and writes the header but for what
    /// [`EncodedBatch::stamp`] writes. It stays in the same buffer. `level` is on the codec's own scale, brought into
    /// [`Compression::levels`]; `None` is the codec's default.
    ///
    /// # Errors
    /// When the batch is empty, or the codec fails.
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
        let codec = match compressor.pack(compression, level, records)? {
            Some(packed) => {
                self.buffer.truncate(HEADER_BYTES);
                self.buffer.extend_from_slice(packed);
                compression
            }
            None => Compression::None,
        };
        let length = (self.buffer.len() - LENGTH_END) as i32;
        let mut header = [0; HEADER_BYTES];
        put(&mut header, 8, length.to_be_bytes());
        put(&mut header, 12, (-1i32).to_be_bytes()); // leader epoch: the broker's
        put(&mut header, 16, [2]);
        put(&mut header, 21, (codec as i16).to_be_bytes());
        put(&mut header, 23, (last_delta as i32).to_be_bytes());
        put(&mut header, 27, self.base_timestamp.to_be_bytes());
        put(&mut header, 35, self.max_timestamp.to_be_bytes());
        put(&mut header, 57, (self.count as i32).to_be_bytes());
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

/// Writes a field at a constant place, so that no check is left after compilation.
#[inline(always)]
pub(super) fn put<const N: usize>(header: &mut [u8; HEADER_BYTES], at: usize, field: [u8; N]) {
    if let Some(place) = header.get_mut(at..at + N) {
        place.copy_from_slice(&field);
    }
}
