//! Commits of exactly-once jobs: calls of the network thread, and changes of the store by the dispatcher.

use std::collections::BTreeSet;
use std::sync::Arc;

use grete_wire::error_code::ErrorCode;

use super::output_store::OutputStore;
use crate::dispatch::Dispatch;
use crate::dispatch::ids::{ClientId, LaneId};
use crate::dispatch::job::JobOutcome;
use crate::dispatch::job::staging::EndedStaging;
use crate::dispatch::outbox::{Committable, DrainedLane};
use crate::dispatch::retry::failure::{Failure, FailureKind};
use crate::group::{CommitOffset, TransactionResult};
use crate::ids::TopicPartition;
use crate::producer::{StagedCommitResult, StagedOutputs, StagingBudget, TransactionCause, TransactionError};
use crate::time::{Nanos, SECOND};

/// Wait before the rows of a job run again whose trial had no result.
const TRIAL_BACKOFF: Nanos = SECOND;

/// Time at which a client should commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TransactionDemand {
    /// Nothing was processed since the last commit.
    #[default]
    Nothing,
    /// After the interval.
    Due,
    /// Now: much memory is staged.
    AtOnce,
}

/// Consequences of the end of a transaction.
#[derive(Debug)]
pub struct TransactionEnd {
    /// Result for the group.
    pub result: TransactionResult,
    /// Partitions whose work does not count: they go on from their committed offsets.
    pub discarded: Vec<TopicPartition>,
    /// Whether the producer has failed, and another one goes on.
    pub needs_producer: bool,
    /// Error that no other producer cures.
    pub fatal: Option<TransactionError>,
    emptied: Vec<LaneId>,
}

impl Default for TransactionEnd {
    fn default() -> Self {
        Self {
            result: TransactionResult::Committed,
            discarded: Vec::new(),
            needs_producer: false,
            fatal: None,
            emptied: Vec::new(),
        }
    }
}

impl TransactionEnd {
    /// Decides whether another producer may go on after an error of this one.
    ///
    /// A coordinator that has aborted a transaction after `transaction.timeout.ms` fences its producer (before
    /// `transaction.version` 2): no other process has the id. A producer that was fenced earlier was replaced. A
    /// coordinator that knows nothing of the transaction has aborted it, or has lost it: the next `InitProducerId` shows it.
    fn set_producer_failure(&mut self, error: &TransactionError) {
        self.needs_producer = true;
        let is_cured = match error {
            TransactionError::Fenced { open, timeout, .. } => open.is_some_and(|open| open >= *timeout),
            TransactionError::Refused { code, request, .. } => {
                *request != "InitProducerId"
                    && matches!(*code, ErrorCode::INVALID_TXN_STATE | ErrorCode::INVALID_PRODUCER_ID_MAPPING)
            }
            _ => false,
        };
        if !is_cured {
            let code = error.code().unwrap_or(ErrorCode::UNKNOWN_SERVER_ERROR);
            self.result = TransactionResult::Failed(code);
            self.fatal = Some(error.clone());
        }
    }
}

impl Dispatch {
    /// Makes the jobs of a client exactly once, before its first lane. `limit`: bytes that staged records may take.
    pub fn set_transactional(&mut self, client: ClientId, limit: usize) -> Arc<StagingBudget> {
        let budget = Arc::new(StagingBudget::new(limit));
        if let Some(entry) = self.client_mut(client) {
            entry.outputs = Some(Box::new(OutputStore::new(Arc::clone(&budget))));
        }
        budget
    }

    pub(in crate::dispatch) fn outputs_of(&mut self, client: ClientId) -> Option<&mut OutputStore> {
        self.client_mut(client)?.outputs.as_deref_mut()
    }

    /// Returns when the client should commit, since the last call.
    pub fn take_commit_demand(&mut self, client: ClientId) -> TransactionDemand {
        self.client_mut(client).map(|entry| std::mem::take(&mut entry.commit_demand)).unwrap_or_default()
    }

    /// Begins a transaction with these offsets. Returns the records that belong to them, in order. Removes the offsets of
    /// partitions that were lost meanwhile.
    pub fn begin_transaction(
        &mut self,
        client: ClientId,
        number: u32,
        offsets: &mut Vec<CommitOffset>,
    ) -> Vec<Arc<StagedOutputs>> {
        self.outputs_of(client).map(|outputs| outputs.begin(number, offsets)).unwrap_or_default()
    }

    /// Ends the transaction: drops its records if they are committed, and keeps them for the next one if not.
    ///
    /// Where the work of a lane does not count, the lane is emptied, and its partition is in
    /// [`TransactionEnd::discarded`]: the caller moves the position to the committed offset. That is the case
    /// - if the answer to the commit was lost: only the committed offset shows what counts (OffsetFetch waits for the end
    ///   of the transaction, KIP-447).
    /// - if no broker will ever take a record: the jobs of its lane run again, and the one with the record fails.
    pub fn end_transaction(
        &mut self,
        now: Nanos,
        client: ClientId,
        number: u32,
        result: &StagedCommitResult,
    ) -> TransactionEnd {
        self.now = self.now.max(now);
        let mut end = TransactionEnd::default();
        let Some(outputs) = self.outputs_of(client) else { return end };
        let Some(transaction) = outputs.end(number) else { return end };
        match result {
            StagedCommitResult::Committed => {
                outputs.on_committed(number);
                return end;
            }
            StagedCommitResult::Accepted => {}
            StagedCommitResult::Aborted { cause, refused } => {
                end.result = match &**cause {
                    TransactionCause::MemberReplaced { code, .. } => TransactionResult::MemberReplaced(*code),
                    cause => TransactionResult::Aborted(cause.to_string()),
                };
                let refused = refused.iter().filter_map(|refused| transaction.lanes.get(refused.outputs));
                let refused: BTreeSet<(LaneId, Option<i64>)> = refused.copied().collect();
                for (lane, last) in refused {
                    let tp = outputs.refuse(lane, last);
                    if !end.emptied.contains(&lane) {
                        end.discarded.extend(tp);
                        end.emptied.push(lane);
                    }
                }
            }
            StagedCommitResult::Failed(error) => {
                end.result = TransactionResult::Aborted(error.to_string());
                end.set_producer_failure(error);
            }
            StagedCommitResult::Unknown(error) => {
                end.result = TransactionResult::Aborted(error.to_string());
                let lanes: Vec<LaneId> = outputs.lanes_of(&transaction.partitions);
                for lane in lanes {
                    outputs.clear(lane);
                    end.emptied.push(lane);
                }
                end.discarded = transaction.partitions;
                let TransactionError::CommitUnknown(inner) = error else { return end };
                end.set_producer_failure(inner);
                end.needs_producer = true;
            }
        }
        if let Some(outputs) = self.outputs_of(client) {
            outputs.on_aborted(number);
        }
        let emptied = std::mem::take(&mut end.emptied);
        emptied.into_iter().for_each(|lane| self.reset_lane(lane));
        end
    }

