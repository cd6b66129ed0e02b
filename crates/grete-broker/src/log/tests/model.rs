//! Random operations on a log and on a naive model of the log.

use std::collections::{BTreeMap, BTreeSet};

use grete_wire::ErrorCode;
use grete_wire::records::{AbortedTransactionFilter, BatchHeader, BatchRecord, Compression};
use proptest::prelude::*;

use super::*;

const RETENTION_MS: i64 = 400;
const HORIZON_MS: i64 = 300;

#[derive(Debug, Clone)]
enum Op {
    /// Batch without a producer id: keys, and whether the value is null.
    Plain(Vec<(u8, bool)>, Compression),
    /// Batch of a producer with the next sequence number plus a skip, and an epoch relative to the producer's.
    Send {
        producer: i64,
        records: Vec<(u8, bool)>,
        skip: i32,
        epoch: i16,
        in_transaction: bool,
        verified: bool,
    },
    /// The producer's nth last batch again.
    Repeat {
        producer: i64,
        back: usize,
    },
    Marker {
        producer: i64,
        bump: bool,
        commit: bool,
    },
    DeleteRecords(u8),
    Retain,
    Compact,
    Pass(i64),
}

fn records() -> impl Strategy<Value = Vec<(u8, bool)>> {
    prop::collection::vec((0..4u8, prop::bool::weighted(0.2)), 1..4)
}

fn op() -> impl Strategy<Value = Op> {
    let codec = prop_oneof![Just(Compression::None), Just(Compression::Lz4), Just(Compression::Zstd)];
    let send = (0..3i64, records(), prop_oneof![8 => Just(0), 1 => -2..3i32], prop_oneof![8 => Just(0), 1 => -1..2i16]);
    prop_oneof![
        3 => (records(), codec).prop_map(|(records, codec)| Op::Plain(records, codec)),
        8 => (send, prop::bool::weighted(0.8), prop::bool::weighted(0.9)).prop_map(
            |((producer, records, skip, epoch), in_transaction, verified)| {
                Op::Send { producer, records, skip, epoch, in_transaction, verified }
            },
        ),
        1 => (0..3i64, 0..7usize).prop_map(|(producer, back)| Op::Repeat { producer, back }),
        4 => (0..3i64, any::<bool>(), any::<bool>())
            .prop_map(|(producer, bump, commit)| Op::Marker { producer, bump, commit }),
        1 => any::<u8>().prop_map(Op::DeleteRecords),
        1 => Just(Op::Retain),
        2 => Just(Op::Compact),
        2 => (0..200i64).prop_map(Op::Pass),
    ]
}

#[derive(Debug, Clone)]
struct Record {
    offset: i64,
    /// Base and last offset of the record's batch.
    batch: (i64, i64),
    timestamp: i64,
    key: u8,
    tombstone: bool,
    /// Index of the transaction.
    transaction: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Outcome {
    Ongoing,
    Committed,
    Aborted,
}

#[derive(Debug, Clone, Default)]
struct Producer {
    epoch: i16,
    /// Every batch of this epoch: first sequence number, number of records, base offset.
    batches: Vec<(i32, i32, i64)>,
    transaction: Option<usize>,
    known: bool,
}

impl Producer {
    fn next_sequence(&self) -> i32 {
        self.batches.last().map_or(0, |(first, count, _)| first + count)
    }

    fn recent(&self) -> impl Iterator<Item = &(i32, i32, i64)> {
        self.batches.iter().rev().take(5)
    }
}

#[derive(Default)]
struct Model {
    start: i64,
    end: i64,
    records: Vec<Record>,
    /// First offset and outcome.
    transactions: Vec<(i64, Outcome)>,
    producers: BTreeMap<i64, Producer>,
    /// Delete horizons by base offset of the batch.
    horizons: BTreeMap<i64, i64>,
}

impl Model {
    fn last_stable(&self) -> i64 {
        let ongoing = self.transactions.iter().filter(|(_, outcome)| *outcome == Outcome::Ongoing);
        ongoing.map(|(first, _)| *first).min().map_or(self.end, |first| first.max(self.start))
    }

