//! Checks of the records, and the fields that the leader writes.

use grete_wire::ErrorCode;
use grete_wire::records::test_encoder::{build_control_batch, set_length_and_crc};
use grete_wire::records::{BatchHeader, Compression, TimestampType};

use super::*;
use crate::log::check_request;

fn refused(f: &mut Fixture, batch: &[u8]) -> (ErrorCode, Vec<i32>) {
    let before = f.log.clone();
    let error = f.append(batch).expect_err("refused");
    assert!(error.message.is_some_and(|message| !message.is_empty()));
    assert_eq!(f.log, before, "a refused append changes nothing");
    (error.code, error.record_errors.iter().map(|(index, _)| *index).collect())
}

fn edited(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut batch = batch(2, &BatchOptions::default());
    batch[at..at + bytes.len()].copy_from_slice(bytes);
    set_length_and_crc(&mut batch);
    batch
}

fn stored(f: &Fixture, offset: i64) -> BatchHeader {
    BatchHeader::parse(&f.read(offset, false).batches[0]).expect("a header")
}

#[test]
fn exactly_one_whole_batch_is_accepted() {
    let mut f = Fixture::new();
    let one = batch(2, &BatchOptions::default());
    assert_eq!(refused(&mut f, &[]).0, ErrorCode::INVALID_RECORD);
    assert_eq!(refused(&mut f, &one[..one.len() - 1]).0, ErrorCode::INVALID_RECORD);
    assert_eq!(refused(&mut f, &[&one[..], &one[..]].concat()).0, ErrorCode::INVALID_RECORD);
    // A part of a second batch is cut off.
    f.append(&[&one[..], &one[..40]].concat()).expect("accepted");
    assert_eq!(f.log.size(), one.len() as u64);
}

#[test]
fn malformed_batches_are_refused() {
    let mut f = Fixture::new();
    for (what, bad) in [
        ("base offset", edited(0, &5i64.to_be_bytes())),
        ("magic", edited(16, &[1])),
        ("codec", edited(21, &6i16.to_be_bytes())),
        ("last offset delta", edited(23, &4i32.to_be_bytes())),
        ("record count", edited(57, &1i32.to_be_bytes())),
        ("no record", edited(57, &0i32.to_be_bytes())),
        ("producer without a sequence number", edited(43, &5i64.to_be_bytes())),
        ("control", {
            let mut marker = build_control_batch(0, 1, true);
            set_length_and_crc(&mut marker);
            marker
        }),
    ] {
        assert_eq!(refused(&mut f, &bad).0, ErrorCode::INVALID_RECORD, "{what}");
    }
    assert_eq!(refused(&mut f, &edited(16, &[7])).0, ErrorCode::CORRUPT_MESSAGE, "no magic at all");
    let mut corrupt = batch(2, &BatchOptions::default());
    *corrupt.last_mut().expect("a byte") ^= 1;
    assert_eq!(refused(&mut f, &corrupt).0, ErrorCode::CORRUPT_MESSAGE);
    let deltas = BatchOptions { offset_deltas: Some(vec![0, 0, 2]), ..BatchOptions::default() };
    assert_eq!(refused(&mut f, &batch(3, &deltas)).0, ErrorCode::INVALID_RECORD);
}

#[test]
fn hostile_bytes_never_panic() {
    let mut f = Fixture::new();
    for compression in [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd]
    {
        let good = batch(20, &BatchOptions { compression, ..BatchOptions::default() });
        for at in 0..good.len() {
            for bits in [0x01, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] ^= bits;
                let _ = f.append(&bad);
                if at >= 12 {
                    set_length_and_crc(&mut bad);
                    let _ = f.append(&bad);
                }
            }
        }
    }
    f.check_restore();
}

#[test]
fn sizes_are_limited() {
    let one = batch(2, &BatchOptions::default());
    let mut f = Fixture::with(LogConfig { max_message_bytes: one.len() - 1, ..LogConfig::default() });
    assert_eq!(refused(&mut f, &one).0, ErrorCode::MESSAGE_TOO_LARGE);
    f.config.max_message_bytes += 1;
    f.append(&one).expect("accepted");
    f.config.segment_bytes = one.len() as u64 - 1;
    assert_eq!(refused(&mut f, &one).0, ErrorCode::RECORD_LIST_TOO_LARGE);
}

#[test]
fn compacted_topics_need_keys() {
    let mut f = Fixture::with(LogConfig { compact: true, ..LogConfig::default() });
    let records = [TestRecord::value(NOW, "a"), TestRecord::keyed(NOW, "", "b"), TestRecord::value(NOW, "c")];
    let batch = build_batch(0, &records, &BatchOptions::default());
    assert_eq!(refused(&mut f, &batch), (ErrorCode::INVALID_RECORD, vec![0, 2]));
    f.config.compact = false;
    f.append(&batch).expect("accepted");
}

