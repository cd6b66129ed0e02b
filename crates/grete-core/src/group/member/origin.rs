//! Whether a static member that is told of another one may have met itself (P29).
//!
//! The coordinator replaces a static member's id whenever somebody joins under its instance id without one, and refuses the
//! old id from then on. Usually that somebody is another process. It is this one when
//! - a JoinGroup of ours without an id was given up (a lost connection, a moved coordinator) and carried out late, after the
//!   one that took its place (KAFKA-20985);
//! - the coordinator that let us in has gone before the generation was complete: its successor has only the log, and in it
//!   the id that we had replaced. The successor may well be found under the same name: the group moved twice while the
//!   answer that let us in was on its way, or while this process slept.
//!
//! Each is forgiven once, the second until a generation is complete with us in it: a second refusal on the same grounds is
//! another process.

use grete_wire::ErrorCode;

use super::{Member, State};
use crate::group::context::Context;
use crate::group::error::GroupError;
use crate::group::event::LostReason;
use crate::time::Nanos;

/// Where our member id comes from.
#[derive(Debug, Default)]
pub(super) struct Origin {
    /// We were let in under a new id, and no generation has been complete since: it need not be in the group's log.
    unsettled: bool,
    /// That has been an excuse once since a generation was complete.
    excused: bool,
    /// A JoinGroup without an id was given up, and may be carried out until then.
    unheard_until: Nanos,
}

impl Origin {
    pub fn joined_unheard(&mut self, until: Nanos) {
        self.unheard_until = until;
    }

    /// We were let in under a new id.
    pub fn renamed(&mut self) {
        self.unsettled = true;
    }

    pub fn settled(&mut self) {
        (self.unsettled, self.excused) = (false, false);
    }

    /// Whether the other member may be ourselves; yes only once for each reason.
    pub fn may_be_our_own(&mut self, now: Nanos) -> bool {
        let unheard = now < std::mem::take(&mut self.unheard_until);
        let unsettled = std::mem::take(&mut self.unsettled) && !std::mem::replace(&mut self.excused, true);
        unheard || unsettled
    }
}

impl Member {
    /// The coordinator knows another member by our `group.instance.id`.
    pub fn instance_fenced(&mut self, ctx: &mut Context<'_>, request: &'static str) {
        if self.origin.may_be_our_own(ctx.now) {
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

    /// A JoinGroup was given up that the coordinator may carry out all the same, and late.
    pub(super) fn unanswered_join(&mut self, ctx: &Context<'_>) {
        if self.state == State::Joining && self.member_id.is_empty() {
            self.origin.joined_unheard(ctx.now.saturating_add(ctx.config().session_timeout));
        }
    }
}
