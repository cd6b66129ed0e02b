//! A partition on disk.

use grete_wire::records::testing::{BatchOptions, TestRecord, build_batch};

use crate::ids::{NodeId, TopicPartition};

#[derive(Debug)]
pub struct Stored {
    base: i64,
    next: i64,
    timestamp: i64,
    bytes: Vec<u8>,
    /// So many times the batch is sent with a flipped bit.
    pub spoilt: u32,
    /// And with a base offset that is too large by so much.
    pub shift: u8,
}

#[derive(Debug)]
pub struct Log {
    tp: TopicPartition,
    pub leader: NodeId,
    pub epoch: i32,
    pub start: i64,
    pub batches: Vec<Stored>,
}

/// What the record at that offset says.
pub fn value(tp: &TopicPartition, offset: i64) -> String {
    format!("{tp} {offset}")
}

impl Log {
    pub fn new(tp: TopicPartition, leader: NodeId) -> Self {
        Self { tp, leader, epoch: 1, start: 0, batches: Vec::new() }
    }

    pub fn end(&self) -> i64 {
        self.batches.last().map_or(self.start, |batch| batch.next)
    }

    /// Appends a batch of so many records.
    pub fn append(&mut self, count: i64, timestamp: i64) {
        let base = self.end();
        let records: Vec<_> =
            (base..base + count).map(|offset| TestRecord::value(timestamp, value(&self.tp, offset))).collect();
        let options = BatchOptions { leader_epoch: self.epoch, ..BatchOptions::default() };
        let bytes = build_batch(base, &records, &options);
        self.batches.push(Stored { base, next: base + count, timestamp, bytes, spoilt: 0, shift: 0 });
    }

    /// Appends what compaction leaves of a batch none of whose records was worth keeping.
    pub fn append_emptied(&mut self, count: i64) {
        let base = self.end();
        let last = Some(i32::try_from(count - 1).unwrap());
        let options = BatchOptions { leader_epoch: self.epoch, last_offset_delta: last, ..BatchOptions::default() };
        let bytes = build_batch(base, &[], &options);
        self.batches.push(Stored { base, next: base + count, timestamp: 0, bytes, spoilt: 0, shift: 0 });
    }

    /// Whole batches from `offset` on, up to `limit` bytes, the first one always.
    pub fn read(&mut self, offset: i64, limit: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for batch in self.batches.iter_mut().filter(|batch| batch.next > offset) {
            if !out.is_empty() && out.len() + batch.bytes.len() > limit {
                break;
            }
            let start = out.len();
            out.extend_from_slice(&batch.bytes);
            if batch.spoilt > 0 {
                batch.spoilt -= 1;
                *out.last_mut().unwrap() ^= 1;
                out[start + 7] += batch.shift;
            }
        }
        out
    }

    /// What ListOffsets finds.
    pub fn lookup(&self, timestamp: i64) -> i64 {
        match timestamp {
            -1 => self.end(),
            -2 => self.start,
            time => self.batches.iter().find(|batch| batch.timestamp >= time).map_or(-1, |batch| batch.base),
        }
    }
}
