//! Appends of clients and of transaction coordinators.

use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::records::{BatchHeader, EndTransactionMarker, LeaderFields, TimestampType};

use super::batches::StoredBatch;
use super::config::LogConfig;
use super::validate::{AppendError, AppendResult, validate};
use super::{AppendChecks, Codecs, LogChange, PartitionLog};
use crate::ids::Millis;

/// Accepted append.
#[derive(Debug, Clone, PartialEq)]
pub struct Appended {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Offset of the last record.
    pub last_offset: i64,
    /// Time of the append for topics with log-append time; -1: the topic has the producer's timestamps. A repeated
    /// batch has the largest timestamp of the stored one, as in Kafka.
    pub log_append_time: i64,
    /// Log start offset.
    pub log_start_offset: i64,
    /// Change to store; `None`: the batch is a duplicate of one that was appended before.
    pub change: Option<LogChange>,
}

impl Appended {
    /// Returns whether the producer sent a batch again that the log has already.
    #[must_use]
    pub fn is_duplicate(&self) -> bool {
        self.change.is_none()
    }
}

impl PartitionLog {
    /// Appends the records of a Produce request.
    ///
    /// # Errors
    /// - `INVALID_RECORD`: not exactly one batch of magic 2, malformed, control records, or records without keys on a
    ///   compacted topic.
    /// - `CORRUPT_MESSAGE`: wrong checksum.
    /// - `MESSAGE_TOO_LARGE`, `RECORD_LIST_TOO_LARGE`: larger than `max.message.bytes`, than `segment.bytes`.
    /// - `INVALID_TIMESTAMP`, `UNSUPPORTED_COMPRESSION_TYPE`.
    /// - `OUT_OF_ORDER_SEQUENCE_NUMBER`, `INVALID_PRODUCER_EPOCH`, `INVALID_TXN_STATE`: refused by the state of the
    ///   producer.
    pub fn append(
        &mut self,
        now: Millis,
        leader_epoch: i32,
        records: &[u8],
        config: &LogConfig,
        checks: AppendChecks,
        codecs: &mut Codecs,
    ) -> AppendResult<Appended> {
        let mut valid = validate(records, now, config, checks.produce_version, codecs)?;
        if valid.header.producer_id >= 0 {
            if let Some(stored) = self.producers.duplicate(&valid.header) {
                return Ok(Appended {
                    base_offset: stored.base_offset,
                    last_offset: stored.base_offset + i64::from(valid.header.last_offset_delta),
                    log_append_time: stored.timestamp,
                    log_start_offset: self.log_start,
                    change: None,
                });
            }
            self.producers.check_batch(&valid.header, checks)?;
        }
        let (max_timestamp, log_append_time) = match config.timestamp_type {
            TimestampType::CreateTime => (valid.max_timestamp, -1),
            TimestampType::LogAppendTime => (now, now),
        };
        let fields = LeaderFields {
            base_offset: self.log_end,
            leader_epoch,
            timestamp_type: config.timestamp_type,
            max_timestamp,
        };
        fields.write(&mut valid.bytes);
        let header = BatchHeader::parse(&valid.bytes).map_err(|error| AppendError::invalid(error.to_string()))?;
        let change = self.store(&header, valid.bytes, None, now, config);
        Ok(Appended {
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            log_append_time,
            log_start_offset: self.log_start,
            change: Some(change),
        })
    }

    /// Appends the marker that ends a producer's transaction. Returns its offset and the change to store. A producer
    /// without a transaction gets a marker as well: the marker fences older epochs. `transaction_version`: version of
    /// the feature `transaction.version` that the transaction follows.
    ///
    /// # Errors
    /// - `INVALID_PRODUCER_EPOCH`: the log knows a newer epoch of the producer; with version 2, the marker's epoch is
    ///   not newer than the one of the transaction's batches.
    /// - `TRANSACTION_COORDINATOR_FENCED`: a newer coordinator has written a marker.
    pub fn append_marker(
        &mut self,
        now: Millis,
        leader_epoch: i32,
        marker: &EndTransactionMarker,
        transaction_version: i16,
        config: &LogConfig,
    ) -> Result<(i64, LogChange), ErrorCode> {
        self.producers.check_marker(marker, transaction_version)?;
        let mut bytes = marker.encode(self.log_end, leader_epoch, now);
        let (base_offset, timestamp_type) = (self.log_end, config.timestamp_type);
        LeaderFields { base_offset, leader_epoch, timestamp_type, max_timestamp: now }.write(&mut bytes);
        let header = BatchHeader::parse(&bytes).map_err(|_| ErrorCode::UNKNOWN_SERVER_ERROR)?;
        Ok((header.base_offset, self.store(&header, bytes, Some(*marker), now, config)))
    }

    fn store(
        &mut self,
        header: &BatchHeader,
        mut bytes: Vec<u8>,
        marker: Option<EndTransactionMarker>,
        now: Millis,
        config: &LogConfig,
    ) -> LogChange {
        bytes.shrink_to_fit();
        let len = bytes.len() as u64;
        let new_segment =
            self.batches.segments().back().is_none_or(|segment| {
                segment.is_full(len, header.max_timestamp, config.segment_bytes, config.segment_ms)
            });
        let batch = Arc::new(bytes);
        self.apply_append(header, Arc::clone(&batch), marker, now, new_segment);
        LogChange::Append { now, new_segment, batch }
    }

    /// Appends a checked batch with the leader's fields.
    pub(super) fn apply_append(
        &mut self,
        header: &BatchHeader,
        bytes: Arc<Vec<u8>>,
        marker: Option<EndTransactionMarker>,
        now: Millis,
        new_segment: bool,
    ) {
        self.epochs.assign(header.leader_epoch, header.base_offset);
        self.batches.push(StoredBatch::new(header, bytes), now, new_segment);
        self.log_end = header.next_offset();
        if let Some(marker) = marker {
            if let Some(first) = self.producers.append_marker(&marker, header.max_timestamp) {
                self.transactions.end(marker.producer_id, first, header.base_offset, marker.commit);
            }
        } else if header.producer_id >= 0 && !header.is_control() && self.producers.append_batch(header) {
            self.transactions.begin(header.producer_id, header.base_offset);
        }
    }
}
