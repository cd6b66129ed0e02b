//! Brings what is owned to what is assigned, in two phases: revoke and wait, then let go. Knows nothing of protocols.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::TopicPartition;
use crate::time::Nanos;

/// A revocation that the application has not acknowledged yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Revocation {
    pub epoch: u32,
    pub tps: Vec<TopicPartition>,
    pub deadline: Nanos,
}

/// What is ours, under which epoch, and what is on its way out.
#[derive(Debug, Default)]
pub(super) struct Reconciler {
    /// Those being revoked are among them until they are acknowledged or their time is up.
    owned: BTreeMap<TopicPartition, u32>,
    revoking: Vec<Revocation>,
    /// One counter for assignments and revocations, so that no number ever names two things.
    epochs: u32,
}

impl Reconciler {
    /// The epoch under which a partition is ours.
    pub fn epoch_of(&self, tp: &TopicPartition) -> Option<u32> {
        self.owned.get(tp).copied()
    }

    pub fn owned(&self) -> impl Iterator<Item = (&TopicPartition, u32)> {
        self.owned.iter().map(|(tp, epoch)| (tp, *epoch))
    }

    /// Nothing waits for an acknowledgement.
    pub fn is_idle(&self) -> bool {
        self.revoking.is_empty()
    }

    pub fn deadline(&self) -> Option<Nanos> {
        self.revoking.iter().map(|revocation| revocation.deadline).min()
    }

    fn next_epoch(&mut self) -> u32 {
        self.epochs = self.epochs.wrapping_add(1);
        self.epochs
    }

    fn is_revoking(&self, tp: &TopicPartition) -> bool {
        self.revoking.iter().any(|revocation| revocation.tps.contains(tp))
    }

    /// Takes what is in the target and not owned. A partition that is still being revoked is not taken: it would be
    /// owned under two epochs.
    pub fn assign(&mut self, target: &[TopicPartition]) -> Option<(Vec<TopicPartition>, u32)> {
        let new: BTreeSet<_> = target.iter().filter(|tp| !self.owned.contains_key(*tp)).cloned().collect();
        if new.is_empty() {
            return None;
        }
        let epoch = self.next_epoch();
        self.owned.extend(new.iter().map(|tp| (tp.clone(), epoch)));
        Some((new.into_iter().collect(), epoch))
    }

    /// Starts to revoke what is owned and does not `stay`.
    pub fn revoke(&mut self, deadline: Nanos, stay: impl Fn(&TopicPartition) -> bool) -> Option<Revocation> {
        let tps: Vec<_> = self.owned.keys().filter(|tp| !stay(tp) && !self.is_revoking(tp)).cloned().collect();
        if tps.is_empty() {
            return None;
        }
        let revocation = Revocation { epoch: self.next_epoch(), tps, deadline };
        self.revoking.push(revocation.clone());
        Some(revocation)
    }

    /// What an open revocation is about.
    pub fn revoking(&self, epoch: u32) -> &[TopicPartition] {
        let found = self.revoking.iter().find(|revocation| revocation.epoch == epoch);
        found.map_or(&[], |revocation| &revocation.tps)
    }

    /// No revocation waits longer than this.
    pub fn hurry(&mut self, deadline: Nanos) {
        for revocation in &mut self.revoking {
            revocation.deadline = revocation.deadline.min(deadline);
        }
    }

    /// The application is done; an answer to a revocation that is over already is nobody's.
    pub fn acked(&mut self, epoch: u32) -> Option<Revocation> {
        let at = self.revoking.iter().position(|revocation| revocation.epoch == epoch)?;
        let revocation = self.revoking.remove(at);
        self.release(&revocation.tps);
        Some(revocation)
    }

    /// A revocation whose time is up.
    pub fn expired(&mut self, now: Nanos) -> Option<Revocation> {
        let epoch = self.revoking.iter().find(|revocation| revocation.deadline <= now)?.epoch;
        self.acked(epoch)
    }

    fn release(&mut self, tps: &[TopicPartition]) {
        for tp in tps {
            self.owned.remove(tp);
        }
    }

    /// Everything is gone, revocations included.
    pub fn lose_all(&mut self) -> Vec<TopicPartition> {
        self.revoking.clear();
        std::mem::take(&mut self.owned).into_keys().collect()
    }

    /// Standalone: owned under the caller's epoch.
    pub fn own(&mut self, tps: &[TopicPartition], epoch: u32) {
        self.owned.extend(tps.iter().map(|tp| (tp.clone(), epoch)));
    }

    /// Standalone: no longer owned.
    pub fn disown(&mut self, tps: &[TopicPartition]) {
        self.release(tps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tps(partitions: &[i32]) -> Vec<TopicPartition> {
        partitions.iter().map(|p| TopicPartition::new("t", *p)).collect()
    }

    fn owned(reconciler: &Reconciler) -> Vec<i32> {
        reconciler.owned().map(|(tp, _)| tp.partition).collect()
    }

    #[test]
    fn a_partition_is_owned_until_its_revocation_is_acknowledged() {
        let mut reconciler = Reconciler::default();
        assert_eq!(reconciler.assign(&tps(&[0, 1, 2])), Some((tps(&[0, 1, 2]), 1)));
        assert_eq!(reconciler.assign(&tps(&[0, 1, 2])), None);
        let revocation = reconciler.revoke(100, |tp| tp.partition == 1).unwrap();
        assert_eq!((revocation.tps.clone(), revocation.epoch), (tps(&[0, 2]), 2));
        assert_eq!(reconciler.revoke(100, |tp| tp.partition == 1), None);
        assert_eq!(reconciler.epoch_of(&tps(&[0])[0]), Some(1));
        assert_eq!(reconciler.acked(99), None);
        assert_eq!(reconciler.acked(2), Some(revocation));
        assert_eq!(owned(&reconciler), [1]);
        assert!(reconciler.is_idle());
    }

    #[test]
    fn an_expired_revocation_is_over_and_its_late_answer_is_nobodys() {
        let mut reconciler = Reconciler::default();
        reconciler.assign(&tps(&[0, 1]));
        let revocation = reconciler.revoke(100, |_| false).unwrap();
        assert_eq!(reconciler.expired(99), None);
        assert_eq!(reconciler.deadline(), Some(100));
        reconciler.hurry(50);
        assert_eq!(reconciler.expired(50).unwrap().epoch, revocation.epoch);
        assert_eq!(reconciler.acked(revocation.epoch), None);
        // P30: the same partition again is another assignment.
        assert_eq!(reconciler.assign(&tps(&[0])), Some((tps(&[0]), 3)));
    }
}
