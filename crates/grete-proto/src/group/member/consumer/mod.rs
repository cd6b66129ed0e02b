//! Membership in the consumer protocol (KIP-848): one request, ConsumerGroupHeartbeat, joins, reports, acknowledges and
//! leaves.
//!
//! ```text
//! Unjoined -> Joining (epoch 0) -> Stable -> Joining ...        any -> Leaving (epoch -1 or -2) -> Left, any -> Fatal
//! ```
//!
//! The coordinator assigns. A response carries the target of this member: the partitions that it may own at this
//! epoch, without those that other members have not given up yet. [`ConsumerGroup`](crate::group::ConsumerGroup) moves
//! the owned partitions toward the target in two phases, and the next heartbeat reports what is owned. A report that
//! frees partitions is sent at once, because other members wait for it (P17).
//!
//! **One request in flight.** A late response matches no token (P19). The coordinator may have executed a request
//! without an answer, and counted the epoch up. It accepts the previous epoch, too, if the request has all fields and
//! the owned partitions are a part of the assigned ones. Each request after a failure therefore has all fields.
//!
//! **Member id** (KIP-1082): made by the client, and kept for as long as the subscription lasts. A dynamic member that
//! joins again under its id replaces itself.
//!
//! **Static members.** The coordinator refuses a join under an instance id that a member has not released, even from
//! the same member id. Three cases:
//! - This member's own join was executed, and its response lost. The member releases the id with epoch -2 in its own
//!   name, and joins again.
//! - The session expired on this side only. The member continues with its epoch and claims nothing; the coordinator
//!   answers with its partitions, or fences it.
//! - Another process has the place, killed as a rule. A member that has not been in the group yet takes the place over,
//!   as in the classic protocol: it asks the coordinator for the member id that holds the instance id, and gives the
//!   place up in that name ([`holder`]). The coordinator then fences a process that is alive after all. Where the
//!   question is refused, the join is retried until the session of the dead process must have ended.
//!
//! **A predecessor whose death is certain**
//! ([`MemberIds::predecessor`](crate::group::MemberIds)). The first request leaves in the name of the dead member: a
//! static place is given up (epoch -2), a dynamic member is removed (epoch -1). Its answer does not matter, because the
//! join that follows finds out. Both change no epoch of a static group, so the other members notice nothing.

mod holder;
mod request;
mod response;
mod target;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grete_wire::ErrorCode;

use self::request::{InFlight, Report};
use self::target::Target;
use super::state::State;
use crate::backoff::Backoff;
use crate::group::config::{GroupConfig, GroupProtocol};
use crate::group::context::{Context, CoordinatorRef, Effect, TopicMetadataView};
use crate::group::error::GroupError;
use crate::group::event::{GroupLogEvent, LostReason};
use crate::group::reconciler::Reconciler;
use crate::ids::TopicPartition;
use crate::request::{RequestError, Response};
use crate::time::{MILLI, Nanos, SECOND, earliest};

/// Epoch of a member that is not in the group.
const NO_EPOCH: i32 = -1;
/// Heartbeat interval before the coordinator has named one.
const FIRST_INTERVAL: Nanos = 5 * SECOND;

