//! Records of topics whose partitions are not known yet: one queue for each such topic.
//!
//! ```text
//! append_or_queue --no metadata--> queue --update_metadata--> one batch or more for each partition, ready
//!                                    |
//!                                    +-- max.block.ms, no such topic, delivery.timeout.ms, close: failed
//! ```
//!
//! Not obvious:
//! - A topic has queued records only while its partitions are unknown. All of them are moved under the lock under which
//!   the partitions become known, so no later record can overtake one of them.
//! - A queued record counts as an incomplete batch of its own, so flush, close and `delivery.timeout.ms` see the record.
//!   The batch that it moves to gets the number of its first record, so batches of a partition stay in order.
//! - A queued record is charged with more bytes than a batch needs for it. A move therefore never needs more of
//!   `buffer.memory` than it releases, and cannot wait for memory that only another move would release.

use std::collections::{BTreeMap, VecDeque};
use std::mem::size_of;
use std::sync::Arc;

use grete_wire::error::WireError;
use grete_wire::error_code::ErrorCode;
use grete_wire::records::{BatchBuilder, HEADER_BYTES, ProducerRecord};

use super::incomplete_batches::{BatchOwner, IncompleteEntry};
use super::owned_record::OwnedRecord;
use super::partition_queue::{OpenBatch, UnsentBatch};
use super::{Accumulator, AppendAction, RecordAppendResult};
use crate::ids::TopicId;
use crate::murmur2::partition_for_key;
use crate::producer::batch_promise::BatchPromise;
use crate::producer::error::AppendError;
use crate::time::Nanos;

/// Bytes that a record's deltas and its length may take in a batch beyond those of a first record.
const MAX_DELTA_BYTES: usize = 16;
/// Bytes of memory that a queued record takes beside its contents.
const OVERHEAD: usize = size_of::<UnassignedRecord>() + size_of::<BatchPromise>() + size_of::<IncompleteEntry>() + 64;

/// A record that waits for the metadata of its topic.
#[derive(Debug)]
pub(in crate::producer) struct UnassignedRecord {
    /// Number of the record among all incomplete batches.
    pub number: u64,
    pub promise: Arc<BatchPromise>,
    /// Time of the append.
    taken: Nanos,
    /// Partition that the caller has chosen.
    partition: Option<i32>,
    /// Bytes of a batch with this record alone.
    alone: usize,
    /// Bytes of `buffer.memory` that the record takes.
    charge: usize,
    record: OwnedRecord,
}

impl UnassignedRecord {
    /// Returns the greatest number of bytes that the record takes in a batch of several.
    fn bytes_among_others(&self) -> usize {
        self.alone - HEADER_BYTES + MAX_DELTA_BYTES
    }
}

/// Reason why a record cannot be moved to a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::producer) enum AssignmentFailure {
    /// Brokers report that there is no such topic, with a known topic of a similar name.
    NoTopic(Option<Arc<str>>),
    /// The topic does not have the partition that the caller has chosen.
    NoPartition(i32),
    /// The topic cannot be written to.
    Refused(ErrorCode),
    /// No broker has named the partitions for this time, with the topic's last retriable error.
    TimedOut(Nanos, Option<ErrorCode>),
    /// The record cannot be encoded.
    Encode(WireError),
}

