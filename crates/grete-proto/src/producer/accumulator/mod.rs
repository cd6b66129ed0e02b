//! Record accumulator: keeps records until they are sent, already encoded, in one open batch per partition.
//!
//! ```text
//! append --> open batch --full--> sealed batches --take_batch--> sender
//!    |  ^           |
//!    |  +-- lingering: in the order of creation   +-- complete, release_batch: incomplete, buffer_pool
//!    +--due, flushed, awaited, no memory: ready--^
//! ```
//!
//! Not obvious:
//! - A record that fits its open batch touches only that batch and three counters. All other cases are in
//!   `append_slow`.
//! - The sender is notified of a partition once (`announced`), and comes back as long as there is a batch to take.

mod buffer_pool;
mod drain;
mod incomplete_batches;
mod owned_record;
mod partition_queue;
mod topic;
mod unassigned;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grete_wire::error_code::ErrorCode;
use grete_wire::records::{BatchBuilder, HEADER_BYTES, ProducerRecord};

pub(in crate::producer) use drain::MetadataUpdate;
pub(in crate::producer) use incomplete_batches::BatchOwner;
pub(in crate::producer) use partition_queue::UnsentBatch;
pub(in crate::producer) use unassigned::{AssignmentFailure, UnassignedRecord};

use super::batch_promise::{BatchPromise, TransactionFate};
use super::error::{AppendError, FatalError, TopicError};
use super::transaction::{TransactionError, TransactionGate};
use crate::edit_distance::{edit_distance, is_likely_typo};
use crate::ids::{PartitionId, TopicId};
use crate::murmur2::partition_for_key;
use crate::producer::config::ProduceConfig;
use crate::rng::Rng;
use crate::time::Nanos;
use buffer_pool::BatchBufferPool;
use incomplete_batches::IncompleteBatches;
use partition_queue::{OpenBatch, PartitionQueue};
use topic::{NEVER, Topic};

/// Futexes that threads sleep on until memory is free, a flush completes or metadata arrives. Each one is incremented
/// when its condition holds. The actions of the same names ask the caller to wake the sleepers.
#[derive(Debug, Default)]
pub struct WaiterFutexes {
    /// Buffer memory is free again.
    pub memory: AtomicU32,
    /// A flush completed.
    pub flush: AtomicU32,
    /// A topic's partitions or its error are known.
    pub metadata: AtomicU32,
}

/// Token for all records that were appended before the flush; see [`Accumulator::flush`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlushToken(u64);

/// Next step of the caller after an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendAction {
    /// No action is needed.
    Nothing,
    /// Wake the sender: its next step is later than the linger deadline of the new batch.
    Rearm,
    /// A batch is ready: step the sender with `Drain`, on this or another thread.
    Drain,
}

/// Result of an append.
#[derive(Debug)]
pub struct RecordAppendResult<'a> {
    /// Promise of the record's batch; clone it to wait for the result.
    pub promise: &'a Arc<BatchPromise>,
    /// Index of the record in the batch.
    pub index: u32,
    /// Partition of the record.
    pub partition: i32,
    /// Next step of the caller.
    pub action: AppendAction,
}

/// Accumulator shared by callers and the sender. Lock order: loop, accumulator, promise.
pub type SharedAccumulator = Arc<Mutex<Accumulator>>;

pub(in crate::producer) fn lock(accumulator: &SharedAccumulator) -> MutexGuard<'_, Accumulator> {
    // A panic while the lock was held happened between two fields that do not depend on each other.
    accumulator.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Incomplete records of a producer; see the module documentation.