/// Member of a group with the consumer protocol.
#[derive(Debug)]
pub(in crate::group) struct ConsumerMember {
    state: State,
    topics: BTreeSet<Arc<str>>,
    /// Topics that requests leave out, because an App has no Describe on them: the coordinator would refuse the others
    /// with them.
    concealed: BTreeSet<Arc<str>>,
    member_id: String,
    /// Epoch from the coordinator; -1 if the coordinator does not count the member in.
    epoch: i32,
    /// Epoch under which a member joins whose session expired on this side only; 0: a new join.
    join_epoch: i32,
    /// Whether the coordinator may have executed a join of this member that it knows nothing of.
    unheard_join: bool,
    is_shared: bool,
    /// Whether the next request gives up the instance id in this member's name.
    releases_instance: bool,
    /// Member whose place the next request gives up.
    predecessor: Option<Predecessor>,
    /// Whether the next request asks who has the instance id.
    seeks_holder: bool,
    /// Whether the member may take the place of another process: until it was in the group, and once.
    may_take_over: bool,
    /// Whether the coordinator may know this member id.
    is_known: bool,
    in_flight: Option<InFlight>,
    next_request: Nanos,
    /// Interval of the coordinator.
    interval: Nanos,
    /// Wait before the next heartbeat: short after a change, then longer up to `interval`.
    pace: Nanos,
    last_ack: Nanos,
    backoff: Backoff,
    /// Fields that the coordinator knows; `None`: the next request has all fields.
    reported: Option<Report>,
    target: Target,
    /// Ids of the topics of the owned partitions.
    owned_ids: BTreeMap<TopicPartition, u128>,
    /// Whether a revocation has ended since the last request.
    has_released: bool,
    /// Time at which the instance id was refused first.
    unreleased_since: Option<Nanos>,
    /// Reason to change to the classic protocol.
    fall_back: Option<String>,
    shutting_down: bool,
    /// Whether a static member keeps its place when it leaves.
    remain_in_group: bool,
}

/// Member whose place its successor gives up.
#[derive(Debug, Clone)]
struct Predecessor {
    member_id: Arc<str>,
    /// Whether a supervisor knows that the process is dead; otherwise it has the instance id of this member.
    is_dead: bool,
}

impl ConsumerMember {
    pub fn new(config: &GroupConfig) -> Self {
        Self {
            state: State::Unjoined,
            topics: BTreeSet::new(),
            concealed: BTreeSet::new(),
            member_id: String::new(),
            epoch: NO_EPOCH,
            join_epoch: 0,
            unheard_join: false,
            is_shared: false,
            releases_instance: false,
            predecessor: config.member_ids.as_ref().and_then(|ids| {
                let member_id = ids.predecessor.clone()?;
                Some(Predecessor { member_id, is_dead: true })
            }),
            seeks_holder: false,
            may_take_over: true,
            is_known: false,
            in_flight: None,
            next_request: 0,
            interval: FIRST_INTERVAL,
            pace: FIRST_INTERVAL,
            last_ack: 0,
            backoff: Backoff::new(config.retry_backoff, config.retry_backoff_max),
            reported: None,
            target: Target::default(),
            owned_ids: BTreeMap::new(),
            has_released: false,
            unreleased_since: None,
            fall_back: None,
            shutting_down: false,
            remain_in_group: true,
        }
    }

    pub fn state(&self) -> State {
        self.state
    }

    pub fn generation(&self) -> i32 {
        self.epoch
    }

    pub fn member_id(&self) -> &str {
        &self.member_id
    }

    pub fn topics(&self) -> &BTreeSet<Arc<str>> {
        &self.topics
    }

    pub fn last_ack(&self) -> Nanos {
        self.last_ack
    }

    /// Returns the send time of the last answered heartbeat. The coordinator starts to wait for a revocation when it
    /// answers with a target that lacks the partition.
    pub fn stable_at(&self) -> Nanos {
        self.last_ack
    }

    /// Returns whether the coordinator counts the member in, as far as the member knows. Commits succeed only then.
    pub fn may_commit(&self) -> bool {
        self.state == State::Stable && self.epoch > 0
    }

    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    pub fn take_fall_back(&mut self) -> Option<String> {
        self.fall_back.take()
    }

    /// Subscribes. Returns whether the subscription changed.
    pub fn subscribe(&mut self, ctx: &mut Context<'_>, topics: BTreeSet<Arc<str>>) -> bool {
        match self.state {
            State::Unjoined | State::Left => {
                self.shutting_down = false;
                self.topics = topics;
                self.is_shared = ctx.config().protocol == GroupProtocol::Share;
                self.member_id = match &ctx.config().member_ids {
                    Some(ids) => ids.member_id.to_string(),
                    None => new_member_id(ctx),
                };
                (self.is_known, self.unheard_join, self.releases_instance) = (false, false, false);
                self.backoff.reset();
                self.join(ctx, 0, ctx.now);
                true
            }
            State::Fatal | State::Leaving => false,
            _ if self.topics == topics || self.shutting_down => false,
            _ => {
                self.topics = topics;
                self.expedite_heartbeat(ctx.now);
                true
            }
        }
    }

