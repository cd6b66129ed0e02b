//! DeleteRecords and retention.

use grete_wire::ErrorCode;

use super::*;

/// Log with one batch, of one record, a segment.
fn segmented(config: LogConfig) -> Fixture {
    let one = batch(1, &BatchOptions::default()).len() as u64;
    Fixture::with(LogConfig { segment_bytes: one + 8, ..config })
}

impl Fixture {
    fn retain(&mut self) -> i64 {
        self.changes.extend(self.log.enforce_retention(self.now, &self.config));
        self.log.log_start_offset()
    }
}

#[test]
fn delete_records_advances_the_log_start() {
    let mut f = Fixture::new();
    f.append_at(&[0, 0, 0]);
    f.append_at(&[0]);
    let size = f.log.size();
    for outside in [5, -2] {
        assert_eq!(f.log.delete_records(outside), Err(ErrorCode::OFFSET_OUT_OF_RANGE));
    }
    let (start, change) = f.log.delete_records(2).expect("in range");
    f.changes.extend(change);
    assert_eq!((start, f.log.size()), (2, size), "the batch has a record left");
    assert_eq!(f.log.delete_records(1), Ok((2, None)));
    assert!(f.log.read(1, 100, true, false).is_err());
    assert_eq!(rows(&f.read(2, false)).len(), 4);
    f.check_restore();
    let (start, change) = f.log.delete_records(-1).expect("in range");
    f.changes.extend(change);
    assert_eq!((start, f.log.size(), f.log.batch_count()), (4, 0, 0));
    assert_eq!(f.append_at(&[0]), 4);
    assert_eq!(f.log.size(), f.log.available_bytes(4, 1_000_000, false) as u64);
    f.check_restore();
}

#[test]
fn deleted_records_end_no_transaction() {
    let mut f = Fixture::new();
    f.append(&batch(2, &transactional(7, 0, 0))).expect("accepted");
    f.append_at(&[0]);
    f.changes.extend(f.log.delete_records(1).expect("in range").1);
    assert_eq!(f.log.last_stable_offset(), 1);
    f.changes.extend(f.log.delete_records(3).expect("in range").1);
    assert_eq!(f.log.last_stable_offset(), 3);
    f.append_at(&[0]);
    assert_eq!(f.log.last_stable_offset(), 3);
    f.marker(7, 0, false);
    assert_eq!(f.log.last_stable_offset(), 5);
    f.check_restore();
}

#[test]
fn old_segments_are_deleted() {
    let mut f = segmented(LogConfig { retention_ms: 1_000, ..LogConfig::default() });
    for at in [0, 100, 50, 200] {
        f.append_at(&[at]);
    }
    assert_eq!(f.log.retention_deadline(&f.config), Some(NOW + 1_001));
    f.now = NOW + 1_000;
    assert_eq!(f.retain(), 0);
    f.now = NOW + 1_001;
    assert_eq!(f.retain(), 1);
    assert_eq!(f.log.retention_deadline(&f.config), Some(NOW + 1_101));
    f.now = NOW + 1_060;
    assert_eq!(f.retain(), 1, "the second segment is younger than the third");
    f.now = NOW + 1_101;
    assert_eq!(f.retain(), 3);
    f.check_restore();
    f.now = NOW + 5_000;
    assert_eq!(f.retain(), 4, "the last segment is deleted as well");
    assert_eq!(f.log.retention_deadline(&f.config), None);
    assert_eq!(f.append_at(&[5_000]), 4);
    f.check_restore();
    f.config.delete = false;
    f.now = NOW + 50_000;
    assert_eq!(f.retain(), 4);
}

#[test]
fn segments_end_by_age() {
    let mut f = Fixture::with(LogConfig { segment_ms: 10, retention_ms: 100, ..LogConfig::default() });
    f.append_at(&[0]);
    f.append_at(&[10]);
    f.append_at(&[11]);
    f.now = NOW + 111;
    assert_eq!(f.retain(), 2);
}

#[test]
fn segments_without_timestamps_age_from_their_append() {
    let mut f = Fixture::with(LogConfig { retention_ms: 1_000, ..LogConfig::default() });
    f.append(&build_batch(0, &[TestRecord::value(-1, "v")], &BatchOptions::default())).expect("accepted");
    f.now = NOW + 1_000;
    assert_eq!(f.retain(), 0);
    f.now = NOW + 1_001;
    assert_eq!(f.retain(), 1);
}

#[test]
fn retention_bytes_never_goes_below_the_limit() {
    let mut f = segmented(LogConfig { retention_ms: -1, ..LogConfig::default() });
    for _ in 0..5 {
        f.append_at(&[0]);
    }
    let one = f.log.size() as i64 / 5;
    for (limit, start) in [(5 * one, 0), (4 * one + 1, 0), (4 * one, 1), (one + 1, 3), (one, 4), (1, 4), (0, 5)] {
        f.config.retention_bytes = limit;
        assert_eq!(f.retain(), start, "limit {limit}");
    }
    f.check_restore();
}

#[test]
fn retention_forgets_aborted_transactions() {
    let mut f = segmented(LogConfig { retention_ms: 1_000, ..LogConfig::default() });
    f.append(&batch(1, &transactional(7, 0, 0))).expect("accepted");
    f.marker(7, 0, false);
    assert_eq!(f.read(0, true).aborted.map(|aborted| aborted.len()), Some(1));
    assert!(f.log.transactions.heap_bytes() > 0);
    f.now = NOW + 2_000;
    assert_eq!(f.retain(), 2);
    assert_eq!(f.log.transactions.heap_bytes(), 0);
    f.append_at(&[2_000]);
    assert_eq!(f.read(2, true).aborted, Some(vec![]));
    f.check_restore();
}

#[test]
fn a_transaction_whose_first_records_are_deleted_stays_hidden() {
    let mut f = Fixture::new();
    f.append(&batch(3, &transactional(7, 0, 0))).expect("accepted");
    f.changes.extend(f.log.delete_records(1).expect("in range").1);
    assert!(f.read(1, true).batches.is_empty(), "the last stable offset is inside of the batch");
    f.marker(7, 0, true);
    assert_eq!(f.read(1, true).batches.len(), 2);
    f.check_restore();
}
