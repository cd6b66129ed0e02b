//! Records of a batch, one after the other, as they are encoded.

use std::ops::Deref;

use crate::buffer_pool::{BufferPool, PooledBuf};
use crate::error::WireError;
use crate::primitives::Reader;
use crate::records::batch_header::{BatchHeader, HEADER_BYTES};
use crate::records::codec::decompressor::Decompressor;
use crate::records::record::MIN_RECORD_BYTES;
use crate::records::{Compression, DecodeLimits, Headers, RecordError};

/// Reader of batches. It keeps the codecs' contexts from batch to batch.
#[derive(Debug)]
pub struct BatchReader {
    decompressor: Decompressor,
}

impl BatchReader {
    /// Creates a reader that decompresses into buffers of `pool`.
    #[must_use]
    pub fn new(pool: BufferPool, limits: DecodeLimits) -> Self {
        Self { decompressor: Decompressor::new(pool, limits.max_decompressed_batch_bytes) }
    }

    /// Returns the decompressed records of a batch. The CRC is not checked: see
    /// [`check_crc`](crate::records::check_crc).
    ///
    /// # Errors
    /// The codec is unknown, the data cannot be decompressed, or exceeds the limit.
    pub fn read<'a>(&mut self, batch: &'a [u8], header: &BatchHeader) -> Result<BatchRecords<'a>, RecordError> {
        let packed = batch.get(HEADER_BYTES..).unwrap_or_default();
        let plain = match header.compression() {
            Ok(Compression::None) => Plain::Borrowed(packed),
            // Compaction writes a batch without records uncompressed; other brokers may keep the codec's bit.
            Ok(_) if packed.is_empty() && header.record_count == 0 => Plain::Borrowed(packed),
            Ok(codec) => Plain::Decompressed(self.decompressor.decompress(codec, packed, header.base_offset)?),
            Err(code) => {
                let cause = WireError::BadValue { what: "the compression codec", value: code.into() };
                return Err(RecordError::Malformed { base_offset: header.base_offset, cause });
            }
        };
        Ok(BatchRecords { header: *header, plain })
    }
}

#[derive(Debug)]
enum Plain<'a> {
    Borrowed(&'a [u8]),
    Decompressed(PooledBuf),
}

/// Decompressed records of a batch.
#[derive(Debug)]
pub struct BatchRecords<'a> {
    header: BatchHeader,
    plain: Plain<'a>,
}

impl BatchRecords<'_> {
    /// Returns the header of the batch.
    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Returns the encoded records, decompressed.
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.plain {
            Plain::Borrowed(bytes) => bytes,
            Plain::Decompressed(bytes) => bytes.deref(),
        }
    }

    /// Returns an iterator over the records, in order. An error ends the iteration.
    #[must_use]
    pub fn iter(&self) -> BatchRecordIter<'_> {
        BatchRecordIter {
            header: &self.header,
            reader: Reader::new(self.bytes()),
            left: self.header.record_count,
            last_delta: -1,
        }
    }
}

impl<'a> IntoIterator for &'a BatchRecords<'_> {
    type Item = Result<BatchRecord<'a>, RecordError>;
    type IntoIter = BatchRecordIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Record of a batch.
#[derive(Debug, Clone, Copy)]
pub struct BatchRecord<'a> {
    /// Attributes, which are unused in magic 2.
    pub attributes: i8,
    /// Offset.
    pub offset: i64,
    /// Timestamp in ms since 1970; -1: none. With log-append time, the time of the append.
    pub timestamp: i64,
    /// Key; `None`: null.
    pub key: Option<&'a [u8]>,
    /// Value; `None`: null, a tombstone.
    pub value: Option<&'a [u8]>,
    header_count: u32,
    headers: &'a [u8],
    /// Encoded key, value and headers.
    pub(super) body: &'a [u8],
}

impl<'a> BatchRecord<'a> {
    /// Returns the headers, in order. The iterator reports malformed headers.
    #[must_use]
    pub fn headers(&self) -> Headers<'a> {
        Headers::new(self.headers, self.header_count)
    }
}

/// Iterator over the records of a batch.
#[derive(Debug, Clone)]
pub struct BatchRecordIter<'a> {
    header: &'a BatchHeader,
    reader: Reader<'a>,
    left: i32,
    last_delta: i32,
}

impl<'a> BatchRecordIter<'a> {
    fn parse(&mut self) -> Result<BatchRecord<'a>, WireError> {
        let length = self.reader.varint()?;
        let length =
            usize::try_from(length).map_err(|_| WireError::BadLength { what: "a record", value: length.into() })?;
        let mut record = Reader::new(self.reader.take(length)?);
        let attributes = record.i8()?;
        let timestamp_delta = record.varlong()?;
        let offset_delta = record.varint()?;
        if offset_delta <= self.last_delta || offset_delta > self.header.last_offset_delta {
            let what = "the next offset delta in a record batch";
            return Err(WireError::BadValue { what, value: offset_delta.into() });
        }
        self.last_delta = offset_delta;
        let body = record.rest();
        let key = field(&mut record, "a key")?;
        let value = field(&mut record, "a value")?;
        let count = record.varint()?;
        let headers = record.rest();
        // A header takes at least two bytes.
        let header_count = u32::try_from(count).ok().filter(|count| *count as usize <= headers.len() / 2);
        let Some(header_count) = header_count else {
            return Err(WireError::BadValue { what: "the header count of a record", value: count.into() });
        };
        if header_count == 0 {
            record.finish()?;
        }
        let timestamp = if self.header.log_append_time() {
            self.header.max_timestamp
        } else {
            self.header.base_timestamp.wrapping_add(timestamp_delta)
        };
        let offset = self.header.base_offset.saturating_add(offset_delta.into());
        Ok(BatchRecord { attributes, offset, timestamp, key, value, header_count, headers, body })
    }
}

impl<'a> Iterator for BatchRecordIter<'a> {
    type Item = Result<BatchRecord<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = if self.left == 0 {
            // Once only: bytes that no record accounts for.
            match std::mem::replace(&mut self.reader, Reader::new(&[])).finish() {
                Ok(()) => return None,
                Err(cause) => Err(cause),
            }
        } else if self.left as usize > self.reader.remaining() / MIN_RECORD_BYTES {
            Err(WireError::BadValue { what: "the record count of a record batch", value: self.left.into() })
        } else {
            self.parse()
        };
        self.left = if next.is_ok() { self.left - 1 } else { 0 };
        if next.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(next.map_err(|cause| RecordError::Malformed { base_offset: self.header.base_offset, cause }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, usize::try_from(self.left).ok().and_then(|left| left.checked_add(1)))
    }
}

fn field<'a>(r: &mut Reader<'a>, what: &'static str) -> Result<Option<&'a [u8]>, WireError> {
    let len = r.varint()?;
    match usize::try_from(len) {
        Ok(len) => r.take(len).map(Some),
        Err(_) if len == -1 => Ok(None),
        Err(_) => Err(WireError::BadLength { what, value: len.into() }),
    }
}
