//! LeaveGroup.

use std::borrow::Cow;

use grete_wire::ErrorCode;
use grete_wire::messages::leave_group::{MemberIdentity, MemberResponse};
use grete_wire::messages::{LeaveGroupRequest, LeaveGroupResponse};

use super::context::Context;
use super::state::{Group, GroupState};
use super::{GroupCoordinator, Requester};
use crate::effects::Effects;
use crate::ids::Millis;
use crate::message::Response;

/// First version of LeaveGroup with a list of members (KIP-345).
const FIRST_VERSION_WITH_MEMBERS: i16 = 3;

impl GroupCoordinator {
    /// Handles LeaveGroup.
    pub fn leave(
        &mut self,
        now: Millis,
        requester: &Requester<'_>,
        request: &LeaveGroupRequest<'_>,
        effects: &mut Effects,
    ) {
        let only;
        let identities = if requester.version >= FIRST_VERSION_WITH_MEMBERS {
            request.members.as_slice()
        } else {
            only = [MemberIdentity { member_id: request.member_id.clone(), ..MemberIdentity::default() }];
            &only
        };
        let mut response = LeaveGroupResponse::default();
        if request.group_id.is_empty() {
            response.error_code = ErrorCode::INVALID_GROUP_ID.0;
        } else {
            let left = self.with_group(now, &request.group_id, effects, |group, _, ctx| group.leave(ctx, identities));
            let codes = left.unwrap_or_else(|| vec![ErrorCode::UNKNOWN_MEMBER_ID; identities.len()]);
            response.members =
                identities.iter().zip(codes).map(|(identity, code)| left_member(identity, code)).collect();
        }
        if requester.version < FIRST_VERSION_WITH_MEMBERS {
            for member in response.members.drain(..) {
                response.error_code = member.error_code;
            }
        }
        effects.reply(requester.request, Response::LeaveGroup(response));
    }
}

impl Group {
    /// Removes members, then rebalances once. Returns an error code for each.
    fn leave(&mut self, ctx: &mut Context<'_>, identities: &[MemberIdentity<'_>]) -> Vec<ErrorCode> {
        let codes: Vec<_> = identities.iter().map(|identity| self.leave_one(ctx, identity)).collect();
        if codes.contains(&ErrorCode::NONE) {
            match self.state {
                GroupState::Stable | GroupState::CompletingRebalance => self.prepare_rebalance(ctx),
                GroupState::PreparingRebalance => self.maybe_complete_join(ctx),
                GroupState::Empty => {}
            }
        }
        codes
    }

    fn leave_one(&mut self, ctx: &mut Context<'_>, identity: &MemberIdentity<'_>) -> ErrorCode {
        let instance_id = identity.group_instance_id.as_deref();
        if let Some(consumer) = &mut self.consumer {
            let removed = consumer.remove_named(ctx, &identity.member_id, instance_id);
            return removed.err().unwrap_or(ErrorCode::NONE);
        }
        if identity.member_id.is_empty() {
            // An administrator removes a static member.
            let Some(id) = instance_id.and_then(|instance_id| self.statics.get(instance_id)).cloned() else {
                return ErrorCode::UNKNOWN_MEMBER_ID;
            };
            self.remove(ctx, &id);
            return ErrorCode::NONE;
        }
        if !self.pending.contains_key(identity.member_id.as_ref())
            && let Err(code) = self.validate_member(&identity.member_id, instance_id)
        {
            return code;
        }
        self.remove(ctx, &identity.member_id);
        ErrorCode::NONE
    }
}

fn left_member(identity: &MemberIdentity<'_>, code: ErrorCode) -> MemberResponse<'static> {
    MemberResponse {
        member_id: Cow::Owned(identity.member_id.to_string()),
        group_instance_id: identity.group_instance_id.as_deref().map(|id| Cow::Owned(id.to_owned())),
        error_code: code.0,
    }
}
