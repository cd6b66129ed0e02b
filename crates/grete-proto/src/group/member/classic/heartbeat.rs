//! Heartbeats and their responses.

use std::borrow::Cow;

use grete_wire::ErrorCode;
use grete_wire::messages::{HeartbeatRequest, HeartbeatResponse};

use super::ClassicMember;
use crate::group::context::{Context, CoordinatorRef, ErrorClass};
use crate::group::event::LostReason;
use crate::group::member::state::State;
use crate::request::{Channel, Request, RequestError, Response, Target};
use crate::time::Nanos;

#[derive(Debug, Clone, Copy)]
struct InFlight {
    token: u32,
    located: CoordinatorRef,
    sent_at: Nanos,
    generation: i32,
}

/// Time of the next heartbeat, and the heartbeat in flight.
#[derive(Debug, Default)]
pub(super) struct Heartbeat {
    next_heartbeat: Nanos,
    in_flight: Option<InFlight>,
    pub last_ack: Nanos,
    /// Time of the last JoinGroup response.
    joined_at: Nanos,
    /// The member has come back into its generation, and no heartbeat has been acknowledged since.
    is_unconfirmed: bool,
    /// Latest time at which the group was known to be stable, so that no rebalance had begun.
    pub stable_at: Nanos,
}

impl Heartbeat {
    /// Starts heartbeats after a JoinGroup response. The coordinator's session timer starts with a new generation.
    ///
    /// A member that comes back into its generation, because it alone considered its session expired or because an answer
    /// was lost, is not a new one: Kafka 4 answers its JoinGroup and SyncGroup and lets the old session go on, which may be
    /// over in a moment. A heartbeat is due at once, and only that acknowledges the session.
    pub fn on_joined(&mut self, now: Nanos, interval: Nanos, is_new_generation: bool) {
        self.in_flight = None;
        self.joined_at = now;
        self.is_unconfirmed = !is_new_generation;
        if is_new_generation {
            self.on_ack(now);
            self.next_heartbeat = now + interval;
        } else {
            self.next_heartbeat = now;
        }
    }

    /// Records that the coordinator received a SyncGroup that was sent at `sent_at`.
    pub fn on_sync(&mut self, sent_at: Nanos) {
        if !self.is_unconfirmed {
            self.on_ack(sent_at);
        }
    }

    /// Returns the time from which on the member waits for an acknowledgement before it considers its session expired.
    pub fn alive_at(&self) -> Nanos {
        self.last_ack.max(self.joined_at)
    }

    /// Records that the group was stable: no rebalance had begun at this time.
    pub fn on_stable(&mut self, at: Nanos) {
        self.stable_at = self.stable_at.max(at);
    }

    /// Records that the coordinator received a request that was sent at `sent_at`.
    pub fn on_ack(&mut self, sent_at: Nanos) {
        self.last_ack = self.last_ack.max(sent_at);
    }

    pub fn cancel(&mut self) {
        self.in_flight = None;
    }

    pub fn is_in_flight(&self, token: u32) -> bool {
        self.in_flight.is_some_and(|flight| flight.token == token)
    }

    /// Forgets a heartbeat in flight to a node that is no longer the coordinator.
    pub fn set_coordinator(&mut self, located: CoordinatorRef) {
        self.in_flight = self.in_flight.filter(|flight| flight.located.node == located.node);
    }

    pub fn deadline(&self) -> Option<Nanos> {
        self.in_flight.is_none().then_some(self.next_heartbeat)
    }

    pub fn tick(&mut self, ctx: &mut Context<'_>, located: CoordinatorRef, (generation, member_id): (i32, &str)) {
        if self.in_flight.is_some() || ctx.now < self.next_heartbeat {
            return;
        }
        let config = ctx.config();
        let request = HeartbeatRequest {
            group_id: Cow::Owned(config.group_id.to_string()),
            generation_id: generation,
            member_id: Cow::Owned(member_id.to_owned()),
            group_instance_id: ctx.instance_id(),
        };
        // Three heartbeats may time out within one session.
        let timeout = (config.session_timeout / 3).max(2 * config.heartbeat_interval).min(config.request_timeout);
        self.next_heartbeat = ctx.now + config.heartbeat_interval;
        let token = ctx.send(Target::Node(located.node), Channel::Control, Request::Heartbeat(request), timeout);
        self.in_flight = Some(InFlight { token, located, sent_at: ctx.now, generation });
    }
}

impl ClassicMember {
    pub(super) fn on_heartbeat(&mut self, ctx: &mut Context<'_>, result: &Result<Response, RequestError>) {
        let Some(flight) = self.heartbeat.in_flight.take() else { return };
        if flight.generation != self.generation || !self.is_registered() {
            return;
        }
        let answer = match result {
            Ok(response) => response.decode(HeartbeatResponse::decode).map_err(RequestError::Protocol),
            Err(error) => Err(error.clone()),
        };
        // After an error the next heartbeat is sent early.
        let soon = ctx.now + ctx.config().retry_backoff;
        let code = match answer {
            Ok(answer) => ErrorCode(answer.error_code),
            Err(error) => {
                self.heartbeat.next_heartbeat = self.heartbeat.next_heartbeat.min(soon);
                return ctx.on_request_failed(flight.located.lookup, &error);
            }
        };
        match ctx.classify(flight.located.lookup, code) {
            ErrorClass::Ok => {
                ctx.on_authorized();
                self.heartbeat.is_unconfirmed = false;
                self.heartbeat.on_ack(flight.sent_at);
                self.heartbeat.on_stable(flight.sent_at);
            }
            ErrorClass::Retry => self.heartbeat.next_heartbeat = self.heartbeat.next_heartbeat.min(soon),
            ErrorClass::Error(ErrorCode::REBALANCE_IN_PROGRESS) => {
                self.heartbeat.on_ack(flight.sent_at);
                // In any other state the member already knows.
                if self.state == State::Stable {
                    self.rejoin(ctx, "the group is rebalancing");
                }
            }
            // The join in flight may be complete, with its response on the way; if it is not, the session expires.
            ErrorClass::Error(ErrorCode::ILLEGAL_GENERATION) if self.state == State::Joining => {}
            ErrorClass::Error(code @ (ErrorCode::ILLEGAL_GENERATION | ErrorCode::UNKNOWN_MEMBER_ID)) => {
                self.fence(ctx, LostReason::Fenced(code));
            }
            // Not an acknowledgement: an ACL that is back within the session costs no rebalance.
            ErrorClass::Error(ErrorCode::GROUP_AUTHORIZATION_FAILED) => {
                ctx.on_unauthorized();
            }
            ErrorClass::Error(ErrorCode::FENCED_INSTANCE_ID) => {
                self.on_instance_fenced(ctx, "Heartbeat");
            }
            // Not an acknowledgement; if the error persists, the session expires.
            ErrorClass::Error(_) => {}
        }
    }
}
