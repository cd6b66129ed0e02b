//! Composition of a consumer group from coordinator lookup, member, reconciler, offset committer and offset fetcher.

use std::collections::BTreeSet;

use grete_wire::ErrorCode;

use super::assignor;
use super::config::{GroupConfig, GroupProtocol};
use super::context::{Context, Effect, GroupShared, TopicMetadataView};
use super::coordinator::Coordinator;
use super::event::{GroupAction, GroupEvent, GroupLogEvent, GroupStats, LostReason};
use super::member::{Member, MemberGeneration, State};
use super::offset_committer::OffsetCommitter;
use super::offset_fetcher::OffsetFetcher;
use super::reconciler::{Reconciler, Revocation};
use crate::ids::TopicPartition;
use crate::request::Reply;
use crate::rng::Rng;
use crate::time::{Nanos, SECOND, earliest};

/// Limit of rounds in which the state machines act on each other within one event. No event needs more than four
/// rounds; the limit makes the group terminate, should that ever be wrong.
const MAX_EFFECT_ROUNDS: usize = 32;
/// Longest time for which a member of a share group waits for its coordinator when it leaves. The other members wait for
/// nothing: the locks of its records end by themselves.
const SHARE_LEAVE_WAIT: Nanos = 5 * SECOND;

/// Consumer group from the view of one member (or of a standalone committer).
#[derive(Debug)]
pub struct ConsumerGroup {
    shared: GroupShared,
    coordinator: Coordinator,
    member: Member,
    reconciler: Reconciler,
    committer: OffsetCommitter,
    offset_fetcher: OffsetFetcher,
    /// Used by `assign`: commits and fetches offsets without joining.
    standalone: bool,
    /// Whether the revocations before the next join have been requested.
    revocation_started: bool,
    /// Acknowledged revocations that still wait for commits in flight.
    acked_revocations: Vec<u32>,
    /// A partition was revoked because of the assignment: other members wait for the next join, which frees the
    /// partition.
    must_rejoin: bool,
    leave_deadline: Option<Nanos>,
    rebalances: u64,
    lost_partitions: u64,
}

/// Borrows the shared state, and leaves the state machines free to be borrowed.
macro_rules! context {
    ($self:ident, $now:ident, $out:ident) => {
        Context { now: $now, coordinator: $self.coordinator.current(), shared: &mut $self.shared, actions: $out }
    };
}

impl ConsumerGroup {
    /// Creates a group that does nothing before its first event. The settings should have passed
    /// [`GroupConfig::check`].
    pub fn new(config: GroupConfig, rng: Rng) -> Self {
        let (first, longest) = (config.retry_backoff, config.retry_backoff_max);
        Self {
            coordinator: Coordinator::new(first, longest),
            member: Member::new(&config),
            committer: OffsetCommitter::new(first, longest),
            offset_fetcher: OffsetFetcher::new(first, longest),
            reconciler: Reconciler::default(),
            shared: GroupShared {
                config,
                rng,
                next_token: 1,
                effects: Vec::new(),
                unauthorized: false,
                leaving: false,
            },
            standalone: false,
            revocation_started: false,
            acked_revocations: Vec::new(),
            must_rejoin: false,
            leave_deadline: None,
            rebalances: 0,
            lost_partitions: 0,
        }
    }