    fn is_aborted(&self, record: &Record) -> bool {
        record.transaction.is_some_and(|index| self.transactions[index].1 == Outcome::Aborted)
    }

    fn append(&mut self, now: i64, records: &[(u8, bool)], transaction: Option<usize>) {
        let batch = (self.end, self.end + records.len() as i64 - 1);
        for &(key, tombstone) in records {
            self.records.push(Record { offset: self.end, batch, timestamp: now, key, tombstone, transaction });
            self.end += 1;
        }
    }

    /// Returns the expected answer to a batch of a producer: the offset of a duplicate, or an error.
    fn judge(
        &self,
        id: i64,
        epoch: i16,
        sequence: i32,
        count: i32,
        checks: (bool, bool),
    ) -> Result<Option<i64>, ErrorCode> {
        let (transactional, verified) = checks;
        let unknown = Producer::default();
        let producer = self.producers.get(&id).unwrap_or(&unknown);
        if producer.known && producer.epoch == epoch {
            let same = |batch: &&(i32, i32, i64)| (batch.0, batch.1) == (sequence, count);
            if let Some((_, _, offset)) = producer.recent().find(same) {
                return Ok(Some(*offset));
            }
        }
        let ongoing = producer.transaction.is_some();
        if producer.known && epoch < producer.epoch {
            Err(ErrorCode::INVALID_PRODUCER_EPOCH)
        } else if transactional && !verified && !(ongoing && epoch == producer.epoch) {
            Err(ErrorCode::INVALID_TXN_STATE)
        } else if producer.known && sequence != if epoch == producer.epoch { producer.next_sequence() } else { 0 } {
            Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER)
        } else if ongoing && !transactional {
            Err(ErrorCode::INVALID_TXN_STATE)
        } else {
            Ok(None)
        }
    }

    fn send(&mut self, id: i64, epoch: i16, sequence: i32, now: i64, records: &[(u8, bool)], transactional: bool) {
        let end = self.end;
        let producer = self.producers.entry(id).or_default();
        if !producer.known || producer.epoch != epoch {
            producer.batches.clear();
        }
        (producer.known, producer.epoch) = (true, epoch);
        producer.batches.push((sequence, records.len() as i32, end));
        if transactional && producer.transaction.is_none() {
            producer.transaction = Some(self.transactions.len());
            self.transactions.push((end, Outcome::Ongoing));
        }
        let transaction = producer.transaction;
        self.append(now, records, transaction);
    }

    fn marker(&mut self, id: i64, epoch: i16, commit: bool) {
        let producer = self.producers.entry(id).or_default();
        if !producer.known || producer.epoch != epoch {
            producer.batches.clear();
        }
        (producer.known, producer.epoch) = (true, epoch);
        if let Some(index) = producer.transaction.take() {
            self.transactions[index].1 = if commit { Outcome::Committed } else { Outcome::Aborted };
        }
        self.end += 1;
    }

    fn advance(&mut self, start: i64) {
        self.start = self.start.max(start);
        let start = self.start;
        self.records.retain(|record| record.batch.1 >= start);
    }

    fn compact(&mut self, end: i64, now: i64) {
        let mut newest = BTreeMap::new();
        for record in self.records.iter().filter(|record| record.offset >= self.start && record.offset < end) {
            if !self.is_aborted(record) {
                newest.insert(record.key, record.offset);
            }
        }
        let mut kept = Vec::new();
        let mut marked = BTreeSet::new();
        for record in &self.records {
            let horizon = self.horizons.get(&record.batch.0);
            let is_newest = newest.get(&record.key).is_none_or(|newest| record.offset >= *newest);
            let is_over = record.tombstone && horizon.is_some_and(|horizon| *horizon <= now);
            if record.batch.1 >= end || (!self.is_aborted(record) && is_newest && !is_over) {
                if record.tombstone && record.batch.1 < end {
                    marked.insert(record.batch.0);
                }
                kept.push(record.clone());
            }
        }
        for batch in marked {
            self.horizons.entry(batch).or_insert(now + HORIZON_MS);
        }
        self.records = kept;
    }
}