    /// Prepares a join under `epoch`, as a member that owns nothing.
    fn join(&mut self, ctx: &Context<'_>, epoch: i32, not_before: Nanos) {
        self.state = State::Joining;
        self.in_flight = None;
        self.epoch = NO_EPOCH;
        self.join_epoch = epoch;
        self.reported = None;
        self.target = Target::default();
        self.owned_ids.clear();
        self.has_released = false;
        self.seeks_holder = false;
        self.unreleased_since = None;
        self.pace = ctx.config().retry_backoff;
        self.next_request = not_before;
    }

    /// Makes the next heartbeat due at once.
    pub fn expedite_heartbeat(&mut self, now: Nanos) {
        if self.state == State::Stable {
            self.next_request = self.next_request.min(now);
        }
    }

    /// Handles removal by the coordinator: other members may own the partitions already.
    pub fn fence(&mut self, ctx: &mut Context<'_>, reason: LostReason) {
        if !matches!(self.state, State::Joining | State::Stable) {
            return;
        }
        ctx.push_effect(Effect::Lost(reason));
        // The first time joins at once; a member that is removed repeatedly must not spin.
        let first = self.backoff.failures() == 0;
        let wait = self.backoff.next_delay(&mut ctx.shared.rng);
        ctx.log_event(GroupLogEvent::RebalanceStarted { reason: reason.to_string() });
        self.join(ctx, 0, if first { ctx.now } else { ctx.now + wait });
    }

    /// Gives everything up if no heartbeat was acknowledged for the session timeout: the coordinator has given the
    /// partitions to other members or is about to. If it has not, the member continues under its epoch.
    pub fn expire(&mut self, ctx: &mut Context<'_>) {
        if !self.may_commit() || ctx.now < self.last_ack.saturating_add(ctx.config().session_timeout) {
            return;
        }
        let reason = LostReason::SessionExpired;
        ctx.push_effect(Effect::Lost(reason));
        ctx.log_event(GroupLogEvent::RebalanceStarted { reason: reason.to_string() });
        self.join(ctx, self.epoch, ctx.now);
    }

    pub fn on_instance_fenced(&mut self, ctx: &mut Context<'_>, request: &'static str) {
        self.fail_instance(ctx, request, ErrorCode::FENCED_INSTANCE_ID);
    }

    fn fail_instance(&mut self, ctx: &mut Context<'_>, request: &'static str, code: ErrorCode) {
        let (group, instance) = (ctx.config().group_id.clone(), ctx.config().instance_id.clone());
        ctx.push_effect(Effect::Fatal(match instance {
            Some(instance) => GroupError::InstanceFenced { group, instance, request, code },
            None => GroupError::Refused { group, request, code },
        }));
    }

    pub fn set_fatal(&mut self) {
        self.state = State::Fatal;
        self.in_flight = None;
        self.epoch = NO_EPOCH;
    }

    /// Stops starting new joins.
    pub fn begin_shutdown(&mut self, keep_place: bool) {
        self.shutting_down = true;
        self.remain_in_group = keep_place;
    }

    /// Leaves the group, after everything is revoked (P16). A member of which the coordinator cannot know has no
    /// request to send.
    pub fn leave(&mut self, ctx: &mut Context<'_>) {
        if !matches!(self.state, State::Joining | State::Stable) {
            return;
        }
        self.in_flight = None;
        self.state = State::Leaving;
        self.next_request = ctx.now;
        if !self.is_known {
            return self.leave_silently(ctx);
        }
        if let Some(instance) = ctx.config().instance_id.clone().filter(|_| self.remain_in_group) {
            let session_ms = ctx.config().session_timeout / MILLI;
            ctx.log_event(GroupLogEvent::RemainedInGroup { instance, session_ms });
        }
    }

