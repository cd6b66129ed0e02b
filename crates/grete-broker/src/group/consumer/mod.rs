//! Groups of the consumer protocol (KIP-848), with the behavior of Kafka 4.3: the coordinator assigns the partitions.
//!
//! Members, subscriptions and topics decide about the group epoch. For each group epoch the coordinator computes a target
//! assignment, and each member moves to it by its own heartbeats: it gives up partitions, then gets the new epoch, then
//! the partitions that others have given up.

mod assignor;
mod describe;
mod heartbeat;
mod membership;
mod offsets;
mod reconcile;
mod refusal;
mod request;
mod restore;
mod target;
#[cfg(test)]
mod tests;
mod timers;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::context::Context;
use crate::effects::consumer_group::{
    ConsumerChange, ConsumerMember, MemberState, OwnedPartitions, Partitions, SubscribedTopics,
};
use crate::effects::group::GroupChange;
use crate::ids::{Millis, TopicId};
pub use describe::{ConsumerDescription, DescribedMember};
pub use refusal::Refusal;
pub(super) use request::check_heartbeat;

/// Member epoch of a request by which a member leaves.
pub(super) const LEAVE_EPOCH: i32 = -1;
/// Member epoch of a request by which a static member leaves for a while.
pub(super) const STATIC_LEAVE_EPOCH: i32 = -2;

/// Returns id and number of partitions of a topic. `None`: the topic does not exist.
pub type FindTopic<'a> = &'a dyn Fn(&str) -> Option<(TopicId, i32)>;

/// Deadline of a member that has to give up partitions, and the member epoch that it has to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RevocationTimer {
    at: Millis,
    epoch: i32,
}

/// Members and assignments of a group of the consumer protocol.
#[derive(Debug)]
pub(super) struct ConsumerGroup {
    id: Arc<str>,
    /// Group epoch. 1: no member has subscribed to a topic yet.
    epoch: i32,
    /// Group epoch of the target assignment. 0: there is none yet.
    target_epoch: i32,
    /// Time at which the target assignment was computed.
    target_computed_at: Millis,
    target: BTreeMap<Arc<str>, Partitions>,
    members: BTreeMap<Arc<str>, ConsumerMember>,
    /// Member ids by `group.instance.id`.
    statics: BTreeMap<Arc<str>, Arc<str>>,
    topics: SubscribedTopics,
    /// Ends of the members' sessions.
    sessions: BTreeMap<Arc<str>, Millis>,
    revocations: BTreeMap<Arc<str>, RevocationTimer>,
}

impl ConsumerGroup {
    /// Creates a group without members.
    pub(super) fn new(id: Arc<str>) -> Self {
        Self {
            id,
            epoch: 1,
            target_epoch: 0,
            target_computed_at: 0,
            target: BTreeMap::new(),
            members: BTreeMap::new(),
            statics: BTreeMap::new(),
            topics: SubscribedTopics::new(),
            sessions: BTreeMap::new(),
            revocations: BTreeMap::new(),
        }
    }

    /// Returns whether the group has no members, also none that left for a while.
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns Kafka's name of the state.
    pub(super) fn state(&self) -> &'static str {
        if self.members.is_empty() {
            "Empty"
        } else if self.epoch > self.target_epoch {
            "Assigning"
        } else if self.members.values().all(|member| self.is_reconciled(member)) {
            "Stable"
        } else {
            "Reconciling"
        }
    }

    /// Returns whether a member subscribes to the topic.
    pub(super) fn is_subscribed_to(&self, topic: &str) -> bool {
        self.members.values().any(|member| member.topics.contains(topic))
    }

    fn is_reconciled(&self, member: &ConsumerMember) -> bool {
        member.state == MemberState::Stable && member.epoch == self.target_epoch
    }

    /// Applies a change and stores it.
    fn change(&mut self, ctx: &mut Context<'_>, change: ConsumerChange) {
        self.apply(&change);
        ctx.change(GroupChange::Consumer { group: Arc::clone(&self.id), change });
    }
}
