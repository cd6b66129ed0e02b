//! Decodes the records of a batch to columns, in one pass.

use super::Columns;
use super::batch_header::BatchHeader;
use super::record::{self, MIN_RECORD_BYTES, Row};
use super::record_headers::HeaderRange;
use crate::buffer_pool::PooledBuf;
use crate::error::WireError;

/// Number of rows by which the columns grow at a time: one validity word, and few enough that the bytes zeroed by
/// `resize` are still in the nearest cache when they are filled.
const CHUNK: usize = 64;

/// Appends the records in `slab[start..end]`. After an error the caller must truncate `columns`.
pub(super) fn decode_into_columns(
    slab: &PooledBuf,
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
    if cursor.left > cursor.rest.len() / MIN_RECORD_BYTES {
        return Err(WireError::BadValue {
            what: "the record count of a record batch",
            value: header.record_count.into(),
        });
    }
    cursor.skip_before(from_offset.saturating_sub(header.base_offset))?;
    if cursor.left == 0 {
        return cursor.finish();
    }

    columns.reserve(cursor.left);
    // With log-append time the deltas are ignored.
    let (base_timestamp, delta_mask) =
        if header.log_append_time() { (header.max_timestamp, 0) } else { (header.base_timestamp, -1) };
    let place =
        RowBase { base_offset: header.base_offset, base_timestamp, delta_mask, buffer: columns.buffer_index(slab) };
    let mut with_headers = !columns.headers.is_empty();
    while cursor.left > 0 {
        let first = columns.len();
        let wanted = cursor.left.min(CHUNK);
        columns.grow(wanted, with_headers);
        let mut chunk = RowChunk::after(columns, first);
        let done = if with_headers {
            chunk.fill::<true>(&mut cursor, &place)?
        } else {
            chunk.fill::<false>(&mut cursor, &place)?
        };
        let (key_valid, value_valid) = (chunk.key_valid, chunk.value_valid);
        columns.key_nulls.append(first, key_valid, done);
        columns.value_nulls.append(first, value_valid, done);
        cursor.left -= done;
        if done < wanted {
            // The first record with headers: from here on there is a column for headers.
            columns.truncate(first + done);
            with_headers = true;
        }
    }
    cursor.finish()
}

/// Constants that turn a row's deltas into the columns' entries.
struct RowBase {
    base_offset: i64,
    base_timestamp: i64,
    delta_mask: i64,
    buffer: u32,
}

/// Rows to fill, at most [`CHUNK`].
struct RowChunk<'c> {
    offsets: &'c mut [i64],
    timestamps: &'c mut [i64],
    keys: &'c mut [u128],
    values: &'c mut [u128],
    /// Empty as long as there is no column for headers.
    headers: &'c mut [HeaderRange],
    /// One bit per row.
    key_valid: u64,
    value_valid: u64,
}

impl<'c> RowChunk<'c> {
    /// Returns the rows after the first `rows`.
    fn after(columns: &'c mut Columns, rows: usize) -> Self {
        Self {
            offsets: columns.offsets.get_mut(rows..).unwrap_or_default(),
            timestamps: columns.timestamps.get_mut(rows..).unwrap_or_default(),
            keys: columns.keys.get_mut(rows..).unwrap_or_default(),
            values: columns.values.get_mut(rows..).unwrap_or_default(),
            headers: columns.headers.get_mut(rows..).unwrap_or_default(),
            key_valid: 0,
            value_valid: 0,
        }
    }

    /// Fills all rows, but stops at a record with headers if there is no column for them. Returns the number of filled
    /// rows.
    fn fill<const HEADERS: bool>(&mut self, cursor: &mut Cursor<'_>, place: &RowBase) -> Result<usize, WireError> {
        let mut done = 0;
        loop {
            done = self.fill_fast::<HEADERS>(done, cursor, place);
            if done >= self.offsets.len() {
                return Ok(done);
            }
            let before = (cursor.rest, cursor.last_delta);
            let row = cursor.next_slow(place.buffer)?;
            if !HEADERS && row.headers.count > 0 {
                (cursor.rest, cursor.last_delta) = before;
                return Ok(done);
            }
            self.put(done, &row, place);
            done += 1;
        }
    }

