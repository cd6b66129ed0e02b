//! Simulation of a partition on disk.

use grete_wire::records::test_encoder::{BatchOptions, TestRecord, build_batch};

use crate::ids::{NodeId, TopicPartition};

#[derive(Debug)]
pub struct Stored {
    base: i64,
    next: i64,
    timestamp: i64,
    bytes: Vec<u8>,
    /// Number of times that the batch is sent with a flipped bit.
    pub spoilt: u32,
    /// Amount added to the base offset when the batch is sent corrupt.
    pub shift: u8,
}

#[derive(Debug)]
pub struct Log {
    tp: TopicPartition,
    pub leader: NodeId,
    pub epoch: i32,
    pub start: i64,
    /// Incarnation of the topic, among the topics of this name.
    pub incarnation: u128,
    pub batches: Vec<Stored>,
}

/// Returns the value of the record at that offset, in incarnation `life` of the topic.
pub fn value(tp: &TopicPartition, offset: i64, life: u128) -> String {
    format!("{tp} {offset} {life}")
}

/// Returns the incarnation in a record's value, after checking its partition and offset.
pub fn incarnation_of(tp: &TopicPartition, offset: i64, said: &[u8]) -> u128 {
    let said = std::str::from_utf8(said).unwrap();
    let life = said.rsplit(' ').next().unwrap().parse().unwrap();
    assert_eq!(said, value(tp, offset, life));
    life
}

impl Log {
    pub fn new(tp: TopicPartition, leader: NodeId) -> Self {
        Self { tp, leader, epoch: 1, start: 0, incarnation: 0, batches: Vec::new() }
    }

    /// Creates the log of one incarnation of a topic.
    pub fn with_incarnation(tp: TopicPartition, leader: NodeId, life: u128) -> Self {
        Self { incarnation: life, ..Self::new(tp, leader) }
    }

    pub fn end(&self) -> i64 {
        self.batches.last().map_or(self.start, |batch| batch.next)
    }

    /// Appends a batch of `count` records.
    pub fn append(&mut self, count: i64, timestamp: i64) {
        let base = self.end();
        let records: Vec<_> = (base..base + count)
            .map(|offset| TestRecord::value(timestamp, value(&self.tp, offset, self.incarnation)))
            .collect();
        let options = BatchOptions { leader_epoch: self.epoch, ..BatchOptions::default() };
        let bytes = build_batch(base, &records, &options);
        self.batches.push(Stored { base, next: base + count, timestamp, bytes, spoilt: 0, shift: 0 });
    }

    /// Appends a batch that compaction has emptied.
    pub fn append_emptied(&mut self, count: i64) {
        let base = self.end();
        let last = Some(i32::try_from(count - 1).unwrap());
        let options = BatchOptions { leader_epoch: self.epoch, last_offset_delta: last, ..BatchOptions::default() };
        let bytes = build_batch(base, &[], &options);
        self.batches.push(Stored { base, next: base + count, timestamp: 0, bytes, spoilt: 0, shift: 0 });
    }

    /// Returns whole batches from `offset` on, up to `limit` bytes, but at least one.
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

    /// Removes whole batches at the end, like an unclean leader election.
    pub fn truncate(&mut self, batches: usize) {
        self.batches.truncate(self.batches.len().saturating_sub(batches));
        self.epoch += 1;
    }

    /// Returns the offset that ListOffsets finds.
    pub fn lookup(&self, timestamp: i64) -> i64 {
        match timestamp {
            -1 => self.end(),
            -2 => self.start,
            time => self.batches.iter().find(|batch| batch.timestamp >= time).map_or(-1, |batch| batch.base),
        }
    }
}
