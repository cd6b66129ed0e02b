//! Batches to columns: checksum, unpack, one pass over the records.

use std::ops::Range;

use super::header::{BatchHeader, CRC_START, Compression, HEADER_BYTES};
use super::record::{self, Row, SMALLEST_RECORD};
use super::{Columns, RecordError};
use crate::error::WireError;
use crate::records::compression::Unpacker;
use crate::records::headers::HeaderSpan;
use crate::slab::{Slab, SlabPool};

/// Rows decoded between two looks at the columns' capacity; a validity word's worth.
const CHUNK: usize = 64;

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

/// Appends the records in `slab[start..end]`.
fn append(
    slab: &Slab,
    start: usize,
    end: usize,
    header: &BatchHeader,
    from_offset: i64,
    columns: &mut Columns,
) -> Result<(), WireError> {
    if end > i32::MAX as usize {
        return Err(WireError::TooLong { what: "a buffer of records", len: end, limit: i32::MAX as usize });
    }
    let bytes: &[u8] = slab;
    let mut cursor = Cursor {
        rest: bytes.get(start..end).unwrap_or_default(),
        end,
        left: usize::try_from(header.record_count).unwrap_or_default(),
        last_delta: -1,
        delta_limit: header.last_offset_delta,
    };
    if cursor.left > cursor.rest.len() / SMALLEST_RECORD {
        return Err(WireError::BadValue {
            what: "the record count of a record batch",
            value: header.record_count.into(),
        });
    }
    cursor.skip_before(from_offset.saturating_sub(header.base_offset))?;
    if cursor.left == 0 {
        return cursor.finish();
    }

    let buffer = columns.buffer_index(slab);
    columns.reserve(cursor.left);
    // With log-append time the deltas count for nothing.
    let (base_timestamp, delta_mask) =
        if header.log_append_time() { (header.max_timestamp, 0) } else { (header.base_timestamp, -1) };
    while cursor.left > 0 {
        let count = cursor.left.min(CHUNK);
        let first = columns.len();
        let total = first + count;
        columns.offsets.resize(total, 0);
        columns.timestamps.resize(total, 0);
        columns.keys.resize(total, 0);
        columns.values.resize(total, 0);
        let offsets = columns.offsets.iter_mut().skip(first);
        let timestamps = columns.timestamps.iter_mut().skip(first);
        let keys = columns.keys.iter_mut().skip(first);
        let values = columns.values.iter_mut().skip(first);
        let (mut key_valid, mut value_valid) = (0u64, 0u64);
        let mut bit = 1u64;
        for (i, (((offset, timestamp), key), value)) in offsets.zip(timestamps).zip(keys).zip(values).enumerate() {
            let row = cursor.next(buffer)?;
            *offset = header.base_offset.wrapping_add(i64::from(row.offset_delta));
            *timestamp = base_timestamp.wrapping_add(row.timestamp_delta & delta_mask);
            *key = row.key.0;
            *value = row.value.0;
            key_valid |= if row.key.1 { bit } else { 0 };
            value_valid |= if row.value.1 { bit } else { 0 };
            bit = bit.wrapping_shl(1);
            if row.headers.count > 0 {
                columns.headers.resize(first + i, HeaderSpan::default());
                columns.headers.push(row.headers);
            }
        }
        columns.key_nulls.append(first, key_valid, count);
        columns.value_nulls.append(first, value_valid, count);
        cursor.left -= count;
    }
    if !columns.headers.is_empty() {
        columns.headers.resize(columns.offsets.len(), HeaderSpan::default());
    }
    cursor.finish()
}

/// The records not read yet.
struct Cursor<'a> {
    rest: &'a [u8],
    /// Where `rest` ends in its buffer.
    end: usize,
    left: usize,
    /// The previous record's.
    last_delta: i32,
    delta_limit: i32,
}

impl Cursor<'_> {
    #[inline(always)]
    fn next(&mut self, buffer: u32) -> Result<Row, WireError> {
        let position = self.end - self.rest.len();
        let row = match record::fast(self.rest, position, buffer) {
            Some(row) => row,
            None => record::general(self.rest, position, buffer)?,
        };
        // Offsets ascend and stay within what the header says, or positions and commits go astray.
        if row.offset_delta <= self.last_delta || row.offset_delta > self.delta_limit {
            return Err(WireError::BadValue {
                what: "the next offset delta in a record batch",
                value: row.offset_delta.into(),
            });
        }
        self.last_delta = row.offset_delta;
        self.rest = self.rest.get(row.size..).unwrap_or_default();
        Ok(row)
    }

    /// Passes over the records whose offset delta is below `delta`.
    fn skip_before(&mut self, delta: i64) -> Result<(), WireError> {
        if delta <= 0 {
            return Ok(());
        }
        while self.left > 0 {
            let (rest, last_delta) = (self.rest, self.last_delta);
            if i64::from(self.next(0)?.offset_delta) >= delta {
                (self.rest, self.last_delta) = (rest, last_delta);
                break;
            }
            self.left -= 1;
        }
        Ok(())
    }

    fn finish(&self) -> Result<(), WireError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(WireError::TrailingBytes { left: self.rest.len() })
    }
}
