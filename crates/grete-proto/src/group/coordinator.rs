//! Lookup of the group's coordinator.

use std::borrow::Cow;

use grete_wire::ErrorCode;
use grete_wire::messages::{FindCoordinatorRequest, FindCoordinatorResponse};

use super::context::{Context, CoordinatorRef, Effect};
use super::error::GroupError;
use super::event::{GroupAction, GroupLogEvent};
use crate::backoff::Backoff;
use crate::request::{Channel, Request, RequestError, Response, Target};
use crate::time::Nanos;

#[derive(Debug)]
enum State {
    Unknown { retry_at: Nanos },
    LookingUp { token: u32 },
    Known(CoordinatorRef),
}

/// Coordinator of one group.
#[derive(Debug)]
pub(super) struct Coordinator {
    state: State,
    /// Grows with every coordinator that fails. A successful lookup proves nothing (P35: a broker that is down may be
    /// named for a while), so only a response of the coordinator itself resets the backoff.
    backoff: Backoff,
    lookups: u32,
}

impl Coordinator {
    pub fn new(retry_backoff: Nanos, retry_backoff_max: Nanos) -> Self {
        Self {
            state: State::Unknown { retry_at: 0 },
            backoff: Backoff::new(retry_backoff, retry_backoff_max),
            lookups: 0,
        }
    }

    pub fn current(&self) -> Option<CoordinatorRef> {
        match self.state {
            State::Known(located) => Some(located),
            _ => None,
        }
    }

    /// Sends a lookup when one is due.
    pub fn tick(&mut self, ctx: &mut Context<'_>) {
        let State::Unknown { retry_at } = self.state else { return };
        if ctx.now < retry_at {
            return;
        }
        let group_id = ctx.config().group_id.to_string();
        let request =
            FindCoordinatorRequest { key_type: 0, coordinator_keys: vec![Cow::Owned(group_id)], ..Default::default() };
        let timeout = ctx.config().request_timeout;
        let token = ctx.send(Target::Any, Channel::Control, Request::FindCoordinator(request), timeout);
        self.state = State::LookingUp { token };
    }

    pub fn deadline(&self) -> Option<Nanos> {
        match self.state {
            State::Unknown { retry_at } => Some(retry_at),
            _ => None,
        }
    }

    /// Handles a reply. Returns whether the token belongs to a lookup.
    pub fn on_reply(&mut self, ctx: &mut Context<'_>, token: u32, result: &Result<Response, RequestError>) -> bool {
        if !matches!(self.state, State::LookingUp { token: asked } if asked == token) {
            return false;
        }
        let retry_at = ctx.now + self.backoff.next_delay(&mut ctx.shared.rng);
        self.state = State::Unknown { retry_at };
        match result {
            Ok(response) => {
                if let Ok(found) = response.decode(FindCoordinatorResponse::decode) {
                    self.on_coordinator_found(ctx, &found);
                }
            }
            Err(error @ RequestError::Unsupported { .. }) => {
                let group = ctx.config().group_id.clone();
                ctx.push_effect(Effect::Fatal(GroupError::Unsupported { group, reason: error.to_string() }));
            }
            // The cluster reports connection errors; the lookup is only retried.
            Err(_) => {}
        }
        true
    }

    fn on_coordinator_found(&mut self, ctx: &mut Context<'_>, response: &FindCoordinatorResponse<'_>) {
        let group = ctx.config().group_id.clone();
        let Some(found) = response.coordinators.iter().find(|c| *c.key == *group) else { return };
        let code = ErrorCode(found.error_code);
        match (code, u16::try_from(found.port)) {
            (ErrorCode::NONE, Ok(port)) => {
                self.lookups = self.lookups.wrapping_add(1);
                let node = found.node_id;
                self.state = State::Known(CoordinatorRef { node, lookup: self.lookups });
                ctx.actions.push(GroupAction::LearnNode { node, host: found.host.as_ref().into(), port });
                ctx.log_event(GroupLogEvent::CoordinatorFound { node });
            }
            (ErrorCode::GROUP_AUTHORIZATION_FAILED, _) => {
                ctx.on_unauthorized();
            }
            (ErrorCode::INVALID_GROUP_ID | ErrorCode::INVALID_REQUEST, _) => {
                ctx.push_effect(Effect::Fatal(GroupError::Refused { group, request: "FindCoordinator", code }));
            }
            // Mostly COORDINATOR_NOT_AVAILABLE: the offsets topic is being created, or has no leader at the moment.
            _ => {}
        }
    }

    /// Drops the coordinator after a failed request, unless a later lookup has replaced it.
    pub fn mark_unknown(&mut self, ctx: &mut Context<'_>, lookup: u32, reason: String) {
        let State::Known(located) = self.state else { return };
        if located.lookup != lookup {
            return;
        }
        let retry_at = ctx.now + self.backoff.next_delay(&mut ctx.shared.rng);
        self.state = State::Unknown { retry_at };
        ctx.log_event(GroupLogEvent::CoordinatorLost { node: located.node, reason });
    }

    /// Resets the backoff, because the coordinator answered as a coordinator.
    pub fn mark_alive(&mut self) {
        self.backoff.reset();
    }
}
