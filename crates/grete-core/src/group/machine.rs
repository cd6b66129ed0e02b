//! The group as one machine: composes coordinator lookup, member, reconciler, committer and loader.

use std::collections::BTreeSet;

use super::assignor;
use super::committer::{Committer, Standing};
use super::config::GroupConfig;
use super::context::{ClusterView, Context, Effect, Shared};
use super::coordinator::Coordinator;
use super::event::{GroupAction, GroupEvent, GroupNotice, GroupStats, LostReason};
use super::loader::Loader;
use super::member::{Member, Stamp, State};
use super::reconciler::{Reconciler, Revocation};
use crate::ids::TopicPartition;
use crate::request::Reply;
use crate::rng::Rng;
use crate::time::{Nanos, SECOND, earlier};

/// How often the parts may act on each other within one event. Four rounds are the most that any event takes; the bound
/// makes the machine total, should that ever be wrong.
const ROUNDS: usize = 32;

/// One consumer group as one member (or as a standalone committer) sees it.
#[derive(Debug)]
pub struct GroupMachine {
    shared: Shared,
    coordinator: Coordinator,
    member: Member,
    reconciler: Reconciler,
    committer: Committer,
    loader: Loader,
    /// Used by `assign`: commits and loads without joining.
    standalone: bool,
    /// What has to be revoked before the next join has been asked for.
    prepared: bool,
    /// Revocations that are done but for commits under way.
    acked: Vec<u32>,
    /// Something was revoked because the assignment said so: the others wait for us to say that it is free.
    must_rejoin: bool,
    leave_by: Option<Nanos>,
    rebalances: u64,
    lost_partitions: u64,
}

/// Borrows what machines share, and leaves the machines free to be borrowed.
macro_rules! context {
    ($self:ident, $now:ident, $out:ident) => {
        Context { now: $now, coordinator: $self.coordinator.located(), shared: &mut $self.shared, actions: $out }
    };
}

impl GroupMachine {
    /// A machine that does nothing until it is started. The settings should have passed [`GroupConfig::check`].
    #[must_use]
    pub fn new(config: GroupConfig, rng: Rng) -> Self {
        let (first, longest) = (config.retry_backoff, config.retry_backoff_max);
        Self {
            coordinator: Coordinator::new(first, longest),
            member: Member::new(first, longest),
            committer: Committer::new(first, longest),
            loader: Loader::new(first, longest),
            reconciler: Reconciler::default(),
            shared: Shared { config, rng, next_token: 1, effects: Vec::new() },
            standalone: false,
            prepared: false,
            acked: Vec::new(),
            must_rejoin: false,
            leave_by: None,
            rebalances: 0,
            lost_partitions: 0,
        }
    }

    /// Takes one event in and appends what is to be done. Total: every event is fine in every state.
    pub fn step(&mut self, now: Nanos, event: GroupEvent, view: &dyn ClusterView, out: &mut Vec<GroupAction>) {
        // First of all: a process that slept through its session must not act on anything that was true before.
        self.member.expire(&mut context!(self, now, out));
        self.apply_effects(now, out);
        match event {
            GroupEvent::Tick | GroupEvent::MetadataChanged => {}
            GroupEvent::Start { topics } => self.start(now, topics.into_iter().collect(), out),
            GroupEvent::Assigned { tps, epoch, load } => {
                self.standalone = true;
                self.reconciler.own(&tps, epoch);
                if load {
                    self.loader.load(&tps, epoch);
                }
            }
            GroupEvent::Unassigned { tps } => {
                self.reconciler.disown(&tps);
                self.loader.forget(&tps);
            }
            GroupEvent::Reply(reply) => self.on_reply(now, &reply, out),
            GroupEvent::RevokeAcked { epoch } => self.acked.push(epoch),
            GroupEvent::Commit { offsets, id } => {
                self.committer.submit(&mut context!(self, now, out), &self.reconciler, offsets, id);
            }
            GroupEvent::Leave { deadline } => self.begin_leave(now, deadline, out),
        }
        // Effects come before the next move: a member that joined again before its new assignment was taken in would
        // claim nothing of what it is about to own.
        for _ in 0..ROUNDS {
            self.apply_effects(now, out);
            self.advance(now, view, out);
            if self.shared.effects.is_empty() {
                break;
            }
        }
    }

