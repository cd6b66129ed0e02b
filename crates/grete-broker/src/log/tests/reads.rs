//! Reads, offsets by timestamp, and leader epochs.

use grete_wire::ErrorCode;
use grete_wire::records::{Compression, TimestampType};

use super::*;

#[test]
fn reads_begin_inside_of_a_batch_and_end_at_the_log_end() {
    let mut f = Fixture::new();
    assert_eq!(f.append_at(&[0, 1, 2]), 0);
    assert_eq!(f.append_at(&[3]), 3);
    let read = f.read(2, false);
    assert_eq!(rows(&read).iter().map(|row| row.0).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!((read.high_watermark, read.last_stable_offset, read.log_start_offset), (4, 4, 0));
    assert!(f.read(4, false).batches.is_empty());
    for outside in [5, -1, i64::MAX, i64::MIN] {
        assert_eq!(f.log.read(outside, 100, true, false), Err(ErrorCode::OFFSET_OUT_OF_RANGE));
    }
}

#[test]
fn reads_respect_the_limit_but_for_the_first_batch() {
    let mut f = Fixture::new();
    for _ in 0..4 {
        f.append_at(&[0]);
    }
    let one = f.log.size() as usize / 4;
    let count = |max_bytes, min_one| {
        let read = f.log.read(0, max_bytes, min_one, false).expect("in range");
        assert_eq!(read.bytes, read.batches.len() * one);
        read.batches.len()
    };
    assert_eq!((count(0, true), count(one - 1, true), count(one, true)), (1, 1, 1));
    assert_eq!((count(0, false), count(one - 1, false), count(one, false)), (0, 0, 1));
    assert_eq!((count(one * 3 - 1, true), count(one * 3, false), count(usize::MAX, false)), (2, 3, 4));
    assert_eq!(f.log.available_bytes(1, usize::MAX, false), one * 3);
    assert_eq!(f.log.available_bytes(0, one + 1, false), one * 2);
    assert_eq!(f.log.available_bytes(4, 1, false), 0);
}

#[test]
fn timestamps_lead_to_the_exact_record() {
    for compression in [Compression::None, Compression::Zstd] {
        let mut f = Fixture::with(LogConfig { compression: Some(compression), ..LogConfig::default() });
        f.append_at(&[10, 30, 20]); // 0 to 2
        f.epoch = 1;
        f.append_at(&[15, 30]); // 3, 4
        f.append_at(&[5]); // 5
        let mut find = |at: i64| {
            let found = f.log.offset_for_timestamp(NOW + at, false, &mut f.codecs)?;
            Some((found.offset, found.timestamp - NOW, found.leader_epoch))
        };
        assert_eq!(find(-1), Some((0, 10, 0)));
        assert_eq!(find(11), Some((1, 30, 0)));
        assert_eq!(find(30), Some((1, 30, 0)));
        assert_eq!(find(31), None);
        let newest = f.log.max_timestamp(false, &mut f.codecs).expect("found");
        assert_eq!((newest.offset, newest.timestamp), (1, NOW + 30), "the first of equals");
        let (start, _) = f.log.delete_records(2).expect("in range");
        assert_eq!(start, 2);
        let found = f.log.offset_for_timestamp(NOW + 25, false, &mut f.codecs).expect("found");
        assert_eq!((found.offset, found.leader_epoch), (4, 1), "the deleted record of the first batch is skipped");
        assert_eq!(f.log.earliest(), (2, Some(0)));
    }
}

#[test]
fn read_committed_does_not_find_undecided_records() {
    let mut f = Fixture::new();
    f.append_at(&[0]);
    f.append(&build_batch(0, &[TestRecord::value(NOW + 50, "v")], &transactional(7, 0, 0))).expect("accepted");
    let mut find = |committed| f.log.offset_for_timestamp(NOW + 1, committed, &mut f.codecs).map(|found| found.offset);
    assert_eq!((find(false), find(true)), (Some(1), None));
    assert_eq!(f.log.max_timestamp(false, &mut f.codecs).map(|found| found.offset), Some(1));
    assert_eq!(f.log.max_timestamp(true, &mut f.codecs), None);
    assert_eq!((f.log.latest(false), f.log.latest(true)), (2, 1));
}

#[test]
fn log_append_time_and_missing_timestamps() {
    let mut f = Fixture::new();
    assert_eq!(f.log.max_timestamp(false, &mut f.codecs), None);
    f.append(&build_batch(0, &[TestRecord::value(-1, "v")], &BatchOptions::default())).expect("accepted");
    assert_eq!(f.log.max_timestamp(false, &mut f.codecs), None);
    f.config.timestamp_type = TimestampType::LogAppendTime;
    f.append_at(&[-5, -4]);
    let found = f.log.offset_for_timestamp(NOW, false, &mut f.codecs).expect("found");
    assert_eq!((found.offset, found.timestamp), (1, NOW));
}

#[test]
fn leader_epochs_have_end_offsets() {
    let mut f = Fixture::new();
    assert_eq!(f.log.end_offset_for_epoch(0), (-1, -1));
    f.append_at(&[0, 0]); // epoch 0 from 0
    f.changes.extend(f.log.begin_leader_epoch(3)); // replaced: no batch
    f.epoch = 5;
    f.changes.extend(f.log.begin_leader_epoch(5));
    assert_eq!(f.log.begin_leader_epoch(5), None);
    f.append_at(&[0]); // epoch 5 from 2
    f.epoch = 6;
    f.append_at(&[0]); // epoch 6 from 3
    let ends: Vec<_> = (-1..8).map(|epoch| f.log.end_offset_for_epoch(epoch)).collect();
    let expected = [(-1, -1), (0, 2), (0, 2), (0, 2), (0, 2), (0, 2), (5, 3), (6, 4), (-1, -1)];
    assert_eq!(ends, expected);
    let (_, change) = f.log.delete_records(3).expect("in range");
    f.changes.extend(change);
    assert_eq!(f.log.end_offset_for_epoch(0), (0, 3), "older than the log");
    assert_eq!(f.log.earliest(), (3, Some(6)));
    f.check_restore();
}