    /// Ends a trial: whether brokers take the records of a suspended job.
    ///
    /// If they do, the job ends as usual. If they refuse one, the job goes back to a worker as failed. After any other end
    /// its rows run again.
    pub fn end_trial(&mut self, now: Nanos, job: u64, result: &StagedCommitResult) {
        self.now = self.now.max(now);
        let refused = match result {
            StagedCommitResult::Accepted => return self.end_suspended_trial(job, JobOutcome::Done),
            StagedCommitResult::Aborted { refused, .. } => refused.first(),
            _ => None,
        };
        let Some(refused) = refused else {
            let again = Failure::new(FailureKind::RetryLater(TRIAL_BACKOFF), "", "");
            return self.end_suspended_trial(job, JobOutcome::Failed(again));
        };
        self.fail_suspended_trial(job, |shared| {
            let (promise, index) = (Arc::clone(&refused.promise), refused.index);
            shared.set_refused(refused.record, promise, index);
        });
    }

    /// Drops all records that are not committed, because the client has ended.
    pub fn drop_outputs(&mut self, client: ClientId) {
        if let Some(outputs) = self.outputs_of(client) {
            outputs.drop_all();
        }
    }

    /// Adds the records of a job that has ended, and asks for a commit.
    pub(in crate::dispatch) fn deposit(&mut self, id: LaneId, client: ClientId, staged: EndedStaging) {
        let Some(entry) = self.client_mut(client) else { return };
        let Some(outputs) = &mut entry.outputs else { return };
        outputs.deposit(id, staged);
        let is_urgent = outputs.budget().is_half_full();
        let demand = if is_urgent { TransactionDemand::AtOnce } else { TransactionDemand::Due };
        if demand > entry.commit_demand {
            entry.commit_demand = demand;
            entry.wake_pending = true;
        }
    }

    pub(in crate::dispatch) fn take_transactional(&mut self, client: ClientId, all: bool) -> Vec<Committable> {
        let lanes = self.lanes.iter_mut().flatten().filter(|lane| lane.spec.client == client);
        let found: Vec<_> = lanes.filter_map(|lane| Some((lane.id, lane.take_committable(true)?))).collect();
        found.into_iter().filter_map(|(id, committable)| self.within_jobs(client, id, committable, all)).collect()
    }

    /// Moves an offset back to one that divides no job. `None`: there is nothing to commit.
    ///
    /// If that happens again and again, the lane decodes nothing until all of its rows are done: no job has rows on both
    /// sides of this barrier, so an offset behind it is committed.
    pub(in crate::dispatch) fn within_jobs(
        &mut self,
        client: ClientId,
        id: LaneId,
        mut committable: Committable,
        all: bool,
    ) -> Option<Committable> {
        let Some(outputs) = self.outputs_of(client) else { return Some(committable) };
        let cut = outputs.cut(id, committable.offset);
        let is_divided_again = outputs.is_divided_again(id, committable.offset, cut);
        if cut < committable.offset {
            (committable.offset, committable.leader_epoch) = (cut, -1);
        }
        let has_more = outputs.on_returned(id, cut, all);
        if is_divided_again && let Some(lane) = self.lane_mut(id) {
            lane.schedule.set_barrier(true);
        }
        has_more.then_some(committable)
    }

    pub(in crate::dispatch) fn on_transactional_commit_failed(&mut self, client: ClientId, tps: &[TopicPartition]) {
        let Some(entry) = self.client_mut(client) else { return };
        let Some(outputs) = &mut entry.outputs else { return };
        tps.iter().for_each(|tp| outputs.on_commit_failed(tp));
        entry.commit_demand = entry.commit_demand.max(TransactionDemand::Due);
        entry.wake_pending = true;
    }

    /// Sets the last commit of a lane that leaves.
    pub(in crate::dispatch) fn end_transactional_lane(
        &mut self,
        client: ClientId,
        id: LaneId,
        drained: &mut DrainedLane,
    ) {
        if self.outputs_of(client).is_none() {
            return;
        }
        let committable = self.lane_mut(id).filter(|_| !drained.lost).and_then(|lane| lane.take_committable(true));
        drained.commit = committable.and_then(|found| self.within_jobs(client, id, found, false));
        let (lost, offset) = (drained.lost, drained.commit.as_ref().map(|commit| commit.offset));
        if let Some(outputs) = self.outputs_of(client) {
            if lost { outputs.drop_lane(id) } else { outputs.on_left(id, offset) }
        }
    }
}