    /// Decodes common records from row `done` on, until the rows are full or a record of another kind follows. The loop
    /// makes no call, so that it keeps nearly everything in registers.
    #[inline(never)]
    fn fill_fast<const HEADERS: bool>(&mut self, done: usize, cursor: &mut Cursor<'_>, place: &RowBase) -> usize {
        let (mut rest, mut last_delta) = (cursor.rest, cursor.last_delta);
        let (mut key_valid, mut value_valid) = (self.key_valid, self.value_valid);
        let mut row_number = done;
        let offsets = self.offsets.get_mut(done..).unwrap_or_default();
        let timestamps = self.timestamps.get_mut(done..).unwrap_or_default();
        let keys = self.keys.get_mut(done..).unwrap_or_default();
        let values = self.values.get_mut(done..).unwrap_or_default();
        for (((offset, timestamp), key), value) in offsets.iter_mut().zip(timestamps).zip(keys).zip(values) {
            let Some(row) = record::decode_fast::<HEADERS>(rest, cursor.end - rest.len(), place.buffer) else { break };
            let Some(next) = rest.get(row.size..) else { break };
            // The general path reports the error.
            if row.offset_delta <= last_delta || row.offset_delta > cursor.delta_limit {
                break;
            }
            rest = next;
            last_delta = row.offset_delta;
            *offset = place.base_offset.wrapping_add(i64::from(row.offset_delta));
            *timestamp = place.base_timestamp.wrapping_add(row.timestamp_delta & place.delta_mask);
            *key = row.key.0;
            *value = row.value.0;
            key_valid |= u64::from(row.key.1) << (row_number % 64);
            value_valid |= u64::from(row.value.1) << (row_number % 64);
            if HEADERS && let Some(headers) = self.headers.get_mut(row_number) {
                *headers = row.headers;
            }
            row_number += 1;
        }
        (cursor.rest, cursor.last_delta) = (rest, last_delta);
        (self.key_valid, self.value_valid) = (key_valid, value_valid);
        row_number
    }

    fn put(&mut self, number: usize, row: &Row, place: &RowBase) {
        set(self.offsets, number, place.base_offset.wrapping_add(i64::from(row.offset_delta)));
        set(self.timestamps, number, place.base_timestamp.wrapping_add(row.timestamp_delta & place.delta_mask));
        set(self.keys, number, row.key.0);
        set(self.values, number, row.value.0);
        set(self.headers, number, row.headers);
        self.key_valid |= u64::from(row.key.1) << (number % 64);
        self.value_valid |= u64::from(row.value.1) << (number % 64);
    }
}

fn set<T>(column: &mut [T], row: usize, value: T) {
    if let Some(entry) = column.get_mut(row) {
        *entry = value;
    }
}

/// Cursor over the records that are not decoded yet.
struct Cursor<'a> {
    rest: &'a [u8],
    /// End of `rest` in its buffer.
    end: usize,
    left: usize,
    /// Offset delta of the previous record.
    last_delta: i32,
    delta_limit: i32,
}

impl Cursor<'_> {
    /// Decodes the next record of any kind.
    fn next_slow(&mut self, buffer: u32) -> Result<Row, WireError> {
        let row = record::decode_slow(self.rest, self.end - self.rest.len(), buffer)?;
        // Offsets must ascend and stay within the header's range; otherwise positions and commits would be wrong.
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

    /// Skips the records whose offset delta is below `delta`.
    fn skip_before(&mut self, delta: i64) -> Result<(), WireError> {
        if delta <= 0 {
            return Ok(());
        }
        while self.left > 0 {
            let (rest, last_delta) = (self.rest, self.last_delta);
            if i64::from(self.next_slow(0)?.offset_delta) >= delta {
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
