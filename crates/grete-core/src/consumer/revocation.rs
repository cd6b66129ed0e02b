//! Giving partitions up: the handler ends, its hook runs, its offsets are committed, and only then the group goes on.
//!
//! The group machine keeps the deadline. When it passes, it says `RevokeExpired`; what has not drained by then is
//! abandoned: its lane is fenced and its job, whenever it returns, counts for nothing.

use super::{ConsumerAction, ConsumerCore, ConsumerNotice};
use crate::dispatch::Committable;
use crate::group::GroupEvent;
use crate::ids::{Slot, TopicPartition};
use crate::time::Nanos;

/// Revocations under way.
#[derive(Debug, Default)]
pub(super) struct Revocations {
    open: Vec<Revocation>,
}

#[derive(Debug)]
struct Revocation {
    epoch: u32,
    /// Lanes that have not drained.
    slots: Vec<Slot>,
    offsets: Vec<Committable>,
    /// The number of the last commit, once it is under way.
    commit: Option<u32>,
}

impl ConsumerCore {
    pub(super) fn revoke(&mut self, now: Nanos, tps: Vec<TopicPartition>, epoch: u32, out: &mut Vec<ConsumerAction>) {
        let slots: Vec<Slot> = tps.iter().filter_map(|tp| self.partitions.slot(tp)).collect();
        for &slot in &slots {
            self.remove(now, slot);
            out.push(ConsumerAction::Revoke { slot, lost: false });
        }
        self.revocations.open.push(Revocation { epoch, slots, offsets: Vec::new(), commit: None });
        self.advance_revocations(now);
    }

    /// A lane has ended; with it come the offsets that it still had to commit.
    pub(super) fn drained(&mut self, now: Nanos, slot: Slot, offset: Option<Committable>) {
        // Who commits by hand has done so, or did not want to.
        let offset = offset.filter(|_| self.config.auto_commit.is_some());
        for revocation in &mut self.revocations.open {
            if revocation.slots.contains(&slot) {
                revocation.slots.retain(|other| *other != slot);
                revocation.offsets.extend(offset.clone());
            }
        }
        self.advance_revocations(now);
    }

    /// A commit has come to its end; the revocation that waited for it is over, however it went: what was not stored is
    /// read again by the next owner.
    pub(super) fn revocation_committed(&mut self, now: Nanos, id: u32) {
        let is_mine = |revocation: &Revocation| revocation.commit == Some(id);
        if let Some(index) = self.revocations.open.iter().position(is_mine) {
            let revocation = self.revocations.open.remove(index);
            self.group(now, GroupEvent::RevokeAcked { epoch: revocation.epoch });
        }
    }

    pub(super) fn revocation_expired(&mut self, tps: &[TopicPartition], epoch: u32, out: &mut Vec<ConsumerAction>) {
        let Some(index) = self.revocations.open.iter().position(|revocation| revocation.epoch == epoch) else { return };
        let revocation = self.revocations.open.remove(index);
        for slot in revocation.slots {
            out.push(ConsumerAction::Abandon(slot));
            let tp = self.partitions.tp(slot).filter(|tp| tps.contains(tp));
            if let Some(tp) = tp {
                out.push(ConsumerAction::Notice(ConsumerNotice::Abandoned(tp.clone())));
            }
        }
    }

    /// These are gone already: their handlers hear of it, nothing is committed, nobody waits.
    pub(super) fn lost(&mut self, now: Nanos, tps: &[TopicPartition], out: &mut Vec<ConsumerAction>) {
        for tp in tps {
            if let Some(slot) = self.partitions.slot(tp) {
                self.remove(now, slot);
                out.push(ConsumerAction::Revoke { slot, lost: true });
            }
        }
        // Those on their way out have no name any more; their hooks are to know, too.
        let leaving = std::mem::take(&mut self.revocations.open).into_iter().flat_map(|revocation| revocation.slots);
        out.extend(leaving.map(|slot| ConsumerAction::Revoke { slot, lost: true }));
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
                self.group(now, GroupEvent::RevokeAcked { epoch });
                return self.advance_revocations(now);
            }
            self.send_commit(now, offsets, id);
        }
    }
}
