//! Staged records of one job, or of a part of a job.

use std::sync::Arc;

use grete_wire::records::ProducerRecord;

use super::StagingBudget;
use crate::producer::accumulator::OwnedRecord;
use crate::producer::batch_promise::{BatchPromise, Outcome, RunResult};
use crate::producer::error::ProduceError;
use crate::producer::transaction::TransactionCause;
use crate::time::Nanos;

/// Bytes of memory that a staged record takes beside its contents.
const OVERHEAD: usize = std::mem::size_of::<StagedRecord>() + 32;

/// Copy of a record that a job has produced.
#[derive(Debug, Clone)]
pub struct StagedRecord {
    topic: Arc<str>,
    /// Partition that the caller has chosen; `None`: the key decides, when the record is sent.
    partition: Option<i32>,
    record: OwnedRecord,
    bytes: usize,
}

impl StagedRecord {
    /// Copies a record whose size was checked. `encoded`: bytes of a batch with this record alone.
    #[must_use]
    pub fn new(topic: &Arc<str>, partition: Option<i32>, record: &ProducerRecord<'_>, encoded: usize) -> Self {
        let bytes = encoded + OVERHEAD + OwnedRecord::headers_overhead(record);
        Self { topic: Arc::clone(topic), partition, record: OwnedRecord::new(record), bytes }
    }

    /// Returns the topic.
    pub fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// Returns the bytes of memory that the record takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(in crate::producer) fn partition(&self) -> Option<i32> {
        self.partition
    }

    pub(in crate::producer) fn with<R>(&self, then: impl FnOnce(&ProducerRecord<'_>) -> R) -> R {
        self.record.with(then)
    }
}

/// Staged records that are sent together or not at all, in order. Dropped ones end as aborted, and free their memory.
#[derive(Debug)]
pub struct StagedOutputs {
    records: Vec<StagedRecord>,
    /// Promises of the records that the caller may read.
    promises: Vec<Arc<BatchPromise>>,
    bytes: usize,
    budget: Arc<StagingBudget>,
    has_ended: bool,
}

impl StagedOutputs {
    /// Creates the outputs of a job. The budget has been charged with the records.
    pub(crate) fn new(
        records: Vec<StagedRecord>,
        promises: Vec<Arc<BatchPromise>>,
        budget: &Arc<StagingBudget>,
    ) -> Self {
        let bytes = records.iter().map(StagedRecord::bytes).sum();
        Self { records, promises, bytes, budget: Arc::clone(budget), has_ended: false }
    }

    /// Creates copies of records for a trial. They take no part in the budget of the client.
    pub(crate) fn for_trial(records: &[StagedRecord]) -> Self {
        let budget = Arc::new(StagingBudget::new(usize::MAX));
        budget.take(records.iter().map(StagedRecord::bytes).sum());
        Self::new(records.to_vec(), Vec::new(), &budget)
    }

    /// Counts the records as those of an ended job.
    pub(crate) fn end_job(&mut self) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.budget.on_ended(self.bytes);
        }
    }

    /// Returns the records.
    pub fn records(&self) -> &[StagedRecord] {
        &self.records
    }

    /// Returns the bytes of memory that the records take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Completes the promises: the transaction with the records is committed.
    pub(crate) fn complete(&self, now: Nanos) {
        for promise in &self.promises {
            let written = RunResult { outcome: Outcome::Written, offset: None, timestamp: None, error: None, at: now };
            promise.complete(written, drop);
        }
    }
}

impl Drop for StagedOutputs {
    fn drop(&mut self) {
        self.budget.free(self.bytes, self.has_ended);
        for promise in &self.promises {
            if promise.is_complete() {
                continue;
            }
            let (topic, cause) = (Arc::clone(promise.topic()), Arc::new(TransactionCause::Dropped));
            let error = Some(Arc::new(ProduceError::Aborted { topic, partition: -1, cause }));
            promise
                .complete(RunResult { outcome: Outcome::Aborted, offset: None, timestamp: None, error, at: 0 }, drop);
        }
    }
}
