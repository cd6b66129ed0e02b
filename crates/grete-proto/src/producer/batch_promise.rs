//! Shared result of one batch: callers that appended a record read the record's result here.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::error::ProduceError;
use super::transaction::TransactionCause;
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
    /// The transaction of the record was aborted. A broker may have the record, but no reader of committed records sees
    /// it.
    Aborted,
}

/// Fate of the records of one transaction, shared by their batches. A record that was written turns into an aborted one
/// when its transaction is aborted.
#[derive(Debug, Default)]
pub(in crate::producer) struct TransactionFate {
    aborted: OnceLock<Arc<TransactionCause>>,
}

impl TransactionFate {
    /// Marks all records of the transaction as aborted.
    pub fn abort(&self, cause: Arc<TransactionCause>) {
        // The first cause is final.
        let _ = self.aborted.set(cause);
    }
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

/// Partition that the records of a promise were assigned to.
#[derive(Debug, Clone, Copy)]
struct Assignment {
    partition: i32,
    /// Id of the partition in the accumulator.
    id: PartitionId,
    /// Number of the batch that has the record; `u64::MAX`: the batch has this promise.
    batch: u64,
}

/// Promises of records by ascending index of the record in a batch.
type AssignedPromises = Box<[(u32, Arc<BatchPromise>)]>;

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
    /// Unset while the record waits for the topic's metadata.
    assignment: OnceLock<Assignment>,
    futex: AtomicU32,
    /// Result of an unsplit batch: all records at once.
    whole: OnceLock<RunResult>,
    /// Results after a split, in the order of completion.
    parts: Mutex<Vec<CompletedPart>>,
    /// Promises of the records that waited for metadata. Each of them is completed with this promise.
    assigned: OnceLock<AssignedPromises>,
    /// Transaction of the records; `None`: there is none.
    fate: Option<Arc<TransactionFate>>,
    /// The records are staged: sent when their job has ended.
    is_staged: bool,
}

impl BatchPromise {
    /// Creates the promise of a batch that was just opened. Called by the accumulator.
    pub fn new(topic: Arc<str>, partition: i32, slot: PartitionId) -> Self {
        let promise = Self::unassigned(topic);
        promise.assign(partition, slot, u64::MAX);
        promise
    }

    /// Creates the promise of one record whose partition is not known yet.
    pub(in crate::producer) fn unassigned(topic: Arc<str>) -> Self {
        Self {
            topic,
            assignment: OnceLock::new(),
            futex: AtomicU32::new(0),
            whole: OnceLock::new(),
            parts: Mutex::new(Vec::new()),
            assigned: OnceLock::new(),
            fate: None,
            is_staged: false,
        }
    }

    /// Creates the promise of records that an exactly-once job stages.
    pub(crate) fn staged(topic: Arc<str>) -> Self {
        Self { is_staged: true, ..Self::unassigned(topic) }
    }

    /// Returns whether the records are staged: nothing sends them before their job has ended.
    pub fn is_staged(&self) -> bool {
        self.is_staged
    }

    /// Makes the records part of a transaction.
    pub(in crate::producer) fn in_transaction(mut self, fate: Option<Arc<TransactionFate>>) -> Self {
        self.fate = fate;
        self
    }

    /// Sets the partition of a record that waited for metadata, and the number of its batch.
    pub(in crate::producer) fn assign(&self, partition: i32, id: PartitionId, batch: u64) {
        // The first assignment is final.
        let _ = self.assignment.set(Assignment { partition, id, batch });
    }

    /// Sets the promises of records that waited for metadata, by ascending index in this batch. Called before the
    /// sender sees the batch.
    pub(in crate::producer) fn set_assigned(&self, assigned: Vec<(u32, Arc<BatchPromise>)>) {
        let _ = self.assigned.set(assigned.into());
    }

    /// Returns the topic of the records.
    pub fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// Returns the partition of the records; -1: not known yet, because the record waits for the topic's metadata.
    pub fn partition(&self) -> i32 {
        self.assignment.get().map_or(-1, |assignment| assignment.partition)
    }

