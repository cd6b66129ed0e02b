//! Sender's side of the accumulator.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use grete_wire::error_code::ErrorCode;

use super::Accumulator;
use super::incomplete_batches::BatchOwner;
use super::partition_queue::{PartitionQueue, UnsentBatch};
use super::topic::NEVER;
use super::unassigned::{AssignmentFailure, UnassignedRecord};
use crate::cluster::PartitionMetadata;
use crate::cluster::view::ClusterView;
use crate::ids::{PartitionId, TopicId, TopicPartition};
use crate::producer::error::FatalError;
use crate::producer::transaction::{TransactionCause, TransactionGate};
use crate::time::{Nanos, SECOND};

/// Idle time after which a topic's metadata is not requested any more (Java's `metadata.max.idle.ms`).
const METADATA_MAX_IDLE: Nanos = 300 * SECOND;

/// Waiters to wake.
#[derive(Debug, Default)]
pub(in crate::producer) struct WakeSet {
    pub memory: bool,
    pub flush: bool,
    pub metadata: bool,
}

/// Consequences of new metadata for the sender.
#[derive(Debug, Default)]
pub(in crate::producer) struct MetadataUpdate {
    /// New partitions, in the order of their ids.
    pub arrived: Vec<TopicPartition>,
    /// Partitions that can no longer be written to.
    pub refused: Vec<(PartitionId, ErrorCode)>,
    /// Records that waited for the metadata and that no partition can take.
    pub failed: Vec<(UnassignedRecord, AssignmentFailure)>,
}

impl Accumulator {
    /// Appends the partitions that became ready since the last call to `ready`.
    pub(in crate::producer) fn take_ready(&mut self, now: Nanos, ready: &mut Vec<PartitionId>) {
        while let Some(&(due, id, number)) = self.lingering.front() {
            if self.is_open(id, number) {
                if self.linger == 0 || now < due {
                    break;
                }
                self.mark_ready(id);
            }
            self.lingering.pop_front();
        }
        ready.append(&mut self.ready);
    }

    /// Returns whether a partition is ready that `take_ready` has not returned yet.
    pub(in crate::producer) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the time at which the linger of the next batch ends.
    pub(in crate::producer) fn next_linger(&mut self) -> Option<Nanos> {
        while let Some(&(due, id, number)) = self.lingering.front() {
            if self.is_open(id, number) {
                return (self.linger > 0).then_some(due);
            }
            self.lingering.pop_front();
        }
        None
    }

    /// Sets the time of the sender's next step. A caller that opens a batch with an earlier linger deadline must wake
    /// the sender.
    pub(in crate::producer) fn set_next_poll(&mut self, deadline: Option<Nanos>) {
        self.next_poll = deadline;
    }

    /// Returns the partition's next batch if one is ready, and whether a further one is ready.
    pub(in crate::producer) fn take_batch(&mut self, id: PartitionId, now: Nanos) -> (Option<UnsentBatch>, bool) {
        let linger = self.linger;
        self.partition_queue(id).map_or((None, false), |slot| (slot.take_ready(now, linger), slot.announced))
    }

    /// Returns the uncompressed bytes of the batch that `take_batch` would return.
    pub(in crate::producer) fn next_bytes(&mut self, id: PartitionId) -> usize {
        let Some(slot) = self.partition_queue(id) else { return 0 };
        let next = slot.sealed.front().or(slot.open.as_ref().map(|open| &open.batch));
        next.map_or(0, |batch| batch.builder.len())
    }

    /// Marks a partition that has no batch in flight any more.
    pub(in crate::producer) fn mark_partition_idle(&mut self, id: PartitionId) {
        let linger = self.linger;
        let Some(slot) = self.partition_queue(id) else { return };
        slot.busy = false;
        if linger == 0 && slot.open.is_some() {
            self.mark_ready(id);
        }
    }

