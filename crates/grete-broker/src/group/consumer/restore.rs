//! Durable state of a group of the consumer protocol: the fold of its changes.

use std::sync::Arc;

use super::ConsumerGroup;
use crate::effects::consumer_group::{ConsumerChange, ConsumerMember};

impl ConsumerGroup {
    /// Applies a change.
    pub(in crate::group) fn apply(&mut self, change: &ConsumerChange) {
        match change {
            ConsumerChange::Epoch { epoch, topics } => (self.epoch, self.topics) = (*epoch, topics.clone()),
            ConsumerChange::Target { epoch, computed_at, changed } => {
                (self.target_epoch, self.target_computed_at) = (*epoch, *computed_at);
                self.target.extend(changed.iter().map(|(id, target)| (Arc::clone(id), target.clone())));
            }
            ConsumerChange::Member(member) => self.insert(member.clone()),
            ConsumerChange::MemberRemoved { member_id } => {
                let removed = self.members.remove(member_id);
                if let Some(instance_id) = removed.and_then(|member| member.instance_id)
                    && self.statics.get(&instance_id) == Some(member_id)
                {
                    self.statics.remove(&instance_id);
                }
                self.target.remove(member_id);
                self.sessions.remove(member_id);
                self.revocations.remove(member_id);
            }
        }
    }

    /// Adds or replaces a member.
    pub(super) fn insert(&mut self, member: ConsumerMember) {
        if let Some(instance_id) = &member.instance_id {
            self.statics.insert(Arc::clone(instance_id), Arc::clone(&member.member_id));
        }
        self.members.insert(Arc::clone(&member.member_id), member);
    }

    /// Returns changes that restore the group.
    pub(in crate::group) fn snapshot(&self) -> Vec<ConsumerChange> {
        let mut changes = vec![ConsumerChange::Epoch { epoch: self.epoch, topics: self.topics.clone() }];
        changes.extend(self.members.values().cloned().map(ConsumerChange::Member));
        let changed = self.target.iter().map(|(id, target)| (Arc::clone(id), target.clone())).collect();
        let (epoch, computed_at) = (self.target_epoch, self.target_computed_at);
        changes.push(ConsumerChange::Target { epoch, computed_at, changed });
        changes
    }
}
