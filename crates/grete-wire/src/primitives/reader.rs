//! Bounded cursor that decodes primitives from borrowed bytes and never reads beyond their end.

use std::borrow::Cow;

use crate::error::WireError;

/// Cursor over received bytes. No method panics, for any input.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    total: usize,
}

macro_rules! fixed {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(&mut self) -> Result<$type, WireError> {
            self.chunk().map(<$type>::from_be_bytes)
        }
    )*};
}

impl<'a> Reader<'a> {
    /// Creates a cursor at the first byte.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, total: bytes.len() }
    }

    /// Returns the number of unread bytes.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Returns the number of bytes read.
    #[inline]
    pub fn position(&self) -> usize {
        self.total - self.rest.len()
    }

    /// Returns the unread bytes, without reading them.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns an error unless all bytes were read.
    pub fn finish(&self) -> Result<(), WireError> {
        if self.rest.is_empty() { Ok(()) } else { Err(WireError::TrailingBytes { left: self.rest.len() }) }
    }

    /// Reads the next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], WireError> {
        match self.rest.split_at_checked(n) {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(self.truncated(n)),
        }
    }

    #[inline]
    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(*head)
            }
            None => Err(self.truncated(N)),
        }
    }

    #[cold]
    fn truncated(&self, needed: usize) -> WireError {
        WireError::Truncated { needed, had: self.rest.len() }
    }

    fixed! {
        /// INT8.
        i8: i8;
        /// A byte.
        u8: u8;
        /// INT16.
        i16: i16;
        /// UINT16.
        u16: u16;
        /// INT32.
        i32: i32;
        /// UINT32.
        u32: u32;
        /// INT64.
        i64: i64;
        /// FLOAT64.
        f64: f64;
        /// UUID, big endian: the first byte is the most significant.
        uuid: u128;
    }

    /// BOOLEAN: anything but zero is true.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, WireError> {
        Ok(self.u8()? != 0)
    }

    /// UNSIGNED_VARINT, at most 5 bytes.
    #[inline]
    pub fn uvarint(&mut self) -> Result<u32, WireError> {
        let mut value = 0u32;
        for (i, &byte) in self.rest.iter().take(5).enumerate() {
            if i == 4 && byte > 0x0f {
                return Err(WireError::BadVarint);
            }
            value |= u32::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                self.rest = self.rest.get(i + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err(self.truncated(self.rest.len() + 1))
    }

    /// The unsigned part of a VARLONG, at most 10 bytes.
    #[inline]
    pub fn uvarlong(&mut self) -> Result<u64, WireError> {
        let mut value = 0u64;
        for (i, &byte) in self.rest.iter().take(10).enumerate() {
            if i == 9 && byte > 0x01 {
                return Err(WireError::BadVarint);
            }
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                self.rest = self.rest.get(i + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err(self.truncated(self.rest.len() + 1))
    }

    /// VARINT (zigzag).
    #[inline]
    pub fn varint(&mut self) -> Result<i32, WireError> {
        let value = self.uvarint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// VARLONG (zigzag).
    #[inline]
    pub fn varlong(&mut self) -> Result<i64, WireError> {
        let value = self.uvarlong()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// Converts a classic (not compact) length field of a nullable value; -1 is null.
    #[inline]
    fn length(&mut self, what: &'static str, value: i32) -> Result<Option<usize>, WireError> {
        match usize::try_from(value) {
            Ok(len) => Ok(Some(len)),
            Err(_) if value == -1 => Ok(None),
            Err(_) => Err(WireError::BadLength { what, value: value.into() }),
        }
    }

    /// Reads a compact length field: 0 is null, n + 1 is n.
    #[inline]
    fn compact_length(&mut self) -> Result<Option<usize>, WireError> {
        Ok(self.uvarint()?.checked_sub(1).map(|len| len as usize))
    }

    fn utf8(bytes: &'a [u8]) -> Result<&'a str, WireError> {
        std::str::from_utf8(bytes).map_err(|_| WireError::BadUtf8)
    }

    /// NULLABLE_STRING.
    pub fn nullable_string(&mut self) -> Result<Option<&'a str>, WireError> {
        let len = self.i16()?;
        self.length("a string", len.into())?.map(|len| self.take(len).and_then(Self::utf8)).transpose()
    }

    /// STRING.
    pub fn string(&mut self) -> Result<&'a str, WireError> {
        self.nullable_string()?.ok_or(null("a string"))
    }

    /// COMPACT_NULLABLE_STRING.
    pub fn compact_nullable_string(&mut self) -> Result<Option<&'a str>, WireError> {
        self.compact_length()?.map(|len| self.take(len).and_then(Self::utf8)).transpose()
    }

    /// COMPACT_STRING.
    pub fn compact_string(&mut self) -> Result<&'a str, WireError> {
        self.compact_nullable_string()?.ok_or(null("a string"))
    }

    /// NULLABLE_BYTES.
    pub fn nullable_bytes(&mut self) -> Result<Option<&'a [u8]>, WireError> {
        let len = self.i32()?;
        self.length("a byte field", len)?.map(|len| self.take(len)).transpose()
    }

    /// BYTES.
    pub fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        self.nullable_bytes()?.ok_or(null("a byte field"))
    }

    /// COMPACT_NULLABLE_BYTES (also COMPACT_RECORDS).
    pub fn compact_nullable_bytes(&mut self) -> Result<Option<&'a [u8]>, WireError> {
        self.compact_length()?.map(|len| self.take(len)).transpose()
    }

    /// COMPACT_BYTES.
    pub fn compact_bytes(&mut self) -> Result<&'a [u8], WireError> {
        self.compact_nullable_bytes()?.ok_or(null("a byte field"))
    }

    /// Reads the element count of an ARRAY; `None`: the null array. The count is unchecked: bound it before reserving
    /// memory (see [`Reader::array`]).
    pub fn array_len(&mut self) -> Result<Option<usize>, WireError> {
        let len = self.i32()?;
        self.length("an array", len)
    }

    /// Reads the element count of a COMPACT_ARRAY; `None`: the null array.
    pub fn compact_array_len(&mut self) -> Result<Option<usize>, WireError> {
        self.compact_length()
    }

    /// Reads a nullable array, classic or compact, of elements that take at least `min_size` bytes each. It reserves no
    /// more memory than the unread bytes could fill.
    pub fn nullable_array<T>(
        &mut self,
        compact: bool,
        min_size: usize,
        mut element: impl FnMut(&mut Self) -> Result<T, WireError>,
    ) -> Result<Option<Vec<T>>, WireError> {
        let len = if compact { self.compact_array_len()? } else { self.array_len()? };
        let Some(len) = len else { return Ok(None) };
        let fits = self.remaining() / min_size.max(1);
        if len > fits {
            // Without this check, a count of two billion would decode (and allocate) the bytes that happen to follow
            // first.
            return Err(self.truncated(len.saturating_mul(min_size.max(1))));
        }
        let mut elements = Vec::with_capacity(len);
        for _ in 0..len {
            elements.push(element(self)?);
        }
        Ok(Some(elements))
    }

    /// Reads an array like [`Reader::nullable_array`], for a field that must not be null.
    pub fn array<T>(
        &mut self,
        compact: bool,
        min_size: usize,
        element: impl FnMut(&mut Self) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        self.nullable_array(compact, min_size, element)?.ok_or(null("an array"))
    }

    /// Reads a string in either form, borrowed.
    pub fn cow_str(&mut self, compact: bool) -> Result<Cow<'a, str>, WireError> {
        Ok(Cow::Borrowed(if compact { self.compact_string()? } else { self.string()? }))
    }

    /// Reads a nullable string in either form, borrowed.
    pub fn nullable_cow_str(&mut self, compact: bool) -> Result<Option<Cow<'a, str>>, WireError> {
        let value = if compact { self.compact_nullable_string()? } else { self.nullable_string()? };
        Ok(value.map(Cow::Borrowed))
    }

    /// Reads bytes in either form, borrowed.
    pub fn cow_bytes(&mut self, compact: bool) -> Result<Cow<'a, [u8]>, WireError> {
        Ok(Cow::Borrowed(if compact { self.compact_bytes()? } else { self.bytes()? }))
    }

    /// Reads nullable bytes in either form, borrowed.
    pub fn nullable_cow_bytes(&mut self, compact: bool) -> Result<Option<Cow<'a, [u8]>>, WireError> {
        let value = if compact { self.compact_nullable_bytes()? } else { self.nullable_bytes()? };
        Ok(value.map(Cow::Borrowed))
    }

    /// Reads a section of tagged fields (KIP-482). `field` gets the tag and a reader that ends with the field.
    pub fn tags(
        &mut self,
        mut field: impl FnMut(u32, &mut Reader<'a>) -> Result<(), WireError>,
    ) -> Result<(), WireError> {
        for _ in 0..self.uvarint()? {
            let tag = self.uvarint()?;
            let size = self.uvarint()? as usize;
            field(tag, &mut Reader::new(self.take(size)?))?;
        }
        Ok(())
    }

    /// Skips a section of tagged fields.
    pub fn skip_tags(&mut self) -> Result<(), WireError> {
        self.tags(|_, _| Ok(()))
    }
}

