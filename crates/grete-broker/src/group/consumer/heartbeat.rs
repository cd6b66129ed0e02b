//! Heartbeat of a member.

use std::borrow::Cow;
use std::sync::Arc;

use grete_wire::messages::consumer_group_heartbeat::{Assignment, ConsumerGroupHeartbeatResponseTopicPartitions};
use grete_wire::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};

use super::{ConsumerGroup, FindTopic, LEAVE_EPOCH, Refusal, STATIC_LEAVE_EPOCH, membership};
use crate::effects::consumer_group::{ConsumerChange, ConsumerMember, OwnedPartitions};
use crate::group::Requester;
use crate::group::context::Context;

type Response = ConsumerGroupHeartbeatResponse<'static>;

fn left(request: &ConsumerGroupHeartbeatRequest<'_>) -> Response {
    Response {
        member_id: Some(Cow::Owned(request.member_id.to_string())),
        member_epoch: request.member_epoch,
        ..Response::default()
    }
}

impl ConsumerGroup {
    /// Handles a valid heartbeat. `member_id`: that of the request, or a new one.
    ///
    /// # Errors
    /// The group does not accept the member.
    pub(in crate::group) fn heartbeat(
        &mut self,
        ctx: &mut Context<'_>,
        requester: &Requester<'_>,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        member_id: &Arc<str>,
        find_topic: FindTopic<'_>,
    ) -> Result<Response, Refusal> {
        if matches!(request.member_epoch, LEAVE_EPOCH | STATIC_LEAVE_EPOCH) {
            return self.leave(ctx, request).map(|()| left(request));
        }
        self.beat(ctx, requester, request, member_id, find_topic)
    }

    /// Handles the heartbeat of a member that stays or joins.
    fn beat(
        &mut self,
        ctx: &mut Context<'_>,
        requester: &Requester<'_>,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        member_id: &Arc<str>,
        find_topic: FindTopic<'_>,
    ) -> Result<Response, Refusal> {
        let old = self.find_or_join(ctx, request, member_id)?;
        let stored = self.members.get(member_id).cloned();
        let mut member = old.clone();
        membership::update(&mut member, requester, request);
        let names_changed = member.topics != old.topics;
        let subscription_changed = names_changed || member.regex != old.regex;
        // Not stored yet: the target assignment counts the member in, and its next state is stored at the end.
        self.insert(member.clone());
        self.update_epoch(ctx, names_changed, find_topic);
        self.update_target(ctx);
        self.reconcile(ctx, &mut member, subscription_changed, request.topic_partitions.as_deref());
        if stored.as_ref() != Some(&member) {
            self.change(ctx, ConsumerChange::Member(member.clone()));
        }
        self.begin_session(ctx, member_id);
        let is_full = request.rebalance_timeout_ms != -1
            && (request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some())
            && request.topic_partitions.is_some();
        let has_news = request.member_epoch == 0 || is_full || member.assigned != old.assigned;
        Ok(Response {
            member_id: Some(Cow::Owned(member_id.to_string())),
            member_epoch: member.epoch,
            heartbeat_interval_ms: ctx.config.consumer.heartbeat_interval_ms,
            assignment: has_news.then(|| assignment(&member)),
            ..Response::default()
        })
    }

    /// Raises the group epoch if a subscription or a subscribed topic changed.
    fn update_epoch(&mut self, ctx: &mut Context<'_>, names_changed: bool, find_topic: FindTopic<'_>) {
        let names = self.members.values().flat_map(|member| &member.topics);
        let topics = names.filter_map(|name| find_topic(name).map(|found| (Arc::clone(name), found))).collect();
        if names_changed || topics != self.topics {
            self.raise_epoch(ctx, topics);
        }
    }
}

fn assignment(member: &ConsumerMember) -> Assignment {
    Assignment { topic_partitions: listed(&member.assigned) }
}

fn listed(partitions: &OwnedPartitions) -> Vec<ConsumerGroupHeartbeatResponseTopicPartitions> {
    let topic = |(topic_id, partitions): (&u128, &std::collections::BTreeMap<i32, i32>)| {
        let partitions = partitions.keys().copied().collect();
        ConsumerGroupHeartbeatResponseTopicPartitions { topic_id: *topic_id, partitions }
    };
    partitions.iter().map(topic).collect()
}
