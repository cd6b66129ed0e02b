//! ConsumerGroupDescribe: the member that holds this member's `group.instance.id`.
//!
//! The coordinator refuses a join under an instance id that a silent member still holds, for up to its session (45 s as
//! a rule), and names no member id. The description of the group does, to everybody who may read the group.

use std::borrow::Cow;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::{ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse};

use super::{ConsumerMember, Predecessor};
use crate::group::context::Context;
use crate::request::{Request, RequestError, Response};

pub(super) fn request(group: &str) -> Request {
    let group_ids = vec![Cow::Owned(group.to_owned())];
    Request::from_message(ConsumerGroupDescribeRequest { group_ids, ..Default::default() })
}

impl ConsumerMember {
    /// Handles the description. Whatever it says, the next request joins; a place with a known member id is given up
    /// first.
    pub(super) fn on_described(&mut self, ctx: &mut Context<'_>, result: &Result<Response, RequestError>) {
        self.seeks_holder = false;
        self.next_request = ctx.now;
        let Ok(response) = result else { return };
        let Ok(answer) = response.decode(ConsumerGroupDescribeResponse::decode) else { return };
        let instance = ctx.config().instance_id.as_deref();
        let groups = answer.groups.iter().filter(|group| ErrorCode(group.error_code) == ErrorCode::NONE);
        let mut members = groups.flat_map(|group| &group.members);
        let holder = members.find(|member| instance.is_some() && member.instance_id.as_deref() == instance);
        self.predecessor = holder
            .filter(|holder| holder.member_id != self.member_id)
            .map(|holder| Predecessor { member_id: Arc::from(&*holder.member_id), is_dead: false });
    }
}
