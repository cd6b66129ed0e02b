//! The builder writes the same bytes as the plain encoder, and the decoder reads its batches with every codec.

use grete_wire::records::test_encoder::{BatchOptions, TestRecord, build_batch, encoded_batch};
use grete_wire::records::{
    BatchBuilder, BatchHeader, Compression, Compressor, EncodedBatch, ProducerHeader, ProducerRecord,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::{CODECS, decode, rows};

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        60 => vec(any::<u8>(), 0..70),
        20 => vec(any::<u8>(), 70..300),
        4 => (any::<u8>(), 8000usize..9000).prop_map(|(byte, n)| std::vec![byte; n]),
        1 => (any::<u8>(), prop_oneof![70_000usize..80_000, 262_142usize..262_146]).prop_map(|(byte, n)| std::vec![byte; n]),
    ]
}

fn record() -> impl Strategy<Value = TestRecord> {
    let timestamp = prop_oneof![4 => 1_700_000_000_000i64..1_700_000_000_100, 4 => 0i64..1 << 41, 1 => any::<i64>()];
    let key = "[a-cß]{0,2}".prop_map(String::into_bytes);
    let headers = prop_oneof![3 => Just(Vec::new()), 1 => vec((key, option::of(vec(any::<u8>(), 0..70))), 0..80)];
    (timestamp, option::of(bytes()), option::weighted(0.9, bytes()), headers)
        .prop_map(|(timestamp, key, value, headers)| TestRecord { timestamp, key, value, headers })
}

