//! Decoder of one record. The fast path decodes the form that nearly all records have. The general path decodes all
//! others, and only the general path reports errors.

use super::binary_view;
use super::record_headers::HeaderRange;
use crate::error::WireError;
use crate::primitives::Reader;

/// Minimum length of a record: length, attributes, two deltas, key length, value length, header count.
pub(crate) const MIN_RECORD_BYTES: usize = 7;

/// Decoded record for the columns.
pub(crate) struct Row {
    /// Bytes of the record, including its length field.
    pub size: usize,
    pub offset_delta: i32,
    pub timestamp_delta: i64,
    /// View of the key; `false`: the key is null.
    pub key: (u128, bool),
    /// View of the value; `false`: the value is null.
    pub value: (u128, bool),
    pub headers: HeaderRange,
}

/// Decodes the record at the start of `rest`, which is at `position` of buffer number `buffer`, if it is a common one:
///
/// - less than 8 KiB, and a key of less than 64 bytes;
/// - a timestamp within a day and an offset within a million of the base;
/// - no headers (unless `HEADERS`);
/// - 16 bytes to read at each step (all but a batch's last record have them).
///
/// Every comparison here is a predictable branch, and every load a fixed position in a 16-byte window, so that no byte
/// needs a check of its own.
#[inline(always)]
pub(crate) fn decode_fast<const HEADERS: bool>(rest: &[u8], position: usize, buffer: u32) -> Option<Row> {
    let head = rest.first_chunk::<16>()?;
    let [a, b, ..] = *head;
    // Length, attributes; then `w` holds timestamp delta (up to 4 bytes), offset delta (up to 3), key length (1).
    let (length, used, w) = if a < 0x80 {
        (u32::from(a), 1, word(head, 2))
    } else if b < 0x80 {
        (u32::from(a & 0x7f) | u32::from(b) << 7, 2, word(head, 3))
    } else {
        return None;
    };
    let (timestamp, timestamp_bytes) = small_varint(w)?;
    let w = w >> (8 * timestamp_bytes);
    let (offset, offset_bytes) = small_varint(w)?;
    let w = w >> (8 * offset_bytes);
    if length & 1 != 0 || timestamp_bytes + offset_bytes > 7 {
        return None;
    }

    let key_start = used + 1 + timestamp_bytes + offset_bytes + 1;
    let key_code = w as usize & 0xff;
    let (key, value_at) = if key_code == 1 {
        ((0, false), key_start)
    } else if key_code & 0x81 == 0 {
        let len = key_code >> 1;
        let bytes = rest.get(key_start..)?.first_chunk::<12>()?;
        let view = match binary_view::inline(len, bytes) {
            Some(view) => view,
            None => binary_view::outline(len as u32, prefix(bytes), buffer, (position + key_start) as u32),
        };
        ((view, true), key_start + len)
    } else {
        return None;
    };

    let tail = rest.get(value_at..)?.first_chunk::<16>()?;
    let [a, b, c, inline @ ..] = tail;
    let end = used + (length >> 1) as usize;
    let (value, value_end) = if *a < 0x80 {
        let start = value_at + 1;
        if *a == 1 {
            ((0, false), start)
        } else if a & 1 == 0 {
            let len = usize::from(a >> 1);
            let bytes = tail.get(1..)?.first_chunk::<12>()?;
            let view = match binary_view::inline(len, bytes) {
                Some(view) => view,
                None => binary_view::outline(len as u32, prefix(bytes), buffer, (position + start) as u32),
            };
            ((view, true), start + len)
        } else {
            return None;
        }
    } else if *b < 0x80 && a & 1 == 0 {
        let len = (u32::from(a & 0x7f) | u32::from(*b) << 7) >> 1;
        let start = value_at + 2;
        if len <= binary_view::INLINE_BYTES as u32 {
            return None;
        }
        let [d, e, f, ..] = *inline;
        let view = binary_view::outline(len, u32::from_le_bytes([*c, d, e, f]), buffer, (position + start) as u32);
        ((view, true), start + len as usize)
    } else {
        return None;
    };

    let count = *rest.get(value_end)?;
    let headers = if count == 0 && value_end + 1 == end {
        HeaderRange::default()
    } else if HEADERS && count & 0x81 == 0 {
        let count = u32::from(count >> 1);
        let len = end.checked_sub(value_end + 1)? as u32;
        // A header takes at least two bytes.
        if count == 0 || count > len / 2 {
            return None;
        }
        HeaderRange { buffer, offset: (position + value_end + 1) as u32, len, count }
    } else {
        return None;
    };
    Some(Row {
        size: end,
        offset_delta: zigzag(offset) as i32,
        timestamp_delta: zigzag(timestamp),
        key,
        value,
        headers,
    })
}

