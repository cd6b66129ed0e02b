//! JoinGroup.

use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::JoinGroupRequest;

use super::context::Context;
use super::member::{Member, MemberIds, Parked, own_protocols};
use super::state::{Group, GroupState};
use super::{GroupCoordinator, Requester};
use crate::effects::Effects;
use crate::ids::Millis;

/// First version of JoinGroup whose dynamic members ask for a member id first (KIP-394).
const FIRST_VERSION_WITH_REQUIRED_MEMBER_ID: i16 = 4;
/// First version of JoinGroup whose leader can be asked to keep the assignment (KIP-814).
const FIRST_VERSION_WITH_SKIP_ASSIGNMENT: i16 = 9;

impl GroupCoordinator {
    /// Handles JoinGroup. The response may come with a later event.
    pub fn join(
        &mut self,
        now: Millis,
        requester: &Requester<'_>,
        request: &JoinGroupRequest<'_>,
        effects: &mut Effects,
    ) {
        let to = requester.parked();
        let session_timeout_ms = i64::from(request.session_timeout_ms);
        let timeouts = self.config.min_session_timeout_ms..=self.config.max_session_timeout_ms;
        let mut ctx = Context { now, config: &self.config, effects };
        if request.group_id.is_empty() {
            return ctx.refuse_join(to, &request.member_id, ErrorCode::INVALID_GROUP_ID);
        }
        if !timeouts.contains(&session_timeout_ms) {
            return ctx.refuse_join(to, &request.member_id, ErrorCode::INVALID_SESSION_TIMEOUT);
        }
        let is_new = !self.groups.contains_key(request.group_id.as_ref());
        if is_new {
            if !request.member_id.is_empty() {
                return ctx.refuse_join(to, &request.member_id, ErrorCode::UNKNOWN_MEMBER_ID);
            }
            self.create(now, &request.group_id);
        }
        self.with_group(now, &request.group_id, effects, |group, ids, ctx| {
            if group.consumer.is_some() {
                if !group.has_no_members() {
                    return ctx.refuse_join(to, &request.member_id, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
                }
                if !request.member_id.is_empty() {
                    return ctx.refuse_join(to, &request.member_id, ErrorCode::UNKNOWN_MEMBER_ID);
                }
                group.consumer = None;
                group.store(ctx);
            }
            group.join(ctx, ids, requester, request);
            // A group that is listed must be listed after a restart, too.
            if (is_new || group.has_records) && group.stored.is_none() && group.offsets.is_empty() {
                let mut empty = Group::new(Arc::clone(&group.id), now);
                empty.store(ctx);
                (group.stored, group.has_records) = (empty.stored, true);
            }
        });
    }
}

impl Group {
    fn join(
        &mut self,
        ctx: &mut Context<'_>,
        ids: &mut MemberIds,
        requester: &Requester<'_>,
        request: &JoinGroupRequest<'_>,
    ) {
        let to = requester.parked();
        let member_id = request.member_id.as_ref();
        if !self.accepts(member_id, ctx.config.max_size) {
            self.remove(ctx, member_id);
            return ctx.refuse_join(to, "", ErrorCode::GROUP_MAX_SIZE_REACHED);
        }
        if !self.supports_protocols(&request.protocol_type, &request.protocols) {
            return ctx.refuse_join(to, member_id, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        if !member_id.is_empty() {
            return self.join_existing(ctx, requester, request);
        }
        let prefix = request.group_instance_id.as_deref().unwrap_or(requester.client_id);
        let mut new_id = ids.next(prefix);
        while self.members.contains_key(&new_id) || self.pending.contains_key(&new_id) {
            new_id = ids.next(prefix);
        }
        if let Some(instance_id) = request.group_instance_id.as_deref() {
            match self.statics.get(instance_id).cloned() {
                Some(old_id) => self.replace_static(ctx, to, request, &old_id, new_id),
                None => self.add(ctx, requester, request, new_id),
            }
        } else if requester.version >= FIRST_VERSION_WITH_REQUIRED_MEMBER_ID {
            self.pending.insert(Arc::clone(&new_id), ctx.now + i64::from(request.session_timeout_ms));
            ctx.refuse_join(to, &new_id, ErrorCode::MEMBER_ID_REQUIRED);
        } else {
            self.add(ctx, requester, request, new_id);
        }
    }

    /// Returns whether the group has room for the member.
    fn accepts(&self, member_id: &str, max_size: usize) -> bool {
        let member = self.members.get(member_id);
        match self.state {
            GroupState::Empty => true,
            // The members that wait are counted, not all: a group that is too large loses those that join last.
            GroupState::PreparingRebalance => {
                member.is_some_and(|member| member.join.is_some()) || self.awaiting_join() < max_size
            }
            GroupState::CompletingRebalance | GroupState::Stable => member.is_some() || self.members.len() < max_size,
        }
    }

    /// Handles JoinGroup with a member id.
    fn join_existing(&mut self, ctx: &mut Context<'_>, requester: &Requester<'_>, request: &JoinGroupRequest<'_>) {
        let (to, member_id) = (requester.parked(), request.member_id.as_ref());
        let instance_id = request.group_instance_id.as_deref();
        if self.pending.contains_key(member_id) {
            if instance_id.is_some() {
                // Static members get no pending ids: the client is defective.
                return ctx.refuse_join(to, "", ErrorCode::UNKNOWN_SERVER_ERROR);
            }
            return self.add(ctx, requester, request, Arc::from(member_id));
        }
        if let Err(code) = self.validate_member(member_id, instance_id) {
            return ctx.refuse_join(to, member_id, code);
        }
        let same = self.members.get(member_id).is_some_and(|member| member.matches(&request.protocols));
        match self.state {
            // The client lost the response to its previous JoinGroup, or it wants to know the generation.
            GroupState::CompletingRebalance if same => ctx.reply_join(to, self.joined(member_id)),
            GroupState::Stable if same && !self.is_leader(member_id) => ctx.reply_join(to, self.joined(member_id)),
            // A leader that joins again demands a rebalance: its assignment depends on more than the subscriptions.
            GroupState::PreparingRebalance | GroupState::CompletingRebalance | GroupState::Stable => {
                self.update(ctx, to, request, member_id);
                self.rebalance_or_complete_join(ctx);
            }
            GroupState::Empty => ctx.refuse_join(to, member_id, ErrorCode::UNKNOWN_MEMBER_ID),
        }
    }

    /// Adds a member, and starts a rebalance.
    fn add(
        &mut self,
        ctx: &mut Context<'_>,
        requester: &Requester<'_>,
        request: &JoinGroupRequest<'_>,
        member_id: Arc<str>,
    ) {
        let member = Member {
            id: Arc::clone(&member_id),
            instance_id: request.group_instance_id.as_deref().map(Arc::from),
            client_id: Arc::from(requester.client_id),
            client_host: Arc::from(requester.client_host),
            rebalance_timeout_ms: rebalance_timeout_ms(requester.version, request),
            session_timeout_ms: i64::from(request.session_timeout_ms),
            protocols: own_protocols(&request.protocols),
            assignment: Arc::default(),
            join: Some(requester.parked()),
            sync: None,
            is_new: true,
            // The member cannot send heartbeats before it knows its id.
            expires: Some(ctx.now + ctx.config.new_member_join_timeout_ms),
        };
        if self.state == GroupState::PreparingRebalance && self.previous == Some(GroupState::Empty) {
            self.new_member_added = true;
        }
        if self.members.is_empty() {
            self.protocol_type = Some(Arc::from(request.protocol_type.as_ref()));
        }
        if let Some(instance_id) = &member.instance_id {
            self.statics.insert(Arc::clone(instance_id), Arc::clone(&member_id));
        }
        if self.leader.is_none() {
            self.leader = Some(Arc::clone(&member_id));
        }
        self.pending.remove(&member_id);
        self.members.insert(member_id, member);
        self.rebalance_or_complete_join(ctx);
    }

    /// Takes over protocols and timeouts of a JoinGroup, which then waits.
    fn update(&mut self, ctx: &mut Context<'_>, to: Parked, request: &JoinGroupRequest<'_>, member_id: &str) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        member.protocols = own_protocols(&request.protocols);
        member.rebalance_timeout_ms = rebalance_timeout_ms(to.version, request);
        member.session_timeout_ms = i64::from(request.session_timeout_ms);
        if let Some(old) = member.join.replace(to) {
            // The client gave up on its previous JoinGroup, which came on another connection.
            ctx.refuse_join(old, member_id, ErrorCode::REBALANCE_IN_PROGRESS);
        }
    }

    /// Replaces the member id of a static member that was restarted. If the elected protocol stays, a stable group
    /// keeps its generation.
    fn replace_static(
        &mut self,
        ctx: &mut Context<'_>,
        to: Parked,
        request: &JoinGroupRequest<'_>,
        old_id: &Arc<str>,
        new_id: Arc<str>,
    ) {
        let Some(mut member) = self.members.remove(old_id) else { return };
        let old_leader = self.leader.clone();
        if let Some(open) = member.join.take() {
            ctx.refuse_join(open, old_id, ErrorCode::FENCED_INSTANCE_ID);
        }
        if let Some(open) = member.sync.take() {
            ctx.refuse_sync(open, ErrorCode::FENCED_INSTANCE_ID);
        }
        member.id = Arc::clone(&new_id);
        member.is_new = false;
        member.begin_session(ctx.now);
        if let Some(instance_id) = &member.instance_id {
            self.statics.insert(Arc::clone(instance_id), Arc::clone(&new_id));
        }
        if self.is_leader(old_id) {
            self.leader = Some(Arc::clone(&new_id));
        }
        if self.pending_sync.remove(old_id) {
            self.pending_sync.insert(Arc::clone(&new_id));
        }
        self.members.insert(Arc::clone(&new_id), member);
        self.update(ctx, to, request, &new_id);
        match self.state {
            GroupState::Stable if self.select_protocol() == self.protocol => {
                self.store(ctx);
                let mut response = self.joined(&new_id);
                if to.version >= FIRST_VERSION_WITH_SKIP_ASSIGNMENT {
                    response.skip_assignment = self.is_leader(&new_id);
                } else {
                    // An old client computes no assignment if another member leads.
                    response.members = Vec::new();
                    response.leader = old_leader.as_ref().map(super::context::text).unwrap_or_default();
                }
                if let Some(member) = self.members.get_mut(&new_id) {
                    member.join = None;
                }
                ctx.reply_join(to, response);
            }
            // The leader may already be computing an assignment for the old member id.
            GroupState::Stable | GroupState::CompletingRebalance => self.prepare_rebalance(ctx),
            GroupState::PreparingRebalance | GroupState::Empty => self.maybe_complete_join(ctx),
        }
    }
}

/// Returns the rebalance timeout of a request in milliseconds. Version 0 has none: the session timeout takes its place.
fn rebalance_timeout_ms(version: i16, request: &JoinGroupRequest<'_>) -> i64 {
    if version == 0 {
        return i64::from(request.session_timeout_ms);
    }
    i64::from(request.rebalance_timeout_ms).max(0)
}
