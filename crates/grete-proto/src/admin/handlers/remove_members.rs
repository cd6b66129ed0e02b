//! RemoveMembers: removes static members from their group, which otherwise keeps a closed member until its session
//! timeout expires.

use std::borrow::Cow;

use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{LeaveGroupRequest, LeaveGroupResponse, MemberIdentity};

use super::super::handler::{ApiHandler, ItemResult, ItemResults};
use super::super::reply::{AdminReply, PerItem};
use super::items::StaticMember;
use super::util::owned;
use crate::cluster::Cluster;
use crate::request::Request;

#[derive(Debug)]
pub(crate) struct RemoveMembers;

impl ApiHandler for RemoveMembers {
    type Api = LeaveGroupRequest<'static>;
    type Item = StaticMember;
    type Value = ();

    const REPLY: fn(PerItem<()>) -> AdminReply = AdminReply::Done;

    fn build_request(&self, items: &[&StaticMember], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let member = |member: &&StaticMember| MemberIdentity {
            group_instance_id: Some(owned(&member.instance)),
            reason: Some(Cow::Borrowed("removed by an administrator")),
            ..Default::default()
        };
        Request::LeaveGroup(LeaveGroupRequest {
            group_id: owned(items.first().map_or("", |member| &member.group)),
            members: items.iter().map(member).collect(),
            ..Default::default()
        })
    }

    fn parse_response(&self, response: &LeaveGroupResponse<'_>, results: &mut ItemResults<'_, Self>) {
        if response.error_code != ErrorCode::NONE.0 {
            return results.set_all(|| ItemResult::new(response.error_code, None, || ()));
        }
        for member in &response.members {
            results.set(member.group_instance_id.as_deref().unwrap_or_default(), member.error_code, None, || ());
        }
    }

    fn already_done(&self, code: ErrorCode) -> Option<()> {
        (code == ErrorCode::UNKNOWN_MEMBER_ID).then_some(())
    }
}
