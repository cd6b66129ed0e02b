//! JoinGroup: request, response and errors.

use std::borrow::Cow;
use std::collections::BTreeSet;

use grete_wire::ErrorCode;
use grete_wire::messages::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse};

use super::sync::Election;
use super::{ClassicMember, millis};
use crate::group::assignor::{self, Assignor};
use crate::group::consumer_protocol::{self, PROTOCOL_TYPE};
use crate::group::context::{Context, CoordinatorRef, ErrorClass};
use crate::group::error::GroupError;
use crate::group::event::{GroupLogEvent, LostReason};
use crate::group::member::state::{InFlight, State};
use crate::group::reconciler::Reconciler;
use crate::ids::TopicPartition;
use crate::request::{Channel, Request, RequestError, Response};
use crate::time::SECOND;

/// Time added to the rebalance timeout, within which the broker answers (Java adds the same).
const JOIN_RESPONSE_GRACE: u64 = 5 * SECOND;
/// First version of JoinGroup that lets the coordinator skip the leader's assignment (KIP-814).
const FIRST_VERSION_WITH_SKIP_ASSIGNMENT: i16 = 9;

impl ClassicMember {
    pub(super) fn send_join(&mut self, ctx: &mut Context<'_>, located: CoordinatorRef, reconciler: &Reconciler) {
        let config = ctx.config();
        let cooperative = assignor::is_cooperative(&config.assignors);
        let claim = reconciler.owned().map(|(tp, _)| tp).filter(|_| cooperative);
        let claimed: BTreeSet<TopicPartition> = claim.cloned().collect();
        let mut protocols = Vec::new();
        for &assignor in &config.assignors {
            let (owned, generation) = match assignor {
                Assignor::Sticky => (&self.last_assignment.0, self.last_assignment.1),
                _ => (&claimed, self.generation),
            };
            match consumer_protocol::encode_subscription(
                assignor,
                &self.topics,
                owned,
                generation,
                config.rack.as_deref(),
            ) {
                Ok(metadata) => protocols.push(JoinGroupRequestProtocol {
                    name: Cow::Borrowed(assignor.name()),
                    metadata: Cow::Owned(metadata),
                }),
                Err(error) => {
                    let group = config.group_id.clone();
                    return self.fail(ctx, GroupError::Unsupported { group, reason: error.to_string() });
                }
            }
        }
        let request = JoinGroupRequest {
            group_id: Cow::Owned(config.group_id.to_string()),
            session_timeout_ms: millis(config.session_timeout),
            rebalance_timeout_ms: millis(config.max_poll_interval),
            member_id: Cow::Owned(self.member_id.clone()),
            group_instance_id: ctx.instance_id(),
            protocol_type: Cow::Borrowed(PROTOCOL_TYPE),
            protocols,
            reason: Some(Cow::Owned(self.reason.chars().take(255).collect())),
        };
        let request = Request::JoinGroup(request);
        self.sent_topics.clone_from(&self.topics);
        self.claimed = claimed;
        self.in_flight =
            Some(self.send(ctx, located, Channel::Join, request, |c| {
                c.max_poll_interval.saturating_add(JOIN_RESPONSE_GRACE)
            }));
    }

    pub(super) fn on_join(
        &mut self,
        ctx: &mut Context<'_>,
        in_flight: &InFlight,
        response: &Response,
    ) -> Result<(), RequestError> {
        let answer = response.decode(JoinGroupResponse::decode).map_err(RequestError::Protocol)?;
        match ctx.classify(in_flight.located.lookup, ErrorCode(answer.error_code)) {
            ErrorClass::Ok => self.on_joined(ctx, response.version, &answer),
            ErrorClass::Retry => self.retry_later(ctx, ErrorCode(answer.error_code).to_string()),
            ErrorClass::Error(ErrorCode::FENCED_INSTANCE_ID) => self.on_instance_fenced(ctx, "JoinGroup"),
            ErrorClass::Error(code) => self.on_join_error(ctx, code, &answer.member_id),
        }
        Ok(())
    }

