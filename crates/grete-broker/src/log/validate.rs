//! Checks of the records in a Produce request, and the refusal of an append.

use std::ops::Range;

use grete_wire::records::{
    BatchHeader, BatchRecord, BatchRecords, Compression, RecordError, TimestampType, check_crc, iter_batches,
};
use grete_wire::{ErrorCode, WireError, counted, plural};

use super::codecs::Codecs;
use super::config::LogConfig;
use crate::ids::Millis;

/// First version of Produce that may carry zstd (KIP-110).
const FIRST_VERSION_WITH_ZSTD: i16 = 7;
/// Places in the header of a batch, and zstd's number.
const MAGIC_AT: usize = 16;
const ATTRIBUTES_AT: usize = 22;
const ZSTD: u8 = 4;
const TRANSACTIONAL: u8 = 0x10;
const PRODUCER_ID: Range<usize> = 43..51;
const PRODUCER_EPOCH: Range<usize> = 51..53;
const BASE_SEQUENCE: Range<usize> = 53..57;
/// Refused records after which the check ends: a small batch decompresses to millions.
const MAX_RECORD_ERRORS: usize = 1_000;
/// Records that an error message lists.
const MAX_LISTED_ERRORS: usize = 3;

/// Refused append. Nothing was stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {}", message.as_deref().unwrap_or_default())]
pub struct AppendError {
    /// Error code.
    pub code: ErrorCode,
    /// Cause and cure, for the response's `error_message`.
    pub message: Option<String>,
    /// Index and error of each record that the log refuses, for the response's `record_errors`.
    pub record_errors: Vec<(i32, Option<String>)>,
}

impl AppendError {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()), record_errors: Vec::new() }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID_RECORD, message)
    }
}

/// Result of an append.
pub type AppendResult<T> = Result<T, AppendError>;

/// Batch that the log accepts, as far as its records are concerned.
pub(super) struct ValidBatch {
    pub header: BatchHeader,
    pub bytes: Vec<u8>,
    /// Largest timestamp of the records; -1: none.
    pub max_timestamp: i64,
}

/// Checks the records of a Produce request: exactly one intact batch of magic 2, as a client may send one, whose
/// records the topic accepts. Returns the batch in the codec of the topic.
pub(super) fn validate(
    records: &[u8],
    now: Millis,
    config: &LogConfig,
    produce_version: i16,
    codecs: &mut Codecs,
) -> AppendResult<ValidBatch> {
    check_request(records, produce_version)?;
    let (header, batch) = only_batch(records)?;
    if header.base_offset != 0 {
        let message = format!("the base offset of the batch is {}; send 0, the leader assigns it", header.base_offset);
        return Err(AppendError::invalid(message));
    }
    check_size(batch.len(), config)?;
    check_crc(batch, &header).map_err(|error| AppendError::new(ErrorCode::CORRUPT_MESSAGE, error.to_string()))?;
    check_header(&header)?;
    let records = codecs.reader.read(batch, &header).map_err(malformed)?;
    let max_timestamp = check_records(&records, now, config)?;

    let source = header.compression().unwrap_or(Compression::None);
    let target = config.compression.unwrap_or(source);
    if target == source {
        return Ok(ValidBatch { header, bytes: batch.to_vec(), max_timestamp });
    }
    let bytes = records.rewrite(target, None, &mut codecs.compressor, |_| true).map_err(malformed)?;
    check_size(bytes.len(), config)?;
    let header = BatchHeader::parse(&bytes).map_err(|error| AppendError::invalid(error.to_string()))?;
    Ok(ValidBatch { header, bytes, max_timestamp })
}

/// Checks what a broker checks before it asks for the partition's transaction: one batch, in a codec of the version.
///
/// # Errors
/// INVALID_RECORD or UNSUPPORTED_COMPRESSION_TYPE.
pub fn check_request(records: &[u8], produce_version: i16) -> AppendResult<()> {
    let none = || AppendError::invalid("the request has no whole record batch for the partition; send exactly one");
    let (batch, rest) = split_batch(records).ok_or_else(none)?;
    match batch.get(MAGIC_AT) {
        Some(2) => {}
        Some(0 | 1) => {
            return Err(AppendError::invalid("the records are older than magic 2; use a client that sends magic 2"));
        }
        _ => {
            let message = "the record batch has no magic that Kafka knows; use a client that sends magic 2";
            return Err(AppendError::new(ErrorCode::CORRUPT_MESSAGE, message));
        }
    }
    let codec = batch.get(ATTRIBUTES_AT).map(|attributes| attributes & 7);
    if produce_version < FIRST_VERSION_WITH_ZSTD && codec == Some(ZSTD) {
        let message = format!("zstd needs version 7 of Produce, the request has {produce_version}; use another codec");
        return Err(AppendError::new(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE, message));
    }
    if split_batch(rest).is_some() {
        return Err(AppendError::invalid("the request has several record batches for the partition; send exactly one"));
    }
    Ok(())
}

/// Returns producer id and epoch of each batch that says that it is transactional; -1: none. Other fields may be
/// invalid: these decide before the batch is checked. Batches older than magic 2 have no such attribute.
#[must_use]
pub fn transactional_producers(mut records: &[u8]) -> Vec<(i64, i16)> {
    let mut producers = Vec::new();
    while let Some((batch, rest)) = split_batch(records) {
        let id = batch.get(PRODUCER_ID).and_then(|bytes| bytes.try_into().ok()).map(i64::from_be_bytes);
        let epoch = batch.get(PRODUCER_EPOCH).and_then(|bytes| bytes.try_into().ok()).map(i16::from_be_bytes);
        let is_transactional = batch.get(ATTRIBUTES_AT).is_some_and(|attributes| attributes & TRANSACTIONAL != 0);
        let has_attribute = batch.get(MAGIC_AT).is_some_and(|magic| *magic > 1);
        if let (Some(id), Some(epoch), true) = (id, epoch, is_transactional && has_attribute) {
            producers.push((id, epoch));
        }
        records = rest;
    }
    producers
}

