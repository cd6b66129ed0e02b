//! Static members are put out of their group: whoever closes leaves them in it for the session timeout.

use std::borrow::Cow;
use std::sync::Arc;

use grete_wire::WireError;
use grete_wire::api_key::ApiKey;
use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{LeaveGroupRequest, LeaveGroupResponse, MemberIdentity};

use super::super::errand::{Errand, Outcomes, Place, outcome};
use super::super::error::AdminError;
use super::super::operation::AdminReply;
use super::{done_by_name, owned};
use crate::cluster::Cluster;
use crate::ids::NodeId;
use crate::request::{Request, Response};

#[derive(Debug)]
pub(crate) struct RemoveMembers {
    pub group: Arc<str>,
    pub instances: Vec<Arc<str>>,
}

impl Errand for RemoveMembers {
    type Value = ();

    fn api(&self) -> ApiKey {
        ApiKey::LeaveGroup
    }

    fn len(&self) -> usize {
        self.instances.len()
    }

    fn place(&self, _item: usize) -> Place<'_> {
        Place::Coordinator(&self.group)
    }

    fn subject(&self, item: usize) -> String {
        format!("member {} of group {}", self.instances.get(item).map_or("", |instance| instance), self.group)
    }

    fn request(&self, items: &mut Vec<usize>, _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let identity = |instance: &Arc<str>| MemberIdentity {
            group_instance_id: Some(owned(instance)),
            reason: Some(Cow::Borrowed("removed by an administrator")),
            ..MemberIdentity::default()
        };
        let members = items.iter().filter_map(|&item| self.instances.get(item)).map(identity).collect();
        Request::LeaveGroup(LeaveGroupRequest { group_id: owned(&self.group), members, ..Default::default() })
    }

    fn read(
        &mut self,
        items: &[usize],
        _node: NodeId,
        response: &Response,
        out: &mut Outcomes<()>,
    ) -> Result<(), WireError> {
        let answer = response.decode(LeaveGroupResponse::decode)?;
        if answer.error_code != ErrorCode::NONE.0 {
            out.extend(items.iter().map(|&item| (item, outcome(answer.error_code, None, || ()))));
            return Ok(());
        }
        let members = answer.members.iter().filter_map(|m| Some((m.group_instance_id.as_deref()?, m.error_code, None)));
        done_by_name(items, &self.instances, members, out);
        Ok(())
    }

    fn done_before(&self, _item: usize, code: ErrorCode) -> Option<()> {
        (code == ErrorCode::UNKNOWN_MEMBER_ID).then_some(())
    }

    fn reply(&self, results: Vec<Result<(), AdminError>>) -> AdminReply {
        AdminReply::Done(results)
    }
}
