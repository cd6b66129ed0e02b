//! SyncGroup: the leader assigns, and each member receives its assignment.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::{SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse};

use super::{ClassicMember, orphan_check};
use crate::group::assignor::racks::ReplicaRacks;
use crate::group::assignor::{MemberClaim, PartitionCounts};
use crate::group::consumer_protocol::{self, PROTOCOL_TYPE};
use crate::group::context::{Context, CoordinatorRef, Effect, ErrorClass, TopicMetadataView};
use crate::group::error::GroupError;
use crate::group::event::{GroupAction, GroupLogEvent, LostReason};
use crate::group::member::state::{InFlight, State};
use crate::request::{Channel, Request, RequestError, Response};
use crate::time::{Nanos, SECOND};

/// Time for which the leader waits for the metadata of topics that only other members subscribe to.
const METADATA_TIMEOUT: Nanos = 5 * SECOND;

/// State of a leader that cannot assign yet.
#[derive(Debug)]
pub(super) struct Election {
    claims: Vec<MemberClaim>,
    topics: BTreeSet<Arc<str>>,
    /// The generation already has its assignment; the leader only watches the partition counts behind it.
    skip_assignment: bool,
    pub deadline: Nanos,
}

impl Election {
    pub fn new(ctx: &mut Context<'_>, claims: Vec<MemberClaim>, ours: &BTreeSet<Arc<str>>, returned: bool) -> Self {
        let mut topics: BTreeSet<_> = claims.iter().flat_map(|claim| &claim.topics).cloned().collect();
        if returned {
            topics.extend(ours.iter().cloned()); // brokers before KIP-814 do not report the topics of other members
        }
        if topics.iter().any(|topic| !ours.contains(topic)) {
            let all = topics.union(ours).cloned().collect();
            ctx.actions.push(GroupAction::WatchTopics { topics: all });
        }
        Self { claims, topics, skip_assignment: returned, deadline: ctx.now + METADATA_TIMEOUT }
    }
}

impl ClassicMember {
    /// Assigns once metadata contains all topics. After a timeout, topics without metadata are left out; a later
    /// rebalance assigns them.
    pub(super) fn assign_as_leader(
        &mut self,
        ctx: &mut Context<'_>,
        view: &dyn TopicMetadataView,
        located: CoordinatorRef,
    ) {
        let Some(election) = &self.election else { return };
        let unknown = election.topics.iter().any(|topic| view.partition_count(topic).is_none());
        if unknown && ctx.now < election.deadline {
            return;
        }
        let Some((election, protocol)) = self.election.take().zip(self.protocol) else { return };
        let count = |topic: &Arc<str>| view.partition_count(topic).unwrap_or(0);
        let counts: PartitionCounts = election.topics.iter().map(|topic| (topic.clone(), count(topic))).collect();
        for (topic, _) in counts.iter().filter(|(_, count)| **count <= 0) {
            let concealed = view.is_concealed(topic);
            ctx.log_event(GroupLogEvent::UnknownTopic { topic: topic.clone(), concealed });
        }
        if election.skip_assignment {
            self.assigned_counts = counts;
            self.orphan_check.start(ctx, ctx.now);
            return self.send_sync(ctx, located, Vec::new());
        }
        let mut racks = ReplicaRacks::new();
        if election.claims.iter().any(|claim| claim.rack.is_some()) {
            racks.extend(counts.keys().map(|topic| (Arc::clone(topic), view.replica_racks(topic))));
        }
        let assignments = protocol.assign(&election.claims, &counts, &racks);
        let assigned_count: usize = assignments.values().map(Vec::len).sum();
        if counts.values().map(|count| usize::try_from(*count).unwrap_or(0)).sum::<usize>() > assigned_count {
            self.orphan_check.start(ctx, orphan_check::next_check_at(ctx));
        }
        let encoded = assignments.into_iter().filter_map(|(member_id, tps)| {
            // Names that arrived through the protocol fit into it.
            let assignment = Cow::Owned(consumer_protocol::encode_assignment(&tps).ok()?);
            Some(SyncGroupRequestAssignment { member_id: Cow::Owned(member_id), assignment })
        });
        self.assigned_counts = counts;
        self.send_sync(ctx, located, encoded.collect());
    }

    pub(super) fn send_sync(
        &mut self,
        ctx: &mut Context<'_>,
        located: CoordinatorRef,
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
        // The response waits for the leader, which may wait for metadata.
        let request = Request::SyncGroup(request);
        self.in_flight =
            Some(self.send(ctx, located, Channel::Join, request, |c| c.session_timeout.max(c.request_timeout)));
    }

    pub(super) fn on_sync(
        &mut self,
        ctx: &mut Context<'_>,
        at: &InFlight,
        response: &Response,
    ) -> Result<(), RequestError> {
        let answer = response.decode(SyncGroupResponse::decode).map_err(RequestError::Protocol)?;
        let code = ErrorCode(answer.error_code);
        let group = ctx.config().group_id.clone();
        match ctx.classify(at.located.lookup, code) {
            ErrorClass::Ok => self.on_assignment(ctx, at, &answer),
            ErrorClass::Retry => self.rejoin_later(ctx, format!("SyncGroup was refused: {code}")),
            ErrorClass::Error(ErrorCode::REBALANCE_IN_PROGRESS) => {
                self.heartbeat.on_sync(at.sent_at);
                self.rejoin(ctx, "another rebalance began");
            }
            ErrorClass::Error(code @ (ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION)) => {
                self.fence(ctx, LostReason::Fenced(code));
            }
            ErrorClass::Error(code @ ErrorCode::GROUP_AUTHORIZATION_FAILED) => {
                if ctx.on_unauthorized() {
                    self.rejoin_later(ctx, format!("SyncGroup was refused: {code}"));
                }
            }
            ErrorClass::Error(ErrorCode::FENCED_INSTANCE_ID) => self.on_instance_fenced(ctx, "SyncGroup"),
            ErrorClass::Error(code @ ErrorCode::INCONSISTENT_GROUP_PROTOCOL) => {
                self.fail(ctx, GroupError::Refused { group, request: "SyncGroup", code });
            }
            ErrorClass::Error(code) => self.rejoin_later(ctx, format!("SyncGroup was refused: {code}")),
        }
        Ok(())
    }

    fn on_assignment(&mut self, ctx: &mut Context<'_>, at: &InFlight, answer: &SyncGroupResponse<'_>) {
        match consumer_protocol::decode_assignment(&answer.assignment) {
            Ok(tps) => {
                self.heartbeat.on_sync(at.sent_at);
                self.heartbeat.on_stable(ctx.now);
                self.backoff.reset();
                self.member_id_origin.on_generation_complete();
                (self.state, self.is_synced) = (State::Stable, true);
                self.last_assignment = (tps.clone(), self.generation);
                ctx.push_effect(Effect::Assigned(tps.into_iter().collect()));
            }
            // The leader's fault; the next assignment may be valid.
            Err(error) => self.rejoin_later(ctx, format!("the group leader sent an invalid assignment: {error}")),
        }
    }
}
