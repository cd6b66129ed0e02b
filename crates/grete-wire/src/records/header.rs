//! The 61 bytes in front of every record batch.

use std::ops::RangeInclusive;

use crate::error::WireError;

/// Bytes of a record batch's header.
pub const HEADER_BYTES: usize = 61;
/// Bytes in front of what the batch's length counts: base offset and the length itself.
pub(crate) const LENGTH_END: usize = 12;
/// Where the checksummed part starts: the attributes.
pub(crate) const CRC_START: usize = 21;

/// How the records of a batch are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Plain bytes.
    None,
    /// RFC 1952.
    Gzip,
    /// Snappy, raw or in xerial's framing.
    Snappy,
    /// LZ4 frames.
    Lz4,
    /// RFC 8878 (KIP-110).
    Zstd,
}

impl Compression {
    /// The levels that the codec can pack with, from fast to small; `None` if there is but one way.
    #[must_use]
    pub fn levels(self) -> Option<RangeInclusive<i32>> {
        match self {
            Self::None | Self::Snappy | Self::Lz4 => None,
            Self::Gzip => Some(0..=9),
            Self::Zstd => Some(zstd::zstd_safe::min_c_level()..=zstd::zstd_safe::max_c_level()),
        }
    }
}

impl std::fmt::Display for Compression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        })
    }
}

/// The header of a record batch (magic 2, KIP-98). It is believed only once the batch's CRC has been checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset that the records' deltas are added to.
    pub base_offset: i64,
    /// Bytes after the length field.
    pub length: i32,
    /// Leader epoch under which the batch was appended; -1 if unknown.
    pub leader_epoch: i32,
    /// Format version: 2.
    pub magic: i8,
    /// CRC32C over everything from the attributes on.
    pub crc: u32,
    /// Flags; see the methods.
    pub attributes: i16,
    /// Offset of the last record, counted from the base; kept when compaction removes that record.
    pub last_offset_delta: i32,
    /// Milliseconds that the records' deltas are added to.
    pub base_timestamp: i64,
    /// Largest timestamp; with log-append time the timestamp of every record.
    pub max_timestamp: i64,
    /// Idempotent or transactional producer; -1 if none.
    pub producer_id: i64,
    /// That producer's epoch.
    pub producer_epoch: i16,
    /// Sequence number of the first record.
    pub base_sequence: i32,
    /// Records in the batch; 0 if compaction emptied it.
    pub record_count: i32,
}

impl BatchHeader {
    /// Reads a header of magic 2 and refuses one that contradicts itself.
    ///
    /// # Errors
    /// When `bytes` holds no whole header, the magic is not 2, or a length, count or offset cannot be.
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
        header.check()
    }

    fn check(self) -> Result<Self, WireError> {
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

    /// The codec, or the unknown code.
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

    /// Whether all timestamps are the broker's append time.
    #[must_use]
    pub fn log_append_time(&self) -> bool {
        self.attributes & 0x08 != 0
    }

    /// Whether the batch belongs to a transaction.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.attributes & 0x10 != 0
    }

    /// Whether the batch holds a control record, which no application sees.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.attributes & 0x20 != 0
    }

    /// Timestamp of the first record, as far as the header tells: never a later one than the newest record's. `None`: the
    /// records have none.
    ///
    /// With a delete horizon (KIP-534) the base is the time at which tombstones go, and only the largest is a record's.
    #[must_use]
    pub fn first_timestamp(&self) -> Option<i64> {
        let base = if self.log_append_time() || self.attributes & 0x40 != 0 { i64::MAX } else { self.base_timestamp };
        Some(base.min(self.max_timestamp)).filter(|timestamp| *timestamp >= 0)
    }

    /// Offset of the last record, which compaction may have removed.
    #[must_use]
    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.last_offset_delta))
    }

    /// Offset to fetch after this batch, whatever records are left in it.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        self.last_offset().saturating_add(1)
    }
}

/// `N` bytes from `start`; both are constants, so no check is left after compilation.
#[inline(always)]
fn at<const N: usize>(bytes: &[u8; HEADER_BYTES], start: usize) -> [u8; N] {
    let mut out = [0; N];
    if let Some(field) = bytes.get(start..start + N) {
        out.copy_from_slice(field);
    }
    out
}
