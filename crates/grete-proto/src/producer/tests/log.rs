//! Model of a replicated partition: the leader's log, the progress of the in-sync replicas, and leader changes.

use grete_wire::ErrorCode as E;
use grete_wire::buffer_pool::{BufferPool, PooledBuf};
use grete_wire::records::{BatchHeader, Columns, DecodeLimits, Decoder};

use super::producer_state_manager::{ProducerStateManager, SequenceCheck, Stamp};
use crate::ids::{NodeId, TopicPartition};
use crate::time::Nanos;

/// A decoded and validated batch of a producer.
#[derive(Debug, Clone)]
pub struct Batch {
    pub stamp: Stamp,
    /// Test number of each record.
    pub ids: Vec<u64>,
    pub bytes: usize,
}

/// Builds the value of a record: its number, padded to `len` bytes that depend on the number.
pub fn value(id: u64, len: usize) -> Vec<u8> {
    let mut out = id.to_be_bytes().to_vec();
    out.extend((8..len).map(|i| (id as usize ^ i) as u8));
    out
}

impl Batch {
    /// Parses the batch of one partition in a produce request. Panics on a batch that a broker would refuse as corrupt,
    /// because such a batch is a bug of the client.
    pub fn parse(bytes: &[u8]) -> Self {
        let header = BatchHeader::parse(bytes).expect("a batch has a header");
        assert_eq!(
            usize::try_from(header.length).unwrap() + 12,
            bytes.len(),
            "one batch per partition, and nothing else"
        );
        assert_eq!(header.base_offset, 0, "brokers give offsets, clients do not");
        assert_eq!(header.last_offset_delta + 1, header.record_count, "offsets without gaps");
        assert!(header.record_count > 0, "an empty batch");
        assert!(!header.is_control() && !header.is_transactional() && !header.log_append_time());
        if header.producer_id >= 0 {
            assert!(header.base_sequence >= 0 && header.producer_epoch >= 0, "{header:?}");
        } else {
            assert_eq!((header.producer_id, header.producer_epoch, header.base_sequence), (-1, -1, -1));
        }
        let slab = PooledBuf::from(bytes.to_vec());
        let mut columns = Columns::default();
        let mut decoder = Decoder::new(BufferPool::new(1 << 20), DecodeLimits::default());
        decoder.decode(&slab, 0..bytes.len(), &header, 0, &mut columns).expect("the batch is whole");
        assert_eq!(columns.len(), header.record_count as usize);
        assert!(columns.offsets.iter().copied().eq(0..i64::from(header.record_count)));
        assert_eq!(columns.timestamps.first(), Some(&header.base_timestamp));
        assert_eq!(columns.timestamps.iter().max(), Some(&header.max_timestamp));
        let id = |row| {
            let bytes = columns.value(row).expect("these tests send no tombstones");
            let id = u64::from_be_bytes(bytes[..8].try_into().unwrap());
            assert_eq!(bytes, value(id, bytes.len()), "record {id} was changed on its way");
            id
        };
        let stamp = Stamp {
            producer: header.producer_id,
            epoch: header.producer_epoch,
            sequence: header.base_sequence,
            count: header.record_count,
        };
        Self { stamp, ids: (0..columns.len()).map(id).collect(), bytes: bytes.len() }
    }
}

#[derive(Debug, Clone)]
pub struct Stored {
    pub base: i64,
    pub batch: Batch,
}

/// Copy of one replica.
#[derive(Debug, Clone, Default)]
pub struct Replica {
    pub batches: Vec<Stored>,
    pub states: ProducerStateManager,
}

impl Replica {
    pub fn end(&self) -> i64 {
        self.batches.last().map_or(0, |stored| stored.base + i64::from(stored.batch.stamp.count))
    }

    fn truncate(&mut self, end: i64) {
        self.batches.retain(|stored| stored.base < end);
        self.states = self.states.emptied();
        for stored in &self.batches {
            self.states.note(stored.batch.stamp, stored.base);
        }
    }
}

/// Result of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogAppendResult {
    /// The batch is stored; it is committed once the high watermark reaches `end`.
    At {
        base: i64,
        end: i64,
    },
    Refused(E),
}

/// A leader that does not know yet that it was deposed: its new records will be lost.
#[derive(Debug)]
struct Deposed {
    node: NodeId,
    until: Nanos,
    replica: Replica,
}

#[derive(Debug)]
pub struct Log {
    pub tp: TopicPartition,
    /// Leader; -1: none.
    pub leader: NodeId,
    pub epoch: i32,
    /// Time at which the leader learns of its election.
    pub leads_from: Nanos,
    deposed: Option<Deposed>,
    pub replica: Replica,
    pub high_watermark: i64,
    pub in_sync: usize,
    pub min_in_sync: usize,
    /// `max.message.bytes`.
    pub max_bytes: usize,
}

