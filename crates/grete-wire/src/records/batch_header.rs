//! Header of a record batch: 61 bytes.

use crate::compression::Compression;
use crate::error::WireError;

/// Length of a record batch's header in bytes.
pub const HEADER_BYTES: usize = 61;
/// Bytes before the part that the length field counts: base offset and the length field.
pub(crate) const LENGTH_END: usize = 12;
/// Start of the checksummed part: the attributes.
pub(crate) const CRC_START: usize = 21;

/// Header of a record batch (magic 2, KIP-98). It is trustworthy only after the check of the batch's CRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// Base of the records' offset deltas.
    pub base_offset: i64,
    /// Bytes after the length field.
    pub length: i32,
    /// Leader epoch under which the batch was appended; -1 if unknown.
    pub leader_epoch: i32,
    /// Format version: 2.
    pub magic: i8,
    /// CRC-32C of all bytes from the attributes on.
    pub crc: u32,
    /// Flags, which the methods decode.
    pub attributes: i16,
    /// Delta of the last offset to the base. Compaction keeps it when it removes the last record.
    pub last_offset_delta: i32,
    /// Base of the records' timestamp deltas, in ms since 1970.
    pub base_timestamp: i64,
    /// Largest timestamp; with log-append time, the timestamp of every record.
    pub max_timestamp: i64,
    /// Id of an idempotent or transactional producer; -1: none.
    pub producer_id: i64,
    /// Epoch of the producer id.
    pub producer_epoch: i16,
    /// Sequence number of the first record.
    pub base_sequence: i32,
    /// Number of records; 0 if compaction removed all.
    pub record_count: i32,
}

impl BatchHeader {
    /// Decodes a header of magic 2 and checks its consistency.
    ///
    /// # Errors
    /// `bytes` is shorter than a header, the magic is not 2, or a length, count or offset is invalid.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let truncated = WireError::Truncated { needed: HEADER_BYTES, had: bytes.len() };
        let Some(b) = bytes.first_chunk::<HEADER_BYTES>() else { return Err(truncated) };
        let header = Self {
            base_offset: i64::from_be_bytes(at(b, 0)),
            length: i32::from_be_bytes(at(b, 8)),
            leader_epoch: i32::from_be_bytes(at(b, 12)),
            magic: i8::from_be_bytes(at(b, 16)),
            crc: u32::from_be_bytes(at(b, 17)),
            attributes: i16::from_be_bytes(at(b, 21)),
            last_offset_delta: i32::from_be_bytes(at(b, 23)),
            base_timestamp: i64::from_be_bytes(at(b, 27)),
            max_timestamp: i64::from_be_bytes(at(b, 35)),
            producer_id: i64::from_be_bytes(at(b, 43)),
            producer_epoch: i16::from_be_bytes(at(b, 51)),
            base_sequence: i32::from_be_bytes(at(b, 53)),
            record_count: i32::from_be_bytes(at(b, 57)),
        };
        header.validate()
    }

    fn validate(self) -> Result<Self, WireError> {
        let bad = |what, value| Err(WireError::BadValue { what, value });
        if self.magic != 2 {
            return Err(WireError::UnsupportedMagic { magic: self.magic, base_offset: self.base_offset });
        }
        if self.length < (HEADER_BYTES - LENGTH_END) as i32 {
            return Err(WireError::BadLength { what: "a record batch", value: self.length.into() });
        }
        if self.base_offset < 0 {
            return bad("the base offset of a record batch", self.base_offset);
        }
        let next = self.base_offset.checked_add(i64::from(self.last_offset_delta) + 1);
        if self.last_offset_delta < 0 || next.is_none() {
            return bad("the last offset delta of a record batch", self.last_offset_delta.into());
        }
        // Compaction leaves fewer records than offsets, never more.
        if self.record_count < 0 || self.record_count as u32 > self.last_offset_delta as u32 + 1 {
            return bad("the record count of a record batch", self.record_count.into());
        }
        Ok(self)
    }

    /// Returns the codec, or the unknown code as an error.
    pub fn compression(&self) -> Result<Compression, i16> {
        match self.attributes & 0x07 {
            0 => Ok(Compression::None),
            1 => Ok(Compression::Gzip),
            2 => Ok(Compression::Snappy),
            3 => Ok(Compression::Lz4),
            4 => Ok(Compression::Zstd),
            other => Err(other),
        }
    }

    /// Returns whether all timestamps are the broker's append time.
    pub fn log_append_time(&self) -> bool {
        self.attributes & 0x08 != 0
    }

    /// Returns whether the batch belongs to a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & 0x10 != 0
    }

    /// Returns whether the batch holds a control record, which applications do not get.
    pub fn is_control(&self) -> bool {
        self.attributes & 0x20 != 0
    }

    /// Returns the timestamp of the first record, as far as the header has it; never later than the newest record's.
    /// `None`: the records have no timestamps.
    ///
    /// With a delete horizon (KIP-534) the base is the time at which tombstones are deleted, and only the largest
    /// timestamp is a record's.
    pub fn first_timestamp(&self) -> Option<i64> {
        let base = if self.log_append_time() || self.attributes & 0x40 != 0 { i64::MAX } else { self.base_timestamp };
        Some(base.min(self.max_timestamp)).filter(|timestamp| *timestamp >= 0)
    }

    /// Returns the offset of the last record, which compaction may have removed.
    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.last_offset_delta))
    }

    /// Returns the offset to fetch after this batch, independent of the records left in it.
    pub fn next_offset(&self) -> i64 {
        self.last_offset().saturating_add(1)
    }
}

/// Returns `N` bytes from `start`. Both are constants, so no check is left after compilation.
#[inline(always)]
fn at<const N: usize>(bytes: &[u8; HEADER_BYTES], start: usize) -> [u8; N] {
    let mut out = [0; N];
    if let Some(field) = bytes.get(start..start + N) {
        out.copy_from_slice(field);
    }
    out
}

/// Writes a field at a constant position, so that no check is left after compilation.
#[inline(always)]
pub(in crate::records) fn put_at<const N: usize>(header: &mut [u8; HEADER_BYTES], at: usize, field: [u8; N]) {
    if let Some(place) = header.get_mut(at..at + N) {
        place.copy_from_slice(&field);
    }
}
