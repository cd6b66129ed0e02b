//! The way of a member to its target assignment, one step each heartbeat.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::membership::Owned;
use super::{ConsumerGroup, RevocationTimer};
use crate::effects::consumer_group::{ConsumerMember, MemberState, OwnedPartitions};
use crate::group::context::Context;
use crate::ids::{Millis, TopicId};

impl ConsumerGroup {
    /// Moves a member on towards its target assignment as far as the other members allow. `subscription_changed`: the
    /// member must give up topics at once that it no longer subscribes to.
    pub(super) fn reconcile(
        &mut self,
        ctx: &Context<'_>,
        member: &mut ConsumerMember,
        subscription_changed: bool,
        owned: Owned<'_>,
    ) {
        let before = member.clone();
        match member.state {
            MemberState::Stable if member.epoch != self.target_epoch => self.advance(member, owned),
            MemberState::Stable if subscription_changed => self.drop_unsubscribed(member, owned),
            MemberState::Stable => {}
            MemberState::UnrevokedPartitions if still_has(owned, &member.revoking) => {
                if subscription_changed {
                    self.drop_unsubscribed(member, owned);
                }
            }
            MemberState::UnrevokedPartitions | MemberState::UnreleasedPartitions => self.advance(member, owned),
        }
        if *member == before {
            return;
        }
        if member.state == MemberState::UnrevokedPartitions {
            let at = ctx.now + Millis::from(member.rebalance_timeout_ms.max(0));
            self.revocations.insert(Arc::clone(&member.member_id), RevocationTimer { at, epoch: member.epoch });
        } else {
            self.revocations.remove(&member.member_id);
        }
    }

    /// Returns the subscribed topics of a member that exist.
    pub(super) fn subscribed(&self, member: &ConsumerMember) -> BTreeSet<TopicId> {
        member.topics.iter().filter_map(|name| self.topics.get(name).map(|(id, _)| *id)).collect()
    }

    /// Returns whether another member has a partition: assigned, or not given up yet.
    fn is_taken(&self, member: &ConsumerMember, topic: TopicId, partition: i32) -> bool {
        let has = |owned: &OwnedPartitions| owned.get(&topic).is_some_and(|owned| owned.contains_key(&partition));
        let mut others = self.members.values().filter(|other| other.member_id != member.member_id);
        others.any(|other| has(&other.assigned) || has(&other.revoking))
    }

    /// Computes the next state. A member that has to give up partitions keeps its epoch. Otherwise it gets the epoch of
    /// the target assignment, and those of its partitions that are free.
    fn advance(&self, member: &mut ConsumerMember, owned: Owned<'_>) {
        let subscribed = self.subscribed(member);
        let none = super::Partitions::new();
        let target = self.target.get(&member.member_id).unwrap_or(&none);
        let is_target = |topic: TopicId, partition: i32| {
            subscribed.contains(&topic) && target.get(&topic).is_some_and(|target| target.contains(&partition))
        };
        let (mut assigned, mut revoking) = (OwnedPartitions::new(), OwnedPartitions::new());
        for (topic, partitions) in &member.assigned {
            for (partition, epoch) in partitions {
                let kept = if is_target(*topic, *partition) { &mut assigned } else { &mut revoking };
                kept.entry(*topic).or_default().insert(*partition, *epoch);
            }
        }
        if still_has(owned, &revoking) && !revoking.is_empty() {
            (member.state, member.revoking) = (MemberState::UnrevokedPartitions, revoking);
            member.assigned = assigned;
            member.previous_epoch = member.epoch;
            return;
        }
        let mut waits = false;
        for (topic, partitions) in target.iter().filter(|(topic, _)| subscribed.contains(topic)) {
            for partition in partitions {
                if assigned.get(topic).is_some_and(|assigned| assigned.contains_key(partition)) {
                    continue;
                }
                if self.is_taken(member, *topic, *partition) {
                    waits = true;
                } else {
                    assigned.entry(*topic).or_default().insert(*partition, self.target_epoch);
                }
            }
        }
        member.state = if waits { MemberState::UnreleasedPartitions } else { MemberState::Stable };
        (member.assigned, member.revoking) = (assigned, OwnedPartitions::new());
        (member.previous_epoch, member.epoch) = (member.epoch, self.target_epoch);
    }

    /// Takes partitions of topics that the member no longer subscribes to out of its assignment, without a new target.
    fn drop_unsubscribed(&self, member: &mut ConsumerMember, owned: Owned<'_>) {
        let subscribed = self.subscribed(member);
        let (kept, dropped): (OwnedPartitions, OwnedPartitions) =
            std::mem::take(&mut member.assigned).into_iter().partition(|(topic, _)| subscribed.contains(topic));
        member.assigned = kept;
        if dropped.is_empty() {
            return;
        }
        let mut revoking = member.revoking.clone();
        for (topic, partitions) in dropped {
            revoking.entry(topic).or_default().extend(partitions);
        }
        if still_has(owned, &revoking) {
            (member.state, member.revoking) = (MemberState::UnrevokedPartitions, revoking);
        }
        member.previous_epoch = member.epoch;
    }
}

/// Returns whether a member has one of the partitions. It has if it does not say what it has.
fn still_has(owned: Owned<'_>, revoking: &OwnedPartitions) -> bool {
    let Some(owned) = owned else { return true };
    owned.iter().any(|topic| {
        let revoking = revoking.get(&topic.topic_id);
        revoking.is_some_and(|revoking| topic.partitions.iter().any(|partition| revoking.contains_key(partition)))
    })
}
