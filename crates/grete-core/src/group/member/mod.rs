//! The classic membership: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.
//!
//! ```text
//! Unjoined -> Rebalancing -> Joining -> Electing (leader) -> Syncing -> Stable -> Rebalancing ...
//!                  ^____________|___________________________|__________|   any -> Leaving -> Left, any -> Fatal
//! ```
//!
//! *Rebalancing* lasts until the application has given up what the discipline demands; the group composite then lets the
//! member join. At most one of JoinGroup, SyncGroup and LeaveGroup is awaited (the *attempt*), and one heartbeat. Whatever
//! changes the state forgets them, and with them their answers: a late one has a token that nobody waits for (P19).
//!
//! **Claims.** A member that joined generation N and then missed its SyncGroup answer (because the next rebalance came)
//! keeps its partitions and claims them with generation N. That is true: the leader of N had its claim, so that in N its
//! partitions went to it or to nobody. Java's client gives everything up as lost here, because the generation that it
//! would claim with is an older one; a rolling start then stops the whole group again and again.
//!
//! **Heartbeats** go on in every state in which the coordinator knows us, also while we wait for JoinGroup: the answer
//! REBALANCE_IN_PROGRESS proves that both sides are alive, and the wait can be as long as `max.poll.interval.ms` while
//! partitions that we keep are being worked on.

mod census;
mod heartbeat;
mod join;
mod leave;
mod origin;
mod sync;

use std::collections::BTreeSet;
use std::sync::Arc;

use grete_wire::ErrorCode;

use self::census::Census;
use self::heartbeat::Heartbeat;
use self::origin::Origin;
use self::sync::Election;
use super::assignor::{Assignor, PartitionCounts};
use super::context::{ClusterView, Context, Effect, Located};
use super::error::GroupError;
use super::event::{GroupNotice, LostReason};
use super::reconciler::Reconciler;
use crate::ids::TopicPartition;
use crate::request::{Channel, Request, RequestError, Response, Target};
use crate::rng::Backoff;
use crate::time::{MILLI, Nanos, earlier};

/// Where a member stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Not subscribed.
    Unjoined,
    /// Has to join, and may not yet: revocations or a backoff come first.
    Rebalancing,
    /// JoinGroup is due or under way.
    Joining,
    /// Leads, and waits for the metadata of what others subscribe to.
    Electing,
    /// SyncGroup is due or under way.
    Syncing,
    /// Has an assignment.
    Stable,
    /// LeaveGroup is due or under way.
    Leaving,
    /// Out.
    Left,
    /// Cannot go on.
    Fatal,
}

/// Who we are to the coordinator; what a commit is stamped with when it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    pub generation: i32,
    pub member_id: String,
}

/// The awaited JoinGroup, SyncGroup or LeaveGroup.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    token: u32,
    located: Located,
    sent_at: Nanos,
}

/// A classic member.
#[derive(Debug)]
pub(super) struct Member {
    state: State,
    topics: BTreeSet<Arc<str>>,
    /// What the last JoinGroup said of `topics`.
    offered: BTreeSet<Arc<str>>,
    /// What the last JoinGroup claimed.
    claimed: BTreeSet<TopicPartition>,
    member_id: String,
    /// The generation that the coordinator last confirmed by a JoinGroup answer; -1 if it does not know us.
    generation: i32,
    attempt: Option<Attempt>,
    /// Not before this is the next attempt made.
    retry_at: Nanos,
    backoff: Backoff,
    /// Why we join; brokers log it (KIP-800).
    reason: String,
    protocol: Option<Assignor>,
    leader: bool,
    election: Option<Election>,
    /// The partition counts that we, as the leader, have assigned.
    counts: PartitionCounts,
    /// As the leader, whether everything has come to somebody.
    census: Census,
    heartbeat: Heartbeat,
    origin: Origin,
    /// Whether the member is about to leave: what is under way is finished, nothing new is begun.
    stopping: bool,
}