    /// Forgets which partitions were announced as ready. Requires that no batch is left, and that none can be opened.
    pub(in crate::producer) fn forget_ready(&mut self) {
        self.ready.clear();
        for slot in self.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
            slot.announced = false;
        }
    }

    /// Returns the oldest batch if it has expired.
    pub(in crate::producer) fn expired(&self, now: Nanos) -> Option<(u64, BatchOwner)> {
        self.incomplete.expired(now)
    }

    /// Returns the oldest incomplete batch.
    pub(in crate::producer) fn oldest(&self) -> Option<(u64, BatchOwner)> {
        self.incomplete.oldest()
    }

    /// Returns the time at which the oldest batch expires.
    pub(in crate::producer) fn next_expiry(&self) -> Option<Nanos> {
        self.incomplete.deadline()
    }

    /// Removes a certain batch that was not sent.
    pub(in crate::producer) fn remove(&mut self, number: u64, id: PartitionId) -> Option<UnsentBatch> {
        self.partition_queue(id)?.remove(number)
    }

    /// Removes any batch that was not sent.
    pub(in crate::producer) fn remove_any(&mut self, id: PartitionId) -> Option<UnsentBatch> {
        let slot = self.partition_queue(id)?;
        slot.sealed.pop_front().or_else(|| slot.open.take().map(|open| open.batch))
    }

    /// Counts `records` records of a batch as complete; `last`: no incomplete record of the batch is left.
    pub(in crate::producer) fn complete(&mut self, number: u64, records: u32, last: bool) {
        self.pending = self.pending.saturating_sub(records.into());
        let owner = self.incomplete.owner(number);
        let completed = last && self.incomplete.complete(number);
        let topic = match owner {
            Some(BatchOwner::Partition(id)) => self.partition_indexes.get(id.0 as usize).map(|&(topic, _)| topic),
            Some(BatchOwner::Topic(id)) => Some(id.0),
            None => None,
        };
        if let Some(topic) = topic.and_then(|topic| self.topics.get_mut(topic as usize)) {
            topic.pending = topic.pending.saturating_sub(records.into());
            topic.incomplete = topic.incomplete.saturating_sub(completed.into());
        }
    }

    /// Releases the memory of a batch, and recycles its buffer if there is one.
    pub(in crate::producer) fn release_batch(&mut self, charge: usize, buffer: Option<Vec<u8>>) {
        self.buffer_pool.release(charge);
        if let Some(buffer) = buffer {
            self.buffer_pool.recycle(buffer);
        }
    }

    /// Corrects the reservation of a batch that was rebuilt in buffers of another size.
    pub(in crate::producer) fn recharge(&mut self, before: usize, after: usize) {
        self.buffer_pool.adjust(before, after);
    }

    /// Returns whether all batches are complete.
    pub(in crate::producer) fn is_complete(&self) -> bool {
        self.incomplete.is_empty()
    }

    /// Returns whether the set of tracked topics has changed since the last call.
    pub(in crate::producer) fn take_tracked_topics_changed(&mut self) -> bool {
        std::mem::take(&mut self.tracked_topics_changed)
    }

    /// Returns whether metadata that made an append fail must be requested again.
    pub(in crate::producer) fn take_metadata_suspect(&mut self) -> bool {
        std::mem::take(&mut self.metadata_suspect)
    }

    /// Returns the topics that need metadata.
    pub fn tracked_topics(&self) -> Vec<Arc<str>> {
        self.topics.iter().filter(|topic| topic.tracked).map(|topic| Arc::clone(&topic.name)).collect()
    }

    /// Untracks topics that are idle. Returns the time of the next check.
    pub(in crate::producer) fn untrack_idle_topics(&mut self, now: Nanos) -> Option<Nanos> {
        let mut look = None;
        for topic in self.topics.iter_mut().filter(|topic| topic.tracked) {
            if topic.last_used == NEVER {
                topic.last_used = now;
            }
            let end = topic.last_used.saturating_add(METADATA_MAX_IDLE);
            if now < end || topic.incomplete > 0 {
                let again = end.max(now.saturating_add(METADATA_MAX_IDLE / 5));
                look = Some(look.map_or(again, |look: Nanos| look.min(again)));
                continue;
            }
            topic.tracked = false;
            topic.partition_count = 0;
            (topic.error, topic.transient_error, topic.missing_at) = (None, None, None);
            self.tracked_topics_changed = true;
        }
        look
    }

    /// Applies partitions and topic errors, and moves records that waited for them to their partitions.
    pub(in crate::producer) fn update_metadata(&mut self, view: &impl ClusterView) -> MetadataUpdate {
        let MetadataUpdate { mut arrived, mut refused, mut failed } = MetadataUpdate::default();
        let Self { topics, partition_indexes: places, rng, .. } = self;
        let (mut known, mut assignable, mut denied) = (false, Vec::new(), Vec::new());
        for (index, topic) in (0..).zip(topics.iter_mut()).filter(|(_, topic)| topic.tracked) {
            let missing_at = view.missing_at(&topic.name);
            // Each further response that reports the topic as unknown is news for its waiters.
            known |= missing_at.is_some() && missing_at != topic.missing_at;
            topic.missing_at = missing_at;
            match view.partitions(&topic.name) {
                None => {}
                Some(Err(code)) if code.is_retriable() => topic.transient_error = Some(code),
                Some(Err(code)) => {
                    known |= topic.error != Some(code);
                    topic.error = Some(code);
                    topic.partition_count = 0;
                    refused.extend(topic.partitions.iter().map(|slot| (slot.id, code)));
                    denied.extend((!topic.unassigned.is_empty()).then_some((TopicId(index), code)));
                }
                Some(Ok(partitions)) => {
                    known |= topic.partition_count == 0;
                    (topic.error, topic.transient_error) = (None, None);
                    for partition in (0..).zip(partitions).skip(topic.partitions.len()).map(|(partition, _)| partition)
                    {
                        let id = PartitionId(u32::try_from(places.len()).unwrap_or(u32::MAX));
                        places.push((index, u32::try_from(partition).unwrap_or(0)));
                        topic.partitions.push(PartitionQueue::new(id));
                        arrived.push(TopicPartition::new(Arc::clone(&topic.name), partition));
                    }
                    topic.set_leaders(partitions.iter().map(|meta: &PartitionMetadata| meta.leader >= 0), rng);
                    assignable.extend((topic.partition_count > 0 && !topic.unassigned.is_empty()).then_some(index));
                }
            }
        }
        self.metadata_arrived |= known;
        for index in assignable {
            self.assign_records(index as usize, &mut failed);
        }
        for (id, code) in denied {
            while let Some(record) = self.take_unassigned(id, None) {
                failed.push((record, AssignmentFailure::Refused(code)));
            }
        }
        MetadataUpdate { arrived, refused, failed }
    }

    /// Sets whether the transaction accepts records. All calls of `append` before and after see the same.
    pub(in crate::producer) fn set_gate(&mut self, gate: TransactionGate) {
        if gate == TransactionGate::Open {
            self.fate = Some(Arc::default());
        }
        self.refuses = self.closed || gate != TransactionGate::Open;
        self.gate = Some(gate);
        // Callers that wait for memory or metadata learn of the end of their transaction.
        self.gate_closed |= self.refuses;
    }

    /// Marks the records of the open transaction as aborted, also those that were written.
    pub(in crate::producer) fn abort_transaction(&mut self, cause: &Arc<TransactionCause>) {
        if let Some(fate) = &self.fate {
            fate.abort(Arc::clone(cause));
        }
    }

    /// Rejects further records.
    pub(in crate::producer) fn close(&mut self, fatal: Option<FatalError>) {
        self.closed = true;
        self.refuses = true;
        self.fatal = self.fatal.take().or(fatal);
        self.end_all_lingers();
    }

    /// Increments the futexes whose condition holds, and returns which ones to wake.
    pub(in crate::producer) fn take_wake_set(&mut self) -> WakeSet {
        let topic_known = std::mem::take(&mut self.metadata_arrived);
        let refuses = std::mem::take(&mut self.gate_closed) || self.closed;
        let flushed = self.awaited_flush.is_some_and(|mark| self.incomplete.is_complete_before(mark));
        let signals = WakeSet {
            memory: self.awaited_bytes.is_some_and(|bytes| self.buffer_pool.has_free_memory(bytes) || refuses),
            flush: flushed,
            metadata: self.has_metadata_waiter && (topic_known || refuses),
        };
        if signals.memory {
            self.awaited_bytes = None;
            self.futexes.memory.fetch_add(1, Ordering::AcqRel);
        }
        if signals.flush {
            self.awaited_flush = None;
            self.futexes.flush.fetch_add(1, Ordering::AcqRel);
        }
        if signals.metadata {
            self.has_metadata_waiter = false;
            self.futexes.metadata.fetch_add(1, Ordering::AcqRel);
        }
        signals
    }

    pub(super) fn end_all_lingers(&mut self) {
        let mut lingering = std::mem::take(&mut self.lingering);
        for (_, id, number) in lingering.drain(..) {
            let open =
                self.partition_queue(id).and_then(|slot| slot.open.as_mut()).filter(|open| open.batch.number == number);
            if let Some(open) = open {
                open.linger_ended = true;
                self.mark_ready(id);
            }
        }
        self.lingering = lingering;
    }

    /// Queues a batch that lingers. Batches that became full before their deadline are removed from time to time.
    pub(super) fn track_linger(&mut self, due: Nanos, id: PartitionId, number: u64) {
        if self.lingering.len() == self.lingering.capacity() {
            let mut lingering = std::mem::take(&mut self.lingering);
            lingering.retain(|&(_, id, number)| self.is_open(id, number));
            self.lingering = lingering;
        }
        self.lingering.push_back((due, id, number));
    }

    fn is_open(&mut self, id: PartitionId, number: u64) -> bool {
        self.partition_queue(id).and_then(|slot| slot.open.as_ref()).is_some_and(|open| open.batch.number == number)
    }
}
