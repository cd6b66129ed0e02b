//! Whether everything has come to somebody: the leader looks after the assignment that it made, or came back to.
//!
//! What a member has to give up first is withheld from its next owner until the member has joined again. A member that is
//! restarted before that, under its `group.instance.id`, comes back into the same generation with the rest of its partitions
//! and knows of nothing that it should give up; the withheld one would be nobody's until the next rebalance, whenever that
//! is. A leader that was restarted knows not even what it has withheld, nor how many partitions it has assigned.
//!
//! So the leader asks the coordinator who has what, and who claimed what: what nobody has and nobody claims any more comes
//! to somebody by another rebalance. What is still claimed is being given up; that may take `max.poll.interval.ms`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use grete_wire::ErrorCode;
use grete_wire::messages::describe_groups_response::DescribedGroup;
use grete_wire::messages::{DescribeGroupsRequest, DescribeGroupsResponse};

use super::{Member, State};
use crate::group::context::{Context, Located, Verdict};
use crate::group::subscription;
use crate::ids::TopicPartition;
use crate::request::{Channel, Request, RequestError, Response, Target};
use crate::time::{Nanos, earlier};

/// So many heartbeats between two looks: most partitions that change hands do it before the first.
const PATIENCE: u64 = 5;

/// Looks that are due, and the one under way.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// When the group rebalances, whatever was seen; `None`: there is nothing to look for.
    give_up_at: Option<Nanos>,
    due: Nanos,
    flight: Option<(u32, Located)>,
}

impl Census {
    /// Something may be nobody's.
    pub fn begin(&mut self, ctx: &Context<'_>, first_look: Nanos) {
        let give_up_at = ctx.now.saturating_add(ctx.config().max_poll_interval);
        *self = Self { give_up_at: Some(give_up_at), due: first_look, flight: None };
    }

    pub fn forget(&mut self) {
        *self = Self::default();
    }

    pub fn is_over(&self, now: Nanos) -> bool {
        self.give_up_at.is_some_and(|give_up_at| give_up_at <= now)
    }

    pub fn awaits(&self, token: u32) -> bool {
        self.flight.is_some_and(|(awaited, _)| awaited == token)
    }

    pub fn follow(&mut self, located: Located) {
        self.flight = self.flight.filter(|(_, asked)| asked.node == located.node);
    }

    pub fn deadline(&self, coordinator_known: bool) -> Option<Nanos> {
        let look = (coordinator_known && self.flight.is_none()).then_some(self.due);
        earlier(Some(self.give_up_at?), look)
    }

    pub fn tick(&mut self, ctx: &mut Context<'_>, located: Located) {
        if self.give_up_at.is_none() || self.flight.is_some() || ctx.now < self.due {
            return;
        }
        let group = Cow::Owned(ctx.config().group_id.to_string());
        let request = DescribeGroupsRequest { groups: vec![group], ..DescribeGroupsRequest::default() };
        let timeout = ctx.config().request_timeout;
        self.due = next_look(ctx);
        let token = ctx.send(Target::Node(located.node), Channel::Control, Request::any(request), timeout);
        self.flight = Some((token, located));
    }
}

/// When to look (again).
pub(super) fn next_look(ctx: &Context<'_>) -> Nanos {
    ctx.now.saturating_add(PATIENCE * ctx.config().heartbeat_interval)
}

impl Member {
    pub(super) fn on_census(&mut self, ctx: &mut Context<'_>, result: &Result<Response, RequestError>) {
        let Some((_, located)) = self.census.flight.take() else { return };
        let answer = match result {
            Ok(response) => response.decode(DescribeGroupsResponse::decode).map_err(RequestError::Protocol),
            Err(error) => Err(error.clone()),
        };
        match answer {
            Ok(answer) => {
                let group_id = ctx.config().group_id.clone();
                let Some(group) = answer.groups.iter().find(|group| *group.group_id == *group_id) else { return };
                let verdict = ctx.verdict(located.lookup, ErrorCode(group.error_code));
                if verdict == Verdict::Ok && group.group_state == "Stable" && self.state == State::Stable {
                    self.count(ctx.now, group);
                }
            }
            Err(error) => ctx.unanswered(located.lookup, &error),
        }
    }

    fn count(&mut self, now: Nanos, group: &DescribedGroup<'_>) {
        let all = self
            .counts
            .iter()
            .flat_map(|(topic, &count)| (0..count).map(|partition| TopicPartition { topic: topic.clone(), partition }));
        let mut missing: BTreeSet<TopicPartition> = all.collect();
        for member in &group.members {
            for tp in subscription::decode_assignment(&member.member_assignment).unwrap_or_default() {
                missing.remove(&tp);
            }
        }
        if missing.is_empty() {
            return self.census.forget();
        }
        for member in &group.members {
            let claim = subscription::decode_subscription(&member.member_id, None, &member.member_metadata);
            missing.retain(|tp| !claim.owned.contains(tp));
        }
        if !missing.is_empty() {
            self.census.give_up_at = Some(now);
        }
    }
}
