//! Heartbeats, and what their answers mean.

use std::borrow::Cow;

use grete_wire::ErrorCode;
use grete_wire::messages::{HeartbeatRequest, HeartbeatResponse};

use super::{Member, State};
use crate::group::context::{Context, Located, Verdict};
use crate::group::error::GroupError;
use crate::group::event::LostReason;
use crate::request::{Channel, Request, RequestError, Response, Target};
use crate::time::Nanos;

#[derive(Debug, Clone, Copy)]
struct Flight {
    token: u32,
    located: Located,
    sent_at: Nanos,
    generation: i32,
}

/// When the next one is due, and which one is awaited.
#[derive(Debug, Default)]
pub(super) struct Heartbeat {
    due: Nanos,
    flight: Option<Flight>,
    pub last_ack: Nanos,
}

impl Heartbeat {
    /// The coordinator let us in: its session timer starts with its answer.
    pub fn joined(&mut self, now: Nanos, interval: Nanos) {
        self.flight = None;
        self.acked(now);
        self.due = now + interval;
    }

    /// The coordinator heard of us at `sent_at` or later.
    pub fn acked(&mut self, sent_at: Nanos) {
        self.last_ack = self.last_ack.max(sent_at);
    }

    pub fn forget(&mut self) {
        self.flight = None;
    }

    pub fn awaits(&self, token: u32) -> bool {
        self.flight.is_some_and(|flight| flight.token == token)
    }

    /// An answer from a node that is no longer the coordinator is not worth waiting for.
    pub fn follow(&mut self, located: Located) {
        self.flight = self.flight.filter(|flight| flight.located.node == located.node);
    }

    pub fn deadline(&self) -> Option<Nanos> {
        self.flight.is_none().then_some(self.due)
    }

    pub fn tick(&mut self, ctx: &mut Context<'_>, located: Located, (generation, member_id): (i32, &str)) {
        if self.flight.is_some() || ctx.now < self.due {
            return;
        }
        let config = ctx.config();
        let request = HeartbeatRequest {
            group_id: Cow::Owned(config.group_id.to_string()),
            generation_id: generation,
            member_id: Cow::Owned(member_id.to_owned()),
            group_instance_id: ctx.instance_id(),
        };
        // Three may go unanswered within one session.
        let patience = (config.session_timeout / 3).max(2 * config.heartbeat_interval).min(config.request_timeout);
        self.due = ctx.now + config.heartbeat_interval;
        let token = ctx.send(Target::Node(located.node), Channel::Control, Request::Heartbeat(request), patience);
        self.flight = Some(Flight { token, located, sent_at: ctx.now, generation });
    }
}

impl Member {
    pub(super) fn on_heartbeat(&mut self, ctx: &mut Context<'_>, result: &Result<Response, RequestError>) {
        let Some(flight) = self.heartbeat.flight.take() else { return };
        if flight.generation != self.generation || !self.is_known() {
            return;
        }
        let answer = match result {
            Ok(response) => response.decode(HeartbeatResponse::decode).map_err(RequestError::Protocol),
            Err(error) => Err(error.clone()),
        };
        // Whatever goes wrong, the next one need not wait for its turn.
        let soon = ctx.now + ctx.config().retry_backoff;
        let code = match answer {
            Ok(answer) => ErrorCode(answer.error_code),
            Err(error) => {
                self.heartbeat.due = self.heartbeat.due.min(soon);
                return ctx.unanswered(flight.located.lookup, &error);
            }
        };
        match ctx.verdict(flight.located.lookup, code) {
            Verdict::Ok => self.heartbeat.acked(flight.sent_at),
            Verdict::Retry => self.heartbeat.due = self.heartbeat.due.min(soon),
            Verdict::Error(ErrorCode::REBALANCE_IN_PROGRESS) => {
                self.heartbeat.acked(flight.sent_at);
                // In any other state it is no news.
                if self.state == State::Stable {
                    self.rejoin(ctx, "the group is rebalancing");
                }
            }
            // The join that we wait for may be complete, with its answer on the way; if it is not, the session expires.
            Verdict::Error(ErrorCode::ILLEGAL_GENERATION) if self.state == State::Joining => {}
            Verdict::Error(code @ (ErrorCode::ILLEGAL_GENERATION | ErrorCode::UNKNOWN_MEMBER_ID)) => {
                self.fence(ctx, LostReason::Fenced(code));
            }
            Verdict::Error(ErrorCode::GROUP_AUTHORIZATION_FAILED) => {
                let group = ctx.config().group_id.clone();
                self.fail(ctx, GroupError::GroupAuthorization { group });
            }
            Verdict::Error(ErrorCode::FENCED_INSTANCE_ID) => {
                self.instance_fenced(ctx, "Heartbeat");
            }
            // Not an acknowledgement; if it stays so, the session expires.
            Verdict::Error(_) => {}
        }
    }
}
