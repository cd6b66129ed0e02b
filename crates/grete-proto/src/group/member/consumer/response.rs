//! ConsumerGroupHeartbeat: the response, and what each error means in each state.

use grete_wire::ErrorCode;
use grete_wire::messages::{
    ConsumerGroupHeartbeatResponse, ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions, ShareGroupHeartbeatResponse,
};

use super::request::{InFlight, Purpose};
use super::{ConsumerMember, Predecessor, State};
use crate::group::config::GroupProtocol;
use crate::group::context::{Context, Effect, ErrorClass};
use crate::group::error::GroupError;
use crate::group::event::{GroupAction, GroupLogEvent, LostReason};
use crate::request::{RequestError, Response};
use crate::time::{MILLI, Nanos};

/// Name of the request in errors.
const REQUEST: &str = "ConsumerGroupHeartbeat";
/// Characters of a broker's message that errors and log events repeat.
const MAX_MESSAGE_CHARS: usize = 300;
/// Sessions after which a refused `group.instance.id` belongs to a living member.
const SESSIONS_OF_PREDECESSOR: u64 = 2;

impl ConsumerMember {
    pub(super) fn on_heartbeat(
        &mut self,
        ctx: &mut Context<'_>,
        flight: InFlight,
        result: &Result<Response, RequestError>,
    ) {
        if flight.purpose == Purpose::FindHolder {
            if let Err(error) = result {
                ctx.on_request_failed(flight.located.lookup, error);
            }
            return self.on_described(ctx, result);
        }
        let answer = match result {
            Ok(response) if ctx.config().protocol == GroupProtocol::Share => {
                response.decode(ShareGroupHeartbeatResponse::decode).map(share_answer).map_err(RequestError::Protocol)
            }
            Ok(response) => response.decode(ConsumerGroupHeartbeatResponse::decode).map_err(RequestError::Protocol),
            Err(error) => Err(error.clone()),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return self.on_failure(ctx, &flight, &error),
        };
        let code = ErrorCode(answer.error_code);
        match (ctx.classify(flight.located.lookup, code), flight.purpose) {
            (ErrorClass::Retry, _) => {
                // COORDINATOR_NOT_AVAILABLE is the answer, too, when the group's log was slow: the request may count.
                self.on_unanswered();
                self.retry_later(ctx, code.to_string());
            }
            // UNKNOWN_MEMBER_ID and the like also mean that the member is out of the group.
            (ErrorClass::Ok | ErrorClass::Error(_), Purpose::Leave) => self.leave_silently(ctx),
            (ErrorClass::Ok | ErrorClass::Error(_), Purpose::ReleaseInstance) => {
                self.releases_instance = false;
                self.join_epoch = 0;
                self.next_request = ctx.now;
            }
            (ErrorClass::Ok | ErrorClass::Error(_), Purpose::ReleasePredecessor) => {
                let predecessor = self.predecessor.take().filter(|_| code == ErrorCode::NONE);
                if let Some(Predecessor { member_id, is_dead }) = predecessor {
                    ctx.log_event(GroupLogEvent::PredecessorReleased { member_id, is_dead });
                }
                self.next_request = ctx.now;
            }
            (ErrorClass::Ok, _) => self.on_answer(ctx, flight, &answer),
            (ErrorClass::Error(code), _) => {
                let message = answer.error_message.as_deref().filter(|text| !text.is_empty());
                let message = message.map(|text| text.chars().take(MAX_MESSAGE_CHARS).collect::<String>());
                self.on_error(ctx, code, message.as_deref());
            }
        }
    }

    fn on_failure(&mut self, ctx: &mut Context<'_>, flight: &InFlight, error: &RequestError) {
        ctx.on_request_failed(flight.located.lookup, error);
        if let RequestError::Unsupported { .. } = error {
            return self.refuse_protocol(ctx, error.to_string());
        }
        if error.is_ambiguous() {
            self.on_unanswered();
        }
        self.retry_later(ctx, error.to_string());
    }