fn encode(now: i64, records: &[(u8, bool)], options: &BatchOptions) -> Vec<u8> {
    let record = |&(key, tombstone): &(u8, bool)| TestRecord {
        value: (!tombstone).then(|| b"some value, some value, some value".to_vec()),
        ..TestRecord::keyed(now, [key], "")
    };
    build_batch(0, &records.iter().map(record).collect::<Vec<_>>(), options)
}

struct Run {
    f: Fixture,
    model: Model,
}

impl Run {
    fn step(&mut self, op: &Op) {
        let now = self.f.now;
        match op {
            Op::Plain(records, compression) => {
                let options = BatchOptions { compression: *compression, ..BatchOptions::default() };
                let appended = self.f.append(&encode(now, records, &options)).expect("accepted");
                assert_eq!(appended.base_offset, self.model.end);
                self.model.append(now, records, None);
            }
            Op::Send { producer, records, skip, epoch, in_transaction, verified } => {
                let state = self.model.producers.get(producer).cloned().unwrap_or_default();
                let epoch = (state.epoch + epoch).max(0);
                let next = if epoch == state.epoch { state.next_sequence() } else { 0 };
                self.send(*producer, epoch, (next + skip).max(0), records, (*in_transaction, *verified));
            }
            Op::Repeat { producer, back } => {
                let state = self.model.producers.get(producer).cloned().unwrap_or_default();
                let Some(&(first, count, _)) = state.batches.iter().rev().nth(*back) else { return };
                let records = vec![(0, false); count as usize];
                self.send(*producer, state.epoch, first, &records, (true, true));
            }
            Op::Marker { producer, bump, commit } => {
                let epoch = self.model.producers.get(producer).map_or(0, |state| state.epoch) + i16::from(*bump);
                assert_eq!(self.f.marker(*producer, epoch, *commit), self.model.end);
                self.model.marker(*producer, epoch, *commit);
            }
            Op::DeleteRecords(share) => {
                let before = self.model.end * i64::from(*share) / 255;
                let (start, change) = self.f.log.delete_records(before).expect("in range");
                self.f.changes.extend(change);
                self.model.advance(before);
                assert_eq!(start, self.model.start);
            }
            Op::Retain => {
                self.f.changes.extend(self.f.log.enforce_retention(now, &self.f.config));
                let start = self.f.log.log_start_offset();
                let deleted = self.model.records.iter().filter(|record| record.offset < start);
                let deleted = deleted.filter(|record| record.offset >= self.model.start);
                assert!(deleted.clone().all(|record| now - record.timestamp > RETENTION_MS), "young records");
                self.model.advance(start);
            }
            Op::Compact => {
                let change = self.f.log.compact(now, &self.f.config, &mut self.f.codecs);
                if let Some(LogChange::Compacted { end, .. }) = &change {
                    assert!(*end <= self.model.last_stable());
                    self.model.compact(*end, now);
                }
                self.f.changes.extend(change);
            }
            Op::Pass(ms) => self.f.now += ms,
        }
    }

    fn send(&mut self, id: i64, epoch: i16, sequence: i32, records: &[(u8, bool)], checks: (bool, bool)) {
        let now = self.f.now;
        let options = BatchOptions { transactional: checks.0, ..producer(id, epoch, sequence) };
        let expected = self.model.judge(id, epoch, sequence, records.len() as i32, checks);
        let checks = AppendChecks { transaction_verified: checks.1, ..CHECKS };
        let actual = self.f.append_checked(&encode(now, records, &options), checks);
        match (actual, expected) {
            (Ok(appended), Ok(Some(offset))) => assert_eq!((appended.base_offset, appended.change), (offset, None)),
            (Ok(appended), Ok(None)) => {
                assert_eq!(appended.base_offset, self.model.end);
                self.model.send(id, epoch, sequence, now, records, options.transactional);
            }
            (actual, expected) => assert_eq!(actual.map_err(|error| error.code).err(), expected.err()),
        }
    }

