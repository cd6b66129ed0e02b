//! ConsumerGroupHeartbeat: the request, with the fields that changed.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grete_wire::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatRequestTopicPartitions, ShareGroupHeartbeatRequest,
};

use super::{ConsumerMember, State, holder};
use crate::group::config::GroupProtocol;
use crate::group::context::{Context, CoordinatorRef};
use crate::group::member::classic::millis;
use crate::group::reconciler::Reconciler;
use crate::request::{Channel, Request, Target};
use crate::time::Nanos;

/// Epoch with which a member leaves for good.
const LEAVE_EPOCH: i32 = -1;
/// Epoch with which a static member leaves its place to a successor.
const LEAVE_STATIC_EPOCH: i32 = -2;

/// Partitions by topic id.
pub(super) type Partitions = BTreeMap<u128, BTreeSet<i32>>;

/// Fields of a request that the next one leaves out if they have not changed. `topics`: without those that are concealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    topics: BTreeSet<Arc<str>>,
    /// `None`: the target has changed since.
    pub owned: Option<Partitions>,
}

/// Purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Join,
    Heartbeat,
    Leave,
    /// Gives up the instance id, which this member's own join has taken without an answer.
    ReleaseInstance,
    /// Gives up the place of the process before, in its name.
    ReleasePredecessor,
    /// Asks which member has the instance id.
    FindHolder,
}

/// Request in flight.
#[derive(Debug)]
pub(super) struct InFlight {
    pub token: u32,
    pub located: CoordinatorRef,
    pub sent_at: Nanos,
    pub purpose: Purpose,
    pub report: Report,
}

impl ConsumerMember {
    pub(super) fn send(&mut self, ctx: &mut Context<'_>, located: CoordinatorRef, reconciler: &Reconciler) {
        let topics = self.topics.difference(&self.concealed).cloned().collect();
        let report = Report { topics, owned: Some(self.owned(reconciler)) };
        let purpose = match self.state {
            State::Leaving => Purpose::Leave,
            State::Joining if self.predecessor.is_some() => Purpose::ReleasePredecessor,
            State::Joining if self.releases_instance => Purpose::ReleaseInstance,
            State::Joining if self.seeks_holder => Purpose::FindHolder,
            State::Joining => Purpose::Join,
            _ => Purpose::Heartbeat,
        };
        let request = match ctx.config().protocol {
            _ if purpose == Purpose::FindHolder => holder::request(&ctx.config().group_id),
            GroupProtocol::Share => Request::from_message(share_heartbeat(self.heartbeat(ctx, purpose, &report))),
            _ => Request::ConsumerGroupHeartbeat(self.heartbeat(ctx, purpose, &report)),
        };
        // Three heartbeats may time out within one session.
        let config = ctx.config();
        let timeout = (config.session_timeout / 3).max(2 * self.interval).min(config.request_timeout);
        let token = ctx.send(Target::Node(located.node), Channel::Control, request, timeout);
        self.is_known |= !matches!(purpose, Purpose::ReleasePredecessor | Purpose::FindHolder);
        self.has_released = false;
        self.in_flight = Some(InFlight { token, located, sent_at: ctx.now, purpose, report });
    }

    /// Returns a heartbeat, with the fields that the coordinator does not know yet.
    fn heartbeat(
        &self,
        ctx: &Context<'_>,
        purpose: Purpose,
        report: &Report,
    ) -> ConsumerGroupHeartbeatRequest<'static> {
        let is_static = ctx.config().instance_id.is_some();
        let known = self.reported.as_ref().filter(|_| purpose == Purpose::Heartbeat);
        let config = ctx.config();
        let mut request = ConsumerGroupHeartbeatRequest {
            group_id: Cow::Owned(config.group_id.to_string()),
            member_id: Cow::Owned(match &self.predecessor {
                Some(before) if purpose == Purpose::ReleasePredecessor => before.member_id.to_string(),
                _ => self.member_id.clone(),
            }),
            member_epoch: match purpose {
                Purpose::Join => self.join_epoch,
                Purpose::Heartbeat => self.epoch,
                Purpose::Leave if is_static && self.remain_in_group => LEAVE_STATIC_EPOCH,
                Purpose::ReleasePredecessor if is_static => LEAVE_STATIC_EPOCH,
                Purpose::Leave | Purpose::ReleasePredecessor => LEAVE_EPOCH,
                Purpose::ReleaseInstance => LEAVE_STATIC_EPOCH,
                Purpose::FindHolder => 0, // another request
            },
            instance_id: ctx.instance_id(),
            rebalance_timeout_ms: -1,
            subscribed_topic_names: None,
            topic_partitions: None,
            ..ConsumerGroupHeartbeatRequest::default()
        };
        if matches!(purpose, Purpose::Join | Purpose::Heartbeat) {
            if known.is_none() {
                request.rebalance_timeout_ms = millis(config.max_poll_interval);
                request.rack_id = config.rack.as_ref().map(|rack| Cow::Owned(rack.to_string()));
                request.server_assignor = config.remote_assignor.as_ref().map(|name| Cow::Owned(name.to_string()));
            }
            if known.is_none_or(|known| known.topics != report.topics) {
                let names = report.topics.iter().map(|topic| Cow::Owned(topic.to_string()));
                request.subscribed_topic_names = Some(names.collect());
            }
            if known.is_none_or(|known| self.is_owned_due(known, report)) {
                let topics = report.owned.iter().flatten().map(|(&topic_id, partitions)| {
                    let partitions = partitions.iter().copied().collect();
                    ConsumerGroupHeartbeatRequestTopicPartitions { topic_id, partitions }
                });
                request.topic_partitions = Some(topics.collect());
            }
        }
        request
    }

    /// Returns whether a request says what is owned: after a change, and in any case when all that is owned belongs to a
    /// new target. The coordinator may wait for partitions that it has assigned and taken back before this member took
    /// them, so that what is owned has not changed.
    fn is_owned_due(&self, known: &Report, report: &Report) -> bool {
        match (&known.owned, &report.owned) {
            (None, Some(owned)) => self.target.contains(owned),
            (known, owned) => known != owned,
        }
    }

    /// Returns the owned partitions by topic id, with those in revocation.
    fn owned(&self, reconciler: &Reconciler) -> Partitions {
        let mut owned = Partitions::new();
        for (tp, _) in reconciler.owned() {
            if let Some(&id) = self.owned_ids.get(tp) {
                owned.entry(id).or_default().insert(tp.partition);
            }
        }
        owned
    }
}

/// Returns the heartbeat of a share group: what a member owns does not matter there, because members own partitions in
/// common.
fn share_heartbeat(heartbeat: ConsumerGroupHeartbeatRequest<'static>) -> ShareGroupHeartbeatRequest<'static> {
    ShareGroupHeartbeatRequest {
        group_id: heartbeat.group_id,
        member_id: heartbeat.member_id,
        member_epoch: heartbeat.member_epoch,
        rack_id: heartbeat.rack_id,
        subscribed_topic_names: heartbeat.subscribed_topic_names,
    }
}