    /// Processes one event and appends the resulting actions. Every event is valid in every state.
    pub fn step(&mut self, now: Nanos, event: GroupEvent, view: &dyn TopicMetadataView, out: &mut Vec<GroupAction>) {
        // Must come first: a process that was suspended beyond its session must not act on outdated state.
        self.member.expire(&mut context!(self, now, out));
        self.apply_effects(now, out);
        match event {
            GroupEvent::Tick | GroupEvent::MetadataChanged => {}
            GroupEvent::Subscribe { topics } => self.subscribe(now, topics.into_iter().collect(), out),
            GroupEvent::Assigned { tps, epoch, fetch_offsets: load } => {
                self.standalone = true;
                self.reconciler.assign_manually(&tps, epoch);
                if load {
                    self.offset_fetcher.fetch(&tps, epoch);
                }
            }
            GroupEvent::Unassigned { tps } => {
                self.reconciler.unassign_manually(&tps);
                self.offset_fetcher.forget(&tps);
            }
            GroupEvent::Reply(reply) => self.on_reply(now, &reply, out),
            GroupEvent::RevocationAcked { epoch } => self.acked_revocations.push(epoch),
            GroupEvent::Commit { offsets, id } => {
                self.committer.submit(&mut context!(self, now, out), &self.reconciler, offsets, id);
            }
            GroupEvent::Closing => {
                self.shared.leaving = true;
                self.committer.retry_now(now);
            }
            GroupEvent::TransactionDone { number, result } => {
                if let Some(stamp) = self.committer.in_flight_member(number) {
                    let standing = self.member.stale_commit_cause(stamp);
                    let mut ctx = context!(self, now, out);
                    self.committer.on_transaction_done(&mut ctx, &self.reconciler, &result, standing);
                }
            }
            GroupEvent::Discard { tps } => self.committer.discard(&mut context!(self, now, out), &tps),
            GroupEvent::Leave { deadline, remain_in_group: keep_place } => {
                self.start_leave(now, deadline, keep_place, out)
            }
        }
        // Effects come before the next step: a member that joined again before it applied its new assignment would
        // claim none of the partitions that it is about to own.
        for _ in 0..MAX_EFFECT_ROUNDS {
            self.apply_effects(now, out);
            self.advance(now, view, out);
            if self.shared.effects.is_empty() {
                break;
            }
        }
    }

    fn subscribe(&mut self, now: Nanos, topics: BTreeSet<std::sync::Arc<str>>, out: &mut Vec<GroupAction>) {
        if self.member.subscribe(&mut context!(self, now, out), topics.clone()) {
            self.leave_deadline = None;
            self.shared.leaving = false;
            self.revocation_started = false;
            out.push(GroupAction::WatchTopics { topics: topics.into_iter().collect() });
        }
    }

    fn start_leave(&mut self, now: Nanos, deadline: Nanos, keep_place: bool, out: &mut Vec<GroupAction>) {
        // A repeated request may shorten the deadline, but never extend it.
        let deadline = self.leave_deadline.map_or(deadline, |before| before.min(deadline));
        self.leave_deadline = Some(deadline);
        self.shared.leaving = true;
        self.member.begin_shutdown(keep_place);
        if !self.member.is_active() {
            return;
        }
        // The rest of the time is for LeaveGroup, without which the other members would wait for the session timeout.
        let left = deadline.saturating_sub(now);
        let revoke_by = deadline - (left / 4).min(SECOND);
        self.reconciler.expedite(revoke_by);
        self.revoke(revoke_by, out, |_| false);
    }

    /// Returns the time at which [`GroupEvent::Tick`] is due; `None`: no timer.
    pub fn deadline(&self) -> Option<Nanos> {
        let known = self.coordinator.current().is_some();
        let session = self.shared.config.session_timeout;
        let member = self.member.deadline(session, known, self.reconciler.is_idle());
        let mut deadline = earliest(member, self.reconciler.deadline());
        deadline = earliest(deadline, self.committer.deadline(known && self.may_commit()));
        deadline = earliest(deadline, self.offset_fetcher.deadline(known, |tp| self.committer.is_in_transaction(tp)));
        if self.needs_coordinator() {
            deadline = earliest(deadline, self.coordinator.deadline());
        }
        earliest(deadline, self.leave_deadline)
    }

    fn needs_coordinator(&self) -> bool {
        self.member.is_active() || !self.committer.is_idle() || !self.offset_fetcher.is_idle()
    }

    fn may_commit(&self) -> bool {
        if self.member.is_active() { self.member.may_commit() && self.may_transact() } else { self.standalone }
    }

    /// Returns whether the generation may be in a transaction, whose requests are repeated with it.
    fn may_transact(&self) -> bool {
        self.member.is_synced() || !self.shared.config.transactional
    }

