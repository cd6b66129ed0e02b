//! Commits: periodic ones, those that users request, and the last one before leaving the group.

use super::{ConsumerAction, ConsumerCore, ConsumerLogEvent, ConsumerReply, StartOffset};
use crate::dispatch::Committable;
use crate::fetch::FetchEvent;
use crate::group::{CommitError, CommitOffset, CommitOutcome, GroupEvent, GroupLogEvent, TransactionResult};
use crate::ids::{PartitionHandle, TopicPartition};
use crate::share::ShareEvent;
use crate::time::Nanos;

/// First id of the client's own requests; smaller ids belong to users' requests.
const FIRST_INTERNAL_ID: u32 = 1 << 31;

#[derive(Debug)]
pub(super) struct CommitScheduler {
    interval: Option<Nanos>,
    /// Commits are due only after `request`.
    on_demand: bool,
    due: Option<Nanos>,
    next_internal: u32,
    /// Id of the last commit before leaving the group.
    last: Option<u32>,
}

impl CommitScheduler {
    pub(super) fn new(interval: Option<Nanos>, on_demand: bool) -> Self {
        Self { interval, on_demand, due: None, next_internal: FIRST_INTERNAL_ID, last: None }
    }

    pub(super) fn internal_id(&mut self) -> u32 {
        self.next_internal = self.next_internal.wrapping_add(1).max(FIRST_INTERNAL_ID);
        self.next_internal
    }

    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.due
    }

    /// Returns whether offsets must be collected now. If so, the next interval starts.
    pub(super) fn poll_due(&mut self, now: Nanos) -> bool {
        let Some(interval) = self.interval else { return false };
        if self.on_demand {
            return self.due.take_if(|due| *due <= now).is_some();
        }
        let due = *self.due.get_or_insert(now + interval);
        if due > now {
            return false;
        }
        self.due = Some(now + interval);
        true
    }

    /// Makes a commit due within the interval, or at once.
    fn request(&mut self, now: Nanos, at_once: bool) {
        let Some(interval) = self.interval.filter(|_| self.on_demand) else { return };
        let due = if at_once { now } else { now + interval };
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }
}

/// Returns the log event for the offsets of a revocation or a close that were not stored; `None`: all were, or belong to
/// the next owner of their partition.
fn commit_failure(results: &[CommitOutcome]) -> Option<ConsumerAction> {
    let lost = |outcome: &&CommitOutcome| !matches!(outcome.result, Ok(()) | Err(CommitError::StaleAssignment));
    let CommitOutcome { tp, offset, result } = results.iter().find(lost)?;
    let others = results.iter().filter(lost).count() - 1;
    let error = result.clone().err()?;
    let event = GroupLogEvent::CommitFailed { tp: tp.clone(), offset: *offset, error, others };
    Some(ConsumerAction::LogEvent(ConsumerLogEvent::Group(event)))
}

impl ConsumerCore {
    pub(super) fn on_commit_due(&mut self, now: Nanos, at_once: bool, out: &mut Vec<ConsumerAction>) {
        self.commits.request(now, at_once);
        if self.commits.poll_due(now) {
            out.push(ConsumerAction::CollectOffsets);
        }
    }

    pub(super) fn on_transaction_done(
        &mut self,
        now: Nanos,
        number: u32,
        result: TransactionResult,
        discarded: Vec<TopicPartition>,
    ) {
        if !discarded.is_empty() {
            // First: the offsets must not be sent again.
            self.discard_revoked(&discarded);
            self.group(now, GroupEvent::Discard { tps: discarded.clone() });
        }
        self.group(now, GroupEvent::TransactionDone { number, result });
        discarded.iter().for_each(|tp| self.seek(now, tp, StartOffset::Committed));
    }