    /// Returns the id of the partition; `None`: the record waits for the topic's metadata.
    pub(in crate::producer) fn partition_id(&self) -> Option<PartitionId> {
        self.assignment.get().map(|assignment| assignment.id)
    }

    /// Returns whether the records of this promise are in the batch with this number and promise.
    pub(in crate::producer) fn is_in(&self, number: u64, promise: &Arc<BatchPromise>) -> bool {
        std::ptr::eq(Arc::as_ptr(promise), self)
            || self.assignment.get().is_some_and(|assignment| assignment.batch == number)
    }

    /// Returns the result of a record; `None`: not complete yet.
    pub fn result(&self, index: u32) -> Option<RecordResult> {
        let word = self.futex.load(Ordering::Acquire);
        if let Some(whole) = self.whole.get() {
            return Some(self.record_result(whole, index));
        }
        if word < PART_STEP {
            return None;
        }
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let part = parts.iter().find(|part| index.wrapping_sub(part.first) < part.count)?;
        Some(self.record_result(&part.settlement, index - part.first))
    }

    fn record_result(&self, settlement: &RunResult, index: u32) -> RecordResult {
        let result = record_result(settlement, index);
        match self.abort_cause() {
            Some(cause) if result.outcome != Outcome::NotWritten => {
                let (topic, partition, cause) = (Arc::clone(&self.topic), self.partition(), Arc::clone(cause));
                let aborted = || Arc::new(ProduceError::Aborted { topic, partition, cause });
                let error = Some(result.error.unwrap_or_else(aborted));
                RecordResult { outcome: Outcome::Aborted, offset: None, error, ..result }
            }
            _ => result,
        }
    }

    /// Returns the cause of the abort; `None`: no transaction, or one that was not aborted.
    fn abort_cause(&self) -> Option<&Arc<TransactionCause>> {
        self.fate.as_ref()?.aborted.get()
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
            Some(_) if self.abort_cause().is_some() => true,
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

    /// Completes all records at once. Passes each promise that a caller waits for or watches to `on_awaited`: this one,
    /// and those of records that waited for metadata.
    pub(in crate::producer) fn complete(
        self: &Arc<Self>,
        settlement: RunResult,
        mut on_awaited: impl FnMut(Arc<BatchPromise>),
    ) {
        self.complete_assigned(0, u32::MAX, &settlement, &mut on_awaited);
        if self.set_whole(settlement) {
            on_awaited(Arc::clone(self));
        }
    }

    /// Sets the result of all records. Returns whether a caller waits or watches.
    fn set_whole(&self, settlement: RunResult) -> bool {
        // The first result is final.
        if self.whole.set(settlement).is_err() {
            return false;
        }
        self.futex.fetch_or(COMPLETE, Ordering::AcqRel) & (HAS_WAITERS | HAS_WATCHER) != 0
    }

    /// Completes the promises of records that waited for metadata; `settlement` is that of the records from `first` on.
    fn complete_assigned(
        &self,
        first: u32,
        count: u32,
        settlement: &RunResult,
        on_awaited: &mut impl FnMut(Arc<BatchPromise>),
    ) {
        let Some(assigned) = self.assigned.get() else { return };
        let from = assigned.partition_point(|(index, _)| *index < first);
        for (index, promise) in assigned.iter().skip(from).take_while(|(index, _)| index - first < count) {
            let offset = settlement.offset.map(|offset| offset.saturating_add((index - first).into()));
            if promise.set_whole(RunResult { offset, ..settlement.clone() }) {
                on_awaited(Arc::clone(promise));
            }
        }
    }

    /// Completes some records of a split batch; `last`: no incomplete records are left. Passes each promise that a
    /// caller waits for or watches to `on_awaited`.
    pub(in crate::producer) fn complete_part(
        self: &Arc<Self>,
        first: u32,
        count: u32,
        settlement: RunResult,
        last: bool,
        mut on_awaited: impl FnMut(Arc<BatchPromise>),
    ) {
        self.complete_assigned(first, count, &settlement, &mut on_awaited);
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).push(CompletedPart { first, count, settlement });
        let mut before = self.futex.fetch_add(PART_STEP, Ordering::AcqRel);
        if last {
            before |= self.futex.fetch_or(COMPLETE, Ordering::AcqRel);
        }
        if before & (HAS_WAITERS | HAS_WATCHER) != 0 {
            on_awaited(Arc::clone(self));
        }
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

    fn promise() -> Arc<BatchPromise> {
        Arc::new(BatchPromise::new("t".into(), 0, PartitionId(0)))
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
            whole.complete(settlement(failed), drop);
            assert_eq!(whole.has_failures(), failed);
            let split = promise();
            split.complete_part(0, 2, settlement(false), false, drop);
            assert!(!split.has_failures());
            split.complete_part(2, 2, settlement(failed), true, drop);
            assert_eq!(split.has_failures(), failed);
            for index in 0..4 {
                let error = split.result(index).and_then(|settled| settled.error);
                assert_eq!(error.is_some(), failed && index >= 2);
            }
        }
    }

