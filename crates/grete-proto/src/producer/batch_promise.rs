//! Shared result of one batch: callers that appended a record read the record's result here.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::error::ProduceError;
use crate::ids::PartitionId;
use crate::time::Nanos;

/// Flag: all records are complete.
const COMPLETE: u32 = 1;
/// Flag: a thread sleeps on the futex, or is about to.
const HAS_WAITERS: u32 = 2;
/// Flag: a caller wants [`crate::producer::ProducerAction::Completed`].
const HAS_WATCHER: u32 = 4;
/// Increment for each completed part of the batch.
const PART_STEP: u32 = 8;

/// Outcome of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A broker has written the record.
    Written,
    /// No broker has written the record.
    NotWritten,
    /// The record was sent, but its outcome was never reported.
    Unknown,
}

/// Final result of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordResult {
    /// Outcome of the record.
    pub outcome: Outcome,
    /// Offset of the record; `None`: not reported by the broker (`acks=0`, or a duplicate of an old batch).
    pub offset: Option<i64>,
    /// Log append time in milliseconds, if the topic uses it; `None`: the record keeps its own timestamp.
    pub timestamp: Option<i64>,
    /// Reason why the record was not written or its outcome is unknown; `None`: written, or sent with `acks=0`.
    pub error: Option<Arc<ProduceError>>,
    /// Time at which the response was read or the record was dropped.
    pub at: Nanos,
}

/// Result of a run of consecutive records.
#[derive(Debug, Clone)]
pub(in crate::producer) struct RunResult {
    pub outcome: Outcome,
    /// Offset of the first record of the run.
    pub offset: Option<i64>,
    pub timestamp: Option<i64>,
    pub error: Option<Arc<ProduceError>>,
    pub at: Nanos,
}

#[derive(Debug)]
struct CompletedPart {
    first: u32,
    count: u32,
    settlement: RunResult,
}

/// Result of one batch, shared by the callers and the sender. `futex` is the word that waiters sleep on:
///
/// ```text
/// waiter:  seen = register_waiter()     sender:   the result is stored
///          result(index)? done                    futex changes (COMPLETE, or one PART_STEP more)
///          sleep while futex == seen              HAS_WAITERS was set before? wake
/// ```
///
/// No wake-up is lost. Waiter and sender both change the futex in one atomic operation, so one of them is first:
/// - The waiter is first: the sender sees `HAS_WAITERS` and wakes. A waiter that is not asleep yet does not fall
///   asleep, because the futex no longer equals `seen`.
/// - The sender is first: `seen` contains the change, and `result` sees the stored result, so the waiter does not
///   sleep.
#[derive(Debug)]
pub struct BatchPromise {
    topic: Arc<str>,
    partition: i32,
    /// Id of the partition in the accumulator.
    partition_id: PartitionId,
    futex: AtomicU32,
    /// Result of an unsplit batch: all records at once.
    whole: OnceLock<RunResult>,
    /// Results after a split, in the order of completion.
    parts: Mutex<Vec<CompletedPart>>,
}

impl BatchPromise {
    /// Creates the promise of a batch that was just opened. Called by the accumulator.
    pub fn new(topic: Arc<str>, partition: i32, slot: PartitionId) -> Self {
        Self {
            topic,
            partition,
            partition_id: slot,
            futex: AtomicU32::new(0),
            whole: OnceLock::new(),
            parts: Mutex::new(Vec::new()),
        }
    }

    /// Returns the topic of the records.
    pub fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// Returns the partition of the records.
    pub fn partition(&self) -> i32 {
        self.partition
    }

    pub(in crate::producer) fn partition_id(&self) -> PartitionId {
        self.partition_id
    }

    /// Returns the result of a record; `None`: not complete yet.
    pub fn result(&self, index: u32) -> Option<RecordResult> {
        let word = self.futex.load(Ordering::Acquire);
        if let Some(whole) = self.whole.get() {
            return Some(record_result(whole, index));
        }
        if word < PART_STEP {
            return None;
        }
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let part = parts.iter().find(|part| index.wrapping_sub(part.first) < part.count)?;
        Some(record_result(&part.settlement, index - part.first))
    }

