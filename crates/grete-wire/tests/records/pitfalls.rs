//! Known pitfalls of other clients, one test each.

use grete_wire::WireError;
use grete_wire::buffer_pool::PooledBuf;
use grete_wire::records::test_encoder::{
    BatchOptions, TestRecord, build_batch, build_control_batch, encode_record, set_length_and_crc,
};
use grete_wire::records::{
    AbortedTransaction, AbortedTransactionFilter, Columns, Compression, RecordError, iter_batches,
};

use crate::{CODECS, decode, decoder, rows};

fn transactional(producer_id: i64) -> BatchOptions {
    BatchOptions { transactional: true, producer_id, producer_epoch: 0, base_sequence: 0, ..BatchOptions::default() }
}

fn one(offset: i64, options: &BatchOptions) -> Vec<u8> {
    build_batch(offset, &[TestRecord::value(0, offset.to_string())], options)
}

/// P1: the next offset comes from the header, whatever compaction left.
#[test]
fn p1_compacted_batches_move_the_position_past_all_they_once_held() {
    let emptied = build_batch(10, &[], &BatchOptions { last_offset_delta: Some(9), ..BatchOptions::default() });
    let survivor = BatchOptions {
        last_offset_delta: Some(9),
        offset_deltas: Some(vec![2, 5]),
        compression: Compression::Zstd,
        ..BatchOptions::default()
    };
    let survivors = build_batch(20, &[TestRecord::value(0, "a"), TestRecord::value(0, "b")], &survivor);
    let all = [emptied, survivors].concat();
    let next: Vec<_> = iter_batches(&all).map(|item| item.unwrap().0.next_offset()).collect();
    assert_eq!(next, [20, 30]);
    assert_eq!(decode(&all, 0).unwrap().offsets, [22, 25]);
}

/// P2: control batches move the position, and deliver no records.
#[test]
fn p2_a_tail_of_control_batches_moves_the_position() {
    let all = [one(5, &transactional(1)), build_control_batch(6, 1, true), build_control_batch(7, 2, false)].concat();
    assert_eq!(iter_batches(&all).last().unwrap().unwrap().0.next_offset(), 8);
    assert_eq!(decode(&all, 0).unwrap().offsets, [5]);
    assert!(decode(&all, 6).unwrap().is_empty());
}

/// P3: brokers truncate the last batch at the byte limit.
#[test]
fn p3_a_truncated_last_batch_is_neither_corrupt_nor_the_end() {
    let (first, second) = (one(1, &BatchOptions::default()), one(2, &BatchOptions::default()));
    for cut in 0..second.len() {
        let all = [&first[..], &second[..cut]].concat();
        let mut batches = iter_batches(&all);
        assert_eq!(batches.next().unwrap().unwrap().0.next_offset(), 2);
        assert!(batches.next().is_none());
        assert_eq!(batches.position(), first.len());
    }
}

fn admitted(aborted: &[(i64, i64)], batches: &[u8]) -> Vec<i64> {
    let list = aborted.iter().map(|&(producer_id, first_offset)| AbortedTransaction { producer_id, first_offset });
    let mut filter = AbortedTransactionFilter::new(list.collect());
    iter_batches(batches)
        .filter_map(|item| {
            let (header, range) = item.unwrap();
            filter.is_visible(&header, &batches[range]).unwrap().then_some(header.base_offset)
        })
        .collect()
}

/// P4: Redpanda lists aborted transactions in any order.
#[test]
fn p4_an_unsorted_list_of_aborted_transactions_hides_them_all() {
    let batches = [
        one(0, &transactional(1)),
        build_control_batch(1, 1, false),
        one(2, &transactional(1)), // committed, by the same producer
        build_control_batch(3, 1, true),
        one(4, &transactional(2)),
        one(5, &transactional(1)),
        one(6, &BatchOptions { producer_id: 1, ..BatchOptions::default() }), // the same producer, no transaction
        build_control_batch(7, 1, false),
        build_control_batch(8, 2, false),
        one(9, &transactional(2)),
        build_control_batch(10, 2, true),
    ]
    .concat();
    for aborted in [[(1, 0), (2, 4), (1, 5)], [(1, 5), (2, 4), (1, 0)], [(2, 4), (1, 0), (1, 5)]] {
        assert_eq!(admitted(&aborted, &batches), [2, 6, 9]);
    }
    assert_eq!(admitted(&[], &batches), [0, 2, 4, 5, 6, 9]);
}