impl Member {
    pub fn new(retry_backoff: Nanos, retry_backoff_max: Nanos) -> Self {
        Self {
            state: State::Unjoined,
            topics: BTreeSet::new(),
            offered: BTreeSet::new(),
            claimed: BTreeSet::new(),
            member_id: String::new(),
            generation: -1,
            attempt: None,
            retry_at: 0,
            backoff: Backoff::new(retry_backoff, retry_backoff_max),
            reason: String::new(),
            protocol: None,
            leader: false,
            election: None,
            counts: PartitionCounts::new(),
            census: Census::default(),
            heartbeat: Heartbeat::default(),
            origin: Origin::default(),
            stopping: false,
        }
    }

    pub fn state(&self) -> State {
        self.state
    }

    pub fn generation(&self) -> i32 {
        self.generation
    }

    pub fn member_id(&self) -> &str {
        &self.member_id
    }

    pub fn topics(&self) -> &BTreeSet<Arc<str>> {
        &self.topics
    }

    /// What the leader of this generation took for ours. Whatever of it we were not given may be waiting for somebody: it is
    /// free only after another join.
    pub fn claimed(&self) -> &BTreeSet<TopicPartition> {
        &self.claimed
    }

    pub fn is_leader(&self) -> bool {
        self.leader
    }

    /// When the last heartbeat (or SyncGroup) that was acknowledged had been sent: the coordinator heard of us then or
    /// later.
    pub fn last_ack(&self) -> Nanos {
        self.heartbeat.last_ack
    }

    /// In the group or on the way into it.
    pub fn is_active(&self) -> bool {
        !matches!(self.state, State::Unjoined | State::Left | State::Fatal)
    }

    /// The coordinator counts us in, as far as we know.
    fn is_known(&self) -> bool {
        let counted_in = matches!(
            self.state,
            State::Rebalancing | State::Joining | State::Electing | State::Syncing | State::Stable
        );
        counted_in && self.generation >= 0
    }

    /// Whether a commit has a chance. Brokers take commits of the current generation also while they wait for members to
    /// join, but not between JoinGroup and SyncGroup.
    pub fn may_commit(&self) -> bool {
        matches!(self.state, State::Rebalancing | State::Joining | State::Stable) && self.generation >= 0
    }

    /// What a commit is stamped with.
    pub fn stamp(&self) -> Option<Stamp> {
        self.may_commit().then(|| Stamp { generation: self.generation, member_id: self.member_id.clone() })
    }

    /// Whether a refused stamp says that we are out. While JoinGroup is under way it need not: the coordinator may have
    /// completed the join, and its answer is on the way (P21).
    pub fn is_refuted_by(&self, stamp: &Stamp) -> bool {
        matches!(self.state, State::Stable | State::Rebalancing) && self.stamp().as_ref() == Some(stamp)
    }

    /// Subscribes. True if that changes anything.
    pub fn subscribe(&mut self, ctx: &mut Context<'_>, topics: BTreeSet<Arc<str>>) -> bool {
        match self.state {
            State::Unjoined | State::Left => {
                self.stopping = false;
                self.generation = -1;
                self.topics = topics;
                self.backoff.reset();
                self.rebalance(ctx, "the first join".to_owned(), ctx.now);
                true
            }
            State::Fatal | State::Leaving => false,
            _ if self.topics == topics || self.stopping => false,
            _ => {
                self.topics = topics;
                self.rejoin(ctx, "the subscription changed");
                true
            }
        }
    }

    /// Joins again, from a state in which an earlier join is complete or its rest can be given up.
    pub fn rejoin(&mut self, ctx: &mut Context<'_>, reason: &str) {
        if matches!(self.state, State::Stable | State::Electing | State::Syncing) {
            self.rebalance(ctx, reason.to_owned(), ctx.now);
        }
    }

    fn rejoin_later(&mut self, ctx: &mut Context<'_>, reason: String) {
        let wait = self.backoff.next(&mut ctx.shared.rng);
        self.rebalance(ctx, reason, ctx.now + wait);
    }

    fn rebalance(&mut self, ctx: &mut Context<'_>, reason: String, not_before: Nanos) {
        self.state = State::Rebalancing;
        self.attempt = None;
        self.election = None;
        self.leader = false;
        self.census.forget();
        self.retry_at = not_before;
        ctx.notice(GroupNotice::RebalanceStarted { reason: reason.clone() });
        self.reason = reason;
    }

