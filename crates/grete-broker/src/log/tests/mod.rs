//! Tests of the log: each behavior alone, and random operations beside a naive model.

mod appends;
mod compaction;
mod model;
mod producers;
mod reads;
mod retention;

use grete_wire::records::test_encoder::{BatchOptions, TestRecord, build_batch};
use grete_wire::records::{BatchReader, DecodeLimits, EndTransactionMarker, iter_batches};

use super::{AppendChecks, AppendResult, Appended, Codecs, LogChange, LogConfig, PartitionLog, ReadResult};

const NOW: i64 = 1_700_000_000_000;
const CHECKS: AppendChecks = AppendChecks { produce_version: 12, transaction_verified: true, epoch_bump: false };

/// Log that stores its changes, so that a test can restore them.
#[derive(Default)]
struct Fixture {
    log: PartitionLog,
    codecs: Codecs,
    config: LogConfig,
    now: i64,
    epoch: i32,
    changes: Vec<LogChange>,
}

impl Fixture {
    fn new() -> Self {
        Self { now: NOW, ..Self::default() }
    }

    fn with(config: LogConfig) -> Self {
        Self { config, ..Self::new() }
    }

    fn append(&mut self, batch: &[u8]) -> AppendResult<Appended> {
        self.append_checked(batch, CHECKS)
    }

    fn append_checked(&mut self, batch: &[u8], checks: AppendChecks) -> AppendResult<Appended> {
        let result = self.log.append(self.now, self.epoch, batch, &self.config, checks, &mut self.codecs);
        if let Ok(appended) = &result {
            self.changes.extend(appended.change.clone());
        }
        result
    }

    /// Appends records with these timestamps, relative to `NOW`.
    fn append_at(&mut self, timestamps: &[i64]) -> i64 {
        let records: Vec<_> = timestamps.iter().map(|at| TestRecord::keyed(NOW + at, "k", "value")).collect();
        self.append(&build_batch(0, &records, &BatchOptions::default())).expect("accepted").base_offset
    }

    fn marker(&mut self, producer_id: i64, producer_epoch: i16, commit: bool) -> i64 {
        let marker = EndTransactionMarker { producer_id, producer_epoch, coordinator_epoch: 0, commit };
        let (offset, change) =
            self.log.append_marker(self.now, self.epoch, &marker, 0, &self.config).expect("accepted");
        self.changes.push(change);
        offset
    }

    fn read(&self, offset: i64, read_committed: bool) -> ReadResult {
        self.log.read(offset, usize::MAX, true, read_committed).expect("in range")
    }

    /// Checks that changes and snapshot give an equal log, also after their encoding.
    fn check_restore(&mut self) {
        let mut restored = PartitionLog::new();
        for change in &self.changes {
            restored.restore(round_trip(change), &mut self.codecs);
        }
        assert_eq!(restored, self.log);
        let mut restored = PartitionLog::new();
        for change in self.log.snapshot() {
            restored.restore(round_trip(&change), &mut self.codecs);
        }
        assert_eq!(restored, self.log);
    }
}

fn round_trip(change: &LogChange) -> LogChange {
    let bytes = postcard::to_stdvec(change).expect("encoded");
    postcard::from_bytes(&bytes).expect("decoded")
}

/// Options of a batch with `sequence`.
fn producer(producer_id: i64, producer_epoch: i16, base_sequence: i32) -> BatchOptions {
    BatchOptions { producer_id, producer_epoch, base_sequence, ..BatchOptions::default() }
}

fn transactional(producer_id: i64, producer_epoch: i16, base_sequence: i32) -> BatchOptions {
    BatchOptions { transactional: true, ..producer(producer_id, producer_epoch, base_sequence) }
}

/// Encodes a batch of `count` records.
fn batch(count: usize, options: &BatchOptions) -> Vec<u8> {
    build_batch(0, &vec![TestRecord::keyed(NOW, "k", "value"); count], options)
}

/// Record as clients read one: offset, key, value.
type Row = (i64, Option<Vec<u8>>, Option<Vec<u8>>);

/// Returns the records of all batches, without control records.
fn rows(read: &ReadResult) -> Vec<Row> {
    let mut reader = BatchReader::new(grete_wire::buffer_pool::BufferPool::new(0), DecodeLimits::default());
    let mut rows = Vec::new();
    for bytes in &read.batches {
        let (header, _) = iter_batches(bytes).next().expect("a batch").expect("a header");
        grete_wire::records::check_crc(bytes, &header).expect("a checksum");
        if header.is_control() {
            continue;
        }
        for record in &reader.read(bytes, &header).expect("records") {
            let record = record.expect("a record");
            rows.push((record.offset, record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec)));
        }
    }
    rows
}
