//! Members of a group of the consumer protocol: joining, leaving, and the end of a membership.

use std::collections::BTreeSet;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::ConsumerGroupHeartbeatRequest;
use grete_wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequestTopicPartitions;

use super::{ConsumerGroup, Refusal, STATIC_LEAVE_EPOCH, SubscribedTopics};
use crate::effects::consumer_group::{ConsumerChange, ConsumerMember, MemberState, OwnedPartitions};
use crate::group::Requester;
use crate::group::context::Context;

/// Partitions that a member says to have. `None`: the same as in its last heartbeat.
pub(super) type Owned<'a> = Option<&'a [ConsumerGroupHeartbeatRequestTopicPartitions]>;

impl ConsumerGroup {
    /// Returns the member of a heartbeat as it is now; a new one if the member joins. A static member that joins takes the
    /// place of its predecessor.
    ///
    /// # Errors
    /// The group is full, or has no such member, or the member's epoch or instance id is not valid.
    pub(super) fn find_or_join(
        &mut self,
        ctx: &mut Context<'_>,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        member_id: &Arc<str>,
    ) -> Result<ConsumerMember, Refusal> {
        let max_size = ctx.config.consumer.max_size;
        if self.members.len() >= max_size && !self.members.contains_key(member_id) {
            let message = format!("The group has {max_size} members: see group.consumer.max.size.");
            return Err(Refusal::new(ErrorCode::GROUP_MAX_SIZE_REACHED, message));
        }
        let owned = request.topic_partitions.as_deref();
        let Some(instance_id) = request.instance_id.as_deref() else {
            let known = self.members.get(member_id);
            let member = match known {
                Some(known) => known.clone(),
                None if request.member_epoch == 0 => new_member(member_id),
                None => return Err(Refusal::unknown_member(member_id, &self.id)),
            };
            check_epoch(&member, request.member_epoch, owned)?;
            return Ok(member);
        };
        if request.member_epoch != 0 {
            let member = self.static_member(instance_id, member_id)?.clone();
            check_epoch(&member, request.member_epoch, owned)?;
            return Ok(member);
        }
        let Some(old) = self.statics.get(instance_id).and_then(|id| self.members.get(id)).cloned() else {
            return Ok(self.members.get(member_id).cloned().unwrap_or_else(|| new_member(member_id)));
        };
        if old.epoch != STATIC_LEAVE_EPOCH {
            let message = format!(
                "Member {} has instance id {instance_id}: stop it first, or wait for the end of its session.",
                old.member_id
            );
            return Err(Refusal::new(ErrorCode::UNRELEASED_INSTANCE_ID, message));
        }
        Ok(self.replace(ctx, old, member_id))
    }

    /// Gives the place of a static member that has left to its successor, with assignment and target.
    fn replace(&mut self, ctx: &mut Context<'_>, old: ConsumerMember, member_id: &Arc<str>) -> ConsumerMember {
        let target = self.target.get(&old.member_id).cloned();
        self.change(ctx, ConsumerChange::MemberRemoved { member_id: Arc::clone(&old.member_id) });
        let member = ConsumerMember { member_id: Arc::clone(member_id), epoch: 0, previous_epoch: 0, ..old };
        self.change(ctx, ConsumerChange::Member(member.clone()));
        if let Some(target) = target {
            let (epoch, computed_at) = (self.target_epoch, self.target_computed_at);
            let changed = vec![(Arc::clone(member_id), target)];
            self.change(ctx, ConsumerChange::Target { epoch, computed_at, changed });
        }
        member
    }

    /// Returns the static member of an instance id.
    fn static_member(&self, instance_id: &str, member_id: &str) -> Result<&ConsumerMember, Refusal> {
        let found = self.statics.get(instance_id).and_then(|id| self.members.get(id));
        let found = found.ok_or_else(|| {
            let message = format!("Group {} has no instance id {instance_id}: join again with epoch 0.", self.id);
            Refusal::new(ErrorCode::UNKNOWN_MEMBER_ID, message)
        })?;
        if &*found.member_id != member_id {
            let message = format!("Member {} has taken over instance id {instance_id}.", found.member_id);
            return Err(Refusal::new(ErrorCode::FENCED_INSTANCE_ID, message));
        }
        Ok(found)
    }

    /// Handles a heartbeat by which a member leaves: for good, or as a static member for a while.
    ///
    /// # Errors
    /// The group has no such member, or another member has the instance id.
    pub(super) fn leave(
        &mut self,
        ctx: &mut Context<'_>,
        request: &ConsumerGroupHeartbeatRequest<'_>,
    ) -> Result<(), Refusal> {
        let member_id = request.member_id.as_ref();
        let member = match request.instance_id.as_deref() {
            Some(instance_id) => self.static_member(instance_id, member_id)?,
            None => self.members.get(member_id).ok_or_else(|| Refusal::unknown_member(member_id, &self.id))?,
        };
        if request.instance_id.is_none() || request.member_epoch != STATIC_LEAVE_EPOCH {
            let id = Arc::clone(&member.member_id);
            self.remove(ctx, &id);
            return Ok(());
        }
        let mut member = member.clone();
        (member.epoch, member.revoking) = (STATIC_LEAVE_EPOCH, OwnedPartitions::new());
        // The successor begins with epoch 0, and may commit with it.
        member.assigned.values_mut().flat_map(|partitions| partitions.values_mut()).for_each(|epoch| *epoch = 0);
        self.change(ctx, ConsumerChange::Member(member));
        Ok(())
    }

