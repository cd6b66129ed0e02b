//! LeaveGroup, and going without it.

use std::borrow::Cow;

use grete_wire::ErrorCode;
use grete_wire::messages::{LeaveGroupRequest, LeaveGroupResponse, MemberIdentity};

use super::{Attempt, Member, State};
use crate::group::context::{Context, Effect, Located, Verdict};
use crate::group::event::GroupNotice;
use crate::request::{Channel, Request, RequestError, Response};
use crate::time::MILLI;

impl Member {
    /// Leaves; everything is revoked (P16). A member that has no id yet has nothing to say, and a static one does not say it
    /// (KIP-345): its place is kept for the session timeout, for whoever comes back under its instance id.
    pub fn leave(&mut self, ctx: &mut Context<'_>) {
        if !self.is_active() || self.state == State::Leaving {
            return;
        }
        self.attempt = None;
        self.election = None;
        self.heartbeat.forget();
        self.retry_at = ctx.now;
        self.state = State::Leaving;
        if self.member_id.is_empty() {
            self.leave_unsaid(ctx);
        } else if let Some(instance) = ctx.config().instance_id.clone() {
            let session_ms = ctx.config().session_timeout / MILLI;
            ctx.notice(GroupNotice::PlaceKept { instance, session_ms });
            self.leave_unsaid(ctx);
        }
    }

    /// Is out without having said so; the coordinator finds out after the session timeout.
    pub fn leave_unsaid(&mut self, ctx: &mut Context<'_>) {
        self.state = State::Left;
        self.attempt = None;
        self.generation = -1;
        // Who comes back without the id takes the place of whoever has it by then, be it a join of its own that is still on
        // the way (KAFKA-20985).
        if ctx.config().instance_id.is_none() {
            self.member_id.clear();
        }
        ctx.effect(Effect::Left);
    }

    pub(super) fn send_leave(&mut self, ctx: &mut Context<'_>, located: Located) {
        let identity = MemberIdentity {
            member_id: Cow::Owned(self.member_id.clone()),
            reason: Some(Cow::Borrowed("the consumer was closed")),
            ..MemberIdentity::default()
        };
        let group_id = Cow::Owned(ctx.config().group_id.to_string());
        let request = LeaveGroupRequest { group_id, members: vec![identity], ..LeaveGroupRequest::default() };
        // On the control connection: on the other one a JoinGroup may still be held by the broker.
        self.attempt =
            Some(self.ask(ctx, located, Channel::Control, Request::LeaveGroup(request), |c| c.request_timeout));
    }

    pub(super) fn on_leave(
        &mut self,
        ctx: &mut Context<'_>,
        at: &Attempt,
        response: &Response,
    ) -> Result<(), RequestError> {
        let answer = response.decode(LeaveGroupResponse::decode).map_err(RequestError::Protocol)?;
        match ctx.verdict(at.located.lookup, ErrorCode(answer.error_code)) {
            Verdict::Retry => self.retry_later(ctx, String::new()),
            // Also when it does not know us: out is out.
            Verdict::Ok | Verdict::Error(_) => self.leave_unsaid(ctx),
        }
        Ok(())
    }
}