#[derive(Debug)]
pub struct Accumulator {
    linger: Nanos,
    delivery_timeout: Nanos,
    max_block: Nanos,
    /// Time until which any record may wait for metadata; `Nanos::MAX`: no limit.
    metadata_deadline: Nanos,
    metadata_propagation: Option<Nanos>,
    batch_size: usize,
    /// Maximum bytes of a batch with a single record.
    max_batch_bytes: usize,
    topics: Vec<Topic>,
    by_name: HashMap<Arc<str>, TopicId>,
    /// Topic index and partition number, by partition id.
    partition_indexes: Vec<(u32, u32)>,
    buffer_pool: BatchBufferPool,
    incomplete: IncompleteBatches,
    /// Batches opened to linger, in that order. Some of them may be sealed by now.
    lingering: VecDeque<(Nanos, PartitionId, u64)>,
    /// Ready partitions that the sender has not fetched yet.
    ready: Vec<PartitionId>,
    /// Time of the sender's next step; `None`: no timer is running.
    next_poll: Option<Nanos>,
    pending: u64,
    /// Topics with queued records, and the number of these records.
    unassigned_topics: Vec<TopicId>,
    unassigned_records: u64,
    /// The producer is closed or has failed.
    closed: bool,
    /// No record is accepted now: `closed`, or no transaction is open.
    refuses: bool,
    /// Whether the transaction accepts records; `None`: the producer has no transactions.
    gate: Option<TransactionGate>,
    /// The transaction has stopped accepting records since the last `take_wake_set`.
    gate_closed: bool,
    /// Fate of the open transaction.
    fate: Option<Arc<TransactionFate>>,
    fatal: Option<FatalError>,
    tracked_topics_changed: bool,
    /// An append failed because of the metadata, which may be stale.
    metadata_suspect: bool,
    /// Smallest allocation that failed; `None`: no caller waits for memory.
    awaited_bytes: Option<usize>,
    has_metadata_waiter: bool,
    metadata_arrived: bool,
    awaited_flush: Option<u64>,
    /// Measures records that would be the first of their batch.
    size_probe: BatchBuilder,
    rng: Rng,
    futexes: Arc<WaiterFutexes>,
}

impl Accumulator {
    /// Creates an empty accumulator.
    pub fn new(config: &ProduceConfig, rng: Rng) -> Self {
        let longest = config.max_request_size.min(config.buffer_memory);
        let batch_size = config.batch_size.min(longest);
        Self {
            linger: config.linger,
            delivery_timeout: config.delivery_timeout,
            max_block: config.max_block,
            metadata_deadline: Nanos::MAX,
            metadata_propagation: config.metadata_propagation,
            batch_size,
            max_batch_bytes: longest,
            topics: Vec::new(),
            by_name: HashMap::new(),
            partition_indexes: Vec::new(),
            buffer_pool: BatchBufferPool::new(config.buffer_memory, batch_size),
            incomplete: IncompleteBatches::default(),
            lingering: VecDeque::new(),
            ready: Vec::new(),
            next_poll: None,
            pending: 0,
            unassigned_topics: Vec::new(),
            unassigned_records: 0,
            closed: false,
            refuses: config.transactional_id.is_some(),
            gate: config.transactional_id.is_some().then_some(TransactionGate::Closed),
            gate_closed: false,
            fate: None,
            fatal: None,
            tracked_topics_changed: false,
            metadata_suspect: false,
            awaited_bytes: None,
            has_metadata_waiter: false,
            metadata_arrived: false,
            awaited_flush: None,
            size_probe: BatchBuilder::new(Vec::new()),
            rng,
            futexes: Arc::default(),
        }
    }

    /// Returns the futexes for waiters.
    #[must_use]
    pub fn futexes(&self) -> &Arc<WaiterFutexes> {
        &self.futexes
    }

    /// Returns the id of a topic and tracks its metadata. Step the sender if [`Accumulator::partitions`] returns
    /// `None`.
    pub fn topic(&mut self, name: &str) -> TopicId {
        let id = match self.by_name.get(name) {
            Some(&id) => id,
            None => {
                let id = TopicId(u32::try_from(self.topics.len()).unwrap_or(u32::MAX));
                let name: Arc<str> = name.into();
                self.topics.push(Topic::new(Arc::clone(&name)));
                self.by_name.insert(name, id);
                id
            }
        };
        self.track_topic(id);
        id
    }

    /// Returns the topic's name.
    pub fn topic_name(&self, topic: TopicId) -> Option<&Arc<str>> {
        self.topics.get(topic.0 as usize).map(|topic| &topic.name)
    }

    /// Returns the number of partitions; `None`: not known yet.
    #[must_use]
    pub fn partitions(&self, topic: TopicId) -> Option<Result<u32, TopicError>> {
        let topic = self.topics.get(topic.0 as usize)?;
        match topic.error {
            Some(code) => Some(Err(TopicError { topic: Arc::clone(&topic.name), code })),
            None => (topic.partition_count > 0).then_some(Ok(topic.partition_count)),
        }
    }

    /// Returns the topic's last retriable metadata error, as the cause when a wait times out.
    pub fn topic_error(&self, topic: TopicId) -> Option<ErrorCode> {
        self.topics.get(topic.0 as usize)?.transient_error
    }

    /// Returns whether a call that began at `since` has waited long enough for a topic that brokers report as unknown.
    /// The newest response must report that, and must be at least `topic.metadata.propagation.max.ms` later than
    /// `since`. Brokers learn of a new topic one after the other, so a single response proves nothing.
    pub fn is_topic_missing(&self, topic: TopicId, since: Nanos) -> bool {
        let missing_at = self.topics.get(topic.0 as usize).and_then(|topic| topic.missing_at);
        let enough = self.metadata_propagation.map(|propagation| since.saturating_add(propagation));
        missing_at.zip(enough).is_some_and(|(missing_at, enough)| missing_at >= enough)
    }

