//! A decoder so plain that it can be checked by eye, to hold the fast one against.

use std::io::Read;

use grete_wire::records::testing::TestRecord;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub offset: i64,
    pub record: TestRecord,
}

#[derive(Debug)]
pub struct Refused;

struct Bytes(std::collections::VecDeque<u8>);

impl Bytes {
    fn byte(&mut self) -> Result<u8, Refused> {
        self.0.pop_front().ok_or(Refused)
    }

    fn many(&mut self, n: i64) -> Result<Vec<u8>, Refused> {
        if n < 0 || n > self.0.len() as i64 {
            return Err(Refused);
        }
        Ok(self.0.drain(..n as usize).collect())
    }

    /// Zigzag, at most `bits`.
    fn varint(&mut self, bits: u32) -> Result<i64, Refused> {
        let mut value = 0u128;
        for i in 0..bits.div_ceil(7) {
            let byte = self.byte()?;
            value |= u128::from(byte & 0x7f) << (7 * i);
            if byte < 128 {
                if value >> bits != 0 {
                    return Err(Refused);
                }
                let half = (value >> 1) as i64;
                return Ok(if value & 1 == 0 { half } else { -1 - half });
            }
        }
        Err(Refused)
    }

    fn field(&mut self) -> Result<Option<Vec<u8>>, Refused> {
        match self.varint(32)? {
            -1 => Ok(None),
            n => self.many(n).map(Some),
        }
    }
}

fn number<const N: usize>(batch: &[u8], at: usize) -> [u8; N] {
    batch[at..at + N].try_into().unwrap()
}

/// The records of a batch with a good checksum whose header the walk admitted. Headers that do not parse come out as
/// `Err` in place of the list, for they are only looked at on access.
pub fn decode(batch: &[u8], from_offset: i64) -> Result<Vec<Row>, Refused> {
    let base_offset = i64::from_be_bytes(number(batch, 0));
    let attributes = i16::from_be_bytes(number(batch, 21));
    let last_delta = i32::from_be_bytes(number(batch, 23));
    let base_timestamp = i64::from_be_bytes(number(batch, 27));
    let max_timestamp = i64::from_be_bytes(number(batch, 35));
    let count = i32::from_be_bytes(number(batch, 57));
    if attributes & 0x20 != 0 || count == 0 {
        return Ok(Vec::new());
    }
    let mut bytes = Bytes(unpack(attributes & 7, &batch[61..])?.into());
    let mut rows = Vec::new();
    let mut previous = -1;
    for _ in 0..count {
        let length = bytes.varint(32)?;
        let mut record = Bytes(bytes.many(length)?.into());
        record.byte()?;
        let timestamp = base_timestamp.wrapping_add(record.varint(64)?);
        let delta = record.varint(32)?;
        if delta <= previous || delta > i64::from(last_delta) {
            return Err(Refused);
        }
        previous = delta;
        let (key, value) = (record.field()?, record.field()?);
        let headers = record.varint(32)?;
        let left = record.0.len() as i64;
        if headers < 0 || headers * 2 > left || (headers == 0 && left > 0) {
            return Err(Refused);
        }
        let headers = (0..headers).map_while(|_| Some((record.field().ok()??, record.field().ok()?))).collect();
        let timestamp = if attributes & 8 != 0 { max_timestamp } else { timestamp };
        let offset = base_offset + delta;
        if offset >= from_offset {
            rows.push(Row { offset, record: TestRecord { timestamp, key, value, headers } });
        }
    }
    if bytes.0.is_empty() { Ok(rows) } else { Err(Refused) }
}

fn unpack(codec: i16, packed: &[u8]) -> Result<Vec<u8>, Refused> {
    let mut out = Vec::new();
    match codec {
        0 => out = packed.to_vec(),
        1 => drop(flate2::read::MultiGzDecoder::new(packed).read_to_end(&mut out).map_err(|_| Refused)?),
        2 if packed.starts_with(b"\x82SNAPPY\0") => {
            let mut rest = &packed[16..];
            while !rest.is_empty() {
                let (block, after) = rest[4..].split_at(i32::from_be_bytes(number(rest, 0)) as usize);
                out.extend(snap::raw::Decoder::new().decompress_vec(block).map_err(|_| Refused)?);
                rest = after;
            }
        }
        2 => out = snap::raw::Decoder::new().decompress_vec(packed).map_err(|_| Refused)?,
        3 => drop(lz4_flex::frame::FrameDecoder::new(packed).read_to_end(&mut out).map_err(|_| Refused)?),
        4 => out = zstd::decode_all(packed).map_err(|_| Refused)?,
        _ => return Err(Refused),
    }
    Ok(out)
}