/// P4: a marker without records, because they were compacted away or are before the fetch offset.
#[test]
fn p4_lone_markers_end_nothing() {
    let batches = [
        build_control_batch(0, 7, false),
        build_control_batch(1, 8, true),
        one(2, &transactional(7)),
        build_control_batch(3, 9, false), // the marker of another producer
        build_control_batch(4, 7, true),  // a commit ends no aborted transaction
        one(5, &transactional(7)),
        build_control_batch(6, 7, false),
        one(7, &transactional(7)),
    ]
    .concat();
    assert_eq!(admitted(&[(7, 2)], &batches), [7]);
}

#[test]
fn p4_a_packed_marker_is_understood_and_a_corrupt_one_is_not_believed() {
    let record = TestRecord::keyed(0, [0, 0, 0, 0], [0; 6]);
    for codec in CODECS {
        let marker = build_batch(
            1,
            std::slice::from_ref(&record),
            &BatchOptions { control: true, compression: codec, ..transactional(3) },
        );
        let batches = [one(0, &transactional(3)), marker.clone(), one(2, &transactional(3))].concat();
        assert_eq!(admitted(&[(3, 0)], &batches), [2], "{codec}");

        let (header, range) = iter_batches(&marker).next().unwrap().unwrap();
        let mut corrupt = marker[range].to_vec();
        *corrupt.last_mut().unwrap() ^= 1;
        let mut filter = AbortedTransactionFilter::new(vec![AbortedTransaction { producer_id: 3, first_offset: 0 }]);
        assert!(matches!(filter.is_visible(&header, &corrupt), Err(RecordError::Crc { .. })));
    }
}

/// P5: timestamps are 64 bits apart, header values may be null, header keys may repeat.
#[test]
fn p5_wide_timestamp_deltas_null_header_values_and_duplicate_keys() {
    let header = |key: &str, value: Option<&str>| (key.as_bytes().to_vec(), value.map(|v| v.as_bytes().to_vec()));
    let first = TestRecord {
        headers: vec![header("k", Some("1")), header("k", None), header("", Some("")), header("k", Some("1"))],
        ..TestRecord::value(0, "a")
    };
    let second = TestRecord::value(i64::MAX, "b");
    let third = TestRecord { value: None, ..TestRecord::keyed(-1, "tombstone", "") };
    let records = [first, second, third];
    let columns = decode(&build_batch(0, &records, &BatchOptions::default()), 0).unwrap();
    assert_eq!(columns.timestamps, [0, i64::MAX, -1]);
    assert_eq!(rows(&columns).into_iter().map(|row| row.record).collect::<Vec<_>>(), records);
    assert!(columns.value_nulls.is_null(2) && !columns.value_nulls.is_null(1));
}

fn patched(at: usize, value: &[u8]) -> Vec<u8> {
    let mut batch = build_batch(0, &[TestRecord::value(0, "value")], &BatchOptions::default());
    batch[at..at + value.len()].copy_from_slice(value);
    set_length_and_crc(&mut batch);
    batch
}

/// P6: a count is not trusted before its bytes have arrived.
#[test]
fn p6_a_huge_record_count_reserves_nothing() {
    for count in [i32::MIN, -1] {
        assert!(matches!(
            iter_batches(&patched(57, &count.to_be_bytes())).next(),
            Some(Err(WireError::BadValue { .. }))
        ));
    }
    let mut batch = patched(57, &i32::MAX.to_be_bytes());
    batch[23..27].copy_from_slice(&(i32::MAX - 1).to_be_bytes());
    set_length_and_crc(&mut batch);
    let slab = PooledBuf::from(batch);
    let (header, range) = iter_batches(&slab).next().unwrap().unwrap();
    let mut columns = Columns::default();
    let result = decoder(1 << 20).decode(&slab, range, &header, 0, &mut columns);
    assert!(matches!(result, Err(RecordError::Malformed { .. })), "{result:?}");
    assert_eq!(columns.heap_bytes(), 0);
}

fn packed(codec: Compression, packed: &[u8]) -> Result<(), RecordError> {
    let mut batch =
        build_batch(70, &[TestRecord::value(0, "x")], &BatchOptions { compression: codec, ..BatchOptions::default() });
    batch.truncate(61);
    batch.extend(packed);
    set_length_and_crc(&mut batch);
    let slab = PooledBuf::from(batch);
    let (header, range) = iter_batches(&slab).next().unwrap().unwrap();
    decoder(1 << 20).decode(&slab, range, &header, 0, &mut Columns::default())
}

