//! Batch with a part of its records, as compaction leaves one, or with another codec.

use super::batch_reader::{BatchRecord, BatchRecords};
use super::leader_fields::write_crc;
use crate::error::WireError;
use crate::primitives::writer::{put_varint, put_varlong, uvarlong_bytes, zigzag};
use crate::records::batch_header::{BatchHeader, HEADER_BYTES, LENGTH_END, put_at};
use crate::records::{Compression, Compressor, RecordError};

/// Bits of the attributes for the codec.
const CODEC: i16 = 0x07;
/// Bit of the attributes: the base timestamp is a delete horizon (KIP-534).
const DELETE_HORIZON: i16 = 0x40;

impl BatchRecords<'_> {
    /// Encodes the batch again, with the records that `keep` accepts. Offsets, timestamps, the producer's fields and
    /// the range of offsets stay the same.
    ///
    /// - `compression`: codec of the new batch. A batch that the codec does not shorten is not compressed.
    /// - `delete_horizon`: time in ms since 1970 from which tombstones may be deleted (KIP-534); `None`: the horizon
    ///   that the batch has, if any.
    ///
    /// Without any record the result is a header.
    ///
    /// # Errors
    /// A record is malformed, or the codec fails.
    pub fn rewrite(
        &self,
        compression: Compression,
        delete_horizon: Option<i64>,
        compressor: &mut Compressor,
        mut keep: impl FnMut(&BatchRecord<'_>) -> bool,
    ) -> Result<Vec<u8>, RecordError> {
        let old = self.header();
        let malformed = |cause| RecordError::Malformed { base_offset: old.base_offset, cause };
        let delete_horizon = delete_horizon.or(old.delete_horizon());
        let mut new = BatchHeader { record_count: 0, max_timestamp: -1, ..*old };
        let mut plain = Vec::with_capacity(self.bytes().len());
        for record in self {
            let record = record?;
            if !keep(&record) {
                continue;
            }
            if new.record_count == 0 {
                new.base_timestamp = delete_horizon.unwrap_or(record.timestamp);
                new.max_timestamp = record.timestamp;
            }
            new.max_timestamp = new.max_timestamp.max(record.timestamp);
            new.record_count += 1;
            put_record(&mut plain, &record, &new).map_err(malformed)?;
        }
        new.attributes &= !(CODEC | DELETE_HORIZON);
        if new.record_count == 0 {
            // Kafka keeps the largest timestamp of a batch without records.
            new.base_timestamp = old.max_timestamp;
            new.max_timestamp = old.max_timestamp;
            return Ok(encode(&new, &[]));
        }
        if delete_horizon.is_some() {
            new.attributes |= DELETE_HORIZON;
        }
        match compressor.compress(compression, None, &plain).map_err(malformed)? {
            Some(packed) => {
                new.attributes |= compression as i16;
                Ok(encode(&new, packed))
            }
            None => Ok(encode(&new, &plain)),
        }
    }
}

impl BatchHeader {
    /// Returns the time in ms since 1970 from which tombstones and markers of the batch may be deleted (KIP-534);
    /// `None`: compaction has set none yet.
    #[must_use]
    pub fn delete_horizon(&self) -> Option<i64> {
        (self.attributes & DELETE_HORIZON != 0).then_some(self.base_timestamp)
    }
}

/// Appends a record with the deltas to the new base timestamp and the base offset.
fn put_record(out: &mut Vec<u8>, record: &BatchRecord<'_>, header: &BatchHeader) -> Result<(), WireError> {
    let timestamp_delta = record.timestamp.wrapping_sub(header.base_timestamp);
    let offset_delta = record.offset.wrapping_sub(header.base_offset) as i32;
    let head = 1 + uvarlong_bytes(zigzag(timestamp_delta)) + uvarlong_bytes(zigzag(offset_delta.into()));
    let len = head + record.body.len();
    let limit = i32::MAX as usize;
    let length = i32::try_from(len).map_err(|_| WireError::TooLong { what: "a record", len, limit })?;
    put_varint(out, length);
    out.extend_from_slice(&record.attributes.to_be_bytes());
    put_varlong(out, timestamp_delta);
    put_varint(out, offset_delta);
    out.extend_from_slice(record.body);
    Ok(())
}

/// Encodes a batch, with the length of `records` and a checksum.
pub(super) fn encode(header: &BatchHeader, records: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + records.len());
    let mut b = [0; HEADER_BYTES];
    let length = HEADER_BYTES - LENGTH_END + records.len();
    put_at(&mut b, 0, header.base_offset.to_be_bytes());
    put_at(&mut b, 8, (length as i32).to_be_bytes());
    put_at(&mut b, 12, header.leader_epoch.to_be_bytes());
    put_at(&mut b, 16, header.magic.to_be_bytes());
    put_at(&mut b, 21, header.attributes.to_be_bytes());
    put_at(&mut b, 23, header.last_offset_delta.to_be_bytes());
    put_at(&mut b, 27, header.base_timestamp.to_be_bytes());
    put_at(&mut b, 35, header.max_timestamp.to_be_bytes());
    put_at(&mut b, 43, header.producer_id.to_be_bytes());
    put_at(&mut b, 51, header.producer_epoch.to_be_bytes());
    put_at(&mut b, 53, header.base_sequence.to_be_bytes());
    put_at(&mut b, 57, header.record_count.to_be_bytes());
    bytes.extend_from_slice(&b);
    bytes.extend_from_slice(records);
    write_crc(&mut bytes);
    bytes
}
