//! Compaction.

use grete_wire::records::{BatchHeader, Compression};

use super::*;

const HORIZON: i64 = 1_000;

/// Compacted log with a segment a batch, as the tests append two batches at least.
fn compacted() -> Fixture {
    Fixture::with(LogConfig {
        compact: true,
        delete: false,
        segment_ms: -1,
        min_cleanable_dirty_ratio: 0.0,
        delete_retention_ms: HORIZON,
        timestamp_after_max_ms: i64::MAX,
        ..LogConfig::default()
    })
}

impl Fixture {
    fn put(&mut self, records: &[(&str, Option<&str>)], options: &BatchOptions) {
        let records: Vec<_> = records
            .iter()
            .map(|(key, value)| TestRecord {
                value: value.map(|value| value.as_bytes().to_vec()),
                ..TestRecord::keyed(self.now, *key, "")
            })
            .collect();
        self.append(&build_batch(0, &records, options)).expect("accepted");
    }

    /// Appends a batch that closes the segment before, and compacts.
    fn compact(&mut self) -> bool {
        self.put(&[("last", Some("x"))], &BatchOptions::default());
        let change = self.log.compact(self.now, &self.config, &mut self.codecs);
        self.changes.extend(change.clone());
        self.check_restore();
        change.is_some()
    }

    /// Returns offset, key and value of all records but those with the key `last`.
    fn texts(&self, read_committed: bool) -> Vec<String> {
        let rows = rows(&self.read(self.log.log_start_offset(), read_committed)).into_iter();
        rows.filter(|row| row.1.as_deref() != Some(b"last"))
            .map(|(offset, key, value)| {
                let text = |bytes: Option<Vec<u8>>| {
                    bytes.map_or("-".to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
                };
                format!("{offset} {}={}", text(key), text(value))
            })
            .collect()
    }
}

#[test]
fn the_newest_record_of_each_key_stays() {
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let options = BatchOptions { compression, ..BatchOptions::default() };
        let mut f = compacted();
        f.put(&[("a", Some("1")), ("b", Some("1")), ("a", Some("2"))], &options);
        f.put(&[("c", Some("1"))], &options);
        f.put(&[("c", Some("2")), ("b", Some("2"))], &options);
        let size = f.log.size();
        assert!(f.compact());
        assert_eq!(f.texts(false), ["2 a=2", "4 c=2", "5 b=2"]);
        assert!(f.log.size() < size);
        assert_eq!(f.log.high_watermark(), 7);
        let first = f.read(0, false);
        assert_eq!(rows(&first).first().map(|row| row.0), Some(2), "a read at a removed offset goes on");
        f.put(&[("a", Some("3"))], &options);
        assert!(f.compact());
        assert_eq!(f.texts(false), ["4 c=2", "5 b=2", "7 a=3"], "the clean part is compacted again");
    }
}

#[test]
fn the_last_segment_stays() {
    let mut f = compacted();
    f.config.segment_ms = i64::MAX;
    f.put(&[("a", Some("1")), ("a", Some("2"))], &BatchOptions::default());
    assert!(!f.compact());
    assert_eq!(f.texts(false).len(), 2);
}

#[test]
fn compaction_waits_for_dirt_and_age() {
    let mut f = compacted();
    f.config.min_cleanable_dirty_ratio = 0.5;
    f.put(&[("a", Some("1")), ("a", Some("2"))], &BatchOptions::default());
    f.config.min_compaction_lag_ms = 100;
    assert!(!f.compact());
    f.now += 101;
    assert!(f.compact());
    assert_eq!(f.texts(false), ["1 a=2"]);
    f.config.min_compaction_lag_ms = 0;
    assert!(!f.compact(), "less than half is dirty");
}

#[test]
fn tombstones_stay_until_the_delete_horizon() {
    let mut f = compacted();
    f.put(&[("a", Some("1")), ("b", Some("1"))], &BatchOptions::default());
    f.put(&[("a", None)], &BatchOptions::default());
    assert!(f.compact());
    assert_eq!(f.texts(false), ["1 b=1", "2 a=-"]);
    let tombstone = f.read(2, false);
    let header = BatchHeader::parse(&tombstone.batches[0]).expect("a header");
    assert_eq!((header.delete_horizon(), header.max_timestamp), (Some(NOW + HORIZON), NOW));
    assert_eq!(f.log.offset_for_timestamp(NOW, false, &mut f.codecs).map(|found| found.timestamp), Some(NOW));
    f.now = NOW + HORIZON - 1;
    assert!(f.compact());
    assert_eq!(f.texts(false), ["1 b=1", "2 a=-"]);
    f.now = NOW + HORIZON;
    assert!(f.compact());
    assert_eq!(f.texts(false), ["1 b=1"]);
}

