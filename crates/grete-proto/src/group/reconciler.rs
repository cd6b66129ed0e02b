//! Reconciliation of the owned partitions with the assignment, in two phases: revoke and wait, then release.
//! Independent of the group protocol.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::TopicPartition;
use crate::time::Nanos;

/// Revocation that the application has not acknowledged yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Revocation {
    pub epoch: u32,
    pub tps: Vec<TopicPartition>,
    pub deadline: Nanos,
}

/// Owned partitions with their epochs, and open revocations.
#[derive(Debug, Default)]
pub(super) struct Reconciler {
    /// Includes partitions in revocation, until the acknowledgement or the deadline.
    owned: BTreeMap<TopicPartition, u32>,
    revoking: Vec<Revocation>,
    /// One counter for assignments and revocations, so that no epoch is used twice.
    epochs: u32,
}

impl Reconciler {
    /// Returns the epoch under which the member owns the partition; `None` if it does not.
    pub fn epoch_of(&self, tp: &TopicPartition) -> Option<u32> {
        self.owned.get(tp).copied()
    }

    pub fn owned(&self) -> impl Iterator<Item = (&TopicPartition, u32)> {
        self.owned.iter().map(|(tp, epoch)| (tp, *epoch))
    }

    /// Returns whether no revocation waits for an acknowledgement.
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

    /// Returns whether the partition is in an open revocation.
    pub fn is_revoking(&self, tp: &TopicPartition) -> bool {
        self.revoking.iter().any(|revocation| revocation.tps.contains(tp))
    }

    /// Adds the partitions of the target that are not owned. A partition in revocation is skipped, because it would be
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

    /// Starts to revoke the owned partitions, except those for which `stay` is true.
    pub fn revoke(&mut self, deadline: Nanos, stay: impl Fn(&TopicPartition) -> bool) -> Option<Revocation> {
        let tps: Vec<_> = self.owned.keys().filter(|tp| !stay(tp) && !self.is_revoking(tp)).cloned().collect();
        if tps.is_empty() {
            return None;
        }
        let revocation = Revocation { epoch: self.next_epoch(), tps, deadline };
        self.revoking.push(revocation.clone());
        Some(revocation)
    }

    /// Returns the partitions of an open revocation.
    pub fn revoking_partitions(&self, epoch: u32) -> &[TopicPartition] {
        let found = self.revoking.iter().find(|revocation| revocation.epoch == epoch);
        found.map_or(&[], |revocation| &revocation.tps)
    }

    /// Moves the deadline of each open revocation to `deadline` at the latest.
    pub fn expedite(&mut self, deadline: Nanos) {
        for revocation in &mut self.revoking {
            revocation.deadline = revocation.deadline.min(deadline);
        }
    }

    /// Ends a revocation. Returns `None` if the revocation has already ended.
    pub fn acknowledge(&mut self, epoch: u32) -> Option<Revocation> {
        let at = self.revoking.iter().position(|revocation| revocation.epoch == epoch)?;
        let revocation = self.revoking.remove(at);
        self.release(&revocation.tps);
        Some(revocation)
    }

    /// Ends a revocation whose deadline has passed, if there is one.
    pub fn take_expired(&mut self, now: Nanos) -> Option<Revocation> {
        let epoch = self.revoking.iter().find(|revocation| revocation.deadline <= now)?.epoch;
        self.acknowledge(epoch)
    }

    fn release(&mut self, tps: &[TopicPartition]) {
        for tp in tps {
            self.owned.remove(tp);
        }
    }

    /// Releases all partitions, including those in revocation.
    pub fn take_all(&mut self) -> Vec<TopicPartition> {
        self.revoking.clear();
        std::mem::take(&mut self.owned).into_keys().collect()
    }

    /// Adds partitions under the caller's epoch (standalone use).
    pub fn assign_manually(&mut self, tps: &[TopicPartition], epoch: u32) {
        self.owned.extend(tps.iter().map(|tp| (tp.clone(), epoch)));
    }

    /// Releases partitions (standalone use).
    pub fn unassign_manually(&mut self, tps: &[TopicPartition]) {
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
        assert_eq!(reconciler.acknowledge(99), None);
        assert_eq!(reconciler.acknowledge(2), Some(revocation));
        assert_eq!(owned(&reconciler), [1]);
        assert!(reconciler.is_idle());
    }

    #[test]
    fn an_expired_revocation_ignores_a_late_acknowledgement() {
        let mut reconciler = Reconciler::default();
        reconciler.assign(&tps(&[0, 1]));
        let revocation = reconciler.revoke(100, |_| false).unwrap();
        assert_eq!(reconciler.take_expired(99), None);
        assert_eq!(reconciler.deadline(), Some(100));
        reconciler.expedite(50);
        assert_eq!(reconciler.take_expired(50).unwrap().epoch, revocation.epoch);
        assert_eq!(reconciler.acknowledge(revocation.epoch), None);
        // P30: assigning the same partition again gives another epoch.
        assert_eq!(reconciler.assign(&tps(&[0])), Some((tps(&[0]), 3)));
    }
}
