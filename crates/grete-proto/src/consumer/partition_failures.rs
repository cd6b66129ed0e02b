//! Partitions that cannot be read, and their recovery: [`PartitionError::policy`] decides, this module carries it out.
//!
//! Errors have three sources. The fetcher and the offset resolver report what a broker refuses. The consumer group
//! reports committed offsets that it may not read. A check once a second finds partitions without any progress (no
//! leader, no response).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grete_wire::error_code::ErrorCode;

use super::config::PartitionRecovery;
use super::{ConsumerAction, ConsumerCore, ConsumerLogEvent};
use crate::cluster::NO_TOPIC_ID;
use crate::group::TopicMetadataView;
use crate::ids::{PartitionHandle, TopicPartition};
use crate::partition::error::{Corruption, PartitionError, RecoveryPolicy};
use crate::partition::table::{FetchState, PartitionTable};
use crate::position::{PositionEvent, ResetPolicy, StartPosition};
use crate::request::NO_NODE;
use crate::time::{Nanos, SECOND};

/// Interval between two checks of all partitions.
const CHECK_INTERVAL: Nanos = SECOND;

/// Failures and suspected failures of partitions.
#[derive(Debug, Default)]
pub(super) struct PartitionFailures {
    failed: BTreeMap<PartitionHandle, PartitionFailure>,
    /// Time since when a partition has made no progress.
    unserved_since: BTreeMap<PartitionHandle, Nanos>,
    /// Partitions whose topic was created again: committed offsets read before belong to the old topic.
    recreated: BTreeSet<PartitionHandle>,
    /// Position in the old topic, for partitions that wait for a position in the new topic.
    resetting_from: BTreeMap<PartitionHandle, i64>,
    /// Partitions that were given up last, by topic: a topic that was created again may have come meanwhile.
    given_up: BTreeMap<Arc<str>, GivenUp>,
    /// Position in the old topic, until the group's committed offset in the new topic is known.
    former_positions: BTreeMap<PartitionHandle, i64>,
    next_check: Nanos,
}

/// Partitions of a topic that were given up together, with their positions. What was given up earlier is not among them:
/// another member may have read on.
#[derive(Debug)]
struct GivenUp {
    topic_id: u128,
    positions: BTreeMap<i32, i64>,
}

#[derive(Debug)]
struct PartitionFailure {
    error: PartitionError,
    since: Nanos,
    reported_at: Nanos,
}

impl PartitionFailures {
    pub(super) fn contains(&self, slot: PartitionHandle) -> bool {
        self.failed.contains_key(&slot)
    }

    /// Returns the time of the next check; `None` while no partition has failed or stalled.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        (!self.failed.is_empty() || !self.unserved_since.is_empty()).then_some(self.next_check)
    }

    pub(super) fn forget(&mut self, slot: PartitionHandle) {
        self.failed.remove(&slot);
        self.unserved_since.remove(&slot);
        self.resetting_from.remove(&slot);
        self.former_positions.remove(&slot);
        self.recreated.remove(&slot);
    }

    /// Notes the positions of partitions that leave together.
    pub(super) fn note_given_up(&mut self, slots: &[PartitionHandle], partitions: &PartitionTable) {
        let mut given_up: BTreeMap<Arc<str>, GivenUp> = BTreeMap::new();
        for &slot in slots {
            let Some(tp) = partitions.topic_partition(slot) else { continue };
            let topic_id = partitions.topic_id(slot);
            let of_topic = given_up
                .entry(Arc::clone(&tp.topic))
                .or_insert_with(|| GivenUp { topic_id, positions: BTreeMap::new() });
            let position = partitions.fetch_offset(slot);
            if topic_id != NO_TOPIC_ID && topic_id == of_topic.topic_id && position >= 0 {
                of_topic.positions.insert(tp.partition, position);
            }
        }
        self.given_up.extend(given_up);
    }

    /// Takes the position that a partition had in a topic of this name before `topic_id`; `None`: it is not known, or the
    /// topic is the same, so that the other partitions that were given up belong to other members now.
    fn take_former_position(&mut self, tp: &TopicPartition, topic_id: u128) -> Option<i64> {
        let of_topic = self.given_up.get_mut(&tp.topic)?;
        if topic_id == of_topic.topic_id {
            self.given_up.remove(&tp.topic);
            return None;
        }
        let position = of_topic.positions.remove(&tp.partition);
        if of_topic.positions.is_empty() {
            self.given_up.remove(&tp.topic);
        }
        position
    }

    /// Marks the next committed offset as valid: the group reads it (again), so it belongs to the new topic.
    pub(super) fn expect_new_commit(&mut self, slot: PartitionHandle) {
        self.recreated.remove(&slot);
    }

    /// Returns whether a committed offset that was read for the partition may belong to the old topic.
    pub(super) fn is_commit_outdated(&self, slot: PartitionHandle) -> bool {
        self.recreated.contains(&slot)
    }
}

