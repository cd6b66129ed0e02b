//! Reference decoder, plain enough to be checked by eye.

use grete_wire::records::test_encoder::TestRecord;

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

    /// Decodes a zigzag varint of at most `bits` bits.
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

/// Decodes a batch with a valid checksum and a valid header. Headers are parsed on access, so the result has only those
/// before the first malformed one. `unpack` gets the codec and the bytes after the batch's header.
pub fn decode(
    batch: &[u8],
    from_offset: i64,
    unpack: impl FnOnce(i16, &[u8]) -> Result<Vec<u8>, Refused>,
) -> Result<Vec<Row>, Refused> {
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
        let wanted = headers as usize;
        let parsed = (0..wanted).map_while(|_| Some((record.field().ok()??, record.field().ok()?)));
        let mut headers: Vec<_> = parsed.collect();
        if headers.len() == wanted && !record.0.is_empty() {
            headers.pop(); // the last header does not end where the record does
        }
        let timestamp = if attributes & 8 != 0 { max_timestamp } else { timestamp };
        let offset = base_offset + delta;
        if offset >= from_offset {
            rows.push(Row { offset, record: TestRecord { timestamp, key, value, headers } });
        }
    }
    if bytes.0.is_empty() { Ok(rows) } else { Err(Refused) }
}