/// P6: declared sizes over the limit are refused before memory is allocated; undeclared ones, when the output reaches
/// the limit.
#[test]
fn p6_decompression_bombs_are_refused() {
    let zeros = vec![0; 8 << 20];
    for codec in CODECS.into_iter().skip(1) {
        let bomb = grete_wire::records::test_encoder::compress(codec, &zeros);
        let result = packed(codec, &bomb);
        assert!(
            matches!(result, Err(RecordError::TooLarge { base_offset: 70, limit: 0x10_0000, .. })),
            "{codec}: {result:?}"
        );
    }
    let declared = [
        // Raw snappy of 2 MiB, at a possible ratio.
        (Compression::Snappy, [&[0x80, 0x80, 0x80, 0x01][..], &[0; 200_000]].concat()),
        // An LZ4 frame with content size 4 GiB.
        (Compression::Lz4, b"\x04\x22\x4d\x18\x68\x40\0\0\0\0\x01\0\0\0\0\0\0\0\0".to_vec()),
        // A zstd frame in a single segment of 2 GiB.
        (Compression::Zstd, b"\x28\xb5\x2f\xfd\xa0\0\0\0\x80\x01\0\0".to_vec()),
    ];
    for (codec, bytes) in declared {
        let result = packed(codec, &bytes);
        assert!(matches!(result, Err(RecordError::TooLarge { base_offset: 70, .. })), "{codec}: {result:?}");
    }
    // Raw snappy that claims 1 GiB in 6 bytes is impossible.
    let result = packed(Compression::Snappy, b"\x80\x80\x80\x80\x04\0");
    assert!(matches!(result, Err(RecordError::Compression { .. })), "{result:?}");
}

#[test]
fn p6_the_limit_is_exact() {
    let mut body = Vec::new();
    encode_record(&TestRecord::value(0, "0123456789".repeat(20_000)), 0, 0, &mut body);
    for codec in CODECS.into_iter().skip(1) {
        let options = BatchOptions { compression: codec, ..BatchOptions::default() };
        let slab = PooledBuf::from(build_batch(0, &[TestRecord::value(0, "0123456789".repeat(20_000))], &options));
        let (header, range) = iter_batches(&slab).next().unwrap().unwrap();
        let decode = |limit| decoder(limit).decode(&slab, range.clone(), &header, 0, &mut Columns::default());
        assert_eq!(decode(body.len()), Ok(()), "{codec}");
        assert!(matches!(decode(body.len() - 1), Err(RecordError::TooLarge { .. })), "{codec}");
    }
}

/// Compressed data that is truncated or followed by noise is refused with an error that names the codec.
#[test]
fn broken_packed_data_is_refused() {
    for codec in CODECS.into_iter().skip(1) {
        let good = grete_wire::records::test_encoder::compress(codec, &[7; 1000]);
        for cut in 0..good.len() {
            let result = packed(codec, &good[..cut]);
            assert!(
                matches!(result, Err(RecordError::Compression { .. } | RecordError::Malformed { .. })),
                "{codec} cut at {cut}: {result:?}"
            );
        }
        let result = packed(codec, &[&good[..], b"noise"].concat());
        assert!(matches!(result, Err(RecordError::Compression { .. })), "{codec}: {result:?}");
    }
}

/// A codec that failed keeps no state in its context.
#[test]
fn one_decoder_goes_on_after_broken_batches() {
    let mut decoder = decoder(1 << 20);
    let mut decode = |batch: Vec<u8>| {
        let slab = PooledBuf::from(batch);
        let (header, range) = iter_batches(&slab).next().unwrap().unwrap();
        let mut columns = Columns::default();
        decoder.decode(&slab, range, &header, 0, &mut columns).map(|()| columns)
    };
    let records: Vec<_> = (0..500).map(|i| TestRecord::value(i, format!("value {i}"))).collect();
    for round in 0..3 {
        for codec in CODECS.into_iter().skip(1) {
            let options = BatchOptions { compression: codec, ..BatchOptions::default() };
            let good = build_batch(0, &records, &options);
            let mut cut = good[..good.len() - 20 - round].to_vec();
            set_length_and_crc(&mut cut);
            decode(cut).unwrap_err();
            assert_eq!(decode(good).unwrap().len(), 500, "{codec}");
            let bomb = build_batch(0, &[TestRecord::value(0, vec![0; 3 << 20])], &options);
            assert!(matches!(decode(bomb), Err(RecordError::TooLarge { .. })), "{codec}");
            assert_eq!(decode(build_batch(0, &records[..7], &options)).unwrap().len(), 7, "{codec}");
        }
    }
}

/// Older formats have no header that this crate can iterate over.
#[test]
fn old_formats_are_refused_by_name() {
    for magic in [0i8, 1, 3] {
        let mut batch = patched(16, &magic.to_be_bytes());
        batch.truncate(30);
        let error = iter_batches(&batch).next().unwrap().unwrap_err();
        assert_eq!(error, WireError::UnsupportedMagic { magic, base_offset: 0 });
    }
}
