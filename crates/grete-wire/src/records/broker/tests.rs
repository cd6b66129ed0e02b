use crate::buffer_pool::BufferPool;
use crate::records::test_encoder::{BatchOptions, TestRecord, build_batch, set_length_and_crc};
use crate::records::{
    BatchHeader, BatchReader, Compression, Compressor, DecodeLimits, EndTransactionMarker, LeaderFields, RecordError,
    TimestampType, check_crc,
};

const CODECS: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

fn reader() -> BatchReader {
    BatchReader::new(BufferPool::new(0), DecodeLimits::default())
}

fn header(batch: &[u8]) -> BatchHeader {
    let header = BatchHeader::parse(batch).expect("a header");
    check_crc(batch, &header).expect("a checksum");
    header
}

/// Offset, timestamp, key, value and number of headers of a record.
type Row = (i64, i64, Option<String>, Option<String>, usize);

fn records(batch: &[u8]) -> Result<Vec<Row>, RecordError> {
    let header = BatchHeader::parse(batch).expect("a header");
    let text = |bytes: Option<&[u8]>| bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let records = reader().read(batch, &header)?;
    let rows = records.iter().map(|record| {
        record.map(|r| (r.offset, r.timestamp, text(r.key), text(r.value), r.headers().filter(Result::is_ok).count()))
    });
    rows.collect()
}

fn three() -> Vec<TestRecord> {
    let long = "x".repeat(300);
    vec![
        TestRecord::keyed(1_000, "a", long.clone()),
        TestRecord { value: None, ..TestRecord::keyed(3_000, "b", "") },
        TestRecord { headers: vec![(b"h".to_vec(), None)], ..TestRecord::value(2_000, long) },
    ]
}

#[test]
fn records_are_read_in_every_codec() {
    for compression in CODECS {
        let batch = build_batch(7, &three(), &BatchOptions { compression, ..BatchOptions::default() });
        let rows = records(&batch).expect("records");
        let (key, long) = (|key: &str| Some(key.to_owned()), Some("x".repeat(300)));
        let expected =
            [(7, 1_000, key("a"), long.clone(), 0), (8, 3_000, key("b"), None, 0), (9, 2_000, None, long, 1)];
        assert_eq!(rows, expected, "{compression}");
    }
}

#[test]
fn log_append_time_replaces_the_timestamps_of_records() {
    let options = BatchOptions { log_append: Some(9_999), ..BatchOptions::default() };
    let rows = records(&build_batch(0, &three(), &options)).expect("records");
    assert!(rows.iter().all(|row| row.1 == 9_999));
}

#[test]
fn malformed_records_are_reported_once() {
    let good = build_batch(0, &three(), &BatchOptions::default());
    let mut trailing = good.clone();
    trailing.push(0);
    set_length_and_crc(&mut trailing);
    let mut truncated = good.clone();
    truncated.truncate(good.len() - 1);
    set_length_and_crc(&mut truncated);
    let mut uncounted = good.clone();
    uncounted[57..61].copy_from_slice(&2i32.to_be_bytes());
    let same = BatchOptions { offset_deltas: Some(vec![0, 0, 2]), ..BatchOptions::default() };
    for batch in [trailing, truncated, uncounted, build_batch(0, &three(), &same)] {
        let header = BatchHeader::parse(&batch).expect("a header");
        let records = reader().read(&batch, &header).expect("not compressed");
        assert_eq!(records.iter().filter(Result::is_err).count(), 1);
        assert!(records.iter().last().is_some_and(|last| last.is_err()));
    }
}

#[test]
fn leader_fields_keep_the_checksum_valid() {
    let mut batch = build_batch(0, &three(), &BatchOptions::default());
    let crc = header(&batch).crc;
    let fields = LeaderFields {
        base_offset: 41,
        leader_epoch: 3,
        timestamp_type: TimestampType::CreateTime,
        max_timestamp: 3_000,
    };
    fields.write(&mut batch);
    let written = header(&batch);
    assert_eq!((written.base_offset, written.leader_epoch, written.crc), (41, 3, crc));

    let fields = LeaderFields { timestamp_type: TimestampType::LogAppendTime, max_timestamp: 5_000, ..fields };
    fields.write(&mut batch);
    let written = header(&batch);
    assert!(written.log_append_time() && written.crc != crc);
    assert!(records(&batch).expect("records").iter().all(|row| row.1 == 5_000));

    LeaderFields { timestamp_type: TimestampType::CreateTime, max_timestamp: 3_000, ..fields }.write(&mut batch);
    assert_eq!(header(&batch).crc, crc);
}

#[test]
fn a_rewrite_keeps_offsets_and_the_fields_of_the_producer() {
    for compression in CODECS {
        let options = BatchOptions {
            transactional: true,
            producer_id: 5,
            producer_epoch: 2,
            base_sequence: 100,
            compression,
            ..BatchOptions::default()
        };
        let batch = build_batch(10, &three(), &options);
        let old = header(&batch);
        let batch_records = reader().read(&batch, &old).map(|records| {
            records.rewrite(compression, None, &mut Compressor::new(), |record| record.key != Some(b"a"))
        });
        let new_batch = batch_records.expect("records").expect("a batch");
        let new = header(&new_batch);
        assert_eq!((new.base_offset, new.last_offset(), new.record_count), (10, 12, 2));
        assert_eq!((new.producer_id, new.producer_epoch, new.base_sequence), (5, 2, 100));
        assert!(new.is_transactional());
        assert_eq!((new.max_timestamp, new.base_timestamp, new.delete_horizon()), (3_000, 3_000, None));
        assert_eq!(new.compression(), Ok(compression));
        assert_eq!(records(&new_batch).expect("records"), records(&batch).expect("records")[1..]);
    }
}

#[test]
fn a_delete_horizon_leaves_the_timestamps() {
    let batch = build_batch(0, &three(), &BatchOptions::default());
    let rewrite = |batch: &[u8], horizon, keep: fn(&crate::records::BatchRecord<'_>) -> bool| {
        let read = reader()
            .read(batch, &header(batch))
            .map(|records| records.rewrite(Compression::None, horizon, &mut Compressor::new(), keep).expect("a batch"));
        read.expect("records")
    };
    let first = rewrite(&batch, Some(77_000), |_| true);
    assert_eq!(header(&first).delete_horizon(), Some(77_000));
    assert_eq!(records(&first).expect("records"), records(&batch).expect("records"));
    let second = rewrite(&first, None, |record| record.value.is_some());
    assert_eq!(header(&second).delete_horizon(), Some(77_000));
    assert_eq!(records(&second).expect("records").len(), 2);

    let empty = rewrite(&first, None, |_| false);
    assert_eq!((empty.len(), header(&empty).record_count, header(&empty).last_offset()), (61, 0, 2));
    assert_eq!(records(&empty).expect("no record"), []);
}

#[test]
fn a_marker_is_decoded_as_it_was_encoded() {
    for commit in [true, false] {
        let marker = EndTransactionMarker { producer_id: 9, producer_epoch: 4, coordinator_epoch: 70_000, commit };
        let batch = marker.encode(30, 6, 1_234);
        let header = header(&batch);
        assert_eq!((header.base_offset, header.leader_epoch, header.max_timestamp), (30, 6, 1_234));
        assert!(header.is_control() && header.is_transactional());
        let records = reader().read(&batch, &header).expect("records");
        let record = records.iter().next().expect("one").expect("a record");
        assert_eq!(EndTransactionMarker::from_record(&header, &record), Some(marker));
        assert_eq!(records.iter().count(), 1);
    }
}