    fn on_answer(&mut self, ctx: &mut Context<'_>, flight: InFlight, answer: &ConsumerGroupHeartbeatResponse<'_>) {
        ctx.on_authorized();
        if answer.member_epoch <= 0 {
            // No epoch of a member: the broker has a defect, and its next answer may be better.
            return self.retry_later(ctx, format!("the coordinator answered with epoch {}", answer.member_epoch));
        }
        self.backoff.reset();
        self.may_take_over = false;
        self.last_ack = self.last_ack.max(flight.sent_at);
        self.interval = self.interval_of(ctx, answer.heartbeat_interval_ms);
        (self.unheard_join, self.unreleased_since, self.join_epoch) = (false, None, 0);
        let mut changed = self.epoch != answer.member_epoch;
        self.epoch = answer.member_epoch;
        if self.state == State::Joining {
            self.state = State::Stable;
            ctx.log_event(GroupLogEvent::Joined {
                generation: self.epoch,
                leader: false,
                member_id: self.member_id.clone(),
                protocol: match ctx.config().protocol {
                    GroupProtocol::Share => "share group",
                    _ => "consumer protocol",
                },
            });
        }
        self.reported = Some(flight.report);
        if let Some(assignment) = &answer.assignment {
            let topics = assignment.topic_partitions.iter();
            let is_new = self.target.set(topics.map(|topic| (topic.topic_id, topic.partitions.as_slice())));
            changed |= is_new;
            if let Some(reported) = self.reported.as_mut().filter(|_| is_new) {
                reported.owned = None;
            }
        }
        self.target.refresh_due = true;
        // A change is rarely alone: partitions that other members give up come with one of the next answers.
        self.pace = if changed { ctx.config().retry_backoff } else { self.pace.saturating_mul(2) };
        self.pace = self.pace.min(self.interval);
        // What became free while the request was in flight is reported at once (P17).
        self.next_request = if self.has_released { ctx.now } else { ctx.now + self.pace };
    }

    /// Returns the interval of the coordinator, kept short enough for three heartbeats in a session.
    fn interval_of(&self, ctx: &Context<'_>, millis: i32) -> Nanos {
        let asked = u64::try_from(millis).ok().filter(|millis| *millis > 0).map(|millis| millis * MILLI);
        asked.unwrap_or(self.interval).min(ctx.config().session_timeout / 3).max(MILLI)
    }

    fn on_error(&mut self, ctx: &mut Context<'_>, code: ErrorCode, message: Option<&str>) {
        let group = ctx.config().group_id.clone();
        let joining = self.state == State::Joining;
        match code {
            // The coordinator has removed the member whose session expired on this side: a new join.
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::FENCED_MEMBER_EPOCH if joining && self.join_epoch > 0 => {
                self.join(ctx, 0, ctx.now);
            }
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::FENCED_MEMBER_EPOCH => {
                // The coordinator has this member under another epoch, and refuses its instance id until it is released.
                let has_place = code == ErrorCode::FENCED_MEMBER_EPOCH && !joining;
                self.releases_instance |= has_place && ctx.config().instance_id.is_some();
                self.fence(ctx, LostReason::Fenced(code));
            }
            // The group was deleted, or is one of another kind.
            ErrorCode::GROUP_ID_NOT_FOUND if joining && self.join_epoch == 0 => match ctx.config().protocol {
                GroupProtocol::Auto => self.fall_back = Some(code.to_string()),
                GroupProtocol::Share => self.fail(ctx, GroupError::NotAShareGroup { group }),
                _ => self.fail(ctx, GroupError::NotAConsumerGroup { group }),
            },
            ErrorCode::GROUP_ID_NOT_FOUND => self.fence(ctx, LostReason::Fenced(code)),
            ErrorCode::UNRELEASED_INSTANCE_ID if joining => self.on_unreleased(ctx, code),
            ErrorCode::UNRELEASED_INSTANCE_ID | ErrorCode::FENCED_INSTANCE_ID => {
                self.fail_instance(ctx, REQUEST, code);
            }
            ErrorCode::UNSUPPORTED_VERSION => self.refuse_protocol(ctx, code.to_string()),
            ErrorCode::UNSUPPORTED_ASSIGNOR => {
                let assignor = ctx.config().remote_assignor.as_deref().unwrap_or_default().to_owned();
                let reason = message.map_or_else(|| code.to_string(), str::to_owned);
                self.fail(ctx, GroupError::UnsupportedAssignor { group, assignor, reason });
            }
            ErrorCode::INVALID_REQUEST | ErrorCode::INVALID_GROUP_ID | ErrorCode::INVALID_REGULAR_EXPRESSION => {
                self.fail(ctx, GroupError::Refused { group, request: REQUEST, code });
            }
            // Not an acknowledgement: an ACL that is back within the session costs no rebalance.
            ErrorCode::GROUP_AUTHORIZATION_FAILED => {
                if ctx.on_unauthorized() {
                    self.schedule_retry(ctx);
                }
            }
            // The coordinator does not say which topic.
            ErrorCode::TOPIC_AUTHORIZATION_FAILED if !ctx.config().retry_authorization_failures => {
                let names: Vec<&str> = self.topics.iter().map(AsRef::as_ref).collect();
                self.fail(ctx, GroupError::TopicAuthorization { topic: names.join(", ").into() });
            }
            // With the metadata, the topics are known that the next request leaves out.
            ErrorCode::TOPIC_AUTHORIZATION_FAILED => {
                ctx.actions.push(GroupAction::RefreshMetadata);
                self.retry_later(ctx, code.to_string());
            }
            // Includes GROUP_MAX_SIZE_REACHED: there is room again when another member leaves.
            _ => self.retry_later(ctx, message.map_or_else(|| code.to_string(), |text| format!("{code}: {text}"))),
        }
    }

