//! Fast paths for appending records. The part before a key or value is assembled in registers and written eight bytes
//! at a time. Unusual records take the general path, which is the reference.

use super::batch_builder::BatchBuilder;
use super::producer_record::{ProducerRecord, headers_bytes, put_headers};
use crate::primitives::writer::zigzag;

/// Maximum bytes of a short record's key, value and headers each, and maximum records before one.
const MAX_SHORT_BYTES: usize = 1 << 18;
/// Bytes that may be written beyond a record's end; the next record overwrites them.
const WRITE_SLACK: usize = 16;

impl BatchBuilder {
    /// Appends a record if the batch then has at most `limit` bytes and the buffer need not grow. Returns the bytes
    /// added; `None`: nothing was appended. It replaces the three steps [`BatchBuilder::record_bytes`], a check of the
    /// room, and [`BatchBuilder::append`].
    #[inline]
    pub fn try_append(&mut self, record: &ProducerRecord<'_>, limit: usize) -> Option<usize> {
        let before = self.len();
        if self.short_delta(record.timestamp).is_some_and(|delta| self.append_short(delta, record, limit)) {
            self.max_timestamp = self.max_timestamp.max(record.timestamp);
            return Some(self.len() - before);
        }
        let bytes = self.record_bytes(record);
        if bytes > limit.min(self.capacity()).saturating_sub(before) || self.append(record).is_err() {
            return None;
        }
        Some(bytes)
    }

    /// Appends records without key and headers, all with one timestamp, as long as the batch has at most `limit` bytes.
    /// Returns the number of appended records. It takes two thirds of the time of single appends, since the common
    /// parts are computed once. The buffer grows if necessary.
    #[inline]
    pub fn append_values<'a>(
        &mut self,
        timestamp: i64,
        values: impl IntoIterator<Item = Option<&'a [u8]>>,
        limit: usize,
    ) -> usize {
        let before = self.count;
        let mut delta = self.short_delta(timestamp);
        for value in values {
            let record = ProducerRecord { timestamp, value, ..ProducerRecord::default() };
            if delta.is_some_and(|delta| self.append_short(delta, &record, limit)) {
                continue;
            }
            if self.len().saturating_add(self.record_bytes(&record)) > limit || self.append(&record).is_err() {
                break;
            }
            delta = self.short_delta(timestamp);
        }
        if self.count > before {
            self.max_timestamp = self.max_timestamp.max(timestamp);
        }
        (self.count - before) as usize
    }

    /// Returns the timestamp's delta, if it is short and the batch has a base timestamp.
    #[inline(always)]
    fn short_delta(&self, timestamp: i64) -> Option<Varint> {
        if self.count == 0 { None } else { Varint::new(zigzag(self.timestamp_delta(timestamp))) }
    }

    /// Appends a record if it is short, the batch then has at most `limit` bytes, and there is ample room. The caller
    /// updates the largest timestamp.
    #[inline(always)]
    fn append_short(&mut self, delta: Varint, record: &ProducerRecord<'_>, limit: usize) -> bool {
        let (Some(key), Some(value)) = (ShortField::new(record.key), ShortField::new(record.value)) else {
            return false;
        };
        let headers = headers_bytes(record.headers);
        if self.count as usize > MAX_SHORT_BYTES || headers > MAX_SHORT_BYTES {
            return false;
        }
        let Some(offset) = Varint::new(u64::from(self.count) << 1) else { return false };
        // Three parts of up to `MAX_SHORT_BYTES`: three bytes of length, one of attributes and four of a delta are a
        // word.
        let body = 1 + delta.bytes() + offset.bytes() + key.bytes() + value.bytes() + headers;
        let Some(length) = Varint::new((body as u64) << 1) else { return false };
        let (len, total) = (self.buffer.len(), length.bytes() + body);
        if len + total > limit || self.buffer.capacity() - len < total + WRITE_SLACK {
            return false;
        }
        const ATTRIBUTES: Varint = Varint { word: 0, bits: 8 };
        self.put(length.then(ATTRIBUTES).then(delta));
        if record.key.is_none() {
            self.put(offset.then(key.len).then(value.len));
        } else {
            self.put(offset.then(key.len));
            self.buffer.extend_from_slice(key.content);
            self.put(value.len);
        }
        self.buffer.extend_from_slice(value.content);
        if record.headers.is_empty() {
            self.buffer.push(0);
        } else {
            put_headers(&mut self.buffer, record.headers);
        }
        self.count += 1;
        true
    }

    /// Writes a varint. It always writes eight bytes, which is a single instruction, and truncates the excess.
    #[inline(always)]
    fn put(&mut self, varint: Varint) {
        let end = self.buffer.len() + varint.bytes();
        self.buffer.extend_from_slice(&varint.word.to_le_bytes());
        self.buffer.truncate(end);
    }
}

/// Short key or value.
struct ShortField<'a> {
    len: Varint,
    content: &'a [u8],
}

impl<'a> ShortField<'a> {
    #[inline(always)]
    fn new(field: Option<&'a [u8]>) -> Option<Self> {
        const NULL: u64 = 1; // -1 in zigzag
        let content = field.unwrap_or_default();
        let len = if field.is_some() { (content.len() as u64) << 1 } else { NULL };
        if content.len() > MAX_SHORT_BYTES { None } else { Some(Self { len: Varint::new(len)?, content }) }
    }

    #[inline(always)]
    fn bytes(&self) -> usize {
        self.len.bytes() + self.content.len()
    }
}

/// One or several varints, up to eight bytes, the first one lowest.
#[derive(Clone, Copy)]
struct Varint {
    word: u64,
    bits: u32,
}

impl Varint {
    /// Encodes a number below 2^28: up to four bytes.
    #[inline(always)]
    fn new(value: u64) -> Option<Self> {
        let (a, b, c, d) = (value & 0x7f, (value & 0x3f80) << 1, (value & 0x1f_c000) << 2, (value & 0xfe0_0000) << 3);
        let (word, bits) = match value {
            0..0x80 => (a, 8),
            0x80..0x4000 => (a | b | 0x80, 16),
            0x4000..0x20_0000 => (a | b | c | 0x8080, 24),
            0x20_0000..0x1000_0000 => (a | b | c | d | 0x80_8080, 32),
            _ => return None,
        };
        Some(Self { word, bits })
    }

    #[inline(always)]
    fn then(self, next: Self) -> Self {
        debug_assert!(self.bits + next.bits <= u64::BITS);
        Self { word: self.word | next.word << self.bits, bits: self.bits + next.bits }
    }

    #[inline(always)]
    fn bytes(self) -> usize {
        self.bits as usize / 8
    }
}