    /// Returns the generation for commits: that of the membership, or -1 in standalone use.
    fn commit_generation(&self) -> Option<MemberGeneration> {
        if self.member.is_active() {
            return self.member.commit_generation().filter(|_| self.may_transact());
        }
        self.standalone.then(|| MemberGeneration { generation: -1, member_id: String::new() })
    }

    fn on_reply(&mut self, now: Nanos, reply: &Reply, out: &mut Vec<GroupAction>) {
        let token = reply.token.id;
        let mut ctx = context!(self, now, out);
        if self.coordinator.on_reply(&mut ctx, token, &reply.result)
            || self.member.on_reply(&mut ctx, token, &reply.result)
            || self.offset_fetcher.on_reply(&mut ctx, token, &reply.result)
        {
            return;
        }
        let Some(stamp) = self.committer.in_flight_member(token) else { return };
        let standing = self.member.stale_commit_cause(stamp);
        let mut ctx = context!(self, now, out);
        self.committer.on_reply(&mut ctx, &self.reconciler, &reply.result, standing);
    }

    /// Makes every state machine do what is due.
    fn advance(&mut self, now: Nanos, view: &dyn TopicMetadataView, out: &mut Vec<GroupAction>) {
        while let Some(revocation) = self.reconciler.take_expired(now) {
            self.on_revoked(now, revocation, true, out);
        }
        // Without coordinator or generation no request would show whether the ACL is back.
        let unable = self.coordinator.current().is_none() || self.commit_generation().is_none();
        if self.shared.leaving && self.shared.unauthorized && unable {
            self.committer.refuse_pending(&mut context!(self, now, out), ErrorCode::GROUP_AUTHORIZATION_FAILED);
        }
        // A commit in flight is part of the work: if the partition were released before it is stored, its records would
        // be read twice.
        for epoch in std::mem::take(&mut self.acked_revocations) {
            if self.reconciler.revoking_partitions(epoch).iter().any(|tp| self.committer.contains(tp)) {
                self.acked_revocations.push(epoch);
            } else if let Some(revocation) = self.reconciler.acknowledge(epoch) {
                self.on_revoked(now, revocation, false, out);
            }
        }
        self.advance_member(now, view, out);
        if let Some(deadline) = self.leave_deadline {
            self.advance_leave(now, deadline, out);
        }
        let stamp = if self.committer.is_idle() { None } else { self.commit_generation() };
        let needed = self.needs_coordinator();
        let mut ctx = context!(self, now, out);
        if needed {
            self.coordinator.tick(&mut ctx);
        }
        self.member.tick(&mut ctx, view, &self.reconciler);
        self.committer.check_topic_ids(view);
        self.committer.fail_revoked_and_expired(&mut ctx, &self.reconciler);
        self.committer.tick(&mut ctx, stamp);
        let fetch_stamp = self.member.offset_fetch_stamp();
        // A position from before the transaction's end would let its records be processed and committed twice.
        self.offset_fetcher.tick(&mut ctx, fetch_stamp, |tp| self.committer.is_in_transaction(tp));
    }

    fn advance_member(&mut self, now: Nanos, view: &dyn TopicMetadataView, out: &mut Vec<GroupAction>) {
        if self.leave_deadline.is_some() {
            return;
        }
        match self.member {
            Member::Classic(_) => self.advance_classic_member(now, view, out),
            Member::Consumer(_) => self.advance_to_target(now, view, out),
        }
    }

