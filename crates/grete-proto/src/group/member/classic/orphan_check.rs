//! Leader's check for partitions that no member owns after a cooperative rebalance.
//!
//! A partition that one member must give up first is withheld from its next owner until the first member joins again.
//! If the first member is restarted before that, under its `group.instance.id`, it returns into the same generation
//! with the rest of its partitions and does not know that it should give one up. The withheld partition would have no
//! owner until the next rebalance, whenever that happens. A restarted leader knows neither the withheld partitions nor
//! the number of assigned ones.
//!
//! The leader therefore asks the coordinator for all assignments and claims. A partition that no member has and no
//! member claims any more needs another rebalance. A partition that a member still claims is being given up, which may
//! take `max.poll.interval.ms`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use grete_wire::ErrorCode;
use grete_wire::messages::describe_groups::DescribedGroup;
use grete_wire::messages::{DescribeGroupsRequest, DescribeGroupsResponse};

use super::ClassicMember;
use crate::group::assignor::Assignor;
use crate::group::consumer_protocol;
use crate::group::context::{Context, CoordinatorRef, ErrorClass};
use crate::group::member::state::State;
use crate::ids::TopicPartition;
use crate::request::{Channel, Request, RequestError, Response, Target};
use crate::time::{Nanos, earliest};

/// Heartbeat intervals between two checks: most partitions that change owners do so before the first check.
const CHECK_INTERVAL_HEARTBEATS: u64 = 5;

/// Pending check, and its request in flight.
#[derive(Debug, Default)]
pub(super) struct OrphanCheck {
    /// Time at which the group rebalances, whatever the checks find; `None`: no check is needed.
    rebalance_at: Option<Nanos>,
    next_check: Nanos,
    in_flight: Option<(u32, CoordinatorRef)>,
}

impl OrphanCheck {
    /// Starts checking, because a partition may have no owner.
    pub fn start(&mut self, ctx: &Context<'_>, first_look: Nanos) {
        let give_up_at = ctx.now.saturating_add(ctx.config().max_poll_interval);
        *self = Self { rebalance_at: Some(give_up_at), next_check: first_look, in_flight: None };
    }

    pub fn cancel(&mut self) {
        *self = Self::default();
    }

    pub fn is_rebalance_due(&self, now: Nanos) -> bool {
        self.rebalance_at.is_some_and(|give_up_at| give_up_at <= now)
    }

    pub fn is_in_flight(&self, token: u32) -> bool {
        self.in_flight.is_some_and(|(awaited, _)| awaited == token)
    }

    pub fn set_coordinator(&mut self, located: CoordinatorRef) {
        self.in_flight = self.in_flight.filter(|(_, asked)| asked.node == located.node);
    }

    pub fn deadline(&self, coordinator_known: bool) -> Option<Nanos> {
        let look = (coordinator_known && self.in_flight.is_none()).then_some(self.next_check);
        earliest(Some(self.rebalance_at?), look)
    }

    pub fn tick(&mut self, ctx: &mut Context<'_>, located: CoordinatorRef) {
        if self.rebalance_at.is_none() || self.in_flight.is_some() || ctx.now < self.next_check {
            return;
        }
        let group = Cow::Owned(ctx.config().group_id.to_string());
        let request = DescribeGroupsRequest { groups: vec![group], ..DescribeGroupsRequest::default() };
        let timeout = ctx.config().request_timeout;
        self.next_check = next_check_at(ctx);
        let token = ctx.send(Target::Node(located.node), Channel::Control, Request::from_message(request), timeout);
        self.in_flight = Some((token, located));
    }
}

/// Returns the time of the next check.
pub(super) fn next_check_at(ctx: &Context<'_>) -> Nanos {
    ctx.now.saturating_add(CHECK_INTERVAL_HEARTBEATS * ctx.config().heartbeat_interval)
}

impl ClassicMember {
    pub(super) fn on_describe_groups(&mut self, ctx: &mut Context<'_>, result: &Result<Response, RequestError>) {
        let Some((_, located)) = self.orphan_check.in_flight.take() else { return };
        let answer = match result {
            Ok(response) => response.decode(DescribeGroupsResponse::decode).map_err(RequestError::Protocol),
            Err(error) => Err(error.clone()),
        };
        match answer {
            Ok(answer) => {
                let group_id = ctx.config().group_id.clone();
                let Some(group) = answer.groups.iter().find(|group| *group.group_id == *group_id) else { return };
                let error_class = ctx.classify(located.lookup, ErrorCode(group.error_code));
                if error_class == ErrorClass::Ok && group.group_state == "Stable" && self.state == State::Stable {
                    self.find_orphans(ctx.now, group);
                }
            }
            Err(error) => ctx.on_request_failed(located.lookup, &error),
        }
    }

    fn find_orphans(&mut self, now: Nanos, group: &DescribedGroup<'_>) {
        let all = self
            .assigned_counts
            .iter()
            .flat_map(|(topic, &count)| (0..count).map(|partition| TopicPartition { topic: topic.clone(), partition }));
        let mut orphans: BTreeSet<TopicPartition> = all.collect();
        for member in &group.members {
            for tp in consumer_protocol::decode_assignment(&member.member_assignment).unwrap_or_default() {
                orphans.remove(&tp);
            }
        }
        if orphans.is_empty() {
            return self.orphan_check.cancel();
        }
        for member in &group.members {
            // What a cooperative member keeps until it has joined again. An eager one keeps nothing.
            let cooperative = Assignor::CooperativeSticky;
            let metadata = &member.member_metadata;
            let claim = consumer_protocol::decode_subscription(cooperative, &member.member_id, None, metadata);
            orphans.retain(|tp| !claim.owned.contains(tp));
        }
        if !orphans.is_empty() {
            self.orphan_check.rebalance_at = Some(now);
        }
    }
}
