//! Copies of binary columns, for consumers that cannot read views, or that keep a few rows of a large batch.

use std::ptr;

use crate::c_data::ArrowArray;

/// Type of end offsets: i32 or i64.
pub(crate) trait OffsetType: Copy + Send + Sync + 'static {
    /// Converts an end offset; `None`: `end` exceeds the type's range.
    fn from_usize(end: usize) -> Option<Self>;
}

impl OffsetType for i32 {
    fn from_usize(end: usize) -> Option<Self> {
        Self::try_from(end).ok()
    }
}

impl OffsetType for i64 {
    fn from_usize(end: usize) -> Option<Self> {
        Self::try_from(end).ok()
    }
}

/// Returns a `binary` or `large_binary` array; `None`: the bytes exceed the offset type.
pub(crate) fn binary_array<'a, O: OffsetType>(
    rows: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
) -> Option<ArrowArray> {
    let length = rows.len();
    let mut ends = Vec::with_capacity(length + 1);
    let mut valid = Vec::with_capacity(length);
    let mut data = Vec::new();
    ends.push(O::from_usize(0)?);
    for row in rows {
        valid.push(row.is_some());
        data.extend_from_slice(row.unwrap_or_default());
        ends.push(O::from_usize(data.len())?);
    }
    let nulls = valid.iter().filter(|&&valid| !valid).count();
    let validity = if nulls == 0 { Vec::new() } else { self::validity_bitmap(valid.into_iter()) };
    let bits = if nulls == 0 { ptr::null() } else { validity.as_ptr().cast() };
    let buffers = vec![bits, ends.as_ptr().cast(), data.as_ptr().cast()];
    Some(ArrowArray::new(length, nulls.cast_signed() as i64, 0, buffers, vec![], Box::new((validity, ends, data))))
}

/// Returns Arrow's validity bits, least significant first.
pub(crate) fn validity_bitmap(rows: impl Iterator<Item = bool>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, valid) in rows.enumerate() {
        if index % 8 == 0 {
            bytes.push(0);
        }
        if let Some(byte) = bytes.last_mut() {
            *byte |= u8::from(valid) << (index % 8);
        }
    }
    bytes
}