impl ConsumerCore {
    /// Handles an error with which a state machine stopped or suspended a partition.
    pub(super) fn on_partition_failed(
        &mut self,
        now: Nanos,
        slot: PartitionHandle,
        error: PartitionError,
        out: &mut Vec<ConsumerAction>,
    ) {
        if self.config.partition_recovery.is_none() {
            out.push(ConsumerAction::PartitionFailed { slot, error, since: now, again: false });
            return;
        }
        if matches!(error, PartitionError::TopicRecreated { .. }) {
            self.invalidate_position(slot, out);
            if self.config.position.reset != ResetPolicy::None {
                let from = self.partitions.fetch_offset(slot);
                if from >= 0 {
                    self.failures.resetting_from.insert(slot, from);
                }
                let start = PositionEvent::Start { slot, at: StartPosition::Reset, leader_epoch: -1 };
                return self.positions(now, start);
            }
        }
        self.fail_partition(now, slot, error, out);
    }

    /// Notes the position in the old topic, if the partition belongs to a topic that was created again. In the consumer
    /// protocol the group takes the partitions of a deleted topic away, and assigns those of the new one.
    pub(super) fn note_former_position(&mut self, slot: PartitionHandle, tp: &TopicPartition) {
        let Some(topic_id) = TopicMetadataView::topic_id(&self.cluster, &tp.topic) else { return };
        if let Some(position) = self.failures.take_former_position(tp, topic_id) {
            self.failures.former_positions.insert(slot, position);
        }
    }

    /// Handles the group's committed offset of an assigned partition; `None`: there is none, because coordinators delete
    /// the offsets of a deleted topic. The position in the old topic is then in the log event of the new position.
    pub(super) fn on_committed_offset(&mut self, slot: PartitionHandle, committed: Option<i64>) {
        let Some(position) = self.failures.former_positions.remove(&slot) else { return };
        if committed.is_none() && self.config.position.reset != ResetPolicy::None {
            self.failures.resetting_from.insert(slot, position);
        }
    }

    /// Invalidates the position: fetched data and finished work beyond it belong to a deleted topic.
    fn invalidate_position(&mut self, slot: PartitionHandle, out: &mut Vec<ConsumerAction>) {
        self.committed_positions.remove(&slot);
        self.pending_starts.retain(|(other, ..)| *other != slot);
        self.failures.recreated.insert(slot);
        out.push(ConsumerAction::InvalidatePosition(slot));
    }

    fn fail_partition(
        &mut self,
        now: Nanos,
        slot: PartitionHandle,
        error: PartitionError,
        out: &mut Vec<ConsumerAction>,
    ) {
        if !self.partitions.is_live(slot) || self.closing.is_some() {
            return;
        }
        let known = self.failures.failed.get_mut(&slot);
        let since = known.as_ref().map_or(now, |failed| failed.since);
        if let Some(failed) = known.filter(|failed| failed.error.reason() == error.reason()) {
            failed.error = error;
            return;
        }
        if !self.failures.contains(slot) {
            // The known end offset dates from the last response with data.
            out.push(ConsumerAction::HighWatermark { slot, high_watermark: -1, readable_end: -1 });
            self.end_offsets.expedite(now);
        }
        self.failures.failed.insert(slot, PartitionFailure { error: error.clone(), since, reported_at: now });
        self.failures.next_check = self.failures.next_check.min(now.saturating_add(CHECK_INTERVAL));
        out.push(ConsumerAction::PartitionFailed { slot, error, since, again: false });
    }

    fn recover(&mut self, now: Nanos, slot: PartitionHandle, out: &mut Vec<ConsumerAction>) {
        self.failures.unserved_since.remove(&slot);
        if let Some(failed) = self.failures.failed.remove(&slot) {
            let lasted = now.saturating_sub(failed.since);
            out.push(ConsumerAction::PartitionRecovered { slot, error: failed.error, lasted });
        }
    }

    /// Ends a failure because the leader returned data, or reported that there is none yet.
    pub(super) fn on_partition_served(
        &mut self,
        now: Nanos,
        slot: PartitionHandle,
        data: bool,
        out: &mut Vec<ConsumerAction>,
    ) {
        let Some(failed) = self.failures.failed.get(&slot) else { return };
        // A valid header of a refetched batch proves nothing about its content.
        let content = matches!(failed.error, PartitionError::Corrupt { cause: Corruption::Content, .. });
        if !(data && content && self.fetch.is_verifying_refetch(slot)) {
            self.recover(now, slot, out);
        }
    }

