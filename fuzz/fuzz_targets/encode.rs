//! Appended records are decoded unchanged, with every codec, whole or split. Splitting foreign batches neither panics
//! nor exceeds bounded memory.
#![no_main]

use std::cell::RefCell;

use grete_fuzz::counting::bounded;
use grete_wire::Reader;
use grete_wire::buffer_pool::{BufferPool, PooledBuf};
use grete_wire::records::test_encoder::{BatchOptions, TestRecord, build_batch, encoded_batch};
use grete_wire::records::{
    BatchBuilder, Columns, Compression, Compressor, DecodeLimits, Decoder, EncodedBatch, ProducerHeader,
    ProducerRecord, iter_batches,
};
use libfuzzer_sys::fuzz_target;

const CODECS: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
/// Maximum decompressed bytes of a foreign batch.
const LIMIT: usize = 64 * 1024;
/// Bytes per byte of input. The smallest record takes 4 bytes before the split, and 13 after it, as its timestamp gets
/// another base; buffers double.
const FACTOR: usize = 8;
/// Peak memory beside the input: the same for decompressed bytes, plus a codec's context.
const CAP: usize = (FACTOR + 4) * LIMIT + 512 * 1024;

thread_local! {
    /// One compressor for all inputs, as in a producer.
    static COMPRESSOR: RefCell<Compressor> = Compressor::new().into();
}

fuzz_target!(|data: &[u8]| {
    let Some((&[kind, level], rest)) = data.split_first_chunk() else { return };
    let codec = CODECS[usize::from(kind % 5)];
    if kind >= 0xc0 {
        bounded(rest.len(), FACTOR, CAP, || drop(encoded_batch(rest.to_vec(), LIMIT).split()));
        return;
    }
    let records = records(&mut Reader::new(rest));
    if records.is_empty() {
        return;
    }
    let level = (level < 0x80).then_some(i32::from(level % 12) - 2);
    let whole = finish(append(&records), codec, level);
    read(&whole, &records);
    match whole.split() {
        Ok((first, second)) => {
            let at = records.len().div_ceil(2);
            read(&finish(first, codec, level), &records[..at]);
            read(&finish(second, codec, level), &records[at..]);
        }
        Err(error) => assert_eq!(records.len(), 1, "{error}"),
    }
});

/// Decodes records from the input: a byte of flags, then the fields that the flags ask for.
fn records(r: &mut Reader<'_>) -> Vec<TestRecord> {
    let mut records = Vec::new();
    while let Some(record) = record(r) {
        records.push(record);
    }
    records
}

fn record(r: &mut Reader<'_>) -> Option<TestRecord> {
    let flags = r.u8().ok()?;
    let timestamp = if flags & 1 == 0 { 1_700_000_000_000 + i64::from(r.u8().ok()?) } else { r.i64().ok()? };
    let key = (flags & 2 != 0).then(|| bytes(r)).flatten();
    let value = (flags & 4 != 0).then(|| bytes(r)).flatten();
    let mut headers = Vec::new();
    for i in 0..flags >> 4 {
        headers.push((vec![b'a' + i % 3; usize::from(i)], (flags & 8 != 0).then(|| bytes(r)).flatten()));
    }
    Some(TestRecord { timestamp, key, value, headers })
}

/// Expands the input: a length, and whether to repeat the next byte that many times.
fn bytes(r: &mut Reader<'_>) -> Option<Vec<u8>> {
    let len = r.u16().ok()?;
    if len & 0x8000 != 0 {
        Some(vec![r.u8().ok()?; usize::from(len & 0x7fff)])
    } else {
        Some(r.take(len.into()).ok()?.to_vec())
    }
}

fn append(records: &[TestRecord]) -> BatchBuilder {
    let mut builder = BatchBuilder::new(Vec::new());
    for record in records {
        let header =
            |(key, value): &'_ (Vec<u8>, Option<Vec<u8>>)| (String::from_utf8(key.clone()).unwrap(), value.clone());
        let headers: Vec<_> = record.headers.iter().map(header).collect();
        let headers: Vec<_> =
            headers.iter().map(|(key, value)| ProducerHeader { key, value: value.as_deref() }).collect();
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        let new = ProducerRecord { timestamp: record.timestamp, key, value, headers: &headers };
        let expected = builder.len() + builder.record_bytes(&new);
        // Half of the records take the fast path, if there is room.
        if record.timestamp & 1 == 0 || builder.try_append(&new, usize::MAX).is_none() {
            builder.append(&new).unwrap();
        }
        assert_eq!(builder.len(), expected);
    }
    builder
}

fn finish(builder: BatchBuilder, codec: Compression, level: Option<i32>) -> EncodedBatch {
    let plain = builder.len();
    let mut batch = COMPRESSOR.with_borrow_mut(|compressor| builder.finish(codec, level, compressor)).unwrap();
    assert!(batch.len() <= plain);
    batch.set_producer_info(-1, -1, -1);
    batch
}

fn read(batch: &EncodedBatch, records: &[TestRecord]) {
    let buffer = PooledBuf::from(batch.bytes().to_vec());
    let (header, range) = iter_batches(&buffer).next().unwrap().unwrap();
    assert_eq!((range, batch.count() as usize), (0..buffer.len(), records.len()));
    if header.compression() == Ok(Compression::None) {
        let plain = build_batch(0, records, &BatchOptions { leader_epoch: -1, ..BatchOptions::default() });
        assert!(**batch.bytes() == plain);
    }
    let mut columns = Columns::default();
    let limits = DecodeLimits { max_decompressed_batch_bytes: 256 << 20 };
    Decoder::new(BufferPool::new(0), limits).decode(&buffer, 0..buffer.len(), &header, 0, &mut columns).unwrap();
    assert_eq!(columns.len(), records.len());
    for (row, record) in records.iter().enumerate() {
        assert_eq!(columns.timestamps[row], record.timestamp);
        assert!(columns.key(row) == record.key.as_deref() && columns.value(row) == record.value.as_deref());
        let headers =
            columns.headers(row).map(Result::unwrap).map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)));
        assert!(headers.eq(record.headers.iter().cloned()));
    }
}
