//! Record to append: borrowed parts, and the exact bytes that they take.

use crate::primitives::writer::{put_varint, uvarlong_bytes, zigzag};

/// Record to append to a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProducerRecord<'a> {
    /// Timestamp in ms since 1970.
    pub timestamp: i64,
    /// Key; `None`: null. An empty key is a key.
    pub key: Option<&'a [u8]>,
    /// Value; `None`: a tombstone.
    pub value: Option<&'a [u8]>,
    /// Headers, in order; duplicate keys are kept.
    pub headers: &'a [ProducerHeader<'a>],
}

/// Header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerHeader<'a> {
    /// Key.
    pub key: &'a str,
    /// Value; `None`: null.
    pub value: Option<&'a [u8]>,
}

/// Returns the bytes of a nullable field, including its length.
#[inline(always)]
pub(in crate::records) fn field_bytes(field: Option<&[u8]>) -> usize {
    match field {
        Some(bytes) => uvarlong_bytes((bytes.len() as u64) << 1) + bytes.len(),
        None => 1,
    }
}

/// Returns the bytes of the headers, including their count.
#[inline(always)]
pub(in crate::records) fn headers_bytes(headers: &[ProducerHeader<'_>]) -> usize {
    if headers.is_empty() { 1 } else { nonempty_headers_bytes(headers) }
}

#[inline(never)]
fn nonempty_headers_bytes(headers: &[ProducerHeader<'_>]) -> usize {
    // Saturating: the headers may refer to the same bytes many times, so that memory does not bound the sum.
    headers.iter().fold(uvarlong_bytes((headers.len() as u64) << 1), |sum, header| {
        sum.saturating_add(field_bytes(Some(header.key.as_bytes()))).saturating_add(field_bytes(header.value))
    })
}

/// Appends the headers, whose lengths have been checked.
#[inline(never)]
pub(in crate::records) fn put_headers(out: &mut Vec<u8>, headers: &[ProducerHeader<'_>]) {
    put_varint(out, headers.len() as i32);
    for header in headers {
        put_field(out, Some(header.key.as_bytes()));
        put_field(out, header.value);
    }
}

/// Appends a nullable field whose length has been checked.
#[inline]
pub(in crate::records) fn put_field(out: &mut Vec<u8>, field: Option<&[u8]>) {
    put_varint(out, field.map_or(-1, |bytes| bytes.len() as i32));
    out.extend_from_slice(field.unwrap_or_default());
}

/// Returns the bytes of a VARLONG.
#[inline(always)]
pub(in crate::records) fn varlong_bytes(value: i64) -> usize {
    uvarlong_bytes(zigzag(value))
}