    fn advance_classic_member(&mut self, now: Nanos, view: &dyn TopicMetadataView, out: &mut Vec<GroupAction>) {
        let Member::Classic(member) = &self.member else { return };
        match member.state() {
            State::Rebalancing => {
                if !self.revocation_started {
                    self.revocation_started = true;
                    let topics = member.topics().clone();
                    let cooperative = assignor::is_cooperative(&self.shared.config.assignors);
                    let revoke_by = self.new_revocation_deadline(now);
                    self.revoke(revoke_by, out, |tp| cooperative && topics.contains(&tp.topic));
                }
                let Member::Classic(member) = &mut self.member else { return };
                if self.reconciler.is_idle() && member.start_join(now) {
                    self.must_rejoin = false;
                    self.revocation_started = false;
                }
            }
            State::Stable => {
                let reason = if member.is_subscription_outdated() {
                    "the subscription changed".to_owned()
                } else if let Some(topic) = member.outdated_topic(view) {
                    format!("the partitions of {topic} changed")
                } else if member.has_orphaned_partitions(now) {
                    "partitions have no owner".to_owned()
                } else if self.must_rejoin && self.reconciler.is_idle() {
                    "partitions were revoked".to_owned()
                } else {
                    return;
                };
                let Member::Classic(member) = &mut self.member else { return };
                member.rejoin(&mut context!(self, now, out), &reason);
                // Run again, so that the member prepares its join.
                self.advance_classic_member(now, view, out);
            }
            _ => {}
        }
    }

    /// Moves the owned partitions toward the coordinator's target (KIP-848). New partitions need not wait for the
    /// revocation of others: the target has only partitions that no other member owns.
    fn advance_to_target(&mut self, now: Nanos, view: &dyn TopicMetadataView, out: &mut Vec<GroupAction>) {
        let Member::Consumer(member) = &mut self.member else { return };
        let Some(step) = member.target_step(view) else { return };
        let (generation, leaving) = (member.generation(), member.leaving_partitions(&step));
        if step.is_new {
            self.rebalances += 1;
            let tps = step.target.keys().cloned().collect();
            out.push(GroupAction::LogEvent(GroupLogEvent::Assigned { generation, tps }));
        }
        if step.refresh_metadata {
            out.push(GroupAction::RefreshMetadata);
        }
        self.revoke(self.new_revocation_deadline(now), out, |tp| !leaving.contains(tp));
        let target: Vec<TopicPartition> = step.target.keys().cloned().collect();
        let assigned = self.reconciler.assign(&target);
        if let Member::Consumer(member) = &mut self.member {
            member.on_step(assigned.as_ref().map_or(&[], |(tps, _)| tps), &step);
        }
        if let Some((tps, epoch)) = assigned {
            // The leaders of a share group's partitions know which records are due.
            if self.shared.config.protocol != GroupProtocol::Share {
                self.offset_fetcher.fetch(&tps, epoch);
            }
            out.push(GroupAction::Assign { tps, epoch });
        }
    }

    fn advance_leave(&mut self, now: Nanos, mut deadline: Nanos, out: &mut Vec<GroupAction>) {
        let is_shared = self.shared.config.protocol == GroupProtocol::Share;
        if is_shared && self.member.is_active() && self.reconciler.is_idle() {
            deadline = deadline.min(now.saturating_add(SHARE_LEAVE_WAIT));
            self.leave_deadline = Some(deadline);
        }
        let committed = self.committer.is_idle();
        // The lookup of the coordinator needs an ACL, too: no LeaveGroup can be sent.
        let unable = self.shared.unauthorized && self.coordinator.current().is_none() && self.reconciler.is_idle();
        let mut ctx = context!(self, now, out);
        if self.member.is_active() {
            if now >= deadline || unable {
                self.member.leave_silently(&mut ctx);
            } else if self.reconciler.is_idle() {
                self.member.leave(&mut ctx);
            }
        } else if committed || now >= deadline || !self.standalone {
            ctx.push_effect(Effect::Left);
            // A manual assignment is given up on purpose: no other member has taken the partitions, so no log event
            // warns.
            let tps = self.reconciler.take_all();
            if !tps.is_empty() {
                out.push(GroupAction::Lost { tps });
            }
        }
    }

    /// Returns the deadline of a revocation that starts now. Other members wait for the rebalance timeout, and this
    /// member must join before the timeout ends.
    ///
    /// The rebalance may have begun long before this member learns of it, if heartbeats failed in between.
    fn new_revocation_deadline(&self, now: Nanos) -> Nanos {
        let config = &self.shared.config;
        let usual = now.saturating_add(config.max_poll_interval.saturating_sub(config.heartbeat_interval));
        usual.min(self.member.stable_at().saturating_add(config.max_poll_interval)).max(now)
    }

