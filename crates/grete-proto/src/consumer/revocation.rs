//! Revocation of partitions: the handler ends, its hook runs, its offsets are committed, and only then the rebalance
//! continues.
//!
//! The consumer group keeps the deadline and emits `GroupAction::RevocationExpired` when the deadline passes. A lane
//! that has not drained by then is abandoned: the lane is fenced, and the result of its job is ignored.

use std::collections::BTreeSet;

use super::{ConsumerAction, ConsumerCore, ConsumerLogEvent};
use crate::dispatch::Committable;
use crate::group::{CommitOffset, GroupEvent};
use crate::ids::{PartitionHandle, TopicPartition};
use crate::time::Nanos;

/// Revocations in progress.
#[derive(Debug, Default)]
pub(super) struct Revocations {
    open: Vec<Revocation>,
    /// Lanes of a share group that have not drained.
    pub(super) draining: BTreeSet<PartitionHandle>,
}

#[derive(Debug)]
struct Revocation {
    epoch: u32,
    /// Partitions whose lanes have not drained.
    slots: BTreeSet<PartitionHandle>,
    offsets: Vec<CommitOffset>,
    /// Id of the last commit; `None` before the commit is sent.
    commit: Option<u32>,
}

impl ConsumerCore {
    pub(super) fn revoke(&mut self, now: Nanos, tps: Vec<TopicPartition>, epoch: u32, out: &mut Vec<ConsumerAction>) {
        let slots: Vec<PartitionHandle> = tps.iter().filter_map(|tp| self.partitions.handle(tp)).collect();
        out.extend(slots.iter().map(|&slot| ConsumerAction::RevokePartition { slot, lost: false }));
        let undrained: BTreeSet<PartitionHandle> = slots.iter().copied().collect();
        self.remove_partitions(now, slots);
        if self.is_shared() {
            // Other members may have the partition at the same time: no member waits for the jobs of this one.
            self.revocations.draining.extend(undrained);
            return self.group(now, GroupEvent::RevocationAcked { epoch });
        }
        self.revocations.open.push(Revocation { epoch, slots: undrained, offsets: Vec::new(), commit: None });
        self.advance_revocations(now);
    }

    /// Records that a lane has drained, with the offset that it had left to commit.
    pub(super) fn on_lane_drained(&mut self, now: Nanos, slot: PartitionHandle, offset: Option<Committable>) {
        if self.revocations.draining.remove(&slot) {
            return self.close_shared(now);
        }
        // Without auto commit, users commit explicitly or not at all.
        let offset = offset.filter(|_| self.config.auto_commit.is_some());
        let offset = offset.map(|offset| self.to_commit_offset(Some(slot), offset));
        for revocation in &mut self.revocations.open {
            if revocation.slots.remove(&slot) {
                revocation.offsets.extend(offset.clone());
            }
        }
        self.advance_revocations(now);
    }

    /// Drops offsets of drained lanes that wait for other lanes of their revocation, because their work does not count.
    pub(super) fn discard_revoked(&mut self, tps: &[TopicPartition]) {
        for revocation in &mut self.revocations.open {
            revocation.offsets.retain(|offset| !tps.contains(&offset.tp));
        }
    }

    /// Ends the revocation that waited for this commit, whatever the result: the next owner reads uncommitted records
    /// again.
    pub(super) fn on_revocation_committed(&mut self, now: Nanos, id: u32) {
        let is_mine = |revocation: &Revocation| revocation.commit == Some(id);
        if let Some(index) = self.revocations.open.iter().position(is_mine) {
            let revocation = self.revocations.open.remove(index);
            self.group(now, GroupEvent::RevocationAcked { epoch: revocation.epoch });
        }
    }

    pub(super) fn on_revocation_expired(&mut self, tps: &[TopicPartition], epoch: u32, out: &mut Vec<ConsumerAction>) {
        let Some(index) = self.revocations.open.iter().position(|revocation| revocation.epoch == epoch) else { return };
        let revocation = self.revocations.open.remove(index);
        for slot in revocation.slots {
            out.push(ConsumerAction::AbandonPartition(slot));
            let tp = self.partitions.topic_partition(slot).filter(|tp| tps.contains(tp));
            if let Some(tp) = tp {
                out.push(ConsumerAction::LogEvent(ConsumerLogEvent::JobAbandoned(tp.clone())));
            }
        }
    }

    /// Drops lost partitions: their handlers are notified, nothing is committed, and nothing waits for their jobs.
    pub(super) fn on_partitions_lost(&mut self, now: Nanos, tps: &[TopicPartition], out: &mut Vec<ConsumerAction>) {
        let slots: Vec<PartitionHandle> = tps.iter().filter_map(|tp| self.partitions.handle(tp)).collect();
        // A member of a share group may acknowledge what it has acquired, whether it is in the group or not.
        let lost = !self.is_shared();
        out.extend(slots.iter().map(|&slot| ConsumerAction::RevokePartition { slot, lost }));
        self.remove_partitions(now, slots.clone());
        if !lost {
            self.revocations.draining.extend(slots);
            return;
        }
        // Partitions in revocation are no longer in the table; their hooks must learn of the loss, too.
        let leaving = std::mem::take(&mut self.revocations.open).into_iter().flat_map(|revocation| revocation.slots);
        out.extend(leaving.map(|slot| ConsumerAction::RevokePartition { slot, lost: true }));
    }

    fn advance_revocations(&mut self, now: Nanos) {
        for index in 0..self.revocations.open.len() {
            let Some(revocation) = self.revocations.open.get_mut(index) else { continue };
            if !revocation.slots.is_empty() || revocation.commit.is_some() {
                continue;
            }
            let (offsets, epoch) = (std::mem::take(&mut revocation.offsets), revocation.epoch);
            let id = self.commits.internal_id();
            if let Some(revocation) = self.revocations.open.get_mut(index) {
                revocation.commit = Some(id);
            }
            if offsets.is_empty() {
                self.revocations.open.remove(index);
                self.group(now, GroupEvent::RevocationAcked { epoch });
                return self.advance_revocations(now);
            }
            self.group(now, GroupEvent::Commit { offsets, id });
        }
    }
}
