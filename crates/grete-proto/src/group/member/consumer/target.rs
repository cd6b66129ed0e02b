//! Target of a member: the partitions that the coordinator lets it own, and the way from the owned ones to them.
//!
//! The coordinator names topics by id, and everything else in the client by name. A topic that is deleted and created
//! again has a new id: its partitions are revoked under the old one and assigned under the new one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::request::Partitions;
use super::{ConsumerMember, State};
use crate::group::context::TopicMetadataView;
use crate::group::reconciler::Reconciler;
use crate::ids::TopicPartition;
use crate::time::Nanos;

/// Target of the coordinator.
#[derive(Debug, Default)]
pub(super) struct Target {
    partitions: Partitions,
    /// Whether the owned partitions may differ from the target.
    open: bool,
    /// Whether the target is new, and not logged yet.
    is_new: bool,
    /// Whether metadata that lacks a topic may be requested (again).
    pub refresh_due: bool,
}

impl Target {
    /// Replaces the target. Returns whether it changed.
    pub fn set<'a>(&mut self, topics: impl Iterator<Item = (u128, &'a [i32])>) -> bool {
        let mut partitions = Partitions::new();
        for (id, indexes) in topics {
            partitions.entry(id).or_default().extend(indexes.iter().copied().filter(|index| *index >= 0));
        }
        partitions.retain(|_, indexes| !indexes.is_empty());
        let changed = partitions != self.partitions;
        self.partitions = partitions;
        self.is_new |= changed;
        self.open = true;
        changed
    }

    /// Returns whether all these partitions belong to the target.
    pub fn contains(&self, owned: &Partitions) -> bool {
        owned.iter().all(|(id, indexes)| self.partitions.get(id).is_some_and(|target| indexes.is_subset(target)))
    }
}

/// Next step from the owned partitions toward the target.
#[derive(Debug, Default)]
pub(in crate::group) struct TargetStep {
    /// All partitions of the target that have names.
    pub target: BTreeMap<TopicPartition, u128>,
    /// Whether the target was not reported before.
    pub is_new: bool,
    /// Whether the metadata lacks a topic of the target.
    pub incomplete: bool,
    /// Whether that calls for new metadata.
    pub refresh_metadata: bool,
}

impl ConsumerMember {
    /// Returns whether the owned partitions are those of the target.
    pub fn is_reconciled(&self) -> bool {
        !self.target.open
    }

    /// Returns the next step toward the target; `None`: the target is reached.
    pub fn target_step(&mut self, view: &dyn TopicMetadataView) -> Option<TargetStep> {
        if !self.target.open || self.state != State::Stable {
            return None;
        }
        let known: BTreeMap<u128, &Arc<str>> = self.owned_ids.iter().map(|(tp, id)| (*id, &tp.topic)).collect();
        let mut step = TargetStep { is_new: std::mem::take(&mut self.target.is_new), ..TargetStep::default() };
        for (&id, indexes) in &self.target.partitions {
            // The metadata may have forgotten the id of a topic that was deleted; the partitions are still owned.
            let Some(name) = view.topic_name(id).or_else(|| known.get(&id).map(|name| Arc::clone(name))) else {
                step.incomplete = true;
                continue;
            };
            for &index in indexes {
                let tp = TopicPartition { topic: Arc::clone(&name), partition: index };
                // Two ids under one name: the target has the old topic until the coordinator learns of the new one.
                if view.topic_id(&name) == Some(id) || !step.target.contains_key(&tp) {
                    step.target.insert(tp, id);
                }
            }
        }
        step.refresh_metadata = step.incomplete && std::mem::take(&mut self.target.refresh_due);
        Some(step)
    }

    /// Returns the owned partitions that the target lacks, or has under another topic id.
    pub fn leaving_partitions(&self, step: &TargetStep) -> BTreeSet<TopicPartition> {
        let leaving = self.owned_ids.iter().filter(|&(tp, id)| step.target.get(tp) != Some(id));
        leaving.map(|(tp, _)| tp.clone()).collect()
    }

    /// Records a step, with the partitions that were assigned in it.
    pub fn on_step(&mut self, assigned: &[TopicPartition], step: &TargetStep) {
        self.owned_ids.extend(assigned.iter().filter_map(|tp| step.target.get(tp).map(|id| (tp.clone(), *id))));
        self.target.open = step.incomplete || self.owned_ids != step.target;
    }

    /// Records that revocations have ended: the next heartbeat frees the partitions for their next owners.
    pub fn on_released(&mut self, now: Nanos, reconciler: &Reconciler) {
        self.owned_ids.retain(|tp, _| reconciler.epoch_of(tp).is_some());
        self.target.open = true;
        self.has_released = true;
        self.expedite_heartbeat(now);
    }
}
