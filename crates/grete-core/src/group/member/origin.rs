//! Whether a static member that is told of another one may have met itself (P29).
//!
//! The coordinator replaces a static member's id whenever somebody joins under its instance id without one, and refuses the
//! old id from then on. Usually that somebody is another process. It is this one when
//! - a JoinGroup of ours without an id was given up (a lost connection, a moved coordinator) and carried out late, after the
//!   one that took its place (KAFKA-20985);
//! - the coordinator that let us in has gone before the generation was complete: its successor has only the log, and in it
//!   the id that we had replaced.
//!
//! Each is forgiven once; a second refusal on the same grounds is another process.

use grete_wire::ErrorCode;

use super::{Member, State};
use crate::group::context::Context;
use crate::group::error::GroupError;
use crate::group::event::LostReason;
use crate::time::Nanos;

/// Where our member id comes from.
#[derive(Debug, Default)]
pub(super) struct Origin {
    /// The coordinator's lookup by which we were let in, until the generation is complete and our id in its log.
    unsettled: Option<u32>,
    /// A JoinGroup without an id was given up, and may be carried out until then.
    unheard_until: Nanos,
}

impl Origin {
    pub fn joined_unheard(&mut self, until: Nanos) {
        self.unheard_until = until;
    }

    pub fn let_in(&mut self, lookup: u32) {
        self.unsettled = Some(lookup);
    }

    pub fn settled(&mut self) {
        self.unsettled = None;
    }

    /// Whether the other member may be ourselves; yes only once for each reason.
    pub fn may_be_our_own(&mut self, now: Nanos, lookup: u32) -> bool {
        let Self { unsettled, unheard_until } = std::mem::take(self);
        now < unheard_until || unsettled.is_some_and(|let_in_by| let_in_by != lookup)
    }
}

impl Member {
    /// The coordinator of this lookup knows another member by our `group.instance.id`.
    pub fn instance_fenced(&mut self, ctx: &mut Context<'_>, lookup: u32, request: &'static str) {
        if self.origin.may_be_our_own(ctx.now, lookup) {
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
