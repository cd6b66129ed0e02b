//! Rebalance of a group: its members join, the coordinator forms a generation, and members that fail are removed.

use std::borrow::Cow;
use std::sync::Arc;

use grete_wire::messages::{JoinGroupResponse, JoinGroupResponseMember};
use grete_wire::{ErrorCode, counted};

use super::context::{Context, optional_text, text};
use super::state::{Group, GroupState, InitialDelay, JoinTimer};
use crate::effects::group::GroupChange;
use crate::ids::Millis;

impl Group {
    /// Stores the current membership.
    pub(super) fn store(&mut self, ctx: &mut Context<'_>) {
        let metadata = self.to_metadata();
        self.stored = Some(metadata.clone());
        self.has_records = true;
        ctx.change(GroupChange::Metadata { group: Arc::clone(&self.id), metadata });
    }

    /// Starts a rebalance. If one is under way, completes its first phase as soon as all members have joined.
    pub(super) fn rebalance_or_complete_join(&mut self, ctx: &mut Context<'_>) {
        if self.state == GroupState::PreparingRebalance {
            self.maybe_complete_join(ctx);
        } else {
            self.prepare_rebalance(ctx);
        }
    }

    /// Starts a rebalance: waits until all members have joined.
    pub(super) fn prepare_rebalance(&mut self, ctx: &mut Context<'_>) {
        if self.state == GroupState::CompletingRebalance {
            self.reset_assignments(ctx, ErrorCode::REBALANCE_IN_PROGRESS);
        }
        self.pending_sync.clear();
        self.sync_timer = None;
        let initial = self.state == GroupState::Empty;
        ctx.effects.log.push(format!("group {}: a rebalance begins after generation {}", self.id, self.generation));
        self.transition(ctx.now, GroupState::PreparingRebalance);
        if !initial {
            if self.has_all_members_joined() {
                return self.complete_join(ctx);
            }
            return self.start_join_timer(ctx.now);
        }
        let delay_ms = ctx.config.initial_rebalance_delay_ms;
        if delay_ms <= 0 {
            return self.complete_join(ctx);
        }
        let remaining_ms = (self.rebalance_timeout_ms() - delay_ms).max(0);
        self.join_timer =
            Some(JoinTimer { at: ctx.now + delay_ms, initial: Some(InitialDelay { delay_ms, remaining_ms }) });
    }

    /// Completes the first phase of a rebalance if all members have joined. The delay of an empty group's first
    /// rebalance always ends by its timer.
    pub(super) fn maybe_complete_join(&mut self, ctx: &mut Context<'_>) {
        if self.state == GroupState::PreparingRebalance
            && self.previous != Some(GroupState::Empty)
            && self.has_all_members_joined()
        {
            self.complete_join(ctx);
        }
    }

    /// Ends the wait for members: rebalance timeout, or delay of the first rebalance.
    pub(super) fn on_join_timer(&mut self, ctx: &mut Context<'_>, timer: JoinTimer) {
        match timer.initial {
            Some(InitialDelay { delay_ms, remaining_ms }) if self.new_member_added && remaining_ms > 0 => {
                self.new_member_added = false;
                let next = ctx.config.initial_rebalance_delay_ms.min(remaining_ms).max(1);
                let initial = InitialDelay { delay_ms: next, remaining_ms: (remaining_ms - delay_ms).max(0) };
                self.join_timer = Some(JoinTimer { at: ctx.now + next, initial: Some(initial) });
            }
            _ => self.complete_join(ctx),
        }
    }

    fn start_join_timer(&mut self, now: Millis) {
        // A timer that is due at once would fire forever while a static member is absent.
        let at = now + self.rebalance_timeout_ms().max(1);
        self.join_timer = Some(JoinTimer { at, initial: None });
    }

