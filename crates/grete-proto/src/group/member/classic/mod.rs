//! Classic group membership: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.
//!
//! ```text
//! Unjoined -> Rebalancing -> Joining -> Electing (leader) -> Syncing -> Stable -> Rebalancing ...
//!                  ^____________|___________________________|__________|   any -> Leaving -> Left, any -> Fatal
//! ```
//!
//! *Rebalancing* lasts until the application has released the partitions that eager or cooperative rebalancing demands.
//! [`ConsumerGroup`](crate::group::ConsumerGroup) then lets the member join. At most one of JoinGroup, SyncGroup and
//! LeaveGroup is in flight, and one heartbeat. A state change clears their tokens, so a late response matches no token
//! (P19).
//!
//! **Claims.** A member that joined generation N and then missed its SyncGroup response (because of the next rebalance)
//! keeps its partitions and claims them with generation N. That claim is true: the leader of N had the member's claim,
//! so in N the member's partitions went to the member itself or to no member. Java's client gives up all partitions as
//! lost here, because the generation of its claim is older. A rolling start then stops the whole group repeatedly.
//!
//! **Heartbeats** continue in every state in which the coordinator counts the member in, also while JoinGroup is in
//! flight. The response REBALANCE_IN_PROGRESS proves that both sides are alive. The wait can last for
//! `max.poll.interval.ms`, while the member processes the partitions that it keeps.

mod heartbeat;
mod join;
mod leave;
mod orphan_check;
mod self_fencing;
mod sync;

use std::collections::BTreeSet;
use std::sync::Arc;

use grete_wire::ErrorCode;

use self::heartbeat::Heartbeat;
use self::orphan_check::OrphanCheck;
use self::self_fencing::MemberIdOrigin;
use self::sync::Election;
use crate::backoff::Backoff;
use crate::group::assignor::{Assignor, PartitionCounts};
use crate::group::context::{Context, CoordinatorRef, Effect, TopicMetadataView};
use crate::group::error::GroupError;
use crate::group::event::{GroupLogEvent, LostReason};
use crate::group::member::state::{InFlight, MemberGeneration, State};
use crate::group::reconciler::Reconciler;
use crate::ids::TopicPartition;
use crate::request::{Channel, Request, RequestError, Response, Target};
use crate::time::{MILLI, Nanos, earliest};

/// Member of a group with the classic protocol.
#[derive(Debug)]
pub(in crate::group) struct ClassicMember {
    state: State,
    topics: BTreeSet<Arc<str>>,
    /// Topics in the last JoinGroup.
    sent_topics: BTreeSet<Arc<str>>,
    /// Partitions claimed in the last JoinGroup.
    claimed: BTreeSet<TopicPartition>,
    /// Last assignment, and its generation: what a member that offers `sticky` claims.
    last_assignment: (BTreeSet<TopicPartition>, i32),
    member_id: String,
    /// Generation that the coordinator last confirmed with a JoinGroup response; -1 if the coordinator does not count
    /// the member in.
    generation: i32,
    /// Whether SyncGroup has confirmed the generation. The coordinator stores it then; before, another coordinator may
    /// give the same number to the next generation.
    is_synced: bool,
    in_flight: Option<InFlight>,
    /// Earliest time of the next request.
    retry_at: Nanos,
    backoff: Backoff,
    /// Reason for the join; brokers log it (KIP-800).
    reason: String,
    protocol: Option<Assignor>,
    leader: bool,
    election: Option<Election>,
    /// Partition counts that this member assigned as the leader.
    assigned_counts: PartitionCounts,
    /// Leader's check for partitions without an owner.
    orphan_check: OrphanCheck,
    heartbeat: Heartbeat,
    /// Generation of the last JoinGroup response.
    last_joined: i32,
    /// A JoinGroup since the last response was not answered: the coordinator may have counted the member in.
    is_join_lost: bool,
    member_id_origin: MemberIdOrigin,
    /// Whether the member is about to leave: requests in flight complete, but no new join starts.
    shutting_down: bool,
    /// Whether a static member closes without LeaveGroup.
    remain_in_group: bool,
}