    #[test]
    fn a_written_record_is_aborted_with_its_transaction() {
        let fate = Arc::new(TransactionFate::default());
        let new = || BatchPromise::new("t".into(), 0, PartitionId(0)).in_transaction(Some(Arc::clone(&fate)));
        let (written, refused) = (Arc::new(new()), Arc::new(new()));
        written.complete(settlement(false), drop);
        refused.complete(settlement(true), drop);
        assert_eq!(written.result(0).map(|result| (result.outcome, result.offset)), Some((Outcome::Written, Some(7))));
        fate.abort(Arc::new(TransactionCause::Requested));
        fate.abort(Arc::new(TransactionCause::Closed));
        let result = written.result(0).expect("complete");
        assert_eq!((result.outcome, result.offset, written.has_failures()), (Outcome::Aborted, None, true));
        let Some(ProduceError::Aborted { cause, .. }) = result.error.as_deref() else { panic!("{result:?}") };
        assert_eq!(**cause, TransactionCause::Requested, "the first cause is final");
        assert_eq!(refused.result(0).map(|result| result.outcome), Some(Outcome::NotWritten));
    }

    #[test]
    fn records_that_waited_for_metadata_get_their_part_of_the_result() {
        let (batch, queued): (_, Vec<_>) =
            (promise(), (0..3).map(|_| Arc::new(BatchPromise::unassigned("t".into()))).collect());
        assert_eq!((queued[0].partition(), queued[0].partition_id()), (-1, None));
        for one in &queued {
            one.assign(4, PartitionId(9), 17);
        }
        assert_eq!((queued[0].partition(), queued[0].partition_id()), (4, Some(PartitionId(9))));
        // Records 0, 2 and 3 of a batch in which record 1 was appended by a call that did not wait.
        batch.set_assigned([0, 2, 3].into_iter().zip(queued.iter().map(Arc::clone)).collect());
        assert!(queued[0].watch() && queued[2].watch());
        let mut awaited = Vec::new();
        batch.complete_part(0, 2, settlement(false), false, |one| awaited.push(one));
        assert!(awaited.iter().map(Arc::as_ptr).eq([Arc::as_ptr(&queued[0])]));
        assert_eq!(queued[0].result(0).and_then(|result| result.offset), Some(7));
        assert!(queued[0].is_complete() && !queued[1].is_complete() && queued[2].result(0).is_none());
        batch.complete_part(2, 2, settlement(false), true, |one| awaited.push(one));
        let offsets = queued.iter().map(|one| one.result(0).and_then(|result| result.offset));
        assert_eq!(offsets.collect::<Vec<_>>(), [Some(7), Some(7), Some(8)]);
        assert_eq!(awaited.len(), 2, "no caller waits for the second");
    }
}
