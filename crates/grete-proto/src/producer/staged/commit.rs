//! Work and result of one transaction with staged records.

use std::sync::Arc;

use super::StagedOutputs;
use crate::producer::batch_promise::BatchPromise;
use crate::producer::transaction::{GroupMetadata, TransactionCause, TransactionError, TransactionOffset};

/// Work of one transaction.
#[derive(Debug)]
pub struct StagedCommit {
    /// Id for the result, chosen by the caller.
    pub id: u32,
    /// Member whose offsets the transaction has.
    pub group: Arc<GroupMetadata>,
    /// Offsets; empty: none.
    pub offsets: Vec<TransactionOffset>,
    /// Records, in order.
    pub outputs: Vec<Arc<StagedOutputs>>,
    /// Whether the transaction is aborted in any case: it only shows whether brokers take the records.
    pub is_trial: bool,
}

/// Staged record that no broker will ever take.
#[derive(Debug, Clone)]
pub struct RefusedRecord {
    /// Index in [`StagedCommit::outputs`].
    pub outputs: usize,
    /// Index of the record in these outputs.
    pub record: usize,
    /// Promise with the record's error, and the index of the record.
    pub promise: Arc<BatchPromise>,
    /// Index of the record in the promise's batch.
    pub index: u32,
}

/// Result of a [`StagedCommit`].
#[derive(Debug, Clone)]
pub enum StagedCommitResult {
    /// Records and offsets are visible.
    Committed,
    /// Brokers take the records of a trial. They are aborted.
    Accepted,
    /// Nothing is committed. The same work may be committed again, without the refused records.
    Aborted {
        /// Cause of the abort.
        cause: Arc<TransactionCause>,
        /// Records that no broker will ever take.
        refused: Vec<RefusedRecord>,
    },
    /// Nothing is committed, and this producer cannot continue.
    Failed(TransactionError),
    /// The answer to the commit is lost: the group's committed offsets show it. This producer cannot continue.
    Unknown(TransactionError),
}