impl ClassicMember {
    pub fn new(retry_backoff: Nanos, retry_backoff_max: Nanos) -> Self {
        Self {
            state: State::Unjoined,
            topics: BTreeSet::new(),
            sent_topics: BTreeSet::new(),
            claimed: BTreeSet::new(),
            last_assignment: (BTreeSet::new(), -1),
            member_id: String::new(),
            generation: -1,
            is_synced: false,
            in_flight: None,
            retry_at: 0,
            backoff: Backoff::new(retry_backoff, retry_backoff_max),
            reason: String::new(),
            protocol: None,
            leader: false,
            election: None,
            assigned_counts: PartitionCounts::new(),
            orphan_check: OrphanCheck::default(),
            heartbeat: Heartbeat::default(),
            last_joined: -1,
            is_join_lost: false,
            member_id_origin: MemberIdOrigin::default(),
            shutting_down: false,
            remain_in_group: true,
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

    /// Returns the partitions that the leader of this generation considered owned by this member. A claimed partition
    /// that was not assigned may be reserved for another member: only another join frees the partition.
    pub fn claimed(&self) -> &BTreeSet<TopicPartition> {
        &self.claimed
    }

    pub fn is_leader(&self) -> bool {
        self.leader
    }

    /// Returns the send time of the last acknowledged heartbeat or SyncGroup: the coordinator received it then or
    /// later.
    pub fn last_ack(&self) -> Nanos {
        self.heartbeat.last_ack
    }

    /// Returns the latest time at which no rebalance had begun, as far as the member knows.
    pub fn stable_at(&self) -> Nanos {
        self.heartbeat.stable_at
    }

    /// Returns whether the member is in the group or about to join.
    pub fn is_active(&self) -> bool {
        !matches!(self.state, State::Unjoined | State::Left | State::Fatal)
    }

    /// Returns whether the coordinator counts the member in, as far as the member knows.
    fn is_registered(&self) -> bool {
        let counted_in = matches!(
            self.state,
            State::Rebalancing | State::Joining | State::Electing | State::Syncing | State::Stable
        );
        counted_in && self.generation >= 0
    }

    /// Returns whether a commit may succeed. Brokers accept commits of the current generation also while waiting for
    /// members to join, but not between JoinGroup and SyncGroup.
    pub fn may_commit(&self) -> bool {
        matches!(self.state, State::Rebalancing | State::Joining | State::Stable) && self.generation >= 0
    }

    /// Returns whether no later generation can have the number of this one.
    pub fn is_synced(&self) -> bool {
        self.is_synced
    }

    /// Returns generation and member id for a commit; `None` if no commit may succeed.
    pub fn commit_generation(&self) -> Option<MemberGeneration> {
        self.may_commit().then(|| MemberGeneration { generation: self.generation, member_id: self.member_id.clone() })
    }

    /// Returns whether a refused commit with this stamp proves that the member was removed. While JoinGroup is in
    /// flight it does not: the coordinator may have completed the join, with its response on the way (P21).
    pub fn is_evicted_by(&self, stamp: &MemberGeneration) -> bool {
        matches!(self.state, State::Stable | State::Rebalancing) && self.commit_generation().as_ref() == Some(stamp)
    }

    /// Subscribes. Returns whether the subscription changed.
    pub fn subscribe(&mut self, ctx: &mut Context<'_>, topics: BTreeSet<Arc<str>>) -> bool {
        match self.state {
            State::Unjoined | State::Left => {
                self.shutting_down = false;
                self.generation = -1;
                self.topics = topics;
                self.backoff.reset();
                self.rebalance(ctx, "the first join".to_owned(), ctx.now);
                true
            }
            State::Fatal | State::Leaving => false,
            _ if self.topics == topics || self.shutting_down => false,
            _ => {
                self.topics = topics;
                self.rejoin(ctx, "the subscription changed");
                true
            }
        }
    }

    /// Joins again, if an earlier join is complete or its remaining steps can be dropped.
    pub fn rejoin(&mut self, ctx: &mut Context<'_>, reason: &str) {
        if matches!(self.state, State::Stable | State::Electing | State::Syncing) {
            self.rebalance(ctx, reason.to_owned(), ctx.now);
        }
    }

    fn rejoin_later(&mut self, ctx: &mut Context<'_>, reason: String) {
        let wait = self.backoff.next_delay(&mut ctx.shared.rng);
        self.rebalance(ctx, reason, ctx.now + wait);
    }

    fn rebalance(&mut self, ctx: &mut Context<'_>, reason: String, not_before: Nanos) {
        self.state = State::Rebalancing;
        self.in_flight = None;
        self.election = None;
        self.leader = false;
        self.orphan_check.cancel();
        self.retry_at = not_before;
        ctx.log_event(GroupLogEvent::RebalanceStarted { reason: reason.clone() });
        self.reason = reason;
    }

    /// Starts to join, once all revocations have ended. Returns true if the member joins now.
    pub fn start_join(&mut self, now: Nanos) -> bool {
        let join = self.state == State::Rebalancing && now >= self.retry_at;
        if join {
            self.state = State::Joining;
        }
        join
    }

    /// Handles removal by the coordinator: other members may own the partitions already.
    pub fn fence(&mut self, ctx: &mut Context<'_>, reason: LostReason) {
        if !self.is_active() || self.state == State::Leaving {
            return;
        }
        // After ILLEGAL_GENERATION, or if only the member considers its session expired, the member id remains valid,
        // and with it the place in the group.
        if let LostReason::Fenced(ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::FENCED_INSTANCE_ID) = reason {
            self.member_id.clear();
        }
        self.generation = -1;
        self.heartbeat.cancel();
        ctx.push_effect(Effect::Lost(reason));
        // The first time joins at once; a member that is removed repeatedly must not spin.
        let first = self.backoff.failures() == 0;
        let wait = self.backoff.next_delay(&mut ctx.shared.rng);
        self.rebalance(ctx, reason.to_string(), if first { ctx.now } else { ctx.now + wait });
    }

    /// Fences the member if no heartbeat was acknowledged for the session timeout. The coordinator has reassigned the
    /// partitions or is about to, even if the member could not be notified.
    pub fn expire(&mut self, ctx: &mut Context<'_>) {
        if !self.is_registered() || ctx.now < self.heartbeat.alive_at().saturating_add(ctx.config().session_timeout) {
            return;
        }
        if self.state == State::Joining && self.in_flight.is_some() {
            // A second JoinGroup would queue behind the one in flight. That one claims the partitions that are lost
            // now: its leader withholds those that it wants to move, and the group waits for one more join (see
            // `claimed`).
            self.generation = -1;
            self.heartbeat.cancel();
            ctx.push_effect(Effect::Lost(LostReason::SessionExpired));
        } else {
            self.fence(ctx, LostReason::SessionExpired);
        }
    }

    fn fail(&mut self, ctx: &mut Context<'_>, error: GroupError) {
        ctx.push_effect(Effect::Fatal(error));
    }

    /// Ends the membership for good.
    pub fn set_fatal(&mut self) {
        self.state = State::Fatal;
        self.in_flight = None;
        self.orphan_check.cancel();
        self.election = None;
        self.generation = -1;
        self.heartbeat.cancel();
    }

    /// Stops starting new joins. A join in flight completes, because commits of partitions in revocation may need it.
    pub fn begin_shutdown(&mut self, keep_place: bool) {
        self.shutting_down = true;
        self.remain_in_group = keep_place;
        if self.state == State::Joining && self.in_flight.is_none() {
            self.state = State::Rebalancing;
        }
    }

    /// Sends the requests that are due.
    pub fn tick(&mut self, ctx: &mut Context<'_>, view: &dyn TopicMetadataView, reconciler: &Reconciler) {
        let Some(located) = ctx.coordinator else { return };
        self.set_coordinator(ctx, located);
        if self.in_flight.is_none() && ctx.now >= self.retry_at {
            match self.state {
                State::Joining if self.shutting_down => self.state = State::Rebalancing,
                State::Joining => self.send_join(ctx, located, reconciler),
                State::Electing => self.assign_as_leader(ctx, view, located),
                State::Syncing => self.send_sync(ctx, located, Vec::new()),
                State::Leaving => self.send_leave(ctx, located),
                _ => {}
            }
        }
        if self.is_registered() {
            let stamp = (self.generation, self.member_id.as_str());
            self.heartbeat.tick(ctx, located, stamp);
        }
        if self.state == State::Stable && !self.shutting_down {
            self.orphan_check.tick(ctx, located);
        }
    }

    /// Cancels requests to a node that is no longer the coordinator. If a lookup finds the same node again, the request
    /// continues, because its connection may be intact.
    fn set_coordinator(&mut self, ctx: &mut Context<'_>, located: CoordinatorRef) {
        self.heartbeat.set_coordinator(located);
        self.orphan_check.set_coordinator(located);
        if self.in_flight.is_none_or(|attempt| attempt.located.node == located.node) {
            return;
        }
        self.in_flight = None;
        self.on_join_unanswered(ctx);
        if self.state == State::Syncing {
            self.rejoin(ctx, "the coordinator moved");
        }
    }

    /// Returns the earliest time at which [`Self::tick`] or [`Self::expire`] has work to do; `None`: no timer.
    pub fn deadline(&self, session_timeout: Nanos, coordinator_known: bool, may_join: bool) -> Option<Nanos> {
        let mut deadline = None;
        if self.in_flight.is_none() {
            deadline = match self.state {
                State::Rebalancing if may_join && !self.shutting_down => Some(self.retry_at),
                State::Joining | State::Syncing | State::Leaving if coordinator_known => Some(self.retry_at),
                State::Electing if coordinator_known => self.election.as_ref().map(|election| election.deadline),
                State::Stable if !self.shutting_down => self.orphan_check.deadline(coordinator_known),
                _ => None,
            };
        }
        if self.is_registered() {
            deadline = earliest(deadline, Some(self.heartbeat.alive_at().saturating_add(session_timeout)));
            if coordinator_known {
                deadline = earliest(deadline, self.heartbeat.deadline());
            }
        }
        deadline
    }

    /// Handles a reply. Returns whether the token belongs to the member.
    pub fn on_reply(&mut self, ctx: &mut Context<'_>, token: u32, result: &Result<Response, RequestError>) -> bool {
        if self.heartbeat.is_in_flight(token) {
            self.on_heartbeat(ctx, result);
            return true;
        }
        if self.orphan_check.is_in_flight(token) {
            self.on_describe_groups(ctx, result);
            return true;
        }
        let Some(attempt) = self.in_flight.take_if(|attempt| attempt.token == token) else { return false };
        let answered = match result {
            Ok(response) => self.on_response(ctx, &attempt, response),
            Err(error) => Err(error.clone()),
        };
        if let Err(error) = answered {
            self.on_request_failed(ctx, &attempt, &error);
        }
        true
    }

    fn on_response(&mut self, ctx: &mut Context<'_>, at: &InFlight, response: &Response) -> Result<(), RequestError> {
        match self.state {
            State::Joining => self.on_join(ctx, at, response),
            State::Syncing => self.on_sync(ctx, at, response),
            State::Leaving => self.on_leave(ctx, at, response),
            _ => Ok(()),
        }
    }

    fn on_request_failed(&mut self, ctx: &mut Context<'_>, attempt: &InFlight, error: &RequestError) {
        ctx.on_request_failed(attempt.located.lookup, error);
        if let RequestError::Unsupported { .. } = error {
            let group = ctx.config().group_id.clone();
            return self.fail(ctx, GroupError::Unsupported { group, reason: error.to_string() });
        }
        if error.is_ambiguous() {
            self.on_join_unanswered(ctx);
        }
        match self.state {
            State::Syncing => self.rejoin_later(ctx, format!("SyncGroup was not answered: {error}")),
            _ => self.retry_later(ctx, error.to_string()),
        }
    }

    /// Schedules a retry of the same request.
    fn retry_later(&mut self, ctx: &mut Context<'_>, reason: String) {
        self.retry_at = ctx.now + self.backoff.next_delay(&mut ctx.shared.rng);
        if self.state == State::Joining {
            ctx.log_event(GroupLogEvent::JoinRetried { reason });
        }
    }

    fn send(
        &self,
        ctx: &mut Context<'_>,
        located: CoordinatorRef,
        channel: Channel,
        request: Request,
        timeout: impl FnOnce(&crate::group::GroupConfig) -> Nanos,
    ) -> InFlight {
        let timeout = timeout(ctx.config());
        let token = ctx.send(Target::Node(located.node), channel, request, timeout);
        InFlight { token, located, sent_at: ctx.now }
    }

    /// Returns whether the leader found a partition that has no owner and will have none until the next rebalance.
    pub fn has_orphaned_partitions(&self, now: Nanos) -> bool {
        self.state == State::Stable && self.orphan_check.is_rebalance_due(now)
    }

    /// Returns whether the subscription changed while a JoinGroup with the old one was in flight. That join completes
    /// first.
    pub fn is_subscription_outdated(&self) -> bool {
        self.state == State::Stable && self.sent_topics != self.topics
    }

    /// Returns a topic whose partition count differs from the assigned one, if this member is the leader. A topic that
    /// metadata does not know at the moment has not changed (P32).
    pub fn outdated_topic(&self, view: &dyn TopicMetadataView) -> Option<&Arc<str>> {
        if !self.leader || self.state != State::Stable {
            return None;
        }
        let changed =
            |&(topic, count): &(&Arc<str>, &i32)| view.partition_count(topic).is_some_and(|now| now != *count);
        self.assigned_counts.iter().find(changed).map(|(topic, _)| topic)
    }
}

/// Converts nanoseconds to Kafka's milliseconds, up to `i32::MAX`.
pub(super) fn millis(nanos: Nanos) -> i32 {
    i32::try_from(nanos / MILLI).unwrap_or(i32::MAX)
}
