//! Membership of a group in one of Kafka's two protocols, behind one interface.
//!
//! | module | protocol |
//! |---|---|
//! | `classic` | JoinGroup, SyncGroup, Heartbeat, LeaveGroup: the leader assigns |
//! | `consumer` | ConsumerGroupHeartbeat (KIP-848): the coordinator assigns |
//!
//! With `group.protocol=auto` a member begins as one of the consumer protocol. At its first request, or when the
//! coordinator refuses that protocol, it becomes a classic member. It owns no partitions at that time.

mod classic;
mod consumer;
mod state;

use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) use self::classic::ClassicMember;
pub(super) use self::consumer::ConsumerMember;
pub(super) use self::state::{MemberGeneration, StaleCommitCause, State};

use super::config::{GroupConfig, GroupProtocol};
use super::context::{Context, TopicMetadataView};
use super::event::{GroupLogEvent, LostReason};
use super::reconciler::Reconciler;
use crate::request::{RequestError, Response};
use crate::time::Nanos;

/// Member of a group.
#[derive(Debug)]
pub(super) enum Member {
    Classic(Box<ClassicMember>),
    Consumer(Box<ConsumerMember>),
}

/// Calls the same method of either kind of member.
macro_rules! either {
    ($self:ident, $member:ident => $call:expr) => {
        match $self {
            Member::Classic($member) => $call,
            Member::Consumer($member) => $call,
        }
    };
}

impl Member {
    pub fn new(config: &GroupConfig) -> Self {
        let (first, longest) = (config.retry_backoff, config.retry_backoff_max);
        match config.protocol {
            GroupProtocol::Classic => Self::Classic(Box::new(ClassicMember::new(first, longest))),
            GroupProtocol::Consumer | GroupProtocol::Share | GroupProtocol::Auto => {
                Self::Consumer(Box::new(ConsumerMember::new(config)))
            }
        }
    }

    pub fn state(&self) -> State {
        either!(self, member => member.state())
    }

    /// Returns the generation id, or the member epoch of the consumer protocol; -1 outside the group.
    pub fn generation(&self) -> i32 {
        either!(self, member => member.generation())
    }

    pub fn member_id(&self) -> &str {
        either!(self, member => member.member_id())
    }

    /// Returns whether this member is the group leader; the consumer protocol has none.
    pub fn is_leader(&self) -> bool {
        matches!(self, Self::Classic(member) if member.is_leader())
    }

    /// Returns the send time of the last request that proves the membership: the coordinator received it then or later.
    pub fn last_ack(&self) -> Nanos {
        either!(self, member => member.last_ack())
    }

    /// Returns the latest time at which no rebalance had begun, as far as the member knows.
    pub fn stable_at(&self) -> Nanos {
        either!(self, member => member.stable_at())
    }

    /// Returns whether the member is in the group or about to join.
    pub fn is_active(&self) -> bool {
        !matches!(self.state(), State::Unjoined | State::Left | State::Fatal)
    }

    /// Returns whether a commit may succeed.
    pub fn may_commit(&self) -> bool {
        either!(self, member => member.may_commit())
    }

    /// Returns whether no later generation can have the number of this one. Member epochs are stored before the
    /// coordinator answers.
    pub fn is_synced(&self) -> bool {
        match self {
            Self::Classic(member) => member.is_synced(),
            Self::Consumer(member) => member.may_commit(),
        }
    }

    /// Returns generation and member id for a commit; `None` if no commit may succeed.
    pub fn commit_generation(&self) -> Option<MemberGeneration> {
        let stamp = || MemberGeneration { generation: self.generation(), member_id: self.member_id().to_owned() };
        self.may_commit().then(stamp)
    }

    /// Returns epoch and member id for OffsetFetch; `None`: the protocol checks none there.
    pub fn offset_fetch_stamp(&self) -> Option<MemberGeneration> {
        matches!(self, Self::Consumer(_)).then(|| self.commit_generation()).flatten()
    }

    /// Returns what the refusal of a commit with this generation means.
    pub fn stale_commit_cause(&self, stamp: &MemberGeneration) -> StaleCommitCause {
        match self {
            _ if stamp.generation < 0 => StaleCommitCause::Standalone,
            _ if !self.is_active() => StaleCommitCause::Evicted,
            Self::Classic(member) if member.is_evicted_by(stamp) => StaleCommitCause::Evicted,
            Self::Classic(_) => StaleCommitCause::Rejoining,
            Self::Consumer(_) if self.commit_generation().as_ref() == Some(stamp) => StaleCommitCause::EpochBehind,
            Self::Consumer(_) => StaleCommitCause::Rejoining,
        }
    }

