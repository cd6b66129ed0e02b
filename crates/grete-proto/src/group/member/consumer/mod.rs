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
//! - The previous process was killed. Its place ends with its session, so the join is retried for that long. A place
//!   that is refused for longer belongs to a living process.
//!
//! **A predecessor whose death is certain**
//! ([`MemberIds::predecessor`](crate::group::MemberIds)). The first request leaves in the name of the dead member: a
//! static place is given up (epoch -2), a dynamic member is removed (epoch -1). Its answer does not matter, because the
//! join that follows finds out. Both change no epoch of a static group, so the other members notice nothing.

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
    member_id: String,
    /// Epoch from the coordinator; -1 if the coordinator does not count the member in.
    epoch: i32,
    /// Epoch under which a member joins whose session expired on this side only; 0: a new join.
    join_epoch: i32,
    /// Whether the coordinator may have executed a join of this member that it knows nothing of.
    unheard_join: bool,
    /// Whether the next request gives up the instance id in this member's name.
    releases_instance: bool,
    /// Member whose place the next request gives up, because its process is dead.
    predecessor: Option<Arc<str>>,
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

impl ConsumerMember {
    pub fn new(config: &GroupConfig) -> Self {
        Self {
            state: State::Unjoined,
            topics: BTreeSet::new(),
            member_id: String::new(),
            epoch: NO_EPOCH,
            join_epoch: 0,
            unheard_join: false,
            releases_instance: false,
            predecessor: config.member_ids.as_ref().and_then(|ids| ids.predecessor.clone()),
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
        let Some(located) = ctx.coordinator else { return };
        self.set_coordinator(located);
        let may_send = match self.state {
            State::Joining => !self.shutting_down,
            State::Stable | State::Leaving => true,
            _ => false,
        };
        if !may_send || self.in_flight.is_some() || ctx.now < self.next_request {
            return;
        }
        if self.state == State::Joining && ctx.config().protocol == GroupProtocol::Auto && !self.is_known {
            let finalized = view.group_version();
            if finalized.is_none_or(|version| version < 1) {
                self.fall_back = Some("the cluster has not finalized group.version 1 (KIP-848)".to_owned());
                return;
            }
        }
        self.send(ctx, located, reconciler);
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
        let may_send = match self.state {
            State::Joining => !self.shutting_down,
            State::Stable | State::Leaving => true,
            _ => false,
        };
        let idle = may_send && coordinator_known && self.in_flight.is_none();
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
