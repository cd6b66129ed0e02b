//! Finds the group's coordinator and forgets it when it does not do.

use std::borrow::Cow;

use grete_wire::ErrorCode;
use grete_wire::messages::{FindCoordinatorRequest, FindCoordinatorResponse};

use super::context::{Context, Effect, Located};
use super::error::GroupError;
use super::event::{GroupAction, GroupNotice};
use crate::request::{Channel, Request, RequestError, Response, Target};
use crate::rng::Backoff;
use crate::time::Nanos;

#[derive(Debug)]
enum State {
    Unknown { retry_at: Nanos },
    Asking { token: u32 },
    Known(Located),
}

/// One group's coordinator.
#[derive(Debug)]
pub(super) struct Coordinator {
    state: State,
    /// Grows with every coordinator that does not do. Finding one proves nothing (P35: a broker that is down can be named
    /// for a while), so only an answer from the coordinator itself resets it.
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

    pub fn located(&self) -> Option<Located> {
        match self.state {
            State::Known(located) => Some(located),
            _ => None,
        }
    }

    /// Asks, if it is time to.
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
        self.state = State::Asking { token };
    }

    pub fn deadline(&self) -> Option<Nanos> {
        match self.state {
            State::Unknown { retry_at } => Some(retry_at),
            _ => None,
        }
    }

    /// Whether the token was ours.
    pub fn on_reply(&mut self, ctx: &mut Context<'_>, token: u32, result: &Result<Response, RequestError>) -> bool {
        if !matches!(self.state, State::Asking { token: asked } if asked == token) {
            return false;
        }
        let retry_at = ctx.now + self.backoff.next(&mut ctx.shared.rng);
        self.state = State::Unknown { retry_at };
        match result {
            Ok(response) => {
                if let Ok(found) = response.decode(FindCoordinatorResponse::decode) {
                    self.found(ctx, &found);
                }
            }
            Err(error @ RequestError::Unsupported { .. }) => {
                let group = ctx.config().group_id.clone();
                ctx.effect(Effect::Fatal(GroupError::Unsupported { group, reason: error.to_string() }));
            }
            // The cluster says what is wrong with its connections; here it is only tried again.
            Err(_) => {}
        }
        true
    }

    fn found(&mut self, ctx: &mut Context<'_>, response: &FindCoordinatorResponse<'_>) {
        let group = ctx.config().group_id.clone();
        let Some(found) = response.coordinators.iter().find(|c| *c.key == *group) else { return };
        let code = ErrorCode(found.error_code);
        match (code, u16::try_from(found.port)) {
            (ErrorCode::NONE, Ok(port)) => {
                self.lookups = self.lookups.wrapping_add(1);
                let node = found.node_id;
                self.state = State::Known(Located { node, lookup: self.lookups });
                ctx.actions.push(GroupAction::LearnNode { node, host: found.host.as_ref().into(), port });
                ctx.notice(GroupNotice::CoordinatorFound { node });
            }
            (ErrorCode::GROUP_AUTHORIZATION_FAILED, _) => {
                ctx.effect(Effect::Fatal(GroupError::GroupAuthorization { group }));
            }
            (ErrorCode::INVALID_GROUP_ID | ErrorCode::INVALID_REQUEST, _) => {
                ctx.effect(Effect::Fatal(GroupError::Refused { group, request: "FindCoordinator", code }));
            }
            // Mostly COORDINATOR_NOT_AVAILABLE: the offsets topic is being made, or has no leader for the moment.
            _ => {}
        }
    }

    /// A request to the coordinator failed in a way that speaks against it.
    pub fn suspect(&mut self, ctx: &mut Context<'_>, lookup: u32, reason: String) {
        let State::Known(located) = self.state else { return };
        if located.lookup != lookup {
            return;
        }
        let retry_at = ctx.now + self.backoff.next(&mut ctx.shared.rng);
        self.state = State::Unknown { retry_at };
        ctx.notice(GroupNotice::CoordinatorLost { node: located.node, reason });
    }

    /// The coordinator answered a request as a coordinator does.
    pub fn confirm(&mut self) {
        self.backoff.reset();
    }
}