#[inline(always)]
fn word(window: &[u8; 16], start: usize) -> u64 {
    window.get(start..start + 8).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[inline(always)]
fn prefix(bytes: &[u8; 12]) -> u32 {
    let [a, b, c, d, ..] = *bytes;
    u32::from_le_bytes([a, b, c, d])
}

/// Returns the varint of up to 4 bytes in the lowest bytes of `w`, still in zigzag, and its length.
#[inline(always)]
fn small_varint(w: u64) -> Option<(u64, usize)> {
    if w & 0x80 == 0 {
        Some((w & 0x7f, 1))
    } else if w & 0x8000 == 0 {
        Some((w & 0x7f | w >> 1 & 0x3f80, 2))
    } else if w & 0x80_0000 == 0 {
        Some((w & 0x7f | w >> 1 & 0x3f80 | w >> 2 & 0x1f_c000, 3))
    } else if w & 0x8000_0000 == 0 {
        Some((w & 0x7f | w >> 1 & 0x3f80 | w >> 2 & 0x1f_c000 | w >> 3 & 0xfe0_0000, 4))
    } else {
        None
    }
}

#[inline(always)]
fn zigzag(raw: u64) -> i64 {
    (raw >> 1) as i64 ^ -((raw & 1) as i64)
}

/// Decodes any record at the start of `rest`, or reports what is wrong with it.
#[inline(never)]
pub(crate) fn decode_slow(rest: &[u8], position: usize, buffer: u32) -> Result<Row, WireError> {
    let mut r = Reader::new(rest);
    let length = r.varint()?;
    let bad_length = WireError::BadLength { what: "a record", value: length.into() };
    let mut record = Reader::new(r.take(usize::try_from(length).map_err(|_| bad_length.clone())?)?);
    let start = position + r.position() - record.remaining();

    let _attributes = record.i8()?;
    let timestamp_delta = record.varlong()?;
    let offset_delta = record.varint()?;
    let key = field(&mut record, "a key", start, buffer)?;
    let value = field(&mut record, "a value", start, buffer)?;
    let count = record.varint()?;
    let headers = match usize::try_from(count) {
        Ok(0) if record.remaining() > 0 => return Err(bad_length),
        Ok(0) => HeaderRange::default(),
        // A header takes at least two bytes.
        Ok(n) if n <= record.remaining() / 2 => HeaderRange {
            buffer,
            offset: (start + record.position()) as u32,
            len: record.remaining() as u32,
            count: n as u32,
        },
        _ => return Err(WireError::BadValue { what: "the header count of a record", value: count.into() }),
    };
    Ok(Row { size: r.position(), offset_delta, timestamp_delta, key, value, headers })
}

/// Decodes a nullable field: its view, and whether it is not null. The record is at `start`.
fn field(r: &mut Reader<'_>, what: &'static str, start: usize, buffer: u32) -> Result<(u128, bool), WireError> {
    let len = r.varint()?;
    if len == -1 {
        return Ok((0, false));
    }
    let len = usize::try_from(len).map_err(|_| WireError::BadLength { what, value: len.into() })?;
    let offset = start + r.position();
    Ok((binary_view::from_bytes(r.take(len)?, buffer, offset as u32), true))
}
