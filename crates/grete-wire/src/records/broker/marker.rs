//! Control batch that ends a transaction in a partition (KIP-98).

use super::rewrite::encode;
use crate::primitives::writer::{put_varint, put_varlong};
use crate::records::{BatchHeader, BatchRecord, ControlType, control_type};

/// Attributes of a marker's batch: transactional, control.
const ATTRIBUTES: i16 = 0x30;

/// Marker that ends a transaction in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndTransactionMarker {
    /// Producer id of the transaction.
    pub producer_id: i64,
    /// Epoch of the producer id.
    pub producer_epoch: i16,
    /// Epoch of the transaction coordinator that writes the marker.
    pub coordinator_epoch: i32,
    /// Whether the transaction is committed; otherwise the transaction is aborted.
    pub commit: bool,
}

impl EndTransactionMarker {
    /// Encodes the control batch with the marker.
    #[must_use]
    pub fn encode(&self, base_offset: i64, leader_epoch: i32, timestamp: i64) -> Vec<u8> {
        let mut body = vec![0];
        put_varlong(&mut body, 0); // timestamp delta
        put_varint(&mut body, 0); // offset delta
        let key = [0, 0, 0, u8::from(self.commit)];
        put_varint(&mut body, key.len() as i32);
        body.extend_from_slice(&key);
        let [a, b, c, d] = self.coordinator_epoch.to_be_bytes();
        let value = [0, 0, a, b, c, d];
        put_varint(&mut body, value.len() as i32);
        body.extend_from_slice(&value);
        put_varint(&mut body, 0); // headers
        let mut record = Vec::with_capacity(body.len() + 1);
        put_varint(&mut record, body.len() as i32);
        record.extend_from_slice(&body);
        let header = BatchHeader {
            base_offset,
            length: 0,
            leader_epoch,
            magic: 2,
            crc: 0,
            attributes: ATTRIBUTES,
            last_offset_delta: 0,
            base_timestamp: timestamp,
            max_timestamp: timestamp,
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            base_sequence: -1,
            record_count: 1,
        };
        encode(&header, &record)
    }

    /// Decodes the marker in a record of a control batch. `None`: the control record is of another type.
    #[must_use]
    pub fn from_record(header: &BatchHeader, record: &BatchRecord<'_>) -> Option<Self> {
        let commit = match control_type(record.key?) {
            ControlType::Abort => false,
            ControlType::Commit => true,
            ControlType::Other => return None,
        };
        let coordinator_epoch = i32::from_be_bytes(*record.value?.get(2..)?.first_chunk()?);
        let (producer_id, producer_epoch) = (header.producer_id, header.producer_epoch);
        Some(Self { producer_id, producer_epoch, coordinator_epoch, commit })
    }
}
