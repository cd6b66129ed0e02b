//! Queue of one partition's unsent batches.

use std::collections::VecDeque;
use std::sync::Arc;

use grete_wire::records::{BatchBuilder, ProducerRecord};

use crate::ids::PartitionId;
use crate::producer::batch_promise::BatchPromise;
use crate::time::Nanos;

/// Initial buffer size of a partition's first batch, in bytes.
const INITIAL_BATCH_BYTES: usize = 1024;

/// A batch that still accepts records.
#[derive(Debug)]
pub(super) struct OpenBatch {
    pub batch: UnsentBatch,
    /// Time at which the linger ends.
    pub linger_deadline: Nanos,
    /// A caller waits for the batch: it does not linger any more.
    pub linger_ended: bool,
}

impl OpenBatch {
    /// Appends the record if it fits the current buffer. Returns the bytes added; `None`: it does not fit.
    #[inline]
    pub fn append(&mut self, record: &ProducerRecord<'_>, limit: usize) -> Option<usize> {
        self.batch.builder.try_append(record, limit)
    }
}

/// A batch that has not been sent yet.
#[derive(Debug)]
pub(in crate::producer) struct UnsentBatch {
    /// Number of the batch, in the order of creation over all partitions.
    pub number: u64,
    pub promise: Arc<BatchPromise>,
    pub builder: BatchBuilder,
}

impl UnsentBatch {
    /// Returns the bytes of `buffer.memory` that the batch takes.
    pub fn charge(&self) -> usize {
        self.builder.capacity()
    }
}

#[derive(Debug)]
pub(super) struct PartitionQueue {
    pub id: PartitionId,
    pub open: Option<OpenBatch>,
    pub sealed: VecDeque<UnsentBatch>,
    /// The sender was notified that a batch is ready, and has not taken the last ready batch yet.
    pub announced: bool,
    /// A batch of the partition is in flight.
    pub busy: bool,
    /// Initial buffer size of the next batch, in bytes.
    pub initial_bytes: usize,
}

impl PartitionQueue {
    pub fn new(id: PartitionId) -> Self {
        Self {
            id,
            open: None,
            sealed: VecDeque::new(),
            announced: false,
            busy: false,
            initial_bytes: INITIAL_BATCH_BYTES,
        }
    }

    /// Seals the open batch.
    pub fn seal(&mut self) {
        if let Some(open) = self.open.take() {
            self.record_batch_size(&open.batch);
            self.sealed.push_back(open.batch);
        }
    }

    /// Sets the initial buffer size for the next batch, which is expected to be about as large as this one.
    fn record_batch_size(&mut self, batch: &UnsentBatch) {
        self.initial_bytes = batch.builder.len().next_power_of_two().max(INITIAL_BATCH_BYTES);
    }

    /// Returns whether a batch can be taken. Without linger the deadline is ignored: the caller reads its clock after
    /// the sender read the clock of this step. A batch with a deadline in the future would be skipped, and the sender
    /// would never be notified of it again.
    fn is_ready(&self, now: Nanos, linger: Nanos) -> bool {
        let due = |due: Nanos| if linger == 0 { !self.busy } else { now >= due };
        !self.sealed.is_empty() || self.open.as_ref().is_some_and(|open| open.linger_ended || due(open.linger_deadline))
    }

    /// Takes the next batch to send, if one is ready.
    pub fn take_ready(&mut self, now: Nanos, linger: Nanos) -> Option<UnsentBatch> {
        let ready = self.is_ready(now, linger);
        let taken = match self.sealed.pop_front() {
            None if ready => self.open.take().map(|open| {
                self.record_batch_size(&open.batch);
                open.batch
            }),
            sealed => sealed,
        };
        self.busy |= taken.is_some();
        self.announced = self.is_ready(now, linger);
        taken
    }

    /// Removes a certain batch that was sent or expired.
    pub fn remove(&mut self, number: u64) -> Option<UnsentBatch> {
        if self.open.as_ref().is_some_and(|open| open.batch.number == number) {
            return self.open.take().map(|open| open.batch);
        }
        let index = self.sealed.iter().position(|batch| batch.number == number)?;
        self.sealed.remove(index)
    }
}
