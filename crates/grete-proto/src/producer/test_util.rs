//! Batch promises for tests.

use std::sync::Arc;

use super::batch_promise::{BatchPromise, Outcome, RunResult};
use super::error::ProduceError;
use crate::ids::PartitionId;

/// Creates the promise of a batch that was just opened.
pub(crate) fn batch_promise(topic: &str, partition: i32) -> Arc<BatchPromise> {
    Arc::new(BatchPromise::new(topic.into(), partition, PartitionId(0)))
}

/// Completes some records as written or refused.
pub(crate) fn complete_part(receipt: &Arc<BatchPromise>, first: u32, count: u32, written: bool, last: bool) {
    let error = || ProduceError::UnknownTopic { topic: Arc::clone(receipt.topic()), partition: receipt.partition() };
    let settlement = RunResult {
        outcome: if written { Outcome::Written } else { Outcome::NotWritten },
        offset: written.then_some(7),
        timestamp: None,
        error: (!written).then(|| Arc::new(error())),
        at: 1,
    };
    receipt.complete_part(first, count, settlement, last, drop);
}
