//! Groups are listed, at every broker, and deleted, at their coordinators.

use std::sync::Arc;

use grete_wire::WireError;
use grete_wire::api_key::ApiKey;
use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{DeleteGroupsRequest, DeleteGroupsResponse, ListGroupsRequest, ListGroupsResponse};

use super::super::errand::{Errand, Outcomes, Place, outcome};
use super::super::error::AdminError;
use super::super::operation::AdminReply;
use super::{done_by_name, owned};
use crate::cluster::Cluster;
use crate::ids::NodeId;
use crate::request::{Request, Response};

/// A group as its coordinator lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupListing {
    /// Its id.
    pub group: String,
    /// What its members are: "consumer", "connect"...; empty for a group that has only offsets.
    pub protocol_type: String,
    /// "Stable", "Empty"...
    pub state: String,
    /// "classic", "consumer" (KIP-848), "share"...; empty from brokers that know only classic ones.
    pub kind: String,
}

/// What each of these brokers coordinates.
#[derive(Debug)]
pub(crate) struct ListGroups {
    pub nodes: Vec<NodeId>,
    pub states: Vec<String>,
}

impl Errand for ListGroups {
    type Value = Vec<GroupListing>;

    fn api(&self) -> ApiKey {
        ApiKey::ListGroups
    }

    fn len(&self) -> usize {
        self.nodes.len()
    }

    fn place(&self, item: usize) -> Place<'_> {
        self.nodes.get(item).map_or(Place::Any, |&node| Place::Node(node))
    }

    fn subject(&self, item: usize) -> String {
        format!("the groups of broker {}", self.nodes.get(item).copied().unwrap_or(-1))
    }

    fn request(&self, _items: &mut Vec<usize>, _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let states_filter = self.states.iter().map(|state| owned(state)).collect();
        Request::any(ListGroupsRequest { states_filter, ..Default::default() })
    }

    fn read(
        &mut self,
        items: &[usize],
        _node: NodeId,
        response: &Response,
        out: &mut Outcomes<Vec<GroupListing>>,
    ) -> Result<(), WireError> {
        let answer = response.decode(ListGroupsResponse::decode)?;
        let listing = || {
            let groups = answer.groups.iter().map(|group| GroupListing {
                group: group.group_id.to_string(),
                protocol_type: group.protocol_type.to_string(),
                state: group.group_state.to_string(),
                kind: group.group_type.to_string(),
            });
            groups.collect()
        };
        out.extend(items.first().map(|&item| (item, outcome(answer.error_code, None, listing))));
        Ok(())
    }

    fn reply(&self, results: Vec<Result<Vec<GroupListing>, AdminError>>) -> AdminReply {
        AdminReply::Groups(results)
    }
}

#[derive(Debug)]
pub(crate) struct DeleteGroups {
    pub groups: Vec<Arc<str>>,
}

impl Errand for DeleteGroups {
    type Value = ();

    fn api(&self) -> ApiKey {
        ApiKey::DeleteGroups
    }

    fn len(&self) -> usize {
        self.groups.len()
    }

    fn place(&self, item: usize) -> Place<'_> {
        self.groups.get(item).map_or(Place::Any, Place::Coordinator)
    }

    fn subject(&self, item: usize) -> String {
        format!("group {}", self.groups.get(item).map_or("", |group| group))
    }

    fn request(&self, items: &mut Vec<usize>, _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let groups_names = items.iter().filter_map(|&item| self.groups.get(item)).map(|group| owned(group)).collect();
        Request::any(DeleteGroupsRequest { groups_names })
    }

    fn read(
        &mut self,
        items: &[usize],
        _node: NodeId,
        response: &Response,
        out: &mut Outcomes<()>,
    ) -> Result<(), WireError> {
        let answer = response.decode(DeleteGroupsResponse::decode)?;
        done_by_name(items, &self.groups, answer.results.iter().map(|g| (&*g.group_id, g.error_code, None)), out);
        Ok(())
    }

    fn done_before(&self, _item: usize, code: ErrorCode) -> Option<()> {
        (code == ErrorCode::GROUP_ID_NOT_FOUND).then_some(())
    }

    fn reply(&self, results: Vec<Result<(), AdminError>>) -> AdminReply {
        AdminReply::Done(results)
    }
}
