//! SyncGroup: the leader assigns, everybody learns what it got.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::{SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse};

use super::{Attempt, Member, State, census};
use crate::group::assignor::{MemberClaim, PartitionCounts};
use crate::group::context::{ClusterView, Context, Effect, Located, Verdict};
use crate::group::error::GroupError;
use crate::group::event::{GroupAction, GroupNotice, LostReason};
use crate::group::subscription::{self, PROTOCOL_TYPE};
use crate::request::{Channel, Request, RequestError, Response};
use crate::time::{Nanos, SECOND};

/// How long the leader waits for metadata of topics that only others subscribe to.
const METADATA_WAIT: Nanos = 5 * SECOND;

/// What the leader knows while it cannot assign yet.
#[derive(Debug)]
pub(super) struct Election {
    claims: Vec<MemberClaim>,
    topics: BTreeSet<Arc<str>>,
    /// The generation has its assignment: we only watch what it was made of.
    returned: bool,
    pub deadline: Nanos,
}

impl Election {
    pub fn new(ctx: &mut Context<'_>, claims: Vec<MemberClaim>, ours: &BTreeSet<Arc<str>>, returned: bool) -> Self {
        let mut topics: BTreeSet<_> = claims.iter().flat_map(|claim| &claim.topics).cloned().collect();
        if returned {
            topics.extend(ours.iter().cloned()); // brokers before KIP-814 do not say what the others read
        }
        if topics.iter().any(|topic| !ours.contains(topic)) {
            let all = topics.union(ours).cloned().collect();
            ctx.actions.push(GroupAction::WatchTopics { topics: all });
        }
        Self { claims, topics, returned, deadline: ctx.now + METADATA_WAIT }
    }
}

impl Member {
    /// Assigns, once metadata knows all topics; if that takes too long, without those that it does not know: they come by
    /// another rebalance.
    pub(super) fn elect(&mut self, ctx: &mut Context<'_>, view: &dyn ClusterView, located: Located) {
        let Some(election) = &self.election else { return };
        let unknown = election.topics.iter().any(|topic| view.partition_count(topic).is_none());
        if unknown && ctx.now < election.deadline {
            return;
        }
        let Some((election, protocol)) = self.election.take().zip(self.protocol) else { return };
        let count = |topic: &Arc<str>| view.partition_count(topic).unwrap_or(0);
        let counts: PartitionCounts = election.topics.iter().map(|topic| (topic.clone(), count(topic))).collect();
        for (topic, _) in counts.iter().filter(|(_, count)| **count <= 0) {
            ctx.notice(GroupNotice::TopicUnknown { topic: topic.clone() });
        }
        if election.returned {
            self.counts = counts;
            self.census.begin(ctx, ctx.now);
            return self.send_sync(ctx, located, Vec::new());
        }
        let assignments = protocol.assign(&election.claims, &counts);
        let given: usize = assignments.values().map(Vec::len).sum();
        if counts.values().map(|count| usize::try_from(*count).unwrap_or(0)).sum::<usize>() > given {
            self.census.begin(ctx, census::next_look(ctx));
        }
        let encoded = assignments.into_iter().filter_map(|(member_id, tps)| {
            // Names that came in by the protocol fit into it.
            let assignment = Cow::Owned(subscription::encode_assignment(&tps).ok()?);
            Some(SyncGroupRequestAssignment { member_id: Cow::Owned(member_id), assignment })
        });
        self.counts = counts;
        self.send_sync(ctx, located, encoded.collect());
    }

    pub(super) fn send_sync(
        &mut self,
        ctx: &mut Context<'_>,
        located: Located,
        assignments: Vec<SyncGroupRequestAssignment<'static>>,
    ) {
        let request = SyncGroupRequest {
            group_id: Cow::Owned(ctx.config().group_id.to_string()),
            generation_id: self.generation,
            member_id: Cow::Owned(self.member_id.clone()),
            group_instance_id: ctx.instance_id(),
            protocol_type: Some(Cow::Borrowed(PROTOCOL_TYPE)),
            protocol_name: self.protocol.map(|protocol| Cow::Borrowed(protocol.name())),
            assignments,
        };
        self.state = State::Syncing;
        // The answer waits for the leader, who may have to wait for metadata.
        let request = Request::SyncGroup(request);
        self.attempt =
            Some(self.ask(ctx, located, Channel::Join, request, |c| c.session_timeout.max(c.request_timeout)));
    }

    pub(super) fn on_sync(
        &mut self,
        ctx: &mut Context<'_>,
        at: &Attempt,
        response: &Response,
    ) -> Result<(), RequestError> {
        let answer = response.decode(SyncGroupResponse::decode).map_err(RequestError::Protocol)?;
        let code = ErrorCode(answer.error_code);
        let group = ctx.config().group_id.clone();
        match ctx.verdict(at.located.lookup, code) {
            Verdict::Ok => self.synced(ctx, at, &answer),
            Verdict::Retry => self.rejoin_later(ctx, format!("SyncGroup was refused: {code}")),
            Verdict::Error(ErrorCode::REBALANCE_IN_PROGRESS) => {
                self.heartbeat.acked(at.sent_at);
                self.rejoin(ctx, "another rebalance began");
            }
            Verdict::Error(code @ (ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION)) => {
                self.fence(ctx, LostReason::Fenced(code));
            }
            Verdict::Error(ErrorCode::GROUP_AUTHORIZATION_FAILED) => {
                self.fail(ctx, GroupError::GroupAuthorization { group });
            }
            Verdict::Error(ErrorCode::FENCED_INSTANCE_ID) => self.instance_fenced(ctx, "SyncGroup"),
            Verdict::Error(code @ ErrorCode::INCONSISTENT_GROUP_PROTOCOL) => {
                self.fail(ctx, GroupError::Refused { group, request: "SyncGroup", code });
            }
            Verdict::Error(code) => self.rejoin_later(ctx, format!("SyncGroup was refused: {code}")),
        }
        Ok(())
    }

    fn synced(&mut self, ctx: &mut Context<'_>, at: &Attempt, answer: &SyncGroupResponse<'_>) {
        match subscription::decode_assignment(&answer.assignment) {
            Ok(tps) => {
                self.heartbeat.acked(at.sent_at);
                self.backoff.reset();
                self.origin.settled();
                self.state = State::Stable;
                ctx.effect(Effect::Assigned(tps.into_iter().collect()));
            }
            // The leader's mistake; perhaps the next one makes none.
            Err(error) => {
                self.rejoin_later(ctx, format!("the group's leader sent an assignment that is none: {error}"))
            }
        }
    }
}