    pub(super) fn commit(&mut self, now: Nanos, offsets: Vec<Committable>, id: u32, out: &mut Vec<ConsumerAction>) {
        if offsets.is_empty() || self.group.is_none() {
            if id != 0 {
                out.push(ConsumerAction::Reply(id, ConsumerReply::Commit(Vec::new())));
            }
            return;
        }
        self.send_commit(now, offsets, id);
    }

    fn send_commit(&mut self, now: Nanos, offsets: Vec<Committable>, id: u32) {
        let offset = |offset: Committable| self.to_commit_offset(self.partitions.last_handle(&offset.tp), offset);
        let offsets = offsets.into_iter().map(offset).collect();
        self.group(now, GroupEvent::Commit { offsets, id });
    }

    /// Converts an offset for the group, adding the id of the topic that the offset belongs to. A new topic of the same
    /// name may exist by now; the partition's generations distinguish the two. `slot` may be a removed partition.
    pub(super) fn to_commit_offset(&self, slot: Option<PartitionHandle>, offset: Committable) -> CommitOffset {
        let of_this_topic = |slot| offset.generation.is_none_or(|of| self.partitions.is_of_current_topic(slot, of));
        let topic_id = match slot {
            Some(slot) if of_this_topic(slot) => self.partitions.topic_id(slot),
            Some(_) => CommitOffset::DELETED_TOPIC,
            None => 0,
        };
        CommitOffset {
            tp: offset.tp,
            topic_id,
            offset: offset.offset,
            leader_epoch: offset.leader_epoch,
            metadata: offset.metadata,
            epoch: offset.assignment_epoch,
        }
    }

    pub(super) fn on_commit_result(
        &mut self,
        now: Nanos,
        id: u32,
        results: Vec<CommitOutcome>,
        out: &mut Vec<ConsumerAction>,
    ) {
        let failed = results.iter().filter(|outcome| outcome.result.is_err());
        let failed: Vec<_> = failed.map(|outcome| outcome.tp.clone()).collect();
        if !failed.is_empty() {
            out.push(ConsumerAction::CommitFailed(failed));
        }
        if id >= FIRST_INTERNAL_ID {
            out.extend(commit_failure(&results));
        }
        if id != 0 && id < FIRST_INTERNAL_ID {
            out.push(ConsumerAction::Reply(id, ConsumerReply::Commit(results)));
        }
        self.on_revocation_committed(now, id);
        if self.commits.last == Some(id) {
            self.leave_group(now);
        }
    }

    /// Starts to close: the last commit, then LeaveGroup, then `Finished`. The deadline ends the close in any case.
    pub(super) fn close(
        &mut self,
        now: Nanos,
        offsets: Option<Vec<Committable>>,
        deadline: Nanos,
        out: &mut Vec<ConsumerAction>,
    ) {
        self.closing = Some(deadline);
        self.commits.interval = None;
        self.commits.due = None;
        if offsets.is_none() {
            self.config.auto_commit = None; // leaving revokes the lanes, and they would commit their own offsets
        }
        let offsets = offsets.unwrap_or_default();
        match self.is_shared() {
            true => self.share(now, ShareEvent::Quiesce),
            false => self.fetch(now, FetchEvent::Close),
        }
        self.group(now, GroupEvent::Closing);
        if deadline <= now || self.group.is_none() {
            self.finish(out);
        } else if offsets.is_empty() {
            self.leave_group(now);
        } else {
            let id = self.commits.internal_id();
            self.commits.last = Some(id);
            self.send_commit(now, offsets, id);
        }
    }

    fn leave_group(&mut self, now: Nanos) {
        let deadline = self.closing.unwrap_or(now);
        self.group(now, GroupEvent::Leave { deadline, remain_in_group: self.remain_in_group });
    }

    pub(super) fn on_group_left(&mut self, now: Nanos, out: &mut Vec<ConsumerAction>) {
        match self.closing {
            Some(_) if self.is_shared() => {
                self.left = true;
                self.close_shared(now);
            }
            Some(_) => self.finish(out),
            None => {}
        }
    }
}