    /// Subscribes. Returns whether the subscription changed.
    pub fn subscribe(&mut self, ctx: &mut Context<'_>, topics: BTreeSet<Arc<str>>) -> bool {
        either!(self, member => member.subscribe(ctx, topics))
    }

    /// Handles removal by the coordinator: other members may own the partitions already.
    pub fn fence(&mut self, ctx: &mut Context<'_>, reason: LostReason) {
        either!(self, member => member.fence(ctx, reason));
    }

    /// Handles FENCED_INSTANCE_ID: the coordinator knows another member by this `group.instance.id`.
    pub fn on_instance_fenced(&mut self, ctx: &mut Context<'_>, request: &'static str) {
        either!(self, member => member.on_instance_fenced(ctx, request));
    }

    /// Handles a refusal because a rebalance is in progress, or because the member epoch is old.
    pub fn on_commit_refused(&mut self, ctx: &mut Context<'_>) {
        match self {
            Self::Classic(member) if member.state() == State::Stable => {
                member.rejoin(ctx, "a commit found the group rebalancing");
            }
            Self::Classic(_) => {}
            Self::Consumer(member) => member.expedite_heartbeat(ctx.now),
        }
    }

    /// Fences the member if no heartbeat was acknowledged for the session timeout.
    pub fn expire(&mut self, ctx: &mut Context<'_>) {
        either!(self, member => member.expire(ctx));
    }

    /// Ends the membership for good.
    pub fn set_fatal(&mut self) {
        either!(self, member => member.set_fatal());
    }

    /// Stops starting new joins.
    pub fn begin_shutdown(&mut self, keep_place: bool) {
        either!(self, member => member.begin_shutdown(keep_place));
    }

    /// Leaves the group, after everything is revoked (P16).
    pub fn leave(&mut self, ctx: &mut Context<'_>) {
        either!(self, member => member.leave(ctx));
    }

    /// Leaves without a request; the coordinator removes the member after the session timeout.
    pub fn leave_silently(&mut self, ctx: &mut Context<'_>) {
        either!(self, member => member.leave_silently(ctx));
    }

    /// Sends the requests that are due.
    pub fn tick(&mut self, ctx: &mut Context<'_>, view: &dyn TopicMetadataView, reconciler: &Reconciler) {
        if let Self::Consumer(member) = self {
            member.tick(ctx, view, reconciler);
            self.adopt_classic_protocol(ctx);
        }
        if let Self::Classic(member) = self {
            member.tick(ctx, view, reconciler);
        }
    }

    /// Returns the earliest time at which [`Self::tick`] or [`Self::expire`] has work to do; `None`: no timer.
    pub fn deadline(&self, session_timeout: Nanos, coordinator_known: bool, may_join: bool) -> Option<Nanos> {
        match self {
            Self::Classic(member) => member.deadline(session_timeout, coordinator_known, may_join),
            Self::Consumer(member) => member.deadline(session_timeout, coordinator_known),
        }
    }

    /// Handles a reply. Returns whether the token belongs to the member.
    pub fn on_reply(&mut self, ctx: &mut Context<'_>, token: u32, result: &Result<Response, RequestError>) -> bool {
        let ours = either!(self, member => member.on_reply(ctx, token, result));
        self.adopt_classic_protocol(ctx);
        ours
    }

    /// Becomes a classic member, if the coordinator has no use for the consumer protocol and `auto` allows it.
    fn adopt_classic_protocol(&mut self, ctx: &mut Context<'_>) {
        let Self::Consumer(member) = self else { return };
        let Some(reason) = member.take_fall_back() else { return };
        ctx.log_event(GroupLogEvent::ClassicProtocol { reason });
        let config = ctx.config();
        let mut classic = ClassicMember::new(config.retry_backoff, config.retry_backoff_max);
        classic.subscribe(ctx, member.topics().clone());
        if member.is_shutting_down() {
            classic.begin_shutdown(true);
        }
        *self = Self::Classic(Box::new(classic));
    }
}