    fn on_joined(&mut self, ctx: &mut Context<'_>, version: i16, answer: &JoinGroupResponse<'_>) {
        ctx.on_authorized();
        let elected = answer.protocol_name.as_deref().unwrap_or_default();
        let Some(protocol) = Assignor::by_name(elected).filter(|elected| ctx.config().assignors.contains(elected))
        else {
            let group = ctx.config().group_id.clone();
            return self.fail(ctx, GroupError::ForeignProtocol { group, elected: elected.to_owned() });
        };
        // The generation has its assignment already, and this member continues to lead it (KIP-814).
        let skip_assignment = answer.skip_assignment || self.is_returning_leader(ctx, version, answer);
        // After a JoinGroup without an answer the generation may be the one that began with that JoinGroup.
        let is_return = self.last_joined == answer.generation_id || self.is_join_lost;
        let is_new_generation = self.member_id != answer.member_id || !is_return;
        (self.last_joined, self.is_join_lost) = (answer.generation_id, false);
        if self.member_id != answer.member_id {
            self.member_id = answer.member_id.clone().into_owned();
            self.member_id_origin.on_new_member_id();
        }
        (self.generation, self.is_synced) = (answer.generation_id, false);
        self.protocol = Some(protocol);
        self.leader = answer.leader == answer.member_id || skip_assignment;
        self.heartbeat.on_joined(ctx.now, ctx.config().heartbeat_interval, is_new_generation);
        self.retry_at = ctx.now;
        ctx.log_event(GroupLogEvent::Joined {
            generation: self.generation,
            leader: self.leader,
            member_id: self.member_id.clone(),
            protocol: protocol.name(),
        });
        if self.leader {
            let claims = answer.members.iter().map(|member| {
                let instance_id = member.group_instance_id.as_deref();
                consumer_protocol::decode_subscription(protocol, &member.member_id, instance_id, &member.metadata)
            });
            self.election = Some(Election::new(ctx, claims.collect(), &self.topics, skip_assignment));
            self.state = State::Electing;
        } else {
            self.state = State::Syncing;
        }
    }

    /// Returns whether this member is the leader that was restarted. Before KIP-814 such a leader received its own
    /// previous id as the leader's id. No member has that id any more, so none watched for new partitions
    /// (KAFKA-13435). A coordinator builds a static member's id from the instance id and a UUID.
    fn is_returning_leader(&self, ctx: &Context<'_>, version: i16, answer: &JoinGroupResponse<'_>) -> bool {
        let Some(instance) =
            ctx.config().instance_id.as_deref().filter(|_| version < FIRST_VERSION_WITH_SKIP_ASSIGNMENT)
        else {
            return false;
        };
        let uuid = answer.leader.strip_prefix(instance).and_then(|rest| rest.strip_prefix('-'));
        self.member_id.is_empty() && answer.leader != answer.member_id && uuid.is_some_and(|uuid| uuid.len() == 36)
    }

    fn on_join_error(&mut self, ctx: &mut Context<'_>, code: ErrorCode, member_id: &str) {
        let group = ctx.config().group_id.clone();
        match code {
            // KIP-394: the first JoinGroup only requests a member id.
            ErrorCode::MEMBER_ID_REQUIRED if !member_id.is_empty() && self.member_id.is_empty() => {
                self.member_id = member_id.to_owned();
                self.retry_at = ctx.now;
            }
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION => {
                self.fence(ctx, LostReason::Fenced(code));
            }
            ErrorCode::INCONSISTENT_GROUP_PROTOCOL => {
                let names: Vec<_> = ctx.config().assignors.iter().map(|assignor| assignor.name()).collect();
                self.fail(ctx, GroupError::InconsistentProtocol { group, assignors: names.join(",") });
            }
            ErrorCode::INVALID_SESSION_TIMEOUT => {
                let session_ms = ctx.config().session_timeout / crate::time::MILLI;
                self.fail(ctx, GroupError::InvalidSessionTimeout { group, session_ms });
            }
            ErrorCode::GROUP_AUTHORIZATION_FAILED => {
                if ctx.on_unauthorized() {
                    self.retry_at = ctx.now + self.backoff.next_delay(&mut ctx.shared.rng);
                }
            }
            ErrorCode::UNRELEASED_INSTANCE_ID => self.fail_instance(ctx, "JoinGroup", code),
            ErrorCode::INVALID_GROUP_ID | ErrorCode::UNSUPPORTED_VERSION => {
                self.fail(ctx, GroupError::Refused { group, request: "JoinGroup", code });
            }
            // Includes GROUP_MAX_SIZE_REACHED: there is room again when another member leaves.
            _ => self.retry_later(ctx, code.to_string()),
        }
    }
}