    /// Forms the next generation from the members that have joined and the static members that are absent.
    fn complete_join(&mut self, ctx: &mut Context<'_>) {
        self.join_timer = None;
        let absent = self.members.values().filter(|member| member.join.is_none() && member.instance_id.is_none());
        for id in absent.map(|member| Arc::clone(&member.id)).collect::<Vec<_>>() {
            self.remove(ctx, &id);
        }
        if !self.elect_joined_leader() && !self.members.is_empty() {
            // Only absent static members. They join again, or their sessions end.
            return self.start_join_timer(ctx.now);
        }
        self.generation = self.generation.saturating_add(1);
        self.protocol = self.select_protocol();
        self.subscribed = self.compute_subscribed_topics();
        self.pending_sync.clear();
        self.new_member_added = false;
        if self.members.is_empty() {
            self.transition(ctx.now, GroupState::Empty);
            return self.store(ctx);
        }
        let members = counted(self.members.len(), "member");
        ctx.effects.log.push(format!("group {}: generation {} has {members}", self.id, self.generation));
        self.transition(ctx.now, GroupState::CompletingRebalance);
        self.pending_sync = self.members.keys().cloned().collect();
        for id in self.members.keys().cloned().collect::<Vec<_>>() {
            let response = self.joined(&id);
            let Some(member) = self.members.get_mut(&id) else { continue };
            member.begin_session(ctx.now);
            member.is_new = false;
            if let Some(to) = member.join.take() {
                ctx.reply_join(to, response);
            }
        }
        self.sync_timer = Some(ctx.now + self.rebalance_timeout_ms().max(1));
    }

    /// Builds the response for a member of the current generation. The leader gets the members.
    pub(super) fn joined(&self, member_id: &str) -> JoinGroupResponse<'static> {
        let members = if self.is_leader(member_id) { self.joined_members() } else { Vec::new() };
        JoinGroupResponse {
            generation_id: self.generation,
            protocol_type: optional_text(self.protocol_type.as_ref()),
            protocol_name: optional_text(self.protocol.as_ref()),
            leader: self.leader.as_ref().map(text).unwrap_or_default(),
            member_id: Cow::Owned(member_id.to_owned()),
            members,
            ..JoinGroupResponse::default()
        }
    }

    fn joined_members(&self) -> Vec<JoinGroupResponseMember<'static>> {
        let protocol = self.protocol.as_deref();
        let members = self.members.values().map(|member| JoinGroupResponseMember {
            member_id: text(&member.id),
            group_instance_id: optional_text(member.instance_id.as_ref()),
            metadata: Cow::Owned(member.subscription(protocol).to_vec()),
        });
        members.collect()
    }

    /// Keeps the leader if it has joined, or elects the first member that has. Returns whether there is one.
    fn elect_joined_leader(&mut self) -> bool {
        let has_joined = |id: &Arc<str>| self.members.get(id).is_some_and(|member| member.join.is_some());
        if self.leader.as_ref().is_some_and(has_joined) {
            return true;
        }
        let Some(joined) = self.members.values().find(|member| member.join.is_some()) else { return false };
        self.leader = Some(Arc::clone(&joined.id));
        true
    }

    /// Removes a member or an assigned member id. Requests of the member that wait are answered with
    /// `UNKNOWN_MEMBER_ID`, such that the client joins again if it is still there.
    pub(super) fn remove(&mut self, ctx: &mut Context<'_>, member_id: &str) {
        if let Some(member) = self.members.remove(member_id) {
            if let Some(to) = member.join {
                ctx.refuse_join(to, "", ErrorCode::UNKNOWN_MEMBER_ID);
            }
            if let Some(to) = member.sync {
                ctx.refuse_sync(to, ErrorCode::UNKNOWN_MEMBER_ID);
            }
            if let Some(instance_id) = &member.instance_id {
                self.statics.remove(instance_id);
            }
        }
        if self.is_leader(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
        self.pending.remove(member_id);
        self.pending_sync.remove(member_id);
    }

    /// Removes a member or an assigned member id, and rebalances the other members.
    pub(super) fn remove_and_rebalance(&mut self, ctx: &mut Context<'_>, member_id: &str) {
        let was_member = self.members.contains_key(member_id);
        self.remove(ctx, member_id);
        match self.state {
            GroupState::Stable | GroupState::CompletingRebalance if was_member => self.prepare_rebalance(ctx),
            GroupState::PreparingRebalance if self.has_all_members_joined() => self.complete_join(ctx),
            _ => {}
        }
    }

    /// Removes the members that sent no SyncGroup within the rebalance timeout (KAFKA-12984), and rebalances the
    /// others.
    pub(super) fn on_sync_timer(&mut self, ctx: &mut Context<'_>) {
        self.sync_timer = None;
        if self.pending_sync.is_empty() {
            return;
        }
        for id in std::mem::take(&mut self.pending_sync) {
            self.remove(ctx, &id);
        }
        self.prepare_rebalance(ctx);
    }
}