    /// Returns whether all records are complete.
    pub fn is_complete(&self) -> bool {
        self.futex.load(Ordering::Acquire) & COMPLETE != 0
    }

    /// Returns whether any record is known to have failed. One check per batch; [`BatchPromise::result`] is one per
    /// record.
    pub fn has_failures(&self) -> bool {
        let word = self.futex.load(Ordering::Acquire);
        match self.whole.get() {
            Some(whole) => whole.error.is_some(),
            None if word < PART_STEP => false,
            None => {
                let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
                parts.iter().any(|part| part.settlement.error.is_some())
            }
        }
    }

    /// Returns the futex that waiters sleep on.
    pub fn futex(&self) -> &AtomicU32 {
        &self.futex
    }

    /// Registers a waiter. Returns the futex value to sleep on, after one more call of [`BatchPromise::result`].
    pub fn register_waiter(&self) -> u32 {
        self.futex.fetch_or(HAS_WAITERS, Ordering::AcqRel) | HAS_WAITERS
    }

    /// Changes the futex without a completion, so that waiters wake and check for an event of another kind.
    pub fn invalidate_wait(&self) {
        self.futex.fetch_add(PART_STEP, Ordering::AcqRel);
    }

    /// Requests [`crate::producer::ProducerAction::Completed`] for each completion from now on. Returns false if all
    /// records are complete already. A caller that watches a single record must check [`BatchPromise::result`] after
    /// this call.
    pub fn watch(&self) -> bool {
        self.futex.fetch_or(HAS_WATCHER, Ordering::AcqRel) & COMPLETE == 0
    }

    /// Completes all records at once. Returns whether a caller waits or watches.
    pub(in crate::producer) fn complete(&self, settlement: RunResult) -> bool {
        // The first result is final.
        if self.whole.set(settlement).is_err() {
            return false;
        }
        self.futex.fetch_or(COMPLETE, Ordering::AcqRel) & (HAS_WAITERS | HAS_WATCHER) != 0
    }

    /// Completes some records of a split batch; `last`: no incomplete records are left. Returns whether a caller waits
    /// or watches.
    pub(in crate::producer) fn complete_part(&self, first: u32, count: u32, settlement: RunResult, last: bool) -> bool {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).push(CompletedPart { first, count, settlement });
        let mut before = self.futex.fetch_add(PART_STEP, Ordering::AcqRel);
        if last {
            before |= self.futex.fetch_or(COMPLETE, Ordering::AcqRel);
        }
        before & (HAS_WAITERS | HAS_WATCHER) != 0
    }
}

fn record_result(settlement: &RunResult, index: u32) -> RecordResult {
    RecordResult {
        outcome: settlement.outcome,
        offset: settlement.offset.map(|first| first.saturating_add(index.into())),
        timestamp: settlement.timestamp,
        error: settlement.error.clone(),
        at: settlement.at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise() -> BatchPromise {
        BatchPromise::new("t".into(), 0, PartitionId(0))
    }

    fn settlement(failed: bool) -> RunResult {
        let error = failed.then(|| Arc::new(ProduceError::UnknownTopic { topic: "t".into(), partition: 0 }));
        let outcome = if failed { Outcome::NotWritten } else { Outcome::Written };
        RunResult { outcome, offset: Some(7), timestamp: None, error, at: 1 }
    }

    #[test]
    fn failures_of_whole_batches_and_of_parts_show() {
        for failed in [false, true] {
            let whole = promise();
            assert!(!whole.has_failures());
            whole.complete(settlement(failed));
            assert_eq!(whole.has_failures(), failed);
            let split = promise();
            split.complete_part(0, 2, settlement(false), false);
            assert!(!split.has_failures());
            split.complete_part(2, 2, settlement(failed), true);
            assert_eq!(split.has_failures(), failed);
            for index in 0..4 {
                let error = split.result(index).and_then(|settled| settled.error);
                assert_eq!(error.is_some(), failed && index >= 2);
            }
        }
    }
}
