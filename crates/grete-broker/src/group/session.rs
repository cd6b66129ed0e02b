//! Sessions of members: heartbeats, and the timers of a group.

use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::{HeartbeatRequest, HeartbeatResponse};

use super::context::Context;
use super::state::{Group, GroupState};
use super::{GroupCoordinator, Requester};
use crate::effects::Effects;
use crate::ids::Millis;
use crate::message::Response;

impl GroupCoordinator {
    /// Handles Heartbeat.
    pub fn heartbeat(
        &mut self,
        now: Millis,
        requester: &Requester<'_>,
        request: &HeartbeatRequest<'_>,
        effects: &mut Effects,
    ) {
        let code = if request.group_id.is_empty() {
            ErrorCode::INVALID_GROUP_ID
        } else {
            let beat = self.with_group(now, &request.group_id, effects, |group, _, ctx| group.heartbeat(ctx, request));
            match beat {
                Some(Ok(())) => ErrorCode::NONE,
                Some(Err(code)) => code,
                None => ErrorCode::UNKNOWN_MEMBER_ID,
            }
        };
        let response = HeartbeatResponse { error_code: code.0, ..HeartbeatResponse::default() };
        effects.reply(requester.request, Response::Heartbeat(response));
    }
}

impl Group {
    fn heartbeat(&mut self, ctx: &Context<'_>, request: &HeartbeatRequest<'_>) -> Result<(), ErrorCode> {
        self.validate_member(&request.member_id, request.group_instance_id.as_deref())?;
        if request.generation_id != self.generation {
            return Err(ErrorCode::ILLEGAL_GENERATION);
        }
        self.extend_session(ctx.now, &request.member_id);
        match self.state {
            GroupState::Empty => Err(ErrorCode::UNKNOWN_MEMBER_ID),
            GroupState::PreparingRebalance => Err(ErrorCode::REBALANCE_IN_PROGRESS),
            GroupState::CompletingRebalance | GroupState::Stable => Ok(()),
        }
    }

    /// Begins the session of a member again.
    pub(super) fn extend_session(&mut self, now: Millis, member_id: &str) {
        if let Some(member) = self.members.get_mut(member_id) {
            member.begin_session(now);
        }
    }

    /// Begins the sessions of all members after the group was loaded, and shrinks a group that is too large now.
    pub(super) fn on_loaded(&mut self, ctx: &mut Context<'_>) {
        if let Some(consumer) = &mut self.consumer {
            return consumer.on_loaded(ctx);
        }
        for member in self.members.values_mut().filter(|member| member.expires.is_none()) {
            member.begin_session(ctx.now);
        }
        if self.members.len() > ctx.config.max_size && self.state == GroupState::Stable {
            self.prepare_rebalance(ctx);
        }
    }

    /// Fires all timers that are due, the earliest first.
    pub(super) fn tick(&mut self, ctx: &mut Context<'_>) {
        if let Some(consumer) = &mut self.consumer {
            return consumer.tick(ctx);
        }
        while let Some(at) = self.deadline().filter(|at| *at <= ctx.now) {
            if let Some(timer) = self.join_timer.filter(|timer| timer.at == at) {
                self.on_join_timer(ctx, timer);
            } else if self.sync_timer == Some(at) {
                self.on_sync_timer(ctx);
            } else if let Some((id, _)) = self.pending.iter().find(|(_, expires)| **expires == at) {
                let id = Arc::clone(id);
                self.remove_and_rebalance(ctx, &id);
            } else {
                self.on_session_end(ctx, at);
            }
        }
    }

    fn on_session_end(&mut self, ctx: &mut Context<'_>, at: Millis) {
        let Some(member) = self.members.values_mut().find(|member| member.expires == Some(at)) else { return };
        if member.has_satisfied_heartbeat() {
            // The response to the waiting request begins a new session.
            member.expires = None;
            return;
        }
        let id = Arc::clone(&member.id);
        self.remove_and_rebalance(ctx, &id);
    }
}