    /// Removes a member that a client of the classic protocol names, such as an administrator's. `member_id`: may be empty
    /// for a static member.
    ///
    /// # Errors
    /// `UNKNOWN_MEMBER_ID` or `FENCED_INSTANCE_ID`.
    pub(in crate::group) fn remove_named(
        &mut self,
        ctx: &mut Context<'_>,
        member_id: &str,
        instance_id: Option<&str>,
    ) -> Result<(), ErrorCode> {
        let id = match instance_id {
            None => self.members.get_key_value(member_id).map(|(id, _)| id),
            Some(instance_id) => self.statics.get(instance_id),
        };
        let id = Arc::clone(id.ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?);
        if instance_id.is_some() && !member_id.is_empty() && &*id != member_id {
            return Err(ErrorCode::FENCED_INSTANCE_ID);
        }
        self.remove(ctx, &id);
        Ok(())
    }

    /// Removes a member, whose partitions are free at once.
    pub(in crate::group) fn remove(&mut self, ctx: &mut Context<'_>, member_id: &Arc<str>) {
        self.change(ctx, ConsumerChange::MemberRemoved { member_id: Arc::clone(member_id) });
        let mut topics = self.topics.clone();
        topics.retain(|topic, _| self.is_subscribed_to(topic));
        self.raise_epoch(ctx, topics);
    }

    /// Returns the id of the member with this member id or `group.instance.id`.
    pub(in crate::group) fn member_named(&self, name: &str) -> Option<Arc<str>> {
        let known = self.members.get_key_value(name).map(|(id, _)| id);
        self.statics.get(name).or(known).cloned()
    }

    /// Raises the group epoch, so that the next heartbeat computes a new target assignment.
    pub(in crate::group) fn force_rebalance(&mut self, ctx: &mut Context<'_>) {
        self.raise_epoch(ctx, self.topics.clone());
    }

    /// Begins the next group epoch. `topics`: subscribed topics that exist.
    pub(super) fn raise_epoch(&mut self, ctx: &mut Context<'_>, topics: SubscribedTopics) {
        let epoch = self.epoch + 1;
        ctx.effects.log.push(format!("group {}: epoch {epoch} begins, {} members", self.id, self.members.len()));
        self.change(ctx, ConsumerChange::Epoch { epoch, topics });
    }
}

fn new_member(member_id: &Arc<str>) -> ConsumerMember {
    ConsumerMember {
        member_id: Arc::clone(member_id),
        instance_id: None,
        rack_id: None,
        client_id: Arc::from(""),
        client_host: Arc::from(""),
        rebalance_timeout_ms: -1,
        assignor: None,
        topics: BTreeSet::new(),
        regex: Arc::from(""),
        epoch: 0,
        previous_epoch: 0,
        state: MemberState::Stable,
        assigned: OwnedPartitions::new(),
        revoking: OwnedPartitions::new(),
    }
}

/// Takes over what a heartbeat says of its member. Null fields change nothing.
pub(super) fn update(
    member: &mut ConsumerMember,
    requester: &Requester<'_>,
    request: &ConsumerGroupHeartbeatRequest<'_>,
) {
    let shared = |text: &str| Some(Arc::from(text));
    (member.client_id, member.client_host) = (requester.client_id.into(), requester.client_host.into());
    if let Some(instance_id) = request.instance_id.as_deref() {
        member.instance_id = shared(instance_id);
    }
    if let Some(rack_id) = request.rack_id.as_deref() {
        member.rack_id = shared(rack_id);
    }
    if let Some(assignor) = request.server_assignor.as_deref() {
        member.assignor = shared(assignor);
    }
    if let Some(regex) = request.subscribed_topic_regex.as_deref() {
        member.regex = Arc::from(regex);
    }
    if request.rebalance_timeout_ms != -1 {
        member.rebalance_timeout_ms = request.rebalance_timeout_ms;
    }
    if let Some(topics) = &request.subscribed_topic_names {
        member.topics = topics.iter().map(|topic| Arc::from(topic.as_ref())).collect();
    }
}

/// Checks the epoch of a heartbeat. The epoch before is valid, too, for a member that has no other partitions than the
/// assigned ones: the response with the new epoch may be lost.
fn check_epoch(member: &ConsumerMember, sent: i32, owned: Owned<'_>) -> Result<(), Refusal> {
    let is_lost = || sent < member.epoch && sent == member.previous_epoch && has_only(owned, &member.assigned);
    if sent == member.epoch || is_lost() { Ok(()) } else { Err(Refusal::fenced(sent, member.epoch)) }
}

fn has_only(owned: Owned<'_>, assigned: &OwnedPartitions) -> bool {
    let is_assigned = |topic: &ConsumerGroupHeartbeatRequestTopicPartitions| {
        let known = assigned.get(&topic.topic_id);
        known.is_some_and(|known| topic.partitions.iter().all(|partition| known.contains_key(partition)))
    };
    owned.is_some_and(|owned| owned.iter().all(is_assigned))
}