    /// Handles a `group.instance.id` that another member has, or this one: the coordinator may have executed a join of
    /// this member that was not answered. A member that was in the group takes no place over: two processes with one
    /// instance id would take it from each other again and again.
    fn on_unreleased(&mut self, ctx: &mut Context<'_>, code: ErrorCode) {
        if std::mem::take(&mut self.unheard_join) {
            self.releases_instance = true;
            self.next_request = ctx.now;
            return;
        }
        if std::mem::take(&mut self.may_take_over) {
            self.seeks_holder = true;
            self.next_request = ctx.now;
            return;
        }
        let since = *self.unreleased_since.get_or_insert(ctx.now);
        let patience = ctx.config().session_timeout.saturating_mul(SESSIONS_OF_PREDECESSOR);
        if ctx.now >= since.saturating_add(patience) {
            self.fail_instance(ctx, REQUEST, code);
        } else {
            self.retry_later(ctx, format!("{code} The place of a process that was killed ends with its session."));
        }
    }

    /// Handles a broker that does not offer the protocol.
    fn refuse_protocol(&mut self, ctx: &mut Context<'_>, reason: String) {
        if ctx.config().protocol == GroupProtocol::Auto && self.state == State::Joining {
            self.fall_back = Some(reason);
        } else {
            let group = ctx.config().group_id.clone();
            let error = match ctx.config().protocol {
                GroupProtocol::Share => GroupError::NoShareGroups { group, reason },
                _ => GroupError::Unsupported { group, reason },
            };
            self.fail(ctx, error);
        }
    }

    fn retry_later(&mut self, ctx: &mut Context<'_>, reason: String) {
        self.schedule_retry(ctx);
        if self.state == State::Joining {
            ctx.log_event(GroupLogEvent::JoinRetried { reason });
        }
    }

    fn schedule_retry(&mut self, ctx: &mut Context<'_>) {
        self.next_request = ctx.now + self.backoff.next_delay(&mut ctx.shared.rng);
    }

    fn fail(&mut self, ctx: &mut Context<'_>, error: GroupError) {
        ctx.push_effect(Effect::Fatal(error));
    }
}

/// Returns the answer of a share group as one of the consumer protocol, which has all of its fields.
fn share_answer(answer: ShareGroupHeartbeatResponse<'_>) -> ConsumerGroupHeartbeatResponse<'_> {
    let assignment = answer.assignment.map(|assignment| {
        let topics = assignment.topic_partitions.into_iter().map(|topic| {
            ConsumerGroupHeartbeatResponseTopicPartitions { topic_id: topic.topic_id, partitions: topic.partitions }
        });
        ConsumerGroupHeartbeatResponseAssignment { topic_partitions: topics.collect() }
    });
    ConsumerGroupHeartbeatResponse {
        throttle_time_ms: answer.throttle_time_ms,
        error_code: answer.error_code,
        error_message: answer.error_message,
        member_id: answer.member_id,
        member_epoch: answer.member_epoch,
        heartbeat_interval_ms: answer.heartbeat_interval_ms,
        assignment,
    }
}