    fn revoke(&mut self, deadline: Nanos, out: &mut Vec<GroupAction>, stay: impl Fn(&TopicPartition) -> bool) {
        if let Some(Revocation { epoch, tps, deadline }) = self.reconciler.revoke(deadline, stay) {
            self.offset_fetcher.forget(&tps);
            out.push(GroupAction::Revoke { tps, epoch, deadline });
        }
    }

    fn on_revoked(&mut self, now: Nanos, revocation: Revocation, expired: bool, out: &mut Vec<GroupAction>) {
        let Revocation { epoch, tps, .. } = revocation;
        if expired {
            out.push(GroupAction::RevocationExpired { tps: tps.clone(), epoch });
        }
        out.push(GroupAction::LogEvent(GroupLogEvent::Revoked { tps, expired }));
        if let Member::Consumer(member) = &mut self.member {
            member.on_released(now, &self.reconciler);
        }
    }

    /// Applies all effects, including those that they cause: a fenced member must lose everything before it continues.
    fn apply_effects(&mut self, now: Nanos, out: &mut Vec<GroupAction>) {
        for _ in 0..MAX_EFFECT_ROUNDS {
            let effects = std::mem::take(&mut self.shared.effects);
            if effects.is_empty() {
                break;
            }
            effects.into_iter().for_each(|effect| self.apply(effect, now, out));
        }
    }

    fn apply(&mut self, effect: Effect, now: Nanos, out: &mut Vec<GroupAction>) {
        match effect {
            Effect::Suspect { lookup, reason } => {
                self.coordinator.mark_unknown(&mut context!(self, now, out), lookup, reason);
            }
            Effect::CoordinatorAlive => self.coordinator.mark_alive(),
            Effect::Assigned(tps) => self.reconcile(now, tps, out),
            Effect::Lost(reason) => self.on_partitions_lost(reason, out),
            // One response causes this effect once per partition.
            Effect::CommitFenced(_) if self.member.generation() < 0 => {}
            Effect::CommitFenced(code) => {
                self.member.fence(&mut context!(self, now, out), LostReason::Fenced(code));
            }
            Effect::CommitInstanceFenced if self.member.generation() < 0 => {}
            Effect::CommitInstanceFenced => {
                self.member.on_instance_fenced(&mut context!(self, now, out), "OffsetCommit");
            }
            Effect::CommitDuringRebalance => {
                self.member.on_commit_refused(&mut context!(self, now, out));
            }
            Effect::Left => {
                self.on_partitions_lost(LostReason::Fatal, out);
                self.committer.close(&mut context!(self, now, out));
                self.leave_deadline = None;
                self.standalone = false;
                out.push(GroupAction::Left);
            }
            Effect::Fatal(error) => {
                if self.member.state() == State::Fatal {
                    return;
                }
                self.member.set_fatal();
                self.on_partitions_lost(LostReason::Fatal, out);
                self.committer.close(&mut context!(self, now, out));
                out.push(GroupAction::Fatal(error));
            }
        }
    }

    /// Applies the assignment of a new generation: revokes what is no longer assigned and adds what is new. New
    /// partitions need not wait for the revocation, because the cooperative assignor assigns only partitions without an
    /// owner.
    fn reconcile(&mut self, now: Nanos, target: Vec<TopicPartition>, out: &mut Vec<GroupAction>) {
        let generation = self.member.generation();
        out.push(GroupAction::LogEvent(GroupLogEvent::Assigned { generation, tps: target.clone() }));
        if self.leave_deadline.is_some() {
            return;
        }
        self.rebalances += 1;
        let target: BTreeSet<TopicPartition> = target.into_iter().collect();
        let revoke_by = self.new_revocation_deadline(now);
        self.revoke(revoke_by, out, |tp| target.contains(tp));
        // Compares with the claim, not with the partitions being revoked: a claimed partition may have been lost since.
        self.must_rejoin = matches!(&self.member, Member::Classic(member) if !member.claimed().is_subset(&target));
        let target: Vec<TopicPartition> = target.into_iter().collect();
        if let Some((tps, epoch)) = self.reconciler.assign(&target) {
            self.offset_fetcher.fetch(&tps, epoch);
            out.push(GroupAction::Assign { tps, epoch });
        }
    }

