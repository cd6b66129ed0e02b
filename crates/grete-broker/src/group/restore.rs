//! Durable state: restore from changes, snapshot, and the move of groups to another broker.

use std::sync::Arc;

use grete_wire::ErrorCode;

use super::GroupCoordinator;
use super::consumer::ConsumerGroup;
use super::context::Context;
use super::state::Group;
use crate::effects::Effects;
use crate::effects::group::{GroupChange, GroupMetadata};
use crate::ids::Millis;

impl GroupCoordinator {
    /// Applies a change that was stored before the restart. The sessions of the members begin with the next
    /// [`GroupCoordinator::tick`], which [`GroupCoordinator::deadline`] demands at once.
    pub fn restore(&mut self, change: GroupChange) {
        self.loading = true;
        match change {
            GroupChange::Metadata { group, metadata } => {
                let since = metadata.state_since;
                self.restored(&group, since).load(metadata);
            }
            GroupChange::Offsets { group, producer_id, offsets } => {
                let since = offsets.first().map_or(0, |(_, offset)| offset.committed_at);
                let restored = self.restored(&group, since);
                for (tp, offset) in offsets {
                    restored.offsets.put(producer_id, tp, offset);
                }
            }
            GroupChange::OffsetsDeleted { group, partitions } => {
                if let Some(group) = self.groups.get_mut(&group) {
                    for tp in &partitions {
                        group.offsets.remove(tp);
                    }
                }
            }
            GroupChange::TransactionEnded { producer_id, commit } => {
                self.end_transaction(producer_id, commit);
            }
            GroupChange::Deleted { group } => {
                self.groups.remove(&group);
            }
            GroupChange::Consumer { group, change } => {
                let restored = self.restored(&group, 0);
                if restored.consumer.is_none() {
                    restored.become_consumer();
                }
                if let Some(consumer) = &mut restored.consumer {
                    consumer.apply(&change);
                }
            }
        }
    }

    fn restored(&mut self, group: &Arc<str>, since: Millis) -> &mut Group {
        let restored = self.groups.entry(Arc::clone(group)).or_insert_with(|| Group::new(Arc::clone(group), since));
        restored.has_records = true;
        restored
    }

    /// Returns changes that restore the durable state in a new coordinator. Their number depends on the state, not on
    /// its history.
    #[must_use]
    pub fn snapshot(&self) -> Vec<GroupChange> {
        let mut changes = Vec::new();
        for (id, group) in &self.groups {
            if let Some(metadata) = &group.stored {
                changes.push(GroupChange::Metadata { group: Arc::clone(id), metadata: metadata.clone() });
            }
            for change in group.consumer.iter().flat_map(ConsumerGroup::snapshot) {
                changes.push(GroupChange::Consumer { group: Arc::clone(id), change });
            }
            for (producer_id, offsets) in group.offsets.to_commits() {
                changes.push(GroupChange::Offsets { group: Arc::clone(id), producer_id, offsets });
            }
        }
        changes
    }

    /// Moves groups to another broker, like the crash of their coordinator does: waiting requests are answered with
    /// `NOT_COORDINATOR`, and each group continues with its durable state.
    pub fn fail_over(&mut self, now: Millis, mut moves: impl FnMut(&str) -> bool, effects: &mut Effects) {
        let moved: Vec<_> = self.groups.keys().filter(|id| moves(id)).cloned().collect();
        for id in moved {
            self.with_group(now, &id, effects, |group, _, ctx| group.fail_over(ctx));
        }
    }
}

impl Group {
    fn fail_over(&mut self, ctx: &mut Context<'_>) {
        if let Some(consumer) = &mut self.consumer {
            // No request waits, and all of the state is durable.
            return consumer.on_loaded(ctx);
        }
        for member in self.members.values_mut() {
            if let Some(to) = member.join.take() {
                ctx.refuse_join(to, &member.id, ErrorCode::NOT_COORDINATOR);
            }
            if let Some(to) = member.sync.take() {
                ctx.refuse_sync(to, ErrorCode::NOT_COORDINATOR);
            }
        }
        let empty = GroupMetadata {
            protocol_type: None,
            protocol: None,
            leader: None,
            generation: 0,
            state_since: self.state_since,
            members: Vec::new(),
        };
        match self.stored.clone() {
            Some(metadata) => self.load(metadata),
            None => {
                self.load(empty);
                self.stored = None;
            }
        }
        self.on_loaded(ctx);
    }
}
