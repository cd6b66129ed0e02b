//! Staged records of one job, or of a part of a job.

use std::sync::Arc;

use super::StagingBudget;
use super::records::StagedRecords;
use crate::producer::batch_promise::{BatchPromise, Outcome, RunResult};
use crate::producer::error::ProduceError;
use crate::producer::transaction::TransactionCause;
use crate::time::Nanos;

/// Staged records that are sent together or not at all, in order. Dropped ones end as aborted, and free their memory.
#[derive(Debug)]
pub struct StagedOutputs {
    records: StagedRecords,
    /// Promises of the records that the caller may read.
    promises: Vec<Arc<BatchPromise>>,
    bytes: usize,
    budget: Arc<StagingBudget>,
    has_ended: bool,
}

impl StagedOutputs {
    /// Creates the outputs of a job. The budget has been charged with the records.
    pub(crate) fn new(
        mut records: StagedRecords,
        promises: Vec<Arc<BatchPromise>>,
        budget: &Arc<StagingBudget>,
    ) -> Self {
        let bytes = records.bytes();
        records.shrink();
        Self { records, promises, bytes, budget: Arc::clone(budget), has_ended: false }
    }

    /// Creates copies of records for a trial. They take no part in the budget of the client.
    pub(crate) fn for_trial(records: &StagedRecords) -> Self {
        let budget = Arc::new(StagingBudget::new(usize::MAX));
        budget.take(records.bytes());
        Self::new(records.clone(), Vec::new(), &budget)
    }

    /// Counts the records as those of an ended job.
    pub(crate) fn end_job(&mut self) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.budget.on_ended(self.bytes);
        }
    }

    /// Returns the records.
    pub fn records(&self) -> &StagedRecords {
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
