//! Detection of self-fencing of a static member: FENCED_INSTANCE_ID caused by the member's own earlier JoinGroup (P29).
//!
//! The coordinator replaces a static member's id whenever a process joins under the instance id without a member id,
//! and refuses the old id from then on. Usually that is another process. In two cases it is this one:
//! - The client gave up its own JoinGroup without an id (a lost connection, a moved coordinator), and the coordinator
//!   processed that JoinGroup late, after the one that replaced it (KAFKA-20985).
//! - The coordinator that accepted the member failed before the generation was complete. Its successor knows only the
//!   log, which has the replaced member id. The successor may have the same node id: the group may have moved twice
//!   while the JoinGroup response was on its way, or while this process was suspended.
//!
//! Each case is excused once; the second case again after a generation is complete with this member in it. A second
//! refusal on the same grounds comes from another process.

use grete_wire::ErrorCode;

use super::ClassicMember;
use crate::group::context::Context;
use crate::group::error::GroupError;
use crate::group::event::LostReason;
use crate::group::member::state::State;
use crate::time::Nanos;

/// Origin of the member id.
#[derive(Debug, Default)]
pub(super) struct MemberIdOrigin {
    /// The member has a new id and no generation has completed since, so the group's log may not contain the id.
    unpersisted: bool,
    /// Whether `unpersisted` has already excused a refusal since a generation completed.
    excused: bool,
    /// Time until which the coordinator may process an abandoned JoinGroup without an id.
    late_join_until: Nanos,
}

impl MemberIdOrigin {
    pub fn on_join_abandoned(&mut self, until: Nanos) {
        self.late_join_until = until;
    }

    /// Records that the coordinator gave the member a new id.
    pub fn on_new_member_id(&mut self) {
        self.unpersisted = true;
    }

    pub fn on_generation_complete(&mut self) {
        (self.unpersisted, self.excused) = (false, false);
    }

    /// Returns whether the member may have fenced itself; true at most once per reason.
    pub fn is_self_fenced(&mut self, now: Nanos) -> bool {
        let unheard = now < std::mem::take(&mut self.late_join_until);
        let unsettled = std::mem::take(&mut self.unpersisted) && !std::mem::replace(&mut self.excused, true);
        unheard || unsettled
    }
}

impl ClassicMember {
    /// Handles FENCED_INSTANCE_ID: the coordinator knows another member by this `group.instance.id`.
    pub fn on_instance_fenced(&mut self, ctx: &mut Context<'_>, request: &'static str) {
        if self.member_id_origin.is_self_fenced(ctx.now) {
            self.fence(ctx, LostReason::Fenced(ErrorCode::FENCED_INSTANCE_ID));
        } else {
            self.fail_instance(ctx, request, ErrorCode::FENCED_INSTANCE_ID);
        }
    }

    pub(super) fn fail_instance(&mut self, ctx: &mut Context<'_>, request: &'static str, code: ErrorCode) {
        let (group, instance) = (ctx.config().group_id.clone(), ctx.config().instance_id.clone());
        self.fail(
            ctx,
            match instance {
                Some(instance) => GroupError::InstanceFenced { group, instance, request, code },
                None => GroupError::Refused { group, request, code },
            },
        );
    }

    /// Records an abandoned JoinGroup that the coordinator may still process late.
    pub(super) fn on_join_unanswered(&mut self, ctx: &Context<'_>) {
        self.is_join_lost |= self.state == State::Joining;
        if self.state == State::Joining && self.member_id.is_empty() {
            self.member_id_origin.on_join_abandoned(ctx.now.saturating_add(ctx.config().session_timeout));
        }
    }
}
