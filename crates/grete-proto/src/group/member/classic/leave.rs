//! LeaveGroup, and leaving without it.

use std::borrow::Cow;

use grete_wire::ErrorCode;
use grete_wire::messages::{LeaveGroupRequest, LeaveGroupResponse, MemberIdentity};

use super::ClassicMember;
use crate::group::context::{Context, CoordinatorRef, Effect, ErrorClass};
use crate::group::event::GroupLogEvent;
use crate::group::member::state::{InFlight, State};
use crate::request::{Channel, Request, RequestError, Response};
use crate::time::MILLI;

impl ClassicMember {
    /// Leaves the group, after everything is revoked (P16). A member without an id has no request to send. A static
    /// member that keeps its place sends none either (KIP-345): the coordinator keeps the place for the session
    /// timeout, for a successor with the same instance id.
    pub fn leave(&mut self, ctx: &mut Context<'_>) {
        if !self.is_active() || self.state == State::Leaving {
            return;
        }
        let request_in_flight = self.in_flight.is_some();
        self.in_flight = None;
        self.election = None;
        self.heartbeat.cancel();
        self.retry_at = ctx.now;
        self.state = State::Leaving;
        let known = !self.member_id.is_empty();
        match ctx.config().instance_id.clone() {
            Some(instance) if self.remain_in_group && known => {
                let session_ms = ctx.config().session_timeout / MILLI;
                ctx.log_event(GroupLogEvent::RemainedInGroup { instance, session_ms });
                self.leave_silently(ctx);
            }
            // The coordinator counts a static member in on receiving its JoinGroup, answered or not. The instance id
            // alone identifies the member for LeaveGroup.
            Some(_) if !self.remain_in_group && request_in_flight => {}
            _ if !known => self.leave_silently(ctx),
            _ => {}
        }
    }

    /// Leaves without a request; the coordinator removes the member after the session timeout.
    pub fn leave_silently(&mut self, ctx: &mut Context<'_>) {
        self.state = State::Left;
        self.in_flight = None;
        self.generation = -1;
        // A static member must keep its id: a join without an id takes the place of the id's current holder, which may
        // be this member's own join that is still in flight (KAFKA-20985).
        if ctx.config().instance_id.is_none() {
            self.member_id.clear();
        }
        ctx.push_effect(Effect::Left);
    }

    pub(super) fn send_leave(&mut self, ctx: &mut Context<'_>, located: CoordinatorRef) {
        let identity = MemberIdentity {
            member_id: Cow::Owned(self.member_id.clone()),
            group_instance_id: ctx.config().instance_id.as_deref().map(|id| Cow::Owned(id.to_owned())),
            reason: Some(Cow::Borrowed("the consumer was closed")),
        };
        let group_id = Cow::Owned(ctx.config().group_id.to_string());
        let request = LeaveGroupRequest { group_id, members: vec![identity], ..LeaveGroupRequest::default() };
        // Sent on the control connection, because the broker may still hold a JoinGroup on the other one.
        self.in_flight =
            Some(self.send(ctx, located, Channel::Control, Request::LeaveGroup(request), |c| c.request_timeout));
    }

    pub(super) fn on_leave(
        &mut self,
        ctx: &mut Context<'_>,
        in_flight: &InFlight,
        response: &Response,
    ) -> Result<(), RequestError> {
        let answer = response.decode(LeaveGroupResponse::decode).map_err(RequestError::Protocol)?;
        match ctx.classify(in_flight.located.lookup, ErrorCode(answer.error_code)) {
            ErrorClass::Retry => self.retry_later(ctx, String::new()),
            // UNKNOWN_MEMBER_ID also means that the member is out of the group.
            ErrorClass::Ok | ErrorClass::Error(_) => {
                self.leave_silently(ctx);
                self.member_id.clear(); // for a static member, too: its place no longer exists
            }
        }
        Ok(())
    }
}