    /// Everything that had to be given up is given up. True if the member joins now.
    pub fn let_join(&mut self, now: Nanos) -> bool {
        let join = self.state == State::Rebalancing && now >= self.retry_at;
        if join {
            self.state = State::Joining;
        }
        join
    }

    /// The coordinator does not count us in any more: whatever we own may be somebody else's already.
    pub fn fence(&mut self, ctx: &mut Context<'_>, reason: LostReason) {
        if !self.is_active() || self.state == State::Leaving {
            return;
        }
        // ILLEGAL_GENERATION and a session that only we believe to be over leave the id valid, and with it our place.
        if let LostReason::Fenced(ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::FENCED_INSTANCE_ID) = reason {
            self.member_id.clear();
        }
        self.generation = -1;
        self.heartbeat.forget();
        ctx.effect(Effect::Lost(reason));
        // The first time at once; a member that is put out again and again must not spin.
        let first = self.backoff.failures() == 0;
        let wait = self.backoff.next(&mut ctx.shared.rng);
        self.rebalance(ctx, reason.to_string(), if first { ctx.now } else { ctx.now + wait });
    }

    /// No heartbeat has been acknowledged for the session timeout: the coordinator has given our partitions away, or is
    /// about to, even if nobody could tell us.
    pub fn expire(&mut self, ctx: &mut Context<'_>) {
        if !self.is_known() || ctx.now < self.heartbeat.last_ack.saturating_add(ctx.config().session_timeout) {
            return;
        }
        if self.state == State::Joining && self.attempt.is_some() {
            // A second JoinGroup would have to queue behind the one under way. That one claims what is lost now: its
            // leader withholds what it wants to move, and the group waits for one more join of ours (see `claimed`).
            self.generation = -1;
            self.heartbeat.forget();
            ctx.effect(Effect::Lost(LostReason::SessionExpired));
        } else {
            self.fence(ctx, LostReason::SessionExpired);
        }
    }

    fn fail(&mut self, ctx: &mut Context<'_>, error: GroupError) {
        ctx.effect(Effect::Fatal(error));
    }

    /// The group cannot go on.
    pub fn die(&mut self) {
        self.state = State::Fatal;
        self.attempt = None;
        self.census.forget();
        self.election = None;
        self.generation = -1;
        self.heartbeat.forget();
    }

    /// Begins nothing new. A join that is under way is completed: commits of what is being revoked may need it.
    pub fn stop(&mut self) {
        self.stopping = true;
        if self.state == State::Joining && self.attempt.is_none() {
            self.state = State::Rebalancing;
        }
    }

    /// Sends what is due.
    pub fn tick(&mut self, ctx: &mut Context<'_>, view: &dyn ClusterView, reconciler: &Reconciler) {
        let Some(located) = ctx.coordinator else { return };
        self.follow(ctx, located);
        if self.attempt.is_none() && ctx.now >= self.retry_at {
            match self.state {
                State::Joining if self.stopping => self.state = State::Rebalancing,
                State::Joining => self.send_join(ctx, located, reconciler),
                State::Electing => self.elect(ctx, view, located),
                State::Syncing => self.send_sync(ctx, located, Vec::new()),
                State::Leaving => self.send_leave(ctx, located),
                _ => {}
            }
        }
        if self.is_known() {
            let stamp = (self.generation, self.member_id.as_str());
            self.heartbeat.tick(ctx, located, stamp);
        }
        if self.state == State::Stable && !self.stopping {
            self.census.tick(ctx, located);
        }
    }

    /// Gives up what is asked of a coordinator that no longer is one. The same node found again changes nothing: the
    /// request may well be alive on its own connection.
    fn follow(&mut self, ctx: &mut Context<'_>, located: Located) {
        self.heartbeat.follow(located);
        self.census.follow(located);
        if self.attempt.is_none_or(|attempt| attempt.located.node == located.node) {
            return;
        }
        self.attempt = None;
        self.unanswered_join(ctx);
        if self.state == State::Syncing {
            self.rejoin(ctx, "the coordinator moved");
        }
    }

