//! Primitives of Avro's binary encoding: zigzag integers, lengths, IEEE numbers.

use crate::error::DecodeError;

/// Bytes in a zigzag varint of 64 bits.
const MAX_VARINT: usize = 10;

/// Rest of the data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    rest: &'a [u8],
    /// Length of all data, for the places in errors.
    total: usize,
}

impl<'a> Input<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self { rest: data, total: data.len() }
    }

    #[inline]
    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Returns an error that names the place of the next byte.
    #[cold]
    pub(crate) fn error(&self, reason: impl std::fmt::Display) -> DecodeError {
        DecodeError::new(format!("{reason} (at byte {} of {})", self.total - self.rest.len(), self.total))
    }

    #[inline]
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        match self.rest.split_at_checked(count) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(self.error(format_args!("{count} bytes are needed, {} are left", self.rest.len()))),
        }
    }

    #[inline]
    pub(crate) fn boolean(&mut self) -> Result<bool, DecodeError> {
        match self.take(1)? {
            [0] => Ok(false),
            [1] => Ok(true),
            other => Err(self.error(format_args!("a boolean is the byte 0 or 1, not {other:?}"))),
        }
    }

    #[inline]
    pub(crate) fn long(&mut self) -> Result<i64, DecodeError> {
        match self.rest {
            [first, rest @ ..] if *first < 0x80 => {
                self.rest = rest;
                Ok(i64::from(first >> 1) ^ -i64::from(first & 1))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<i64, DecodeError> {
        let mut value = 0_u64;
        for (index, byte) in self.rest.iter().take(MAX_VARINT).enumerate() {
            let bits = u64::from(byte & 0x7f);
            if index == MAX_VARINT - 1 && bits > 1 {
                break;
            }
            value |= bits << (7 * index);
            if byte & 0x80 == 0 {
                self.rest = self.rest.get(index + 1..).unwrap_or_default();
                return Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
            }
        }
        Err(self.error(if self.rest.len() < MAX_VARINT {
            "the data ends within an integer"
        } else {
            "an integer has more than 64 bits"
        }))
    }

    #[inline]
    pub(crate) fn int(&mut self) -> Result<i32, DecodeError> {
        let value = self.long()?;
        i32::try_from(value).map_err(|_| self.error(format_args!("{value} is no int of 32 bits")))
    }

    #[inline]
    pub(crate) fn float(&mut self) -> Result<f32, DecodeError> {
        let bytes = self.take(4)?;
        Ok(bytes.first_chunk().map_or(0.0, |bytes| f32::from_le_bytes(*bytes)))
    }

    #[inline]
    pub(crate) fn double(&mut self) -> Result<f64, DecodeError> {
        let bytes = self.take(8)?;
        Ok(bytes.first_chunk().map_or(0.0, |bytes| f64::from_le_bytes(*bytes)))
    }

    /// Returns length-prefixed bytes.
    #[inline]
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.long()?;
        match usize::try_from(length) {
            Ok(length) => self.take(length),
            Err(_) => Err(self.error(format_args!("a length is {length}"))),
        }
    }

    #[inline]
    pub(crate) fn string(&mut self) -> Result<&'a str, DecodeError> {
        let bytes = self.bytes()?;
        self.utf8(bytes)
    }

    #[inline]
    pub(crate) fn utf8(&self, bytes: &'a [u8]) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(bytes).map_err(|error| self.error(format_args!("a string is not UTF-8: {error}")))
    }

    /// Returns the number of items in the next block and, if the writer has given it, their size in bytes. (0, None) is
    /// the end.
    #[inline]
    pub(crate) fn block(&mut self) -> Result<(usize, Option<usize>), DecodeError> {
        let count = self.long()?;
        if count >= 0 {
            return Ok((usize::try_from(count).unwrap_or(usize::MAX), None));
        }
        let size = self.long()?;
        match (usize::try_from(count.unsigned_abs()), usize::try_from(size)) {
            (Ok(count), Ok(size)) if size <= self.rest.len() => Ok((count, Some(size))),
            _ => Err(self.error(format_args!("a block has {size} bytes, {} are left", self.rest.len()))),
        }
    }

    /// Checks that a block of a given size has ended there. A reader that skips the block goes by its size, and would find
    /// other data than one that reads its items. `end`: number of bytes that are left after the block; `None`: the writer
    /// has not given its size.
    #[inline]
    pub(crate) fn check_block_end(&self, end: Option<usize>) -> Result<(), DecodeError> {
        match end {
            Some(end) if end != self.rest.len() => {
                Err(self
                    .error(format_args!("a block's items do not end where its size says, {end} bytes before the end")))
            }
            _ => Ok(()),
        }
    }
}

/// Appends a zigzag varint.
#[inline]
pub(crate) fn put_long(out: &mut Vec<u8>, value: i64) {
    let mut bits = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while bits >= 0x80 {
        out.push((bits & 0x7f) as u8 | 0x80);
        bits >>= 7;
    }
    out.push(bits as u8);
}

/// Appends length-prefixed bytes.
#[inline]
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_long(out, bytes.len().cast_signed() as i64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_zigzag() {
        for (value, bytes) in [
            (0, &[0][..]),
            (-1, &[1]),
            (1, &[2]),
            (-64, &[0x7f]),
            (64, &[0x80, 1]),
            (i64::MAX, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
            (i64::MIN, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
        ] {
            let mut out = Vec::new();
            put_long(&mut out, value);
            assert_eq!(out, bytes);
            assert_eq!(Input::new(bytes).long(), Ok(value));
        }
    }

    #[test]
    fn integers_end() {
        assert!(Input::new(&[0x80]).long().is_err_and(|error| error.reason.contains("ends within")));
        assert!(Input::new(&[0xff; 20]).long().is_err_and(|error| error.reason.contains("64 bits")));
        let mut too_big = [0xff; 10];
        too_big[9] = 2;
        assert!(Input::new(&too_big).long().is_err());
        assert!(Input::new(&[0xfe, 0xff, 0xff, 0xff, 0x1f]).int().is_err());
    }

    #[test]
    fn lengths_and_blocks_are_bounded_by_the_data() {
        assert!(Input::new(&[1]).bytes().is_err_and(|error| error.reason.contains("length is -1")));
        assert!(Input::new(&[200, 1, 0]).bytes().is_err_and(|error| error.reason.contains("are left")));
        assert_eq!(Input::new(&[3, 2, 0]).block(), Ok((2, Some(1))));
        assert!(Input::new(&[3, 4, 0]).block().is_err());
        let mut lowest = Vec::new();
        put_long(&mut lowest, i64::MIN);
        lowest.push(0);
        assert_eq!(Input::new(&lowest).block(), Ok((1 << 63, Some(0))));
    }
}