fn with_new<T>(record: &TestRecord, work: impl FnOnce(&ProducerRecord<'_>) -> T) -> T {
    let header = |(key, value): &'_ (Vec<u8>, _)| (String::from_utf8(key.clone()).unwrap(), Option::clone(value));
    let headers: Vec<(String, Option<Vec<u8>>)> = record.headers.iter().map(header).collect();
    let headers: Vec<_> = headers.iter().map(|(key, value)| ProducerHeader { key, value: value.as_deref() }).collect();
    let (key, value) = (record.key.as_deref(), record.value.as_deref());
    work(&ProducerRecord { timestamp: record.timestamp, key, value, headers: &headers })
}

/// Builds a batch record by record, on the general path.
pub fn build(records: &[TestRecord]) -> BatchBuilder {
    let mut builder = BatchBuilder::new(vec![0xaa; 7]);
    for record in records {
        with_new(record, |new| {
            let (before, bytes) = (builder.len(), builder.record_bytes(new));
            builder.append(new).unwrap();
            assert_eq!(builder.len() - before, bytes);
        });
    }
    assert_eq!(builder.count() as usize, records.len());
    builder
}

fn finish(builder: BatchBuilder, codec: Compression, level: Option<i32>) -> EncodedBatch {
    let mut batch = builder.finish(codec, level, &mut Compressor::new()).unwrap();
    batch.set_producer_info(-1, -1, -1);
    batch
}

/// Encodes the same batch with the plain encoder.
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
        batch.set_producer_info(producer_id, producer_epoch, base_sequence);
        let options = BatchOptions { producer_id, producer_epoch, base_sequence, ..BatchOptions::default() };
        prop_assert_eq!(&**batch.bytes(), &plain(&records, options));
    }

    #[test]
    fn the_fast_way_writes_what_the_general_way_writes(
        records in vec(record(), 1..70),
        room in prop_oneof![61usize..4000, Just(1 << 20)],
        limit in prop_oneof![61usize..4000, Just(1 << 20)],
    ) {
        let mut builder = BatchBuilder::new(Vec::with_capacity(room));
        let capacity = builder.capacity();
        let mut taken = Vec::new();
        for record in &records {
            with_new(record, |new| {
                let (before, bytes) = (builder.len(), builder.record_bytes(new));
                let fits = before + bytes <= limit.min(capacity);
                assert_eq!(builder.try_append(new, limit), fits.then_some(bytes));
                assert_eq!(builder.len(), if fits { before + bytes } else { before });
                assert_eq!(builder.capacity(), capacity);
                taken.extend(fits.then(|| record.clone()));
            });
        }
        if !taken.is_empty() {
            prop_assert!(**finish(builder, Compression::None, None).bytes() == plain(&taken, BatchOptions::default()));
        }
    }

    #[test]
    fn values_at_once_are_as_one_by_one(
        first in option::of(record()),
        values in vec(option::weighted(0.9, bytes()), 1..200),
        timestamp in prop_oneof![1_700_000_000_000i64..1_700_000_000_100, any::<i64>()],
        room in 0usize..20_000,
        limit in prop_oneof![61usize..20_000, Just(1 << 30)],
    ) {
        let mut builder = BatchBuilder::new(Vec::with_capacity(room));
        let mut records: Vec<_> = first.into_iter().collect();
        records.iter().for_each(|record| with_new(record, |new| builder.append(new).unwrap()));
        let before = builder.len();
        let count = builder.append_values(timestamp, values.iter().map(Option::as_deref), limit);
        // As many as fit, and not one less.
        prop_assert!(builder.len() <= limit.max(before));
        if let Some(value) = values.get(count) {
            let next = ProducerRecord { timestamp, value: value.as_deref(), ..ProducerRecord::default() };
            prop_assert!(builder.len() + builder.record_bytes(&next) > limit);
        }
        let taken = values.into_iter().take(count);
        records.extend(taken.map(|value| TestRecord { timestamp, value, ..TestRecord::default() }));
        prop_assert_eq!(builder.count() as usize, records.len());
        if !records.is_empty() {
            prop_assert!(**finish(builder, Compression::None, None).bytes() == plain(&records, BatchOptions::default()));
        }
    }

    #[test]
    fn packed_batches_are_read(batches in vec((vec(record(), 1..60), 0..CODECS.len(), option::of(-3..12i32)), 1..4)) {
        // One compressor: contexts are reused, also between codecs and levels.
        let mut compressor = Compressor::new();
        for (records, codec, level) in batches {
            let builder = build(&records);
            let unpacked = builder.len();
            let mut batch = builder.finish(CODECS[codec], level, &mut compressor).unwrap();
            batch.set_producer_info(7, 3, i32::MAX);
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
        if let Ok((first, second)) = encoded_batch(bytes, 1 << 20).split() {
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
fn levels_count_and_are_brought_into_range() {
    let records: Vec<_> =
        (0..2000).map(|i| TestRecord::value(i, format!("a value that packs well, {}", i * i))).collect();
    let len = |codec, level| finish(build(&records), codec, level).len();
    for codec in [Compression::Gzip, Compression::Zstd] {
        let levels = codec.level_range().unwrap();
        let (least, most) = (*levels.start(), *levels.end());
        assert!(len(codec, Some(most)) < len(codec, Some(1)), "{codec}");
        assert!(len(codec, Some(1)) < len(codec, Some(least)), "{codec}");
        assert_eq!(len(codec, Some(i32::MAX)), len(codec, Some(most)), "{codec}");
        assert_eq!(len(codec, Some(i32::MIN)), len(codec, Some(least)), "{codec}");
    }
    for codec in [Compression::None, Compression::Snappy, Compression::Lz4] {
        assert_eq!((codec.level_range(), len(codec, Some(9))), (None, len(codec, None)), "{codec}");
    }
}

/// Deltas and lengths at the limits where they take another byte.
#[test]
fn many_records_and_wide_deltas() {
    const COUNT: usize = (1 << 20) + 10;
    let mut builder = BatchBuilder::new(Vec::new());
    let records: Vec<_> = (0..COUNT)
        .map(|i| TestRecord::value(1_700_000_000_000 + (1i64 << (i % 45)) * (i as i64 % 3 - 1), [b'x'; 3]))
        .collect();
    let (one_by_one, at_once) = records.split_at(COUNT / 2);
    builder.reserve(COUNT * 30);
    for record in one_by_one {
        with_new(record, |new| builder.try_append(new, usize::MAX).unwrap());
    }
    for record in at_once {
        assert_eq!(builder.append_values(record.timestamp, [record.value.as_deref()], usize::MAX), 1);
    }
    assert!(**finish(builder, Compression::None, None).bytes() == plain(&records, BatchOptions::default()));
}

/// Keys, values and headers around the lengths where the general path takes over, also all of them at once.
#[test]
fn the_longest_of_the_short_ones() {
    let lengths = [(1 << 18) - 8, (1 << 18) - 1, 1 << 18, (1 << 18) + 1, 1 << 20];
    let mut records = vec![TestRecord::value(0, "")];
    for len in lengths {
        for which in 1..8 {
            let part = |bit: u8| (which & bit != 0).then(|| vec![bit; len]);
            let headers = part(4).map(|value| (b"h".to_vec(), Some(value))).into_iter().collect();
            records.push(TestRecord { timestamp: (1 << 27) - 1, key: part(1), value: part(2), headers });
        }
    }
    let mut builder = BatchBuilder::new(Vec::with_capacity(64 << 20));
    for record in &records {
        with_new(record, |new| builder.try_append(new, usize::MAX).unwrap());
    }
    assert!(**finish(builder, Compression::None, None).bytes() == plain(&records, BatchOptions::default()));
}

#[test]
fn who_still_holds_the_bytes_keeps_them_as_they_were() {
    let mut batch = finish(build(&[TestRecord::value(1, "x")]), Compression::None, None);
    let held = batch.bytes().clone();
    let before = held.to_vec();
    batch.set_producer_info(1, 2, 3);
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
    let record = ProducerRecord { timestamp: 9, key: Some(&long), value: Some(&long), headers: &[] };
    assert!(builder.append(&record).is_err());
    assert_eq!((builder.len(), builder.count(), builder.max_timestamp()), (before, 1, 5));
    // More than any memory has: the sum must not wrap to a small number.
    let header = ProducerHeader { key: "", value: Some(&long) };
    let headers = vec![header; 1 << 15];
    let record = ProducerRecord { timestamp: 9, key: None, value: None, headers: &headers };
    assert!(builder.append(&record).is_err());
    assert_eq!(builder.record_bytes(&record) >> 45, 1);
}