impl Accumulator {
    /// Appends a record like [`Accumulator::append`]. A record of a topic without metadata is queued until the metadata
    /// arrives, for `max.block.ms` at most; its promise has the result even if the topic does not exist.
    ///
    /// # Errors See [`AppendError`]. After [`AppendError::BufferFull`] and [`AppendError::Topic`], step the sender with
    /// `Drain`.
    pub fn append_or_queue(
        &mut self,
        now: Nanos,
        topic: TopicId,
        partition: Option<i32>,
        record: &ProducerRecord<'_>,
    ) -> Result<RecordAppendResult<'_>, AppendError> {
        if self.refuses || self.partitions(topic).is_some() {
            return self.append(now, topic, partition, record);
        }
        let alone = self.check_record_size(record)?;
        // A record that fits into the memory alone can be queued alone.
        let charge =
            (alone + MAX_DELTA_BYTES + OVERHEAD + OwnedRecord::headers_overhead(record)).min(self.buffer_pool.limit());
        if !self.buffer_pool.reserve(charge) {
            return Err(self.on_memory_full(charge));
        }
        self.track_topic(topic);
        let Some(found) = self.topics.get_mut(topic.0 as usize) else { return Err(AppendError::NoMetadata) };
        let expires = now.saturating_add(self.delivery_timeout);
        let number = self.incomplete.open(BatchOwner::Topic(topic), expires);
        let promise = Arc::new(BatchPromise::unassigned(Arc::clone(&found.name)).in_transaction(self.fate.clone()));
        let record = OwnedRecord::new(record);
        // The sender must learn of the topic, and of the time at which the record expires.
        let action = if found.unassigned.is_empty() { AppendAction::Rearm } else { AppendAction::Nothing };
        if found.unassigned.is_empty() {
            self.unassigned_topics.push(topic);
        }
        found.unassigned.push_back(UnassignedRecord { number, promise, taken: now, partition, alone, charge, record });
        found.incomplete += 1;
        found.pending += 1;
        found.last_used = now;
        self.unassigned_records += 1;
        self.pending += 1;
        let Some(queued) = found.unassigned.back() else { return Err(AppendError::NoMetadata) };
        Ok(RecordAppendResult { promise: &queued.promise, index: 0, partition: -1, action })
    }

    /// Returns the number of records that wait for the metadata of their topics.
    pub fn unassigned_records(&self) -> u64 {
        self.unassigned_records
    }

    /// Returns a record that has waited too long for its topic, and why. Repeat until `None`.
    pub(in crate::producer) fn take_overdue(&mut self, now: Nanos) -> Option<(UnassignedRecord, AssignmentFailure)> {
        for place in 0..self.unassigned_topics.len() {
            let id = *self.unassigned_topics.get(place)?;
            let topic = self.topics.get(id.0 as usize)?;
            let Some(first) = topic.unassigned.front() else { continue };
            let failure = if self.is_topic_missing(id, first.taken) {
                AssignmentFailure::NoTopic(None)
            } else if now >= self.metadata_due(first) {
                match topic.transient_error {
                    Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) => AssignmentFailure::NoTopic(None),
                    last => AssignmentFailure::TimedOut(now.saturating_sub(first.taken), last),
                }
            } else {
                continue;
            };
            return self.take_unassigned(id, None).map(|record| (record, failure));
        }
        None
    }

    /// Returns the time at which the next record has waited for metadata for too long.
    pub(in crate::producer) fn next_overdue(&self) -> Option<Nanos> {
        let fronts = self.unassigned_topics.iter().filter_map(|id| self.topics.get(id.0 as usize)?.unassigned.front());
        fronts.map(|first| self.metadata_due(first)).min()
    }

    fn metadata_due(&self, record: &UnassignedRecord) -> Nanos {
        record.taken.saturating_add(self.max_block).min(self.metadata_deadline)
    }

    /// Takes the record with this number from the topic's queue; `None`: takes the first record. Its memory stays
    /// charged until [`Accumulator::release_unassigned`].
    pub(in crate::producer) fn take_unassigned(
        &mut self,
        id: TopicId,
        number: Option<u64>,
    ) -> Option<UnassignedRecord> {
        let queue = &mut self.topics.get_mut(id.0 as usize)?.unassigned;
        let index = match number {
            None => 0,
            Some(number) => queue.binary_search_by_key(&number, |record| record.number).ok()?,
        };
        let record = queue.remove(index)?;
        if queue.is_empty() {
            self.unassigned_topics.retain(|other| *other != id);
        }
        self.unassigned_records = self.unassigned_records.saturating_sub(1);
        Some(record)
    }

    /// Counts a record as complete that was taken from its queue, and releases its memory.
    pub(in crate::producer) fn release_unassigned(&mut self, record: &UnassignedRecord) {
        self.complete(record.number, 1, true);
        self.buffer_pool.release(record.charge);
    }

    /// Moves the records of a topic whose partitions have become known to batches, in order. Records that no partition
    /// can take are appended to `failed`.
    pub(super) fn assign_records(&mut self, place: usize, failed: &mut Vec<(UnassignedRecord, AssignmentFailure)>) {
        let Some(topic) = self.topics.get_mut(place) else { return };
        let queue = std::mem::take(&mut topic.unassigned);
        self.unassigned_topics.retain(|id| id.0 as usize != place);
        self.unassigned_records = self.unassigned_records.saturating_sub(queue.len() as u64);
        let count = topic.partition_count;
        let mut by_partition: BTreeMap<u32, VecDeque<UnassignedRecord>> = BTreeMap::new();
        for queued in queue {
            let chosen = match queued.partition {
                Some(partition) => u32::try_from(partition).ok().filter(|index| *index < count).ok_or(partition),
                None => Ok(queued.record.with(|record| match record.key {
                    Some(key) => partition_for_key(key, count),
                    None => {
                        // A partition gets `batch.size` bytes, then another one is chosen (KIP-794).
                        let bytes = queued.bytes_among_others();
                        if topic.sticky_bytes > 0 && topic.sticky_bytes + bytes > self.batch_size {
                            topic.switch_sticky_partition(&mut self.rng);
                        }
                        topic.sticky_bytes += bytes;
                        topic.sticky
                    }
                })),
            };
            match chosen {
                Ok(index) => by_partition.entry(index).or_default().push_back(queued),
                Err(partition) => failed.push((queued, AssignmentFailure::NoPartition(partition))),
            }
        }
        for (index, mut records) in by_partition {
            while !records.is_empty() {
                self.assign_batch(place, index, &mut records, failed);
            }
        }
    }

    /// Moves the first of these records to a new batch of a partition: as many as fit, one at least. The batch does not
    /// linger, because its records have waited.
    fn assign_batch(
        &mut self,
        place: usize,
        index: u32,
        records: &mut VecDeque<UnassignedRecord>,
        failed: &mut Vec<(UnassignedRecord, AssignmentFailure)>,
    ) {
        let (mut count, mut bytes, mut total) = (0, 0, HEADER_BYTES);
        for record in &*records {
            total += record.bytes_among_others();
            if count > 0 && total > self.batch_size {
                break;
            }
            bytes = if count == 0 { record.alone } else { total };
            count += 1;
        }
        let Some(slot) = self.topics.get_mut(place).and_then(|topic| topic.partitions.get_mut(index as usize)) else {
            return records.clear();
        };
        slot.seal();
        let id = slot.id;
        let mut builder = BatchBuilder::new(Vec::with_capacity(bytes));
        let (mut number, mut assigned) = (None, Vec::with_capacity(count));
        for queued in records.drain(..count) {
            if let Err(cause) = queued.record.with(|record| builder.append(record)) {
                failed.push((queued, AssignmentFailure::Encode(cause)));
                continue;
            }
            self.buffer_pool.release(queued.charge);
            let number = *number.get_or_insert(queued.number);
            queued.promise.assign(index as i32, id, number);
            assigned.push((builder.count().saturating_sub(1), queued.promise));
            if queued.number == number {
                self.incomplete.assign(number, BatchOwner::Partition(id));
            } else {
                // The batch stands for the record from now on.
                self.complete(queued.number, 0, true);
            }
        }
        let (Some(number), Some(topic)) = (number, self.topics.get_mut(place)) else { return };
        let Some(slot) = topic.partitions.get_mut(index as usize) else { return };
        self.buffer_pool.adjust(0, builder.capacity());
        let promise = BatchPromise::new(Arc::clone(&topic.name), index as i32, id);
        let promise = Arc::new(promise.in_transaction(self.fate.clone()));
        promise.set_assigned(assigned);
        let batch = UnsentBatch { number, promise, builder };
        slot.open = Some(OpenBatch { batch, linger_deadline: 0, linger_ended: true });
        self.mark_ready(id);
    }
}