    fn on_partitions_lost(&mut self, reason: LostReason, out: &mut Vec<GroupAction>) {
        let tps = self.reconciler.take_all();
        self.offset_fetcher.forget_all();
        self.must_rejoin = false;
        self.lost_partitions += tps.len() as u64;
        if !tps.is_empty() {
            out.push(GroupAction::Lost { tps: tps.clone() });
            out.push(GroupAction::LogEvent(GroupLogEvent::Lost { tps, reason }));
        }
    }

    /// Returns the counters since the start.
    pub fn stats(&self) -> GroupStats {
        let Self { rebalances, lost_partitions, committer, .. } = self;
        let (rebalances, lost_partitions) = (*rebalances, *lost_partitions);
        GroupStats { rebalances, lost_partitions, commits: committer.stored, commit_failures: committer.failed }
    }

    /// Returns the send time of the last acknowledged heartbeat. Work on group partitions must stop when that time is
    /// longer ago than the session timeout, whatever this state machine reports: it may not have run since.
    pub fn last_heartbeat_ack(&self) -> Nanos {
        self.member.last_ack()
    }

    /// Returns the deadline of open revocations. A member that exceeds it may be removed from the group, even with a
    /// live session.
    pub fn revocation_deadline(&self) -> Option<Nanos> {
        self.reconciler.deadline()
    }

    /// Returns whether the member has begun to join, and has not left since.
    pub fn has_joined(&self) -> bool {
        !matches!(self.member.state(), State::Unjoined | State::Left)
    }

    /// Returns the state of the member as text.
    pub fn state_name(&self) -> &'static str {
        match self.member.state() {
            State::Unjoined if self.standalone => "standalone",
            State::Unjoined => "unjoined",
            State::Rebalancing if self.reconciler.is_idle() => "rebalancing",
            State::Rebalancing => "revoking",
            State::Joining => "joining",
            State::Electing => "assigning",
            State::Syncing => "syncing",
            State::Stable => match &self.member {
                Member::Consumer(member) if !member.is_reconciled() && self.reconciler.is_idle() => "assigning",
                Member::Consumer(_) if !self.reconciler.is_idle() => "revoking",
                _ => "stable",
            },
            State::Leaving => "leaving",
            State::Left => "left",
            State::Fatal => "failed",
        }
    }

    /// Returns whether the member is in the group, has applied its assignment, and has no open revocation before
    /// another join. In standalone use (`assign`) the group is always ready.
    pub fn is_ready(&self) -> bool {
        match self.member.state() {
            State::Stable => {
                let reconciled = match &self.member {
                    Member::Classic(_) => !self.must_rejoin,
                    Member::Consumer(member) => member.is_reconciled(),
                };
                reconciled && self.reconciler.is_idle() && self.leave_deadline.is_none()
            }
            State::Unjoined => self.standalone,
            _ => false,
        }
    }

    /// Returns the generation id of the group, or the member epoch (KIP-848); -1 outside the group.
    pub fn generation(&self) -> i32 {
        self.member.generation()
    }

    /// Returns the member id; empty outside the group, or while the coordinator has not given one.
    pub fn member_id(&self) -> &str {
        self.member.member_id()
    }

    /// Returns whether this member is the group leader.
    pub fn is_leader(&self) -> bool {
        self.member.is_leader()
    }

    /// Returns the owned partitions with their assignment epochs, including partitions in revocation.
    pub fn assignment(&self) -> impl Iterator<Item = (&TopicPartition, u32)> {
        self.reconciler.owned()
    }

    /// Returns the settings.
    pub fn config(&self) -> &GroupConfig {
        &self.shared.config
    }
}
