//! Plain, slow encoder of record batches for tests. Feature `testing`.
#![allow(clippy::missing_panics_doc, clippy::unwrap_used)]

use std::io::Write;

use super::batch_header::CRC_START;
use super::{Compression, EncodedBatch, HEADER_BYTES};
use crate::primitives::writer::{put_varint, put_varlong};

/// Record to encode.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestRecord {
    /// Timestamp in ms since 1970.
    pub timestamp: i64,
    /// Key; `None`: null.
    pub key: Option<Vec<u8>>,
    /// Value; `None`: null.
    pub value: Option<Vec<u8>>,
    /// Headers, in order.
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl TestRecord {
    /// Creates a record without a key.
    pub fn value(timestamp: i64, value: impl Into<Vec<u8>>) -> Self {
        Self { timestamp, value: Some(value.into()), ..Self::default() }
    }

    /// Creates a record with a key.
    pub fn keyed(timestamp: i64, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self { key: Some(key.into()), ..Self::value(timestamp, value) }
    }
}

/// Options of a batch.
#[derive(Debug, Clone)]
pub struct BatchOptions {
    /// Codec.
    pub compression: Compression,
    /// Whether the batch is a control batch.
    pub control: bool,
    /// Whether the batch is part of a transaction.
    pub transactional: bool,
    /// Producer id; -1: no idempotent producer.
    pub producer_id: i64,
    /// Producer epoch.
    pub producer_epoch: i16,
    /// Sequence number of the first record.
    pub base_sequence: i32,
    /// Partition leader epoch.
    pub leader_epoch: i32,
    /// `Some(t)`: log-append time `t`, instead of the records' timestamps.
    pub log_append: Option<i64>,
    /// Replaces the last record's delta, as compaction does when it removes the last record.
    pub last_offset_delta: Option<i32>,
    /// Offset deltas of the records, instead of 0, 1, 2...
    pub offset_deltas: Option<Vec<i32>>,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self {
            compression: Compression::None,
            control: false,
            transactional: false,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            leader_epoch: 0,
            log_append: None,
            last_offset_delta: None,
            offset_deltas: None,
        }
    }
}

/// Encodes a whole batch, including the checksum.
pub fn build_batch(base_offset: i64, records: &[TestRecord], options: &BatchOptions) -> Vec<u8> {
    let base_timestamp = records.first().map_or(-1, |record| record.timestamp);
    let max_timestamp = records.iter().map(|record| record.timestamp).max().unwrap_or(-1);
    let mut body = Vec::new();
    let mut last_delta = 0;
    for (i, record) in records.iter().enumerate() {
        last_delta = options.offset_deltas.as_ref().map_or(i as i32, |deltas| deltas[i]);
        encode_record(record, record.timestamp.wrapping_sub(base_timestamp), last_delta, &mut body);
    }
    let attributes = match options.compression {
        Compression::None => 0,
        Compression::Gzip => 1,
        Compression::Snappy => 2,
        Compression::Lz4 => 3,
        Compression::Zstd => 4,
    } | i16::from(options.log_append.is_some()) << 3
        | i16::from(options.transactional) << 4
        | i16::from(options.control) << 5;
    let mut batch = Vec::new();
    batch.extend(base_offset.to_be_bytes());
    batch.extend([0; 4]);
    batch.extend(options.leader_epoch.to_be_bytes());
    batch.push(2);
    batch.extend([0; 4]);
    batch.extend(attributes.to_be_bytes());
    batch.extend(options.last_offset_delta.unwrap_or(last_delta).to_be_bytes());
    batch.extend(base_timestamp.to_be_bytes());
    batch.extend(options.log_append.unwrap_or(max_timestamp).to_be_bytes());
    batch.extend(options.producer_id.to_be_bytes());
    batch.extend(options.producer_epoch.to_be_bytes());
    batch.extend(options.base_sequence.to_be_bytes());
    batch.extend((records.len() as i32).to_be_bytes());
    assert_eq!(batch.len(), HEADER_BYTES);
    batch.extend(compress(options.compression, &body));
    set_length_and_crc(&mut batch);
    batch
}

/// Encodes the control batch that ends a transaction.
pub fn build_control_batch(offset: i64, producer_id: i64, commit: bool) -> Vec<u8> {
    let record = TestRecord::keyed(0, [0, 0, 0, u8::from(commit)], [0; 6]);
    let options =
        BatchOptions { control: true, transactional: true, producer_id, producer_epoch: 0, ..BatchOptions::default() };
    build_batch(offset, &[record], &options)
}

/// Corrects length and checksum of a modified batch.
pub fn set_length_and_crc(batch: &mut [u8]) {
    let length = (batch.len() - 12) as i32;
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    let crc = crc32c::crc32c(&batch[CRC_START..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
}

/// Wraps any bytes as a finished batch. `uncompressed_bytes`: upper bound of its decompressed records.
pub fn encoded_batch(bytes: Vec<u8>, uncompressed_bytes: usize) -> EncodedBatch {
    let count = bytes.get(57..61).map_or(0, |count| u32::from_be_bytes(count.try_into().unwrap()));
    EncodedBatch::new(bytes, count, uncompressed_bytes)
}

/// Encodes a record as in a batch, preceded by its length.
pub fn encode_record(record: &TestRecord, timestamp_delta: i64, offset_delta: i32, out: &mut Vec<u8>) {
    let mut body = vec![0];
    put_varlong(&mut body, timestamp_delta);
    put_varint(&mut body, offset_delta);
    put_field(&mut body, record.key.as_deref());
    put_field(&mut body, record.value.as_deref());
    put_varint(&mut body, record.headers.len() as i32);
    for (key, value) in &record.headers {
        put_field(&mut body, Some(key));
        put_field(&mut body, value.as_deref());
    }
    put_varint(out, body.len() as i32);
    out.extend(body);
}

fn put_field(out: &mut Vec<u8>, field: Option<&[u8]>) {
    put_varint(out, field.map_or(-1, |bytes| bytes.len() as i32));
    out.extend(field.unwrap_or_default());
}

/// Compresses the records of a batch.
pub fn compress(codec: Compression, bytes: &[u8]) -> Vec<u8> {
    match codec {
        Compression::None => bytes.to_vec(),
        Compression::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Snappy => {
            let mut out = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
            for chunk in bytes.chunks(32 * 1024) {
                let packed = snap::raw::Encoder::new().compress_vec(chunk).unwrap();
                out.extend((packed.len() as i32).to_be_bytes());
                out.extend(packed);
            }
            out
        }
        Compression::Lz4 => {
            // Version 1, independent blocks of at most 64 KiB, no checksums.
            let mut out = vec![0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];
            for chunk in bytes.chunks(64 * 1024) {
                let packed = lz4_flex::block::compress(chunk);
                let (block, flag) = if packed.len() < chunk.len() { (&*packed, 0) } else { (chunk, 1 << 31) };
                out.extend((block.len() as u32 | flag).to_le_bytes());
                out.extend(block);
            }
            out.extend([0; 4]);
            out
        }
        Compression::Zstd => {
            // Streamed as in Java: the frame does not contain its size.
            let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
    }
}