#[test]
fn aborted_records_and_then_their_marker_are_removed() {
    let mut f = compacted();
    f.put(&[("a", Some("1"))], &BatchOptions::default());
    f.put(&[("a", Some("aborted"))], &transactional(7, 0, 0)); // 1
    f.marker(7, 0, false); // 2
    f.put(&[("b", Some("1"))], &transactional(7, 1, 0)); // 3
    f.marker(7, 1, true); // 4
    f.put(&[("b", Some("2"))], &transactional(7, 1, 1)); // 5
    f.marker(7, 1, true); // 6
    assert!(f.compact());
    assert_eq!(f.texts(false), ["0 a=1", "5 b=2"]);
    let aborted = |f: &Fixture| f.read(0, true).aborted.map(|aborted| aborted.len());
    let markers = |f: &Fixture| {
        let headers = f.read(0, false).batches.into_iter().filter_map(|batch| BatchHeader::parse(&batch).ok());
        headers.filter(BatchHeader::is_control).map(|header| header.base_offset).collect::<Vec<_>>()
    };
    assert_eq!((aborted(&f), markers(&f)), (Some(1), vec![2, 4, 6]));
    assert!(f.compact());
    assert_eq!(markers(&f), [2, 4, 6], "the delete horizon begins");
    f.now += HORIZON;
    assert!(f.compact());
    assert_eq!((aborted(&f), markers(&f)), (Some(0), vec![6]), "without the marker, clients would wait for it");
    assert_eq!(f.texts(true), ["0 a=1", "5 b=2"]);
}

#[test]
fn undecided_records_are_left() {
    let mut f = compacted();
    f.put(&[("a", Some("1"))], &BatchOptions::default());
    f.put(&[("a", Some("2"))], &transactional(7, 0, 0));
    f.put(&[("a", Some("3"))], &BatchOptions::default());
    assert!(f.compact());
    assert_eq!(f.texts(false), ["0 a=1", "1 a=2", "2 a=3"]);
    f.marker(7, 0, true);
    assert!(f.compact());
    assert_eq!(f.texts(false), ["2 a=3"]);
}

#[test]
fn the_header_of_a_producers_last_batch_stays() {
    let mut f = compacted();
    f.put(&[("a", Some("1"))], &producer(7, 0, 0));
    f.put(&[("a", Some("2"))], &producer(7, 0, 1));
    f.put(&[("a", Some("3"))], &BatchOptions::default());
    assert!(f.compact());
    assert_eq!(f.texts(false), ["2 a=3"]);
    let first = f.read(0, false);
    let header = BatchHeader::parse(&first.batches[0]).expect("a header");
    assert_eq!((header.base_offset, header.record_count, header.producer_id, header.base_sequence), (1, 0, 7, 1));
    let again = f.append(&build_batch(0, &[TestRecord::keyed(NOW, "a", "2")], &producer(7, 0, 1)));
    assert!(again.expect("accepted").is_duplicate());
    f.put(&[("b", Some("1"))], &producer(7, 0, 2));
    assert!(f.compact());
    assert_eq!(f.read(0, false).batches.len(), 4, "the empty batch is gone");
}

#[test]
fn the_last_header_of_the_compacted_part_stays() {
    let mut f = compacted();
    f.put(&[("a", Some("1"))], &BatchOptions::default()); // 0
    f.put(&[("a", Some("aborted"))], &transactional(7, 0, 0)); // 1
    f.marker(7, 1, false); // 2, in the last segment; of another epoch, so that the producer needs no batch
    assert!(f.log.compact(f.now, &f.config, &mut f.codecs).is_some());
    let headers = f.read(0, false).batches.into_iter().filter_map(|batch| BatchHeader::parse(&batch).ok());
    let headers: Vec<_> = headers.map(|header| (header.base_offset, header.record_count)).collect();
    assert_eq!(headers, [(0, 1), (1, 0), (2, 1)]);
    assert_eq!(f.texts(true), ["0 a=1"]);
}