    /// Leaves without a request; the coordinator removes the member after the session timeout.
    pub fn leave_silently(&mut self, ctx: &mut Context<'_>) {
        self.state = State::Left;
        self.in_flight = None;
        self.epoch = NO_EPOCH;
        ctx.push_effect(Effect::Left);
    }

    /// Sends the request that is due.
    pub fn tick(&mut self, ctx: &mut Context<'_>, view: &dyn TopicMetadataView, reconciler: &Reconciler) {
        if ctx.config().retry_authorization_failures {
            self.update_concealed(ctx.now, view);
        }
        let Some(located) = ctx.coordinator else { return };
        self.set_coordinator(located);
        if !self.may_send() || self.in_flight.is_some() || ctx.now < self.next_request {
            return;
        }
        if self.state == State::Joining && ctx.config().protocol == GroupProtocol::Auto && !self.is_known {
            self.fall_back = reason_for_classic(ctx.config(), view);
            if self.fall_back.is_some() {
                return;
            }
        }
        self.send(ctx, located, reconciler);
    }

    /// Returns whether the state has requests. A share group takes no member without a topic, so such a member waits for
    /// its first one.
    fn may_send(&self) -> bool {
        match self.state {
            State::Joining => !(self.shutting_down || self.is_shared && self.topics.is_empty()),
            State::Stable | State::Leaving => true,
            _ => false,
        }
    }

    /// Follows the ACLs of the topics, as the metadata shows them.
    fn update_concealed(&mut self, now: Nanos, view: &dyn TopicMetadataView) {
        if self.topics.iter().any(|topic| view.is_concealed(topic) != self.concealed.contains(topic)) {
            self.concealed = self.topics.iter().filter(|topic| view.is_concealed(topic)).cloned().collect();
            self.expedite_heartbeat(now);
        }
    }

    /// Gives up a request to a node that is no longer the coordinator. If a lookup finds the same node again, the
    /// request continues, because its connection may be intact.
    fn set_coordinator(&mut self, located: CoordinatorRef) {
        if self.in_flight.as_ref().is_some_and(|flight| flight.located.node != located.node) {
            self.in_flight = None;
            self.on_unanswered();
        }
    }

    /// Records that the coordinator may have executed the last request.
    fn on_unanswered(&mut self) {
        self.reported = None;
        self.unheard_join |= self.state == State::Joining && self.is_known;
    }

    /// Returns the earliest time at which [`Self::tick`] or [`Self::expire`] has work to do; `None`: no timer.
    pub fn deadline(&self, session_timeout: Nanos, coordinator_known: bool) -> Option<Nanos> {
        let idle = self.may_send() && coordinator_known && self.in_flight.is_none();
        let session = self.may_commit().then(|| self.last_ack.saturating_add(session_timeout));
        earliest(idle.then_some(self.next_request), session)
    }

    /// Handles a reply. Returns whether the token belongs to the member.
    pub fn on_reply(&mut self, ctx: &mut Context<'_>, token: u32, result: &Result<Response, RequestError>) -> bool {
        let Some(flight) = self.in_flight.take_if(|flight| flight.token == token) else { return false };
        self.on_heartbeat(ctx, flight, result);
        true
    }
}

/// Returns why `group.protocol=auto` selects the classic protocol, before the coordinator was asked; `None`: it does not.
fn reason_for_classic(config: &GroupConfig, view: &dyn TopicMetadataView) -> Option<String> {
    if view.group_version().is_none_or(|version| version < 1) {
        return Some("the cluster has not finalized group.version 1 (KIP-848)".to_owned());
    }
    let setting = config.classic_setting?;
    Some(format!("{setting} is set, which only this protocol has: leave it out to use the consumer protocol (KIP-848)"))
}

/// Returns a new member id: a UUID of version 4 as text. It need not be a secret, only unique.
fn new_member_id(ctx: &mut Context<'_>) -> String {
    let rng = &mut ctx.shared.rng;
    let (high, low) = (rng.next_u64(), rng.next_u64());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0x0fff,
        0x8000 | ((low >> 48) & 0x3fff),
        low & 0xffff_ffff_ffff
    )
}
