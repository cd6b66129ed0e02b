//! Fields of a batch that the leader of a partition writes.

use crate::records::batch_header::{BatchHeader, CRC_START, HEADER_BYTES, put_at};

/// Bit of the attributes: all timestamps are the time of the append.
const LOG_APPEND_TIME: i16 = 0x08;

/// `message.timestamp.type` of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TimestampType {
    /// The producer's timestamps.
    #[default]
    CreateTime,
    /// The time at which the leader appends the batch.
    LogAppendTime,
}

/// Fields of a batch that the leader of a partition writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaderFields {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Epoch of the leader.
    pub leader_epoch: i32,
    /// Type of the timestamps.
    pub timestamp_type: TimestampType,
    /// Largest timestamp; with log-append time, the time of the append.
    pub max_timestamp: i64,
}

impl LeaderFields {
    /// Writes the fields into a batch of magic 2. The checksum is computed again if it covers a changed field, as it
    /// does the timestamps, but not base offset and leader epoch. Bytes that are shorter than a header stay the same.
    pub fn write(&self, batch: &mut [u8]) {
        let Some(header) = batch.first_chunk_mut::<HEADER_BYTES>() else { return };
        // A header of another magic has no such fields; the caller has parsed the batch.
        let Ok(old) = BatchHeader::parse(header) else { return };
        put_at(header, 0, self.base_offset.to_be_bytes());
        put_at(header, 12, self.leader_epoch.to_be_bytes());
        let new_attributes = match self.timestamp_type {
            TimestampType::CreateTime => old.attributes & !LOG_APPEND_TIME,
            TimestampType::LogAppendTime => old.attributes | LOG_APPEND_TIME,
        };
        if (new_attributes, self.max_timestamp) == (old.attributes, old.max_timestamp) {
            return;
        }
        put_at(header, 21, new_attributes.to_be_bytes());
        put_at(header, 35, self.max_timestamp.to_be_bytes());
        write_crc(batch);
    }
}

/// Computes the checksum of a batch and writes it.
pub(super) fn write_crc(batch: &mut [u8]) {
    let crc = crc32c::crc32c(batch.get(CRC_START..).unwrap_or_default());
    if let Some(header) = batch.first_chunk_mut::<HEADER_BYTES>() {
        put_at(header, 17, crc.to_be_bytes());
    }
}
