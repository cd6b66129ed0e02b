//! Target assignment of a group.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ConsumerGroup;
use super::assignor::{Subscriber, assign};
use crate::effects::consumer_group::{ConsumerChange, Partitions};
use crate::group::config::{Assignor, ConsumerGroupConfig};
use crate::group::context::Context;

impl ConsumerGroup {
    /// Returns the assignor that most members prefer, else the default.
    pub(super) fn assignor(&self, config: &ConsumerGroupConfig) -> Assignor {
        let preferred = |assignor: &Assignor| {
            self.members.values().filter(|member| member.assignor.as_deref() == Some(assignor.name())).count()
        };
        // The last one of several with the same number of votes would win, so the order is reversed.
        let most = config.assignors.iter().rev().max_by_key(|assignor| preferred(assignor));
        most.filter(|assignor| preferred(assignor) > 0).copied().unwrap_or_else(|| config.default_assignor())
    }

    /// Computes the target assignment of a new group epoch, unless the last one is too recent.
    pub(super) fn update_target(&mut self, ctx: &mut Context<'_>) {
        let config = &ctx.config.consumer;
        let is_due = ctx.now - self.target_computed_at >= config.assignment_interval_ms;
        if self.epoch <= self.target_epoch || !is_due {
            return;
        }
        let assignor = self.assignor(config);
        let none = Partitions::new();
        let subscriber = |(id, member)| Subscriber {
            topics: self.subscribed(member),
            current: self.target.get::<Arc<str>>(id).unwrap_or(&none),
        };
        let members: Vec<_> = self.members.iter().map(subscriber).collect();
        let topics: BTreeMap<_, _> = self.topics.values().copied().collect();
        let assigned = assign(assignor, &members, &topics);
        let targets = self.members.keys().zip(assigned);
        let changed = targets.filter(|(id, target)| self.target.get(*id) != Some(target));
        let changed = changed.map(|(id, target)| (Arc::clone(id), target)).collect();
        let (epoch, computed_at) = (self.epoch, ctx.now);
        self.change(ctx, ConsumerChange::Target { epoch, computed_at, changed });
    }
}
