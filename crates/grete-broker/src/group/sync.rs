//! SyncGroup.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::{SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse};

use super::context::{Context, optional_text};
use super::member::Parked;
use super::state::{Group, GroupState};
use super::{GroupCoordinator, Requester};
use crate::effects::Effects;
use crate::ids::Millis;

/// First version of SyncGroup that must name the protocol (KIP-559).
const FIRST_VERSION_WITH_PROTOCOL: i16 = 5;

impl GroupCoordinator {
    /// Handles SyncGroup. The response comes with the SyncGroup of the leader, at the latest.
    pub fn sync(
        &mut self,
        now: Millis,
        requester: &Requester<'_>,
        request: &SyncGroupRequest<'_>,
        effects: &mut Effects,
    ) {
        let to = requester.parked();
        let mut ctx = Context { now, config: &self.config, effects };
        let names_protocol = request.protocol_type.is_some() && request.protocol_name.is_some();
        if requester.version >= FIRST_VERSION_WITH_PROTOCOL && !names_protocol {
            return ctx.refuse_sync(to, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        if request.group_id.is_empty() {
            return ctx.refuse_sync(to, ErrorCode::INVALID_GROUP_ID);
        }
        if !self.groups.contains_key(request.group_id.as_ref()) {
            return ctx.refuse_sync(to, ErrorCode::UNKNOWN_MEMBER_ID);
        }
        self.with_group(now, &request.group_id, effects, |group, _, ctx| group.sync(ctx, to, request));
    }
}

impl Group {
    fn sync(&mut self, ctx: &mut Context<'_>, to: Parked, request: &SyncGroupRequest<'_>) {
        let member_id = request.member_id.as_ref();
        if let Err(code) = self.validate_sync(request) {
            return ctx.refuse_sync(to, code);
        }
        match self.state {
            GroupState::Empty => ctx.refuse_sync(to, ErrorCode::UNKNOWN_MEMBER_ID),
            GroupState::PreparingRebalance => ctx.refuse_sync(to, ErrorCode::REBALANCE_IN_PROGRESS),
            GroupState::CompletingRebalance => {
                self.on_synced(member_id);
                let Some(member) = self.members.get_mut(member_id) else { return };
                if let Some(old) = member.sync.replace(to) {
                    // The client gave up on its previous SyncGroup, which came on another connection.
                    ctx.refuse_sync(old, ErrorCode::REBALANCE_IN_PROGRESS);
                }
                if self.is_leader(member_id) {
                    self.assign(ctx, &request.assignments);
                }
            }
            GroupState::Stable => {
                self.on_synced(member_id);
                ctx.reply_sync(to, self.synced(member_id));
            }
        }
    }

    fn validate_sync(&self, request: &SyncGroupRequest<'_>) -> Result<(), ErrorCode> {
        self.validate_member(&request.member_id, request.group_instance_id.as_deref())?;
        if request.generation_id != self.generation {
            return Err(ErrorCode::ILLEGAL_GENERATION);
        }
        let differs =
            |claim: Option<&str>, own: Option<&Arc<str>>| claim.zip(own).is_some_and(|(claim, own)| claim != &**own);
        if differs(request.protocol_type.as_deref(), self.protocol_type.as_ref())
            || differs(request.protocol_name.as_deref(), self.protocol.as_ref())
        {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        Ok(())
    }

    fn on_synced(&mut self, member_id: &str) {
        self.pending_sync.remove(member_id);
        if self.pending_sync.is_empty() {
            self.sync_timer = None;
        }
    }

    /// Takes over the leader's assignment and answers all members that wait for it. A member that the leader left out
    /// gets an empty assignment.
    fn assign(&mut self, ctx: &mut Context<'_>, assignments: &[SyncGroupRequestAssignment<'_>]) {
        let assignments: BTreeMap<&str, &[u8]> =
            assignments.iter().map(|a| (a.member_id.as_ref(), a.assignment.as_ref())).collect();
        for member in self.members.values_mut() {
            member.assignment = assignments.get(&*member.id).map_or_else(Arc::default, |bytes| Arc::from(*bytes));
        }
        self.transition(ctx.now, GroupState::Stable);
        self.store(ctx);
        for id in self.members.keys().cloned().collect::<Vec<_>>() {
            let response = self.synced(&id);
            if let Some(member) = self.members.get_mut(&id)
                && let Some(to) = member.sync.take()
            {
                member.begin_session(ctx.now);
                ctx.reply_sync(to, response);
            }
        }
    }

    /// Answers all members that wait for an assignment with an error.
    pub(super) fn reset_assignments(&mut self, ctx: &mut Context<'_>, code: ErrorCode) {
        for member in self.members.values_mut() {
            member.assignment = Arc::default();
            if let Some(to) = member.sync.take() {
                member.begin_session(ctx.now);
                ctx.refuse_sync(to, code);
            }
        }
    }

    fn synced(&self, member_id: &str) -> SyncGroupResponse<'static> {
        let assignment = self.members.get(member_id).map(|member| member.assignment.to_vec()).unwrap_or_default();
        SyncGroupResponse {
            protocol_type: optional_text(self.protocol_type.as_ref()),
            protocol_name: optional_text(self.protocol.as_ref()),
            assignment: Cow::Owned(assignment),
            ..SyncGroupResponse::default()
        }
    }
}