    /// Compares log and model: offsets, and the records from `from` on in both isolation levels.
    fn check(&mut self, from: i64, max_bytes: usize) {
        let (log, model) = (&self.f.log, &self.model);
        assert_eq!((log.log_start_offset(), log.high_watermark()), (model.start, model.end));
        assert_eq!(log.last_stable_offset(), model.last_stable());
        for committed in [false, true] {
            let read = log.read(from, max_bytes, true, committed).expect("in range");
            let end = read.batches.last().and_then(|last| BatchHeader::parse(last).ok()).map(|last| last.next_offset());
            let limit = if committed { model.last_stable() } else { model.end };
            // A read without a batch must be at the end, but for what compaction removed.
            let end = end.unwrap_or(limit.max(from));
            assert!(end <= limit.max(from));
            let expected = model.records.iter().filter(|record| record.offset >= from && record.offset < end);
            let expected = expected.filter(|record| !committed || !model.is_aborted(record));
            let expected: Vec<_> = expected.map(|r| (r.offset, r.key, r.tombstone, r.timestamp)).collect();
            assert_eq!(self.visible(&read, from), expected, "from {from}, committed: {committed}");
        }
        let all = log.read(model.start, usize::MAX, true, false).expect("in range");
        assert_eq!(all.bytes as u64, log.size());
        assert_eq!(log.batches.segments().iter().map(|segment| segment.bytes).sum::<u64>(), log.size());
        let target = self.f.now - 150;
        let scanned = decoded(&all, model.start).into_iter().find(|(_, timestamp)| *timestamp >= target);
        let found = log.offset_for_timestamp(target, false, &mut self.f.codecs);
        assert_eq!(found.map(|found| (found.offset, found.timestamp)), scanned);
    }

    /// Returns the records that a client delivers.
    fn visible(&self, read: &ReadResult, from: i64) -> Vec<(i64, u8, bool, i64)> {
        let mut filter = AbortedTransactionFilter::new(read.aborted.clone().unwrap_or_default());
        let mut out = Vec::new();
        for bytes in &read.batches {
            let header = BatchHeader::parse(bytes).expect("a header");
            if filter.is_visible(&header, bytes).expect("a marker") {
                each_record(bytes, |record| {
                    if record.offset >= from {
                        let key = record.key.and_then(|key| key.first()).copied().expect("a key");
                        out.push((record.offset, key, record.value.is_none(), record.timestamp));
                    }
                });
            }
        }
        out
    }
}

fn each_record(bytes: &[u8], mut visit: impl FnMut(&BatchRecord<'_>)) {
    let header = BatchHeader::parse(bytes).expect("a header");
    let mut codecs = Codecs::new();
    for record in &codecs.reader.read(bytes, &header).expect("records") {
        visit(&record.expect("a record"));
    }
}

/// Returns offset and timestamp of all records, control records included.
fn decoded(read: &ReadResult, from: i64) -> Vec<(i64, i64)> {
    let mut out = Vec::new();
    for bytes in &read.batches {
        each_record(bytes, |record| out.push((record.offset, record.timestamp)));
    }
    out.retain(|(offset, _)| *offset >= from);
    out
}

proptest! {
    #[test]
    fn the_log_agrees_with_a_naive_model(
        steps in prop::collection::vec((op(), any::<u8>(), 1..1_000usize), 1..80),
        segment_bytes in 200..1_000u64,
    ) {
        let config = LogConfig {
            compact: true,
            segment_bytes,
            retention_ms: RETENTION_MS,
            delete_retention_ms: HORIZON_MS,
            min_cleanable_dirty_ratio: 0.0,
            ..LogConfig::default()
        };
        let mut run = Run { f: Fixture::with(config), model: Model::default() };
        for (op, share, max_bytes) in &steps {
            run.step(op);
            let from = run.model.start + (run.model.end - run.model.start) * i64::from(*share) / 255;
            run.check(from, *max_bytes);
        }
        run.f.check_restore();
    }
}