    /// The earliest time at which [`Self::tick`] or [`Self::expire`] has something to do by itself.
    pub fn deadline(&self, session_timeout: Nanos, coordinator_known: bool, may_join: bool) -> Option<Nanos> {
        let mut deadline = None;
        if self.attempt.is_none() {
            deadline = match self.state {
                State::Rebalancing if may_join && !self.stopping => Some(self.retry_at),
                State::Joining | State::Syncing | State::Leaving if coordinator_known => Some(self.retry_at),
                State::Electing if coordinator_known => self.election.as_ref().map(|election| election.deadline),
                State::Stable if !self.stopping => self.census.deadline(coordinator_known),
                _ => None,
            };
        }
        if self.is_known() {
            deadline = earlier(deadline, Some(self.heartbeat.last_ack.saturating_add(session_timeout)));
            if coordinator_known {
                deadline = earlier(deadline, self.heartbeat.deadline());
            }
        }
        deadline
    }

    /// Whether the token was ours.
    pub fn on_reply(&mut self, ctx: &mut Context<'_>, token: u32, result: &Result<Response, RequestError>) -> bool {
        if self.heartbeat.awaits(token) {
            self.on_heartbeat(ctx, result);
            return true;
        }
        if self.census.awaits(token) {
            self.on_census(ctx, result);
            return true;
        }
        let Some(attempt) = self.attempt.take_if(|attempt| attempt.token == token) else { return false };
        let answered = match result {
            Ok(response) => self.on_answer(ctx, &attempt, response),
            Err(error) => Err(error.clone()),
        };
        if let Err(error) = answered {
            self.on_unanswered(ctx, &attempt, &error);
        }
        true
    }

    fn on_answer(&mut self, ctx: &mut Context<'_>, at: &Attempt, response: &Response) -> Result<(), RequestError> {
        match self.state {
            State::Joining => self.on_join(ctx, at, response),
            State::Syncing => self.on_sync(ctx, at, response),
            State::Leaving => self.on_leave(ctx, at, response),
            _ => Ok(()),
        }
    }

    fn on_unanswered(&mut self, ctx: &mut Context<'_>, attempt: &Attempt, error: &RequestError) {
        ctx.unanswered(attempt.located.lookup, error);
        if let RequestError::Unsupported { .. } = error {
            let group = ctx.config().group_id.clone();
            return self.fail(ctx, GroupError::Unsupported { group, reason: error.to_string() });
        }
        if error.may_have_happened() {
            self.unanswered_join(ctx);
        }
        match self.state {
            State::Syncing => self.rejoin_later(ctx, format!("SyncGroup was not answered: {error}")),
            _ => self.retry_later(ctx, error.to_string()),
        }
    }

    /// Tries the same once more, later.
    fn retry_later(&mut self, ctx: &mut Context<'_>, reason: String) {
        self.retry_at = ctx.now + self.backoff.next(&mut ctx.shared.rng);
        if self.state == State::Joining {
            ctx.notice(GroupNotice::JoinRetried { reason });
        }
    }

    fn ask(
        &self,
        ctx: &mut Context<'_>,
        located: Located,
        channel: Channel,
        request: Request,
        timeout: impl FnOnce(&super::GroupConfig) -> Nanos,
    ) -> Attempt {
        let timeout = timeout(ctx.config());
        let token = ctx.send(Target::Node(located.node), channel, request, timeout);
        Attempt { token, located, sent_at: ctx.now }
    }

    /// As the leader, whether some partition is nobody's and will be until the next rebalance.
    pub fn misses_partitions(&self, now: Nanos) -> bool {
        self.state == State::Stable && self.census.is_over(now)
    }

    /// Whether the subscription changed while a JoinGroup with the old one was under way. Its round is completed first.
    pub fn is_outdated(&self) -> bool {
        self.state == State::Stable && self.offered != self.topics
    }

    /// As the leader, whether partition counts are no longer those that were assigned. What metadata does not know at the
    /// moment has not changed (P32).
    pub fn outdated_topic(&self, view: &dyn ClusterView) -> Option<&Arc<str>> {
        if !self.leader || self.state != State::Stable {
            return None;
        }
        let changed =
            |&(topic, count): &(&Arc<str>, &i32)| view.partition_count(topic).is_some_and(|now| now != *count);
        self.counts.iter().find(changed).map(|(topic, _)| topic)
    }
}

/// Kafka's unit.
fn millis(nanos: Nanos) -> i32 {
    i32::try_from(nanos / MILLI).unwrap_or(i32::MAX)
}