/// Returns the sequence number of the first batch; -1: none.
#[must_use]
pub fn first_sequence(records: &[u8]) -> i32 {
    records.get(BASE_SEQUENCE).and_then(|bytes| bytes.try_into().ok()).map_or(-1, i32::from_be_bytes)
}

/// Splits off the first whole batch by its length field.
fn split_batch(records: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32::from_be_bytes(records.get(8..12)?.try_into().ok()?);
    records.split_at_checked(usize::try_from(length).ok()?.checked_add(12)?)
}

/// Returns the only batch. Bytes after the batch that are no whole batch are ignored, as Kafka does.
fn only_batch(records: &[u8]) -> AppendResult<(BatchHeader, &[u8])> {
    let mut batches = iter_batches(records);
    let invalid = |error: WireError| match error {
        WireError::UnsupportedMagic { magic, .. } if !(0..2).contains(&magic) => {
            AppendError::new(ErrorCode::CORRUPT_MESSAGE, error.to_string())
        }
        _ => AppendError::invalid(error.to_string()),
    };
    let none = || AppendError::invalid("the request has no whole record batch for the partition; send exactly one");
    let (header, range) = batches.next().ok_or_else(none)?.map_err(invalid)?;
    if batches.next().is_some() {
        return Err(AppendError::invalid("the request has several record batches for the partition; send exactly one"));
    }
    Ok((header, records.get(range).unwrap_or_default()))
}

fn check_header(header: &BatchHeader) -> AppendResult<()> {
    if header.record_count <= 0 || i64::from(header.record_count) != i64::from(header.last_offset_delta) + 1 {
        let (count, last) = (header.record_count, header.last_offset_delta);
        let records = counted(count, "record");
        let message = format!("the batch has {records}, but offsets from 0 to {last}; send consecutive offsets");
        return Err(AppendError::invalid(message));
    }
    if header.is_control() {
        return Err(AppendError::invalid("a client sent control records; only brokers may write them"));
    }
    if header.producer_id >= 0 && header.base_sequence < 0 {
        let (id, sequence) = (header.producer_id, header.base_sequence);
        let message = format!("producer {id} sent the sequence number {sequence}; number the records from 0");
        return Err(AppendError::invalid(message));
    }
    Ok(())
}

fn check_size(bytes: usize, config: &LogConfig) -> AppendResult<()> {
    if bytes > config.max_message_bytes {
        let limit = config.max_message_bytes;
        let message = format!("the batch has {bytes} bytes; raise max.message.bytes, which is {limit}");
        return Err(AppendError::new(ErrorCode::MESSAGE_TOO_LARGE, message));
    }
    // A batch never spans segments.
    if bytes as u64 > config.segment_bytes {
        let limit = config.segment_bytes;
        let message = format!("the batch has {bytes} bytes; raise segment.bytes, which is {limit}");
        return Err(AppendError::new(ErrorCode::RECORD_LIST_TOO_LARGE, message));
    }
    Ok(())
}

fn malformed(error: RecordError) -> AppendError {
    AppendError::invalid(error.to_string())
}

/// Checks all records and returns their largest timestamp.
fn check_records(records: &BatchRecords<'_>, now: Millis, config: &LogConfig) -> AppendResult<i64> {
    let mut max_timestamp = -1;
    let mut errors = Vec::new();
    let mut code = ErrorCode::INVALID_RECORD;
    for (index, record) in (0..).zip(records) {
        if errors.len() == MAX_RECORD_ERRORS {
            break;
        }
        let record = record.map_err(malformed)?;
        if let Some(Err(error)) = record.headers().find(Result::is_err) {
            return Err(AppendError::invalid(format!("record {index}: {error}")));
        }
        max_timestamp = max_timestamp.max(record.timestamp);
        if config.compact && record.key.is_none() {
            errors.push((index, Some("the topic is compacted, so that each record needs a key".to_owned())));
        } else if let Some(error) = timestamp_error(&record, records.header(), now, config) {
            code = ErrorCode::INVALID_TIMESTAMP;
            errors.push((index, Some(error)));
        }
    }
    if errors.is_empty() {
        return Ok(max_timestamp);
    }
    let first: Vec<&str> = errors.iter().take(MAX_LISTED_ERRORS).filter_map(|(_, error)| error.as_deref()).collect();
    let (records, are) = (counted(errors.len(), "record"), plural(errors.len(), "is", "are"));
    let message = format!("{records} or more {are} refused, the first because: {}", first.join("; "));
    Err(AppendError { code, message: Some(message), record_errors: errors })
}

fn timestamp_error(record: &BatchRecord<'_>, header: &BatchHeader, now: Millis, config: &LogConfig) -> Option<String> {
    let timestamp = record.timestamp;
    if config.timestamp_type == TimestampType::CreateTime && timestamp != -1 {
        let age = now.saturating_sub(timestamp);
        let (before, after) = (config.timestamp_before_max_ms, config.timestamp_after_max_ms);
        let bad = age > before || age.saturating_neg() > after;
        return bad.then(|| {
            let (from, to) = (now.saturating_sub(before), now.saturating_add(after));
            format!("the timestamp {timestamp} is outside of {from} to {to}; correct the clock of the producer")
        });
    }
    // As in Kafka, whose leader clears the type if a topic with the producer's timestamps gets such a batch.
    header.log_append_time().then(|| "the batch says LogAppendTime; only the leader may set that type".to_owned())
}
