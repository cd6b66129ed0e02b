//! RecordBatch v2: headers, checksum, and the fields of each record.

use crate::Failure;

const HEADER: usize = 61;
const CRC_AT: usize = 17;
const CRC_FROM: usize = 21;

/// One whole batch.
pub struct Batch<'a> {
    pub base_offset: i64,
    pub next_offset: i64,
    pub records: usize,
    pub compressed: bool,
    bytes: &'a [u8],
}

/// Whole batches one after the other; a cut tail ends the walk.
pub struct Walk<'a>(pub &'a [u8]);

impl<'a> Iterator for Walk<'a> {
    type Item = Batch<'a>;

    fn next(&mut self) -> Option<Batch<'a>> {
        let base_offset = i64::from_be_bytes(*self.0.first_chunk()?);
        let length = usize::try_from(i32::from_be_bytes(*self.0.get(8..)?.first_chunk()?)).ok()?;
        let bytes = self.0.get(..12 + length).filter(|bytes| bytes.len() >= HEADER)?;
        self.0 = &self.0[12 + length..];
        let attributes = i16::from_be_bytes(*bytes[21..].first_chunk()?);
        let last_offset_delta = i32::from_be_bytes(*bytes[23..].first_chunk()?);
        let records = i32::from_be_bytes(*bytes[57..].first_chunk()?);
        Some(Batch {
            base_offset,
            next_offset: base_offset + i64::from(last_offset_delta) + 1,
            records: usize::try_from(records).ok()?,
            compressed: attributes & 7 != 0,
            bytes,
        })
    }
}

impl<'a> Batch<'a> {
    /// CRC32C of everything after the field itself.
    pub fn check_crc(&self) -> Result<(), Failure> {
        let expected = u32::from_be_bytes([0, 1, 2, 3].map(|at| self.bytes[CRC_AT + at]));
        if crc32c::crc32c(&self.bytes[CRC_FROM..]) == expected {
            Ok(())
        } else {
            Err(format!("the checksum of the batch at offset {} is wrong", self.base_offset).into())
        }
    }

    /// Parses every field of every record with bounds checks; `each` gets the value.
    pub fn parse(&self, mut each: impl FnMut(&'a [u8])) -> Result<(), Failure> {
        let mut cursor = Cursor { bytes: &self.bytes[HEADER..], at: 0 };
        let mut fields = || -> Option<()> {
            for _ in 0..self.records {
                let length = usize::try_from(cursor.varint()?).ok()?;
                let end = cursor.at.checked_add(length).filter(|end| *end <= cursor.bytes.len())?;
                cursor.at += 1; // attributes
                let _timestamp_delta = cursor.varint()?;
                let _offset_delta = cursor.varint()?;
                let _key = cursor.field()?;
                each(cursor.field()?);
                for _ in 0..cursor.varint()? {
                    let _name = cursor.field()?;
                    let _value = cursor.field()?;
                }
                if cursor.at != end {
                    return None;
                }
            }
            Some(())
        };
        fields().ok_or_else(|| format!("a record of the batch at offset {} is malformed", self.base_offset).into())
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    #[inline(always)]
    fn varint(&mut self) -> Option<i64> {
        let first = *self.bytes.get(self.at)?;
        if first < 0x80 {
            self.at += 1;
            return Some(i64::from(first >> 1) ^ -i64::from(first & 1));
        }
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        None
    }

    /// A length and that many bytes; null (-1) counts as empty.
    #[inline(always)]
    fn field(&mut self) -> Option<&'a [u8]> {
        let length = self.varint()?.max(0) as usize;
        let field = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(field)
    }
}