impl Log {
    pub fn new(tp: TopicPartition, leader: NodeId) -> Self {
        Self {
            tp,
            leader,
            epoch: 0,
            leads_from: 0,
            deposed: None,
            replica: Replica::default(),
            high_watermark: 0,
            in_sync: 3,
            min_in_sync: 2,
            max_bytes: usize::MAX,
        }
    }

    /// Returns whether the node believes to be the leader (`Some`), and whether that is true.
    pub fn leads(&self, node: NodeId, now: Nanos) -> Option<bool> {
        if self.leader == node && self.leads_from <= now {
            return Some(true);
        }
        self.deposed.as_ref().filter(|old| old.node == node && now < old.until).map(|_| false)
    }

    /// Models `Partition.appendRecordsToLeader`.
    pub fn append(&mut self, node: NodeId, now: Nanos, acks: i16, batch: &Batch) -> LogAppendResult {
        let right = match self.leads(node, now) {
            Some(right) => right,
            None => return LogAppendResult::Refused(E::NOT_LEADER_OR_FOLLOWER),
        };
        if acks == -1 && self.in_sync < self.min_in_sync {
            return LogAppendResult::Refused(E::NOT_ENOUGH_REPLICAS);
        }
        if batch.bytes > self.max_bytes {
            return LogAppendResult::Refused(E::MESSAGE_TOO_LARGE);
        }
        let replica = match &mut self.deposed {
            Some(old) if !right => &mut old.replica,
            _ => &mut self.replica,
        };
        match replica.states.check(batch.stamp) {
            SequenceCheck::Append => {
                let base = replica.end();
                replica.states.note(batch.stamp, base);
                replica.batches.push(Stored { base, batch: batch.clone() });
                LogAppendResult::At { base, end: base + i64::from(batch.stamp.count) }
            }
            SequenceCheck::Duplicate(base) => LogAppendResult::At { base, end: base + i64::from(batch.stamp.count) },
            SequenceCheck::Refuse(code) => LogAppendResult::Refused(code),
        }
    }

    /// Models `Partition.checkEnoughReplicasReachOffset`: returns the result of an append with acks=all; `None`: still
    /// waiting.
    pub fn reached(&self, node: NodeId, epoch: i32, now: Nanos, end: i64) -> Option<E> {
        match self.leads(node, now) {
            Some(true) if epoch != self.epoch => Some(E::NOT_LEADER_OR_FOLLOWER),
            Some(true) if self.high_watermark < end => None,
            Some(true) if self.in_sync < self.min_in_sync => Some(E::NOT_ENOUGH_REPLICAS_AFTER_APPEND),
            Some(true) => Some(E::NONE),
            Some(false) => None,
            None => Some(E::NOT_LEADER_OR_FOLLOWER),
        }
    }

    /// Records that the followers have replicated everything up to `end`.
    pub fn replicated(&mut self, epoch: i32, end: i64) {
        if epoch == self.epoch && self.leader >= 0 {
            self.high_watermark = self.high_watermark.max(end.min(self.replica.end()));
        }
    }

    /// Elects a new leader that has the old leader's log up to `end` (the end of a batch). The new leader learns of the
    /// election at `leads_from`, the old one at `until`.
    pub fn elect(&mut self, node: NodeId, end: i64, leads_from: Nanos, until: Nanos) {
        let replica = self.replica.clone();
        self.deposed = (self.leader >= 0).then_some(Deposed { node: self.leader, until, replica });
        self.deposed = self.deposed.take().filter(|old| old.node != node);
        (self.leader, self.leads_from) = (node, leads_from);
        self.epoch += 1;
        self.replica.truncate(end);
        self.high_watermark = self.high_watermark.min(end);
    }

    /// Removes the leader, and with it all records that were not replicated.
    pub fn orphan(&mut self) {
        self.deposed = None;
        self.leader = -1;
        self.epoch += 1;
    }

    /// Returns the batch boundaries from `from` on.
    pub fn borders(&self, from: i64) -> Vec<i64> {
        let ends = self.replica.batches.iter().map(|stored| stored.base + i64::from(stored.batch.stamp.count));
        std::iter::once(0).chain(ends).filter(|end| *end >= from).collect()
    }

