//! Durable state of share groups: restore from changes, and snapshot.

use std::sync::Arc;

use super::coordinator::{ShareCoordinator, UNKNOWN_EPOCH};
use super::group::ShareGroup;
use super::partition::SharePartition;
use crate::effects::share_group::{ShareChange, ShareGroupChange};

impl ShareCoordinator {
    /// Applies a change that was stored before the restart. The sessions of the members begin with the next
    /// [`ShareCoordinator::tick`], which [`ShareCoordinator::deadline`] demands at once.
    pub fn restore(&mut self, change: ShareChange) {
        self.loading = true;
        let ShareChange { group, change } = change;
        match change {
            ShareGroupChange::Deleted => self.forget_group(&group),
            ShareGroupChange::Configured(overrides) => {
                self.overrides.insert(group, overrides.into_iter().collect());
            }
            ShareGroupChange::Partition { topic, partition, start, ranges } => {
                let key = (group, topic, partition);
                let restored = self.partitions.entry(key).or_insert_with(|| SharePartition::new(start, UNKNOWN_EPOCH));
                restored.restore(start, &ranges);
            }
            ShareGroupChange::PartitionDeleted { topic, partition } => {
                self.forget_partition(&(group, topic, partition));
            }
            change => {
                let id = Arc::clone(&group);
                self.groups.entry(group).or_insert_with(|| ShareGroup::new(id)).apply(&change);
            }
        }
    }

    /// Returns changes that restore the durable state in a new coordinator.
    #[must_use]
    pub fn snapshot(&self) -> Vec<ShareChange> {
        let mut changes = Vec::new();
        for (group, overrides) in &self.overrides {
            let change = ShareGroupChange::Configured(overrides.clone().into_iter().collect());
            changes.push(ShareChange { group: Arc::clone(group), change });
        }
        for (id, group) in &self.groups {
            let members = group.members().cloned().map(ShareGroupChange::Member);
            let all = members.chain([ShareGroupChange::Epoch(group.epochs().0)]);
            changes.extend(all.map(|change| ShareChange { group: Arc::clone(id), change }));
        }
        for ((group, topic, partition), state) in &self.partitions {
            let (start, ranges) = (state.start(), state.snapshot());
            let change = ShareGroupChange::Partition { topic: *topic, partition: *partition, start, ranges };
            changes.push(ShareChange { group: Arc::clone(group), change });
        }
        changes
    }
}