    /// Makes every call accept the first response that reports a topic as unknown, from now on. Records wait for
    /// metadata until `deadline` at most; the earliest deadline counts.
    pub fn expedite(&mut self, deadline: Nanos) {
        self.metadata_deadline = self.metadata_deadline.min(deadline);
        self.metadata_propagation = self.metadata_propagation.map(|_| 0);
    }

    /// Returns a known topic whose name is similar to `topic`.
    pub fn similar_topic(&self, topic: &str) -> Option<&Arc<str>> {
        let others = self.topics.iter().filter(|other| other.partition_count > 0 && *other.name != *topic);
        let others = others.map(|other| (edit_distance(topic, &other.name), &other.name));
        others.filter(|(distance, name)| is_likely_typo(*distance, name)).min().map(|(_, name)| name)
    }

    /// Appends a record. `partition`: `None` selects it by key; records without a key go to the sticky partition.
    ///
    /// # Errors See [`AppendError`]. After [`AppendError::NoMetadata`], [`AppendError::BufferFull`] and
    /// [`AppendError::Topic`], step the sender with `Drain`.
    #[inline]
    pub fn append(
        &mut self,
        now: Nanos,
        topic: TopicId,
        partition: Option<i32>,
        record: &ProducerRecord<'_>,
    ) -> Result<RecordAppendResult<'_>, AppendError> {
        let place = topic.0 as usize;
        let Some(found) = self.topics.get_mut(place).filter(|topic| topic.partition_count > 0 && !self.refuses) else {
            return Err(self.append_error(topic));
        };
        let count = found.partition_count;
        let (index, sticky) = match (partition, record.key) {
            (None, None) => (found.sticky, true),
            (None, Some(key)) => (partition_for_key(key, count), false),
            (Some(partition), _) => match u32::try_from(partition) {
                Ok(index) if index < count => (index, false),
                _ => return Err(AppendError::UnknownPartition { partition, count }),
            },
        };
        let open = found.partitions.get_mut(index as usize).and_then(|slot| slot.open.as_mut());
        let (index, bytes, wake) = match open.and_then(|open| open.append(record, self.batch_size)) {
            Some(bytes) => (index, bytes, AppendAction::Nothing),
            None => self.append_slow(now, place, index, sticky, record)?,
        };
        let Some(topic) = self.topics.get_mut(place) else { return Err(AppendError::NoMetadata) };
        topic.last_used = now;
        topic.sticky_bytes += if sticky { bytes } else { 0 };
        topic.pending += 1;
        self.pending += 1;
        let open = topic.partitions.get(index as usize).and_then(|slot| slot.open.as_ref());
        let Some(OpenBatch { batch, .. }) = open else { return Err(AppendError::NoMetadata) };
        let at = batch.builder.count().saturating_sub(1);
        Ok(RecordAppendResult { promise: &batch.promise, index: at, partition: index as i32, action: wake })
    }

    /// Ends the linger of a batch that a caller waits for. Returns true if the sender must be stepped with `Drain`.
    pub fn end_linger(&mut self, receipt: &BatchPromise) -> bool {
        // A record that waits for metadata does not linger afterwards.
        let Some(id) = receipt.partition_id() else { return false };
        let Some(slot) = self.partition_queue(id) else { return false };
        let has = |batch: &UnsentBatch| receipt.is_in(batch.number, &batch.promise);
        if slot.sealed.iter().any(has) {
            return true;
        }
        let Some(open) = slot.open.as_mut().filter(|open| has(&open.batch)) else { return false };
        open.linger_ended = true;
        self.mark_ready(id);
        true
    }

    /// Ends the linger of all batches. Step the sender with `Drain` afterwards.
    pub fn flush(&mut self) -> FlushToken {
        self.end_all_lingers();
        FlushToken(self.incomplete.next_number())
    }

    /// Returns whether all records that were appended before the token are complete.
    pub fn is_flushed(&self, mark: FlushToken) -> bool {
        self.incomplete.is_complete_before(mark.0)
    }

    /// Returns the value to sleep on with [`WaiterFutexes::memory`] after [`AppendError::BufferFull`]. The failed
    /// append has registered the waiter. If memory was freed since then, the returned value no longer equals the futex.
    pub fn await_memory(&mut self) -> u32 {
        let word = self.futexes.memory.load(Ordering::Acquire);
        if self.awaited_bytes.is_some() { word } else { word.wrapping_sub(1) }
    }

    /// Registers a waiter on [`WaiterFutexes::flush`]. Returns the value to sleep on; `None`: the flush is complete.
    pub fn await_flush(&mut self, mark: FlushToken) -> Option<u32> {
        if self.is_flushed(mark) {
            return None;
        }
        self.awaited_flush = Some(self.awaited_flush.map_or(mark.0, |wanted| wanted.min(mark.0)));
        Some(self.futexes.flush.load(Ordering::Acquire))
    }

    /// Registers a waiter on [`WaiterFutexes::metadata`] and returns the value to sleep on. Call it while
    /// [`Accumulator::partitions`] returns `None`, under the same lock.
    pub fn await_metadata(&mut self) -> u32 {
        self.has_metadata_waiter = true;
        self.futexes.metadata.load(Ordering::Acquire)
    }

    /// Returns the maximum bytes of a batch with a single record.
    pub fn max_batch_bytes(&self) -> usize {
        self.max_batch_bytes
    }

    /// Returns the bytes of a batch with this record alone. A caller that appends many records checks their sizes
    /// before the first append.
    ///
    /// # Errors `TooLarge`, if the record cannot be sent.
    pub fn check_record_size(&self, record: &ProducerRecord<'_>) -> Result<usize, AppendError> {
        let bytes = HEADER_BYTES + self.size_probe.record_bytes(record);
        match bytes > self.max_batch_bytes {
            true => Err(AppendError::TooLarge { bytes, limit: self.max_batch_bytes }),
            false => Ok(bytes),
        }
    }

    /// Returns the bytes of `buffer.memory` in use.
    pub fn used_bytes(&self) -> usize {
        self.buffer_pool.used()
    }

    /// Returns the number of incomplete records.
    pub fn pending_records(&self) -> u64 {
        self.pending
    }

    /// Returns the number of incomplete records of each topic that has some.
    pub fn pending_by_topic(&self) -> Vec<(Arc<str>, u64)> {
        let pending = self.topics.iter().filter(|topic| topic.pending > 0);
        pending.map(|topic| (Arc::clone(&topic.name), topic.pending)).collect()
    }

    /// Appends a record that does not fit the current capacity of its open batch.
    #[cold]
    fn append_slow(
        &mut self,
        now: Nanos,
        place: usize,
        index: u32,
        sticky: bool,
        record: &ProducerRecord<'_>,
    ) -> Result<(u32, usize, AppendAction), AppendError> {
        let (index, bytes, wake) = self.fit_or_open_batch(now, place, index, sticky, record)?;
        let slot = self.topics.get_mut(place).and_then(|topic| topic.partitions.get_mut(index as usize));
        let Some(OpenBatch { batch, .. }) = slot.and_then(|slot| slot.open.as_mut()) else {
            return Err(AppendError::NoMetadata);
        };
        // The size is checked, so only a length beyond the protocol's limit can fail, and that length exceeds every
        // limit.
        batch.builder.append(record).map_err(|_| AppendError::TooLarge { bytes, limit: self.max_batch_bytes })?;
        Ok((index, bytes, wake))
    }

    /// Grows the partition's open batch or opens a new one, so that the record fits. A record without a key may move to
    /// another partition. Returns the partition, the bytes of the record there, and the caller's next step.
    fn fit_or_open_batch(
        &mut self,
        now: Nanos,
        place: usize,
        mut index: u32,
        sticky: bool,
        record: &ProducerRecord<'_>,
    ) -> Result<(u32, usize, AppendAction), AppendError> {
        let alone = self.check_record_size(record)?;
        let mut wake = AppendAction::Nothing;
        loop {
            let Some(topic) = self.topics.get_mut(place) else { return Err(AppendError::NoMetadata) };
            let Some(slot) = topic.partitions.get_mut(index as usize) else { return Err(AppendError::NoMetadata) };
            if let Some(OpenBatch { batch: UnsentBatch { builder, .. }, .. }) = &mut slot.open {
                let bytes = builder.record_bytes(record);
                let (len, capacity) = (builder.len() + bytes, builder.capacity());
                if len <= capacity.min(self.batch_size) {
                    return Ok((index, bytes, wake));
                }
                if len <= self.batch_size {
                    let grown = capacity.saturating_mul(2).min(self.batch_size).max(len);
                    if !self.buffer_pool.reserve(grown - capacity) {
                        return Err(self.on_memory_full(grown - capacity));
                    }
                    builder.reserve(grown - builder.len());
                    self.buffer_pool.adjust(grown, builder.capacity());
                    return Ok((index, bytes, wake));
                }
                let id = slot.id;
                slot.seal();
                self.mark_ready(id);
                wake = AppendAction::Drain;
            }
            // The next batch would exceed the sticky partition's share: move on to the next partition (KIP-794).
            let Some(topic) = self.topics.get_mut(place) else { return Err(AppendError::NoMetadata) };
            if sticky && topic.sticky_bytes > 0 && topic.sticky_bytes + alone > self.batch_size {
                topic.switch_sticky_partition(&mut self.rng);
                index = topic.sticky;
                continue;
            }
            let opened = self.open_batch(now, place, index, alone)?;
            return Ok((index, alone - HEADER_BYTES, if wake == AppendAction::Drain { wake } else { opened }));
        }
    }

    fn open_batch(&mut self, now: Nanos, place: usize, index: u32, alone: usize) -> Result<AppendAction, AppendError> {
        let Some(topic) = self.topics.get_mut(place) else { return Err(AppendError::NoMetadata) };
        let Some(slot) = topic.partitions.get_mut(index as usize) else { return Err(AppendError::NoMetadata) };
        let id = slot.id;
        let bytes = slot.initial_bytes.min(self.batch_size).max(alone);
        let Some(buffer) = self.buffer_pool.allocate(bytes) else { return Err(self.on_memory_full(bytes)) };
        let number = self.incomplete.open(BatchOwner::Partition(id), now.saturating_add(self.delivery_timeout));
        let promise = BatchPromise::new(Arc::clone(&topic.name), index as i32, id);
        let receipt = Arc::new(promise.in_transaction(self.fate.clone()));
        let due = now.saturating_add(self.linger);
        let batch = UnsentBatch { number, promise: receipt, builder: BatchBuilder::new(buffer) };
        slot.open = Some(OpenBatch { batch, linger_deadline: due, linger_ended: false });
        topic.incomplete += 1;
        let at_once = self.linger == 0 && !slot.busy;
        self.track_linger(due, id, number);
        if at_once {
            self.mark_ready(id);
            return Ok(AppendAction::Drain);
        }
        if self.linger > 0 && self.next_poll.is_none_or(|armed| due < armed) {
            self.next_poll = Some(due);
            return Ok(AppendAction::Rearm);
        }
        Ok(AppendAction::Nothing)
    }

    /// Queues a ready partition for the sender, once.
    fn mark_ready(&mut self, id: PartitionId) {
        let Some(slot) = self.partition_queue(id).filter(|slot| !slot.announced) else { return };
        slot.announced = true;
        self.ready.push(id);
    }

    fn partition_queue(&mut self, id: PartitionId) -> Option<&mut PartitionQueue> {
        let &(topic, partition) = self.partition_indexes.get(id.0 as usize)?;
        self.topics.get_mut(topic as usize)?.partitions.get_mut(partition as usize)
    }

    fn track_topic(&mut self, id: TopicId) {
        if let Some(topic) = self.topics.get_mut(id.0 as usize).filter(|topic| !topic.tracked) {
            topic.tracked = true;
            topic.last_used = NEVER;
            self.tracked_topics_changed = true;
        }
    }

    #[cold]
    fn append_error(&mut self, topic: TopicId) -> AppendError {
        if let Some(fatal) = &self.fatal {
            return AppendError::Fatal(fatal.clone());
        }
        if self.closed {
            return AppendError::Closed;
        }
        match &self.gate {
            None | Some(TransactionGate::Open) => {}
            Some(TransactionGate::Closed) => return AppendError::Transaction(TransactionError::NotOpen),
            Some(TransactionGate::Ending) => return AppendError::Transaction(TransactionError::Ending),
            Some(TransactionGate::Failed(cause)) => {
                return AppendError::Transaction(TransactionError::Failed(Arc::clone(cause)));
            }
        }
        match self.partitions(topic) {
            Some(Err(error)) => {
                // A topic that was not authorized before may be authorized by now.
                self.track_topic(topic);
                self.metadata_suspect = true;
                AppendError::Topic(error)
            }
            _ => {
                // The topic may have been untracked because it was idle.
                self.track_topic(topic);
                AppendError::NoMetadata
            }
        }
    }

    /// Remembers the failed allocation and ends all lingers: no batch lingers while a caller waits for memory.
    fn on_memory_full(&mut self, bytes: usize) -> AppendError {
        self.awaited_bytes = Some(self.awaited_bytes.map_or(bytes, |wanted| wanted.min(bytes)));
        self.end_all_lingers();
        AppendError::BufferFull
    }
}