    fn start(&mut self, now: Nanos, topics: BTreeSet<std::sync::Arc<str>>, out: &mut Vec<GroupAction>) {
        if self.member.subscribe(&mut context!(self, now, out), topics.clone()) {
            self.leave_by = None;
            self.prepared = false;
            out.push(GroupAction::WatchTopics { topics: topics.into_iter().collect() });
        }
    }

    fn begin_leave(&mut self, now: Nanos, deadline: Nanos, out: &mut Vec<GroupAction>) {
        // Asked again, it may have to be quicker; never slower.
        let deadline = self.leave_by.map_or(deadline, |before| before.min(deadline));
        self.leave_by = Some(deadline);
        self.member.stop();
        if !self.member.is_active() {
            return;
        }
        // The rest of the time is for LeaveGroup, without which the others would wait out our session.
        let left = deadline.saturating_sub(now);
        let revoke_by = deadline - (left / 4).min(SECOND);
        self.reconciler.hurry(revoke_by);
        self.revoke(revoke_by, out, |_| false);
    }

    /// When [`GroupEvent::Tick`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        let known = self.coordinator.located().is_some();
        let session = self.shared.config.session_timeout;
        let member = self.member.deadline(session, known, self.reconciler.is_idle());
        let mut deadline = earlier(member, self.reconciler.deadline());
        deadline = earlier(deadline, self.committer.deadline(known && self.may_commit()));
        deadline = earlier(deadline, self.loader.deadline(known));
        if self.needs_coordinator() {
            deadline = earlier(deadline, self.coordinator.deadline());
        }
        earlier(deadline, self.leave_by)
    }

    fn needs_coordinator(&self) -> bool {
        self.member.is_active() || !self.committer.is_idle() || !self.loader.is_idle()
    }

    fn may_commit(&self) -> bool {
        if self.member.is_active() { self.member.may_commit() } else { self.standalone }
    }

    /// What commits go under: the membership if there is one, else that of a stranger.
    fn stamp(&self) -> Option<Stamp> {
        if self.member.is_active() {
            return self.member.stamp();
        }
        self.standalone.then(|| Stamp { generation: -1, member_id: String::new() })
    }

    fn on_reply(&mut self, now: Nanos, reply: &Reply, out: &mut Vec<GroupAction>) {
        let token = reply.token.id;
        let mut ctx = context!(self, now, out);
        if self.coordinator.on_reply(&mut ctx, token, &reply.result)
            || self.member.on_reply(&mut ctx, token, &reply.result)
            || self.loader.on_reply(&mut ctx, token, &reply.result)
        {
            return;
        }
        let Some(stamp) = self.committer.awaited(token) else { return };
        let standing = if stamp.generation < 0 {
            Standing::Standalone
        } else if self.member.is_refuted_by(stamp) || !self.member.is_active() {
            Standing::Refuted
        } else {
            Standing::InFlux
        };
        self.committer.on_reply(&mut ctx, &self.reconciler, &reply.result, standing);
    }

    /// Lets every part do what is due.
    fn advance(&mut self, now: Nanos, view: &dyn ClusterView, out: &mut Vec<GroupAction>) {
        while let Some(revocation) = self.reconciler.expired(now) {
            self.revoked(revocation, true, out);
        }
        // A commit under way is part of the work: given up before it is stored, its records would be read twice.
        for epoch in std::mem::take(&mut self.acked) {
            if self.reconciler.revoking(epoch).iter().any(|tp| self.committer.holds(tp)) {
                self.acked.push(epoch);
            } else if let Some(revocation) = self.reconciler.acked(epoch) {
                self.revoked(revocation, false, out);
            }
        }
        self.advance_member(now, view, out);
        if let Some(deadline) = self.leave_by {
            self.advance_leave(now, deadline, out);
        }
        let stamp = if self.committer.is_idle() { None } else { self.stamp() };
        let needed = self.needs_coordinator();
        let mut ctx = context!(self, now, out);
        if needed {
            self.coordinator.tick(&mut ctx);
        }
        self.member.tick(&mut ctx, view, &self.reconciler);
        self.committer.weed(&mut ctx, &self.reconciler);
        self.committer.tick(&mut ctx, stamp);
        self.loader.tick(&mut ctx);
    }

    fn advance_member(&mut self, now: Nanos, view: &dyn ClusterView, out: &mut Vec<GroupAction>) {
        if self.leave_by.is_some() {
            return;
        }
        match self.member.state() {
            State::Rebalancing => {
                if !self.prepared {
                    self.prepared = true;
                    let topics = self.member.topics().clone();
                    let cooperative = assignor::is_cooperative(&self.shared.config.assignors);
                    let revoke_by = self.revoke_by(now);
                    self.revoke(revoke_by, out, |tp| cooperative && topics.contains(&tp.topic));
                }
                if self.reconciler.is_idle() && self.member.let_join(now) {
                    self.must_rejoin = false;
                    self.prepared = false;
                }
            }
            State::Stable => {
                let reason = if self.member.is_outdated() {
                    "the subscription changed".to_owned()
                } else if let Some(topic) = self.member.outdated_topic(view) {
                    format!("the partitions of {topic} changed")
                } else if self.member.misses_partitions(now) {
                    "partitions are nobody's".to_owned()
                } else if self.must_rejoin && self.reconciler.is_idle() {
                    "partitions were revoked".to_owned()
                } else {
                    return;
                };
                self.member.rejoin(&mut context!(self, now, out), &reason);
                // Another round, in which the member prepares its join.
                self.advance_member(now, view, out);
            }
            _ => {}
        }
    }

    fn advance_leave(&mut self, now: Nanos, deadline: Nanos, out: &mut Vec<GroupAction>) {
        let committed = self.committer.is_idle();
        let mut ctx = context!(self, now, out);
        if self.member.is_active() {
            if now >= deadline {
                self.member.leave_unsaid(&mut ctx);
            } else if self.reconciler.is_idle() {
                self.member.leave(&mut ctx);
            }
        } else if committed || now >= deadline || !self.standalone {
            ctx.effect(Effect::Left);
            // What was assigned by hand is given up on purpose: nobody has taken it, and nobody is to be warned.
            let tps = self.reconciler.lose_all();
            if !tps.is_empty() {
                out.push(GroupAction::Lost { tps });
            }
        }
    }

    /// How long a revocation may take: others wait for the rebalance timeout, and we must be back before it ends.
    fn revoke_by(&self, now: Nanos) -> Nanos {
        let config = &self.shared.config;
        now.saturating_add(config.max_poll_interval.saturating_sub(config.heartbeat_interval))
    }

    fn revoke(&mut self, deadline: Nanos, out: &mut Vec<GroupAction>, stay: impl Fn(&TopicPartition) -> bool) {
        if let Some(Revocation { epoch, tps, deadline }) = self.reconciler.revoke(deadline, stay) {
            self.loader.forget(&tps);
            out.push(GroupAction::Revoke { tps, epoch, deadline });
        }
    }

    fn revoked(&mut self, revocation: Revocation, expired: bool, out: &mut Vec<GroupAction>) {
        let Revocation { epoch, tps, .. } = revocation;
        if expired {
            out.push(GroupAction::RevokeExpired { tps: tps.clone(), epoch });
        }
        out.push(GroupAction::Notice(GroupNotice::Revoked { tps, expired }));
    }

    /// All of them, also those that they cause: a member that is fenced must have lost everything before it moves on.
    fn apply_effects(&mut self, now: Nanos, out: &mut Vec<GroupAction>) {
        for _ in 0..ROUNDS {
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
                self.coordinator.suspect(&mut context!(self, now, out), lookup, reason);
            }
            Effect::Confirmed => self.coordinator.confirm(),
            Effect::Assigned(tps) => self.reconcile(now, tps, out),
            Effect::Lost(reason) => self.lose(reason, out),
            // One answer says it once for each partition.
            Effect::CommitFenced(_) if self.member.generation() < 0 => {}
            Effect::CommitFenced(code) => {
                self.member.fence(&mut context!(self, now, out), LostReason::Fenced(code));
            }
            Effect::CommitInstanceFenced if self.member.generation() < 0 => {}
            Effect::CommitInstanceFenced => {
                self.member.instance_fenced(&mut context!(self, now, out), "OffsetCommit");
            }
            Effect::CommitSawRebalance => {
                if self.member.state() == State::Stable {
                    let reason = "a commit was told that the group is rebalancing";
                    self.member.rejoin(&mut context!(self, now, out), reason);
                }
            }
            Effect::Left => {
                self.lose(LostReason::Fatal, out);
                self.committer.close(&mut context!(self, now, out));
                self.leave_by = None;
                self.standalone = false;
                out.push(GroupAction::Left);
            }
            Effect::Fatal(error) => {
                if self.member.state() == State::Fatal {
                    return;
                }
                self.member.die();
                self.lose(LostReason::Fatal, out);
                self.committer.close(&mut context!(self, now, out));
                out.push(GroupAction::Fatal(error));
            }
        }
    }

    /// A generation is complete: gives up what is not ours any more and takes what is new. What is new was nobody's (the
    /// cooperative assignor sees to that), so that it need not wait for the revocation.
    fn reconcile(&mut self, now: Nanos, target: Vec<TopicPartition>, out: &mut Vec<GroupAction>) {
        let generation = self.member.generation();
        out.push(GroupAction::Notice(GroupNotice::Assigned { generation, tps: target.clone() }));
        if self.leave_by.is_some() {
            return;
        }
        self.rebalances += 1;
        let target: BTreeSet<TopicPartition> = target.into_iter().collect();
        let revoke_by = self.revoke_by(now);
        self.revoke(revoke_by, out, |tp| target.contains(tp));
        // Not only what is being revoked: it may have been lost since it was claimed.
        self.must_rejoin = !self.member.claimed().is_subset(&target);
        let target: Vec<TopicPartition> = target.into_iter().collect();
        if let Some((tps, epoch)) = self.reconciler.assign(&target) {
            self.loader.load(&tps, epoch);
            out.push(GroupAction::Assign { tps, epoch });
        }
    }

    fn lose(&mut self, reason: LostReason, out: &mut Vec<GroupAction>) {
        let tps = self.reconciler.lose_all();
        self.loader.forget_all();
        self.must_rejoin = false;
        self.lost_partitions += tps.len() as u64;
        if !tps.is_empty() {
            out.push(GroupAction::Lost { tps: tps.clone() });
            out.push(GroupAction::Notice(GroupNotice::Lost { tps, reason }));
        }
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> GroupStats {
        let Self { rebalances, lost_partitions, committer, .. } = self;
        let (rebalances, lost_partitions) = (*rebalances, *lost_partitions);
        GroupStats { rebalances, lost_partitions, commits: committer.stored, commit_failures: committer.failed }
    }

    /// When the last heartbeat that was acknowledged had been sent. Work on group partitions must stop when that is longer
    /// ago than the session timeout, whatever this machine says: it may not have been run since.
    #[must_use]
    pub fn last_heartbeat_ack(&self) -> Nanos {
        self.member.last_ack()
    }

    /// Until when open revocations may take; a member that outlasts it may be put out of the group, its session alive or not.
    #[must_use]
    pub fn revocation_deadline(&self) -> Option<Nanos> {
        self.reconciler.deadline()
    }

    /// The member's state, for people.
    #[must_use]
    pub fn state_name(&self) -> &'static str {
        match self.member.state() {
            State::Unjoined if self.standalone => "standalone",
            State::Unjoined => "unjoined",
            State::Rebalancing if self.reconciler.is_idle() => "rebalancing",
            State::Rebalancing => "revoking",
            State::Joining => "joining",
            State::Electing => "assigning",
            State::Syncing => "syncing",
            State::Stable => "stable",
            State::Leaving => "leaving",
            State::Left => "left",
            State::Fatal => "failed",
        }
    }

    /// In the group, with what it has given us taken in and nothing on its way out that another join waits for; or, used
    /// by `assign`, with nothing to wait for at all.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        match self.member.state() {
            State::Stable => self.reconciler.is_idle() && !self.must_rejoin && self.leave_by.is_none(),
            State::Unjoined => self.standalone,
            _ => false,
        }
    }

    /// The group's generation; -1 outside of it.
    #[must_use]
    pub fn generation(&self) -> i32 {
        self.member.generation()
    }

    /// The id that the coordinator gave us; empty outside of the group.
    #[must_use]
    pub fn member_id(&self) -> &str {
        self.member.member_id()
    }

    /// Whether this member assigns for the group.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.member.is_leader()
    }

    /// What is ours, under which assignment epoch; what is being revoked is among it.
    pub fn assignment(&self) -> impl Iterator<Item = (&TopicPartition, u32)> {
        self.reconciler.owned()
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &GroupConfig {
        &self.shared.config
    }
}