#[test]
fn a_small_batch_causes_no_large_answer() {
    let mut f = Fixture::with(LogConfig { compact: true, ..LogConfig::default() });
    let records = vec![TestRecord::value(NOW, ""); 50_000];
    let options = BatchOptions { compression: Compression::Zstd, ..BatchOptions::default() };
    let (code, indexes) = refused(&mut f, &build_batch(0, &records, &options));
    assert_eq!((code, indexes.len()), (ErrorCode::INVALID_RECORD, 1_000));
}

#[test]
fn timestamps_have_bounds() {
    let mut f = Fixture::with(LogConfig {
        timestamp_before_max_ms: 1_000,
        timestamp_after_max_ms: 500,
        ..LogConfig::default()
    });
    let at = |offsets: &[i64]| {
        let records: Vec<_> = offsets.iter().map(|at| TestRecord::value(*at, "v")).collect();
        build_batch(0, &records, &BatchOptions::default())
    };
    assert_eq!(refused(&mut f, &at(&[NOW, NOW - 1_001, NOW + 501])), (ErrorCode::INVALID_TIMESTAMP, vec![1, 2]));
    assert_eq!(refused(&mut f, &at(&[i64::MIN])).0, ErrorCode::INVALID_TIMESTAMP);
    assert_eq!(refused(&mut f, &at(&[i64::MAX])).0, ErrorCode::INVALID_TIMESTAMP);
    f.append(&at(&[NOW - 1_000, NOW + 500, -1])).expect("accepted; -1 is no timestamp");
    assert_eq!(stored(&f, 0).max_timestamp, NOW + 500);
}

#[test]
fn log_append_time_is_written_by_the_leader_only() {
    let mut f = Fixture::with(LogConfig { timestamp_type: TimestampType::LogAppendTime, ..LogConfig::default() });
    f.now = NOW + 9;
    let appended = f.append(&batch(2, &BatchOptions::default())).expect("accepted");
    assert_eq!(appended.log_append_time, NOW + 9);
    let header = stored(&f, 0);
    assert!(header.log_append_time() && header.max_timestamp == NOW + 9);
    let claims = batch(2, &BatchOptions { log_append: Some(NOW), ..BatchOptions::default() });
    assert_eq!(refused(&mut f, &claims), (ErrorCode::INVALID_TIMESTAMP, vec![0, 1]));
    assert_eq!(rows(&f.read(0, false)).len(), 2);

    f.config.timestamp_type = TimestampType::CreateTime;
    assert_eq!(f.append(&claims).expect("accepted").log_append_time, -1);
    assert!(!stored(&f, 2).log_append_time());
    assert_eq!(rows(&f.read(0, false)).len(), 4);
}

#[test]
fn the_codec_of_the_topic_replaces_the_producers() {
    let records: Vec<_> = (0..50).map(|i| TestRecord::keyed(NOW + i, "key", "the same value".repeat(3))).collect();
    for target in [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let mut f = Fixture::with(LogConfig { compression: Some(target), ..LogConfig::default() });
        for source in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let options = BatchOptions { compression: source, ..producer(1, 0, f.log.high_watermark() as i32) };
            let offset = f.append(&build_batch(0, &records, &options)).expect("accepted").base_offset;
            let header = stored(&f, offset);
            assert_eq!((header.compression(), header.producer_id), (Ok(target), 1), "{source} to {target}");
        }
        assert_eq!(rows(&f.read(0, false)).len(), 150);
        f.check_restore();
    }
    let mut f = Fixture::new();
    let zstd = build_batch(0, &records, &BatchOptions { compression: Compression::Zstd, ..BatchOptions::default() });
    let old = f.append_checked(&zstd, AppendChecks { produce_version: 6, ..CHECKS });
    assert_eq!(old.expect_err("refused").code, ErrorCode::UNSUPPORTED_COMPRESSION_TYPE);
    f.append(&zstd).expect("accepted");
    assert_eq!(stored(&f, 0).compression(), Ok(Compression::Zstd));
}

#[test]
fn the_leader_writes_offset_and_epoch() {
    let mut f = Fixture::new();
    f.append_at(&[0, 1, 2]);
    f.epoch = 4;
    f.append_at(&[3]);
    let header = stored(&f, 3);
    assert_eq!((header.base_offset, header.leader_epoch), (3, 4));
    assert!(f.log.bytes() as u64 > f.log.size());
    assert_eq!(f.log.batch_count(), 2);
}

#[test]
fn the_codec_is_checked_before_the_number_of_batches() {
    let zstd = batch(1, &BatchOptions { compression: Compression::Zstd, ..BatchOptions::default() });
    let twice = [&zstd[..], &zstd[..]].concat();
    let code = |version| check_request(&twice, version).map_err(|error| error.code);
    assert_eq!(code(6), Err(ErrorCode::UNSUPPORTED_COMPRESSION_TYPE));
    assert_eq!(code(7), Err(ErrorCode::INVALID_RECORD));
}