fn null(what: &'static str) -> WireError {
    WireError::BadLength { what, value: -1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_sizes_are_big_endian_and_bounded() {
        let mut r = Reader::new(&[0xff, 0xfe, 0, 0, 0, 5, 1]);
        assert_eq!(r.i16(), Ok(-2));
        assert_eq!(r.u32(), Ok(5));
        assert_eq!(r.position(), 6);
        assert_eq!(r.i64(), Err(WireError::Truncated { needed: 8, had: 1 }));
        assert_eq!(r.bool(), Ok(true));
        assert_eq!(r.finish(), Ok(()));
    }

    #[test]
    fn varints_zigzag_and_refuse_overlong_forms() {
        assert_eq!(Reader::new(&[0x01]).varint(), Ok(-1));
        assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x0f]).varint(), Ok(i32::MIN));
        assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x1f]).varint(), Err(WireError::BadVarint));
        assert_eq!(Reader::new(&[0x80; 12]).uvarint(), Err(WireError::BadVarint));
        let longest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Reader::new(&longest).varlong(), Ok(i64::MIN));
        assert_eq!(Reader::new(&[0xff; 10]).varlong(), Err(WireError::BadVarint));
        assert!(matches!(Reader::new(&[0x80]).varlong(), Err(WireError::Truncated { .. })));
    }

    #[test]
    fn null_strings_differ_from_empty_ones() {
        assert_eq!(Reader::new(&[0xff, 0xff]).nullable_string(), Ok(None));
        assert_eq!(Reader::new(&[0xff, 0xff]).string(), Err(null("a string")));
        assert_eq!(Reader::new(&[0, 0]).string(), Ok(""));
        assert_eq!(
            Reader::new(&[0xff, 0xfe]).nullable_string(),
            Err(WireError::BadLength { what: "a string", value: -2 })
        );
        assert_eq!(Reader::new(&[0]).compact_nullable_string(), Ok(None));
        assert_eq!(Reader::new(&[1]).compact_string(), Ok(""));
        assert_eq!(Reader::new(&[3, b'h', b'i']).compact_string(), Ok("hi"));
        assert_eq!(Reader::new(&[2, 0xff]).compact_string(), Err(WireError::BadUtf8));
    }

    #[test]
    fn a_lying_count_reserves_nothing() {
        let mut r = Reader::new(&[0x7f, 0xff, 0xff, 0xff, 1, 2, 3, 4]);
        let array = r.array(false, 4, Reader::i32);
        assert!(matches!(array, Err(WireError::Truncated { had: 4, .. })));
    }

    #[test]
    fn unknown_tags_are_stepped_over() {
        let mut r = Reader::new(&[2, 0, 1, 9, 7, 2, 8, 8, 42]);
        let mut seen = Vec::new();
        r.tags(|tag, field| {
            seen.push((tag, field.remaining()));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [(0, 1), (7, 2)]);
        assert_eq!(r.u8(), Ok(42));
    }
}
