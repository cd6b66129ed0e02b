//! Functions that append primitives to a `Vec<u8>`: the counterpart of [`Reader`](super::Reader).

use crate::error::WireError;

macro_rules! fixed {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(out: &mut Vec<u8>, value: $type) {
            out.extend_from_slice(&value.to_be_bytes());
        }
    )*};
}

fixed! {
    /// INT8.
    put_i8: i8;
    /// A byte.
    put_u8: u8;
    /// INT16.
    put_i16: i16;
    /// UINT16.
    put_u16: u16;
    /// INT32.
    put_i32: i32;
    /// UINT32.
    put_u32: u32;
    /// INT64.
    put_i64: i64;
    /// FLOAT64.
    put_f64: f64;
    /// UUID, most significant byte first.
    put_uuid: u128;
}

/// BOOLEAN.
#[inline]
pub fn put_bool(out: &mut Vec<u8>, value: bool) {
    out.push(value.into());
}

/// UNSIGNED_VARINT.
#[inline]
pub fn put_uvarint(out: &mut Vec<u8>, value: u32) {
    put_uvarlong(out, value.into());
}

/// The unsigned part of a VARLONG.
#[inline]
pub fn put_uvarlong(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// VARINT (zigzag).
#[inline]
pub fn put_varint(out: &mut Vec<u8>, value: i32) {
    put_uvarint(out, ((value << 1) ^ (value >> 31)).cast_unsigned());
}

/// VARLONG (zigzag).
#[inline]
pub fn put_varlong(out: &mut Vec<u8>, value: i64) {
    put_uvarlong(out, zigzag(value));
}

/// Encodes with the sign in the lowest bit, so that small negative numbers are short, too.
#[inline(always)]
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// Returns the number of bytes that [`put_uvarlong`] writes: one for every 7 bits.
#[inline(always)]
pub(crate) fn uvarlong_bytes(value: u64) -> usize {
    let bits = u64::BITS - (value | 1).leading_zeros();
    // (bits + 6) / 7, for 1 to 64, without a division.
    ((bits * 9 + 64) >> 6) as usize
}

fn too_long(what: &'static str, len: usize, limit: usize) -> WireError {
    WireError::TooLong { what, len, limit }
}

/// Appends a compact length: 0 is null, n + 1 is n.
fn put_compact_len(out: &mut Vec<u8>, what: &'static str, len: Option<usize>) -> Result<(), WireError> {
    let Some(len) = len else {
        out.push(0);
        return Ok(());
    };
    // Java reads compact lengths as signed, so Java's limit applies.
    let limit = i32::MAX as usize - 1;
    match u32::try_from(len) {
        Ok(short) if len <= limit => put_uvarint(out, short + 1),
        _ => return Err(too_long(what, len, limit)),
    }
    Ok(())
}

/// NULLABLE_STRING, or COMPACT_NULLABLE_STRING.
pub fn put_nullable_str(out: &mut Vec<u8>, compact: bool, value: Option<&str>) -> Result<(), WireError> {
    let limit = i16::MAX as usize;
    match value {
        Some(value) if value.len() > limit => return Err(too_long("a string", value.len(), limit)),
        _ if compact => put_compact_len(out, "a string", value.map(str::len))?,
        Some(value) => put_i16(out, value.len() as i16),
        None => put_i16(out, -1),
    }
    out.extend_from_slice(value.unwrap_or_default().as_bytes());
    Ok(())
}

/// STRING, or COMPACT_STRING.
pub fn put_str(out: &mut Vec<u8>, compact: bool, value: &str) -> Result<(), WireError> {
    put_nullable_str(out, compact, Some(value))
}

/// NULLABLE_BYTES, or COMPACT_NULLABLE_BYTES.
pub fn put_nullable_bytes(out: &mut Vec<u8>, compact: bool, value: Option<&[u8]>) -> Result<(), WireError> {
    if compact {
        put_compact_len(out, "a byte field", value.map(<[u8]>::len))?;
    } else {
        put_classic_len(out, "a byte field", value.map(<[u8]>::len))?;
    }
    out.extend_from_slice(value.unwrap_or_default());
    Ok(())
}

/// Length of BYTES or COMPACT_BYTES whose content is appended separately.
pub fn put_bytes_len(out: &mut Vec<u8>, compact: bool, len: usize) -> Result<(), WireError> {
    if compact {
        put_compact_len(out, "a byte field", Some(len))
    } else {
        put_classic_len(out, "a byte field", Some(len))
    }
}

fn put_classic_len(out: &mut Vec<u8>, what: &'static str, len: Option<usize>) -> Result<(), WireError> {
    match len {
        None => put_i32(out, -1),
        Some(len) => match i32::try_from(len) {
            Ok(len) => put_i32(out, len),
            Err(_) => return Err(too_long(what, len, i32::MAX as usize)),
        },
    }
    Ok(())
}

/// Element count of an ARRAY or COMPACT_ARRAY; `None`: the null array.
pub fn put_array_len(out: &mut Vec<u8>, compact: bool, len: Option<usize>) -> Result<(), WireError> {
    if compact { put_compact_len(out, "an array", len) } else { put_classic_len(out, "an array", len) }
}

/// Tagged field (KIP-482): tag, size, and the content that `body` writes.
pub fn put_tag(
    out: &mut Vec<u8>,
    tag: u32,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), WireError>,
) -> Result<(), WireError> {
    // The size comes first and has a variable length, so the content needs a separate buffer.
    let mut field = Vec::new();
    body(&mut field)?;
    put_uvarint(out, tag);
    let size = u32::try_from(field.len()).map_err(|_| too_long("a tagged field", field.len(), u32::MAX as usize))?;
    put_uvarint(out, size);
    out.extend_from_slice(&field);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::primitives::Reader;

    #[test]
    fn a_string_beyond_32767_bytes_is_refused() {
        let long = "x".repeat(32_768);
        for compact in [false, true] {
            assert_eq!(put_str(&mut Vec::new(), compact, &long), Err(too_long("a string", 32_768, 32_767)));
            put_str(&mut Vec::new(), compact, &long[1..]).unwrap();
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(a: i32, b: i64, c: u32, d: u128, s: Option<String>, t: Option<Vec<u8>>, compact: bool) {
            let mut out = Vec::new();
            put_varint(&mut out, a);
            put_varlong(&mut out, b);
            put_uvarint(&mut out, c);
            put_uuid(&mut out, d);
            put_nullable_str(&mut out, compact, s.as_deref()).unwrap();
            put_nullable_bytes(&mut out, compact, t.as_deref()).unwrap();
            let mut r = Reader::new(&out);
            prop_assert_eq!(r.varint(), Ok(a));
            prop_assert_eq!(r.varlong(), Ok(b));
            prop_assert_eq!(r.uvarint(), Ok(c));
            prop_assert_eq!(r.uuid(), Ok(d));
            prop_assert_eq!(r.nullable_cow_str(compact).unwrap().map(String::from), s);
            prop_assert_eq!(r.nullable_cow_bytes(compact).unwrap().map(Vec::from), t);
            prop_assert_eq!(r.finish(), Ok(()));
        }
    }
}
