//! What the builder writes: byte for byte what the plain encoder writes, and whatever the codec, what the decoder reads.

use grete_wire::records::testing::{BatchOptions, TestRecord, build_batch, encoded};
use grete_wire::records::{BatchBuilder, BatchHeader, Compression, Compressor, EncodedBatch, NewHeader, NewRecord};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::{CODECS, decode, rows};

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        60 => vec(any::<u8>(), 0..70),
        20 => vec(any::<u8>(), 70..300),
        4 => (any::<u8>(), 8000usize..9000).prop_map(|(byte, n)| std::vec![byte; n]),
        1 => (any::<u8>(), 70_000usize..80_000).prop_map(|(byte, n)| std::vec![byte; n]),
    ]
}

fn record() -> impl Strategy<Value = TestRecord> {
    let timestamp = prop_oneof![4 => 1_700_000_000_000i64..1_700_000_000_100, 4 => 0i64..1 << 41, 1 => any::<i64>()];
    let key = "[a-cß]{0,2}".prop_map(String::into_bytes);
    let headers = prop_oneof![3 => Just(Vec::new()), 1 => vec((key, option::of(vec(any::<u8>(), 0..70))), 0..80)];
    (timestamp, option::of(bytes()), option::weighted(0.9, bytes()), headers)
        .prop_map(|(timestamp, key, value, headers)| TestRecord { timestamp, key, value, headers })
}

fn append(builder: &mut BatchBuilder, record: &TestRecord) {
    let headers: Vec<_> = record
        .headers
        .iter()
        .map(|(key, value)| NewHeader { key: std::str::from_utf8(key).unwrap(), value: value.as_deref() })
        .collect();
    let new = NewRecord {
        timestamp: record.timestamp,
        key: record.key.as_deref(),
        value: record.value.as_deref(),
        headers: &headers,
    };
    let (before, bytes) = (builder.len(), builder.record_bytes(&new));
    builder.append(&new).unwrap();
    assert_eq!(builder.len() - before, bytes);
}

pub fn build(records: &[TestRecord]) -> BatchBuilder {
    let mut builder = BatchBuilder::new(vec![0xaa; 7]);
    records.iter().for_each(|record| append(&mut builder, record));
    assert_eq!(builder.count() as usize, records.len());
    builder
}

fn finish(builder: BatchBuilder, codec: Compression, level: Option<i32>) -> EncodedBatch {
    let mut batch = builder.finish(codec, level, &mut Compressor::new()).unwrap();
    batch.stamp(-1, -1, -1);
    batch
}

/// What a batch of ours is by the plain encoder.
fn plain(records: &[TestRecord], options: BatchOptions) -> Vec<u8> {
    build_batch(0, records, &BatchOptions { leader_epoch: -1, ..options })
}

proptest! {
    #[test]
    fn plain_batches_are_those_of_the_plain_encoder(
        records in vec(record(), 1..70),
        producer_id: i64,
        producer_epoch: i16,
        base_sequence: i32,
    ) {
        let mut batch = finish(build(&records), Compression::None, None);
        prop_assert_eq!(&**batch.bytes(), &plain(&records, BatchOptions::default()));
        batch.stamp(producer_id, producer_epoch, base_sequence);
        let options = BatchOptions { producer_id, producer_epoch, base_sequence, ..BatchOptions::default() };
        prop_assert_eq!(&**batch.bytes(), &plain(&records, options));
    }

    #[test]
    fn packed_batches_are_read(batches in vec((vec(record(), 1..60), 0..CODECS.len(), option::of(-3..12i32)), 1..4)) {
        // One compressor: contexts are used again, between codecs and levels, too.
        let mut compressor = Compressor::new();
        for (records, codec, level) in batches {
            let builder = build(&records);
            let unpacked = builder.len();
            let mut batch = builder.finish(CODECS[codec], level, &mut compressor).unwrap();
            batch.stamp(7, 3, i32::MAX);
            prop_assert_eq!(batch.count() as usize, records.len());
            prop_assert!(batch.len() <= unpacked);
            let header = BatchHeader::parse(batch.bytes()).unwrap();
            prop_assert_eq!((header.producer_id, header.producer_epoch, header.base_sequence), (7, 3, i32::MAX));
            prop_assert_eq!(header.compression().unwrap() == CODECS[codec], batch.len() < unpacked || codec == 0);
            let read = rows(&decode(batch.bytes(), 0).unwrap());
            prop_assert_eq!(read.iter().map(|row| &row.record).collect::<Vec<_>>(), records.iter().collect::<Vec<_>>());
            prop_assert!(read.iter().map(|row| row.offset).eq(0..records.len() as i64));
        }
    }

    #[test]
    fn halves_are_the_whole(records in vec(record(), 2..60), codec in 0..CODECS.len()) {
        let whole = finish(build(&records), CODECS[codec], None);
        let (first, second) = whole.split().unwrap();
        let at = records.len().div_ceil(2);
        for (half, records) in [(first, &records[..at]), (second, &records[at..])] {
            prop_assert_eq!(half.count() as usize, records.len());
            let half = finish(half, Compression::None, None);
            prop_assert_eq!(&**half.bytes(), &plain(records, BatchOptions::default()));
        }
    }

    #[test]
    fn what_is_no_batch_of_ours_is_split_without_harm(
        records in vec(record(), 0..10),
        codec in 0..CODECS.len(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = plain(&records, BatchOptions { compression: CODECS[codec], ..BatchOptions::default() });
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok((first, second)) = encoded(bytes, 1 << 20).split() {
            prop_assert!(first.count() - second.count() <= 1);
        }
    }
}

#[test]
fn one_record_cannot_be_split_and_none_cannot_be_sent() {
    assert!(finish(build(&[TestRecord::value(1, "x")]), Compression::None, None).split().is_err());
    assert!(BatchBuilder::new(Vec::new()).finish(Compression::None, None, &mut Compressor::new()).is_err());
}

#[test]
fn who_still_holds_the_bytes_keeps_them_as_they_were() {
    let mut batch = finish(build(&[TestRecord::value(1, "x")]), Compression::None, None);
    let held = batch.bytes().clone();
    let before = held.to_vec();
    batch.stamp(1, 2, 3);
    assert_eq!(*held, before);
    assert_ne!(*held, **batch.bytes());
    let held = batch.bytes().clone();
    assert_eq!(batch.clone().into_buffer(), None);
    drop(held);
    assert!(batch.into_buffer().is_some());
}

#[test]
fn what_is_too_long_for_the_protocol_changes_nothing() {
    let long = vec![0; 1 << 30];
    let mut builder = build(&[TestRecord::value(5, "x")]);
    let before = builder.len();
    let record = NewRecord { timestamp: 9, key: Some(&long), value: Some(&long), headers: &[] };
    assert!(builder.append(&record).is_err());
    assert_eq!((builder.len(), builder.count(), builder.max_timestamp()), (before, 1, 5));
    // More than any memory has: the sum must not wrap round to something small.
    let header = NewHeader { key: "", value: Some(&long) };
    let headers = vec![header; 1 << 15];
    let record = NewRecord { timestamp: 9, key: None, value: None, headers: &headers };
    assert!(builder.append(&record).is_err());
    assert_eq!(builder.record_bytes(&record) >> 45, 1);
}