    /// Ends a failure because the data fetched since then is good.
    pub(super) fn on_partition_healthy(&mut self, now: Nanos, slot: PartitionHandle, out: &mut Vec<ConsumerAction>) {
        self.recover(now, slot, out);
    }

    /// Ends failures that a new position cures.
    pub(super) fn on_position_set(
        &mut self,
        now: Nanos,
        slot: PartitionHandle,
        offset: i64,
        out: &mut Vec<ConsumerAction>,
    ) {
        if let Some(from) = self.failures.resetting_from.remove(&slot) {
            let tp = self.partitions.name(slot);
            out.push(ConsumerAction::LogEvent(ConsumerLogEvent::TopicRecreated { tp, from, to: offset }));
        }
        let Some(failed) = self.failures.failed.get(&slot) else { return };
        // Errors of the old position end here. Other errors end when data arrives.
        let over = match failed.error {
            PartitionError::Corrupt { offset: at, .. } | PartitionError::BatchTooLarge { offset: at, .. } => {
                at != offset
            }
            PartitionError::NoPosition { .. } => true,
            _ => failed.error.policy() == RecoveryPolicy::Reset,
        };
        if over {
            self.recover(now, slot, out);
        }
    }

    /// Checks all partitions: a partition without progress for too long fails, and lasting failures are reported again.
    pub(super) fn check_partitions(&mut self, now: Nanos, out: &mut Vec<ConsumerAction>) {
        let Some(healing) = self.config.partition_recovery.clone().filter(|_| self.closing.is_none()) else { return };
        if now < self.failures.next_check {
            return;
        }
        self.failures.next_check = now.saturating_add(CHECK_INTERVAL);
        for slot in self.partitions.live().to_vec() {
            self.check_partition(now, slot, &healing, out);
        }
        let Some(repeat_after) = healing.repeat_after else { return };
        for (&slot, failed) in &mut self.failures.failed {
            if now >= failed.reported_at.saturating_add(repeat_after) {
                failed.reported_at = now;
                let (error, since) = (failed.error.clone(), failed.since);
                out.push(ConsumerAction::PartitionFailed { slot, error, since, again: true });
            }
        }
    }

    fn check_partition(
        &mut self,
        now: Nanos,
        slot: PartitionHandle,
        healing: &PartitionRecovery,
        out: &mut Vec<ConsumerAction>,
    ) {
        let Some(error) = self.unserved_error(slot) else {
            self.failures.unserved_since.remove(&slot);
            // The partition is healthy now. Without new data no response may name the partition, so the check ends the
            // failure.
            let fetching = self.partitions.state(slot) == FetchState::Fetching;
            if self.failures.contains(slot) && fetching && self.fetch.is_healthy(slot) {
                self.recover(now, slot, out);
            }
            return;
        };
        let since = *self.failures.unserved_since.entry(slot).or_insert(now);
        if now.saturating_sub(since) < healing.unserved_after {
            return;
        }
        if !self.failures.contains(slot) {
            return self.fail_partition(now, slot, error, out);
        }
        let silent = |failed: &PartitionFailure| {
            matches!(
                failed.error,
                PartitionError::NoLeader { .. } | PartitionError::Unserved { .. } | PartitionError::NoPosition { .. }
            )
        };
        // An error that a broker returned says more than a timeout.
        if self.failures.failed.get(&slot).is_some_and(silent) {
            self.fail_partition(now, slot, error, out);
        }
    }

    /// Returns why the partition makes no progress; `None` if it does.
    fn unserved_error(&self, slot: PartitionHandle) -> Option<PartitionError> {
        let tp = || self.partitions.name(slot);
        let leaderless = self.partitions.leader(slot) == NO_NODE;
        match self.partitions.state(slot) {
            // A failed partition already has its error.
            FetchState::Removed | FetchState::Failed => None,
            _ if leaderless => Some(PartitionError::NoLeader { tp: tp() }),
            FetchState::Resolving => {
                let code = self.positions.last_error(slot).unwrap_or(ErrorCode::NONE);
                Some(PartitionError::NoPosition { tp: tp(), code })
            }
            FetchState::Fetching => {
                let (node, code) = self.fetch.last_error(slot, &self.partitions)?;
                Some(PartitionError::Unserved { tp: tp(), node, code })
            }
        }
    }
}
