//! Records to be written: borrowed parts, and the exact bytes that they take.

use crate::primitives::writer::{put_varint, uvarlong_bytes, zigzag};

/// A record to append to a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NewRecord<'a> {
    /// Milliseconds since the epoch.
    pub timestamp: i64,
    /// Key; an empty one is a key.
    pub key: Option<&'a [u8]>,
    /// Value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// Headers, in order; duplicate keys are kept.
    pub headers: &'a [NewHeader<'a>],
}

/// A header to append with its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewHeader<'a> {
    /// Key.
    pub key: &'a str,
    /// Value.
    pub value: Option<&'a [u8]>,
}

/// Bytes of a nullable field, its length in front.
#[inline(always)]
pub(super) fn field_bytes(field: Option<&[u8]>) -> usize {
    match field {
        Some(bytes) => uvarlong_bytes((bytes.len() as u64) << 1) + bytes.len(),
        None => 1,
    }
}

/// Bytes of the headers, their count in front.
#[inline(always)]
pub(super) fn headers_bytes(headers: &[NewHeader<'_>]) -> usize {
    if headers.is_empty() { 1 } else { some_headers_bytes(headers) }
}

#[inline(never)]
fn some_headers_bytes(headers: &[NewHeader<'_>]) -> usize {
    // The parts may be the same bytes over and over, so that the sum is not bounded by the memory that there is.
    headers.iter().fold(uvarlong_bytes((headers.len() as u64) << 1), |sum, header| {
        sum.saturating_add(field_bytes(Some(header.key.as_bytes()))).saturating_add(field_bytes(header.value))
    })
}

/// Appends the headers, whose lengths have been checked.
#[inline(never)]
pub(super) fn put_headers(out: &mut Vec<u8>, headers: &[NewHeader<'_>]) {
    put_varint(out, headers.len() as i32);
    for header in headers {
        put_field(out, Some(header.key.as_bytes()));
        put_field(out, header.value);
    }
}

/// Appends a nullable field whose length has been checked.
#[inline]
pub(super) fn put_field(out: &mut Vec<u8>, field: Option<&[u8]>) {
    put_varint(out, field.map_or(-1, |bytes| bytes.len() as i32));
    out.extend_from_slice(field.unwrap_or_default());
}

/// Bytes of a VARLONG.
#[inline(always)]
pub(super) fn varlong_bytes(value: i64) -> usize {
    uvarlong_bytes(zigzag(value))
}