    /// Returns offset and number of all records, in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = (i64, u64)> {
        let ids = |stored: &Stored| stored.batch.ids.clone();
        let ids: Vec<u64> = self.replica.batches.iter().flat_map(ids).collect();
        ids.into_iter().enumerate().map(|(offset, id)| (offset as i64, id))
    }

    /// Returns the number of the record at that offset.
    pub fn at(&self, offset: i64) -> Option<u64> {
        let stored = self.replica.batches.iter().rfind(|stored| stored.base <= offset)?;
        stored.batch.ids.get(usize::try_from(offset - stored.base).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use grete_wire::records::test_encoder::{BatchOptions, TestRecord, build_batch};

    use super::*;

    pub fn batch(sequence: i32, ids: std::ops::Range<u64>) -> Batch {
        let records: Vec<_> = ids.map(|id| TestRecord::value(5, value(id, 20))).collect();
        let options =
            BatchOptions { producer_id: 1, producer_epoch: 0, base_sequence: sequence, ..BatchOptions::default() };
        Batch::parse(&build_batch(0, &records, &options))
    }

    fn log() -> Log {
        Log::new(TopicPartition::new("orders", 0), 1)
    }

    #[test]
    fn an_append_is_safe_once_the_replicas_have_it() {
        let mut log = log();
        assert_eq!(log.append(1, 0, -1, &batch(0, 0..3)), LogAppendResult::At { base: 0, end: 3 });
        assert_eq!(log.reached(1, 0, 0, 3), None);
        log.replicated(0, 3);
        assert_eq!(log.reached(1, 0, 0, 3), Some(E::NONE));
        log.in_sync = 1;
        assert_eq!(log.reached(1, 0, 0, 3), Some(E::NOT_ENOUGH_REPLICAS_AFTER_APPEND));
        assert_eq!(log.append(1, 0, -1, &batch(3, 3..4)), LogAppendResult::Refused(E::NOT_ENOUGH_REPLICAS));
        assert_eq!(log.append(1, 0, 1, &batch(3, 3..4)), LogAppendResult::At { base: 3, end: 4 });
        assert_eq!(log.append(1, 0, 1, &batch(0, 0..3)), LogAppendResult::At { base: 0, end: 3 });
        assert_eq!(log.append(2, 0, 1, &batch(4, 4..5)), LogAppendResult::Refused(E::NOT_LEADER_OR_FOLLOWER));
    }

    #[test]
    fn a_new_leader_knows_the_sequences_of_what_it_has_and_the_old_one_writes_into_the_void() {
        let mut log = log();
        for (sequence, ids) in [(0, 0..3), (3, 3..6), (6, 6..9)] {
            log.append(1, 0, -1, &batch(sequence, ids));
        }
        log.replicated(0, 3);
        log.elect(2, 6, 10, 20);
        // The old leader does not know of the election yet, and the new one is not active.
        assert_eq!(log.append(2, 5, -1, &batch(6, 6..9)), LogAppendResult::Refused(E::NOT_LEADER_OR_FOLLOWER));
        assert_eq!(log.append(1, 5, 1, &batch(9, 9..12)), LogAppendResult::At { base: 9, end: 12 });
        assert_eq!(log.reached(1, 0, 5, 9), None);
        assert_eq!(log.reached(1, 0, 20, 9), Some(E::NOT_LEADER_OR_FOLLOWER));
        // The new leader has six records and accepts the rest again.
        assert_eq!(log.append(2, 10, -1, &batch(3, 3..6)), LogAppendResult::At { base: 3, end: 6 });
        assert_eq!(log.append(2, 10, -1, &batch(9, 9..12)), LogAppendResult::Refused(E::OUT_OF_ORDER_SEQUENCE_NUMBER));
        assert_eq!(log.append(2, 10, -1, &batch(6, 6..9)), LogAppendResult::At { base: 6, end: 9 });
        log.replicated(0, 9);
        assert_eq!(log.high_watermark, 3, "a follower of the old epoch");
        log.replicated(1, 9);
        assert_eq!(log.high_watermark, 9);
        assert_eq!(log.ids().map(|(_, id)| id).collect::<Vec<_>>(), (0..9).collect::<Vec<_>>());
    }

    #[test]
    fn a_batch_larger_than_the_limit_is_refused_whole() {
        let mut log = log();
        log.max_bytes = 100;
        assert_eq!(log.append(1, 0, -1, &batch(0, 0..3)), LogAppendResult::Refused(E::MESSAGE_TOO_LARGE));
        assert_eq!(log.append(1, 0, -1, &batch(0, 0..1)), LogAppendResult::At { base: 0, end: 1 });
    }

    #[test]
    #[should_panic(expected = "the batch is whole")]
    fn a_damaged_batch_is_the_clients_fault() {
        let mut bytes = build_batch(0, &[TestRecord::value(5, value(1, 20))], &BatchOptions::default());
        *bytes.last_mut().unwrap() ^= 1;
        Batch::parse(&bytes);
    }
}
