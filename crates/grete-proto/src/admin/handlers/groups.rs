//! ListGroups at every broker, and DeleteGroups at the coordinators.

use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{DeleteGroupsRequest, DeleteGroupsResponse, ListGroupsRequest, ListGroupsResponse};

use super::super::handler::{ApiHandler, ItemResult, ItemResults};
use super::super::reply::{AdminReply, PerItem};
use super::super::types::GroupListing;
use super::items::{Broker, Group};
use super::util::owned;
use crate::cluster::Cluster;
use crate::request::Request;

/// ListGroups: the groups that each of these brokers coordinates.
#[derive(Debug)]
pub(crate) struct ListGroups {
    pub states: Vec<String>,
}

impl ApiHandler for ListGroups {
    type Api = ListGroupsRequest<'static>;
    type Item = Broker;
    type Value = Vec<GroupListing>;

    const REPLY: fn(PerItem<Vec<GroupListing>>) -> AdminReply = AdminReply::GroupListings;

    fn build_request(&self, _items: &[&Broker], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let states_filter = self.states.iter().map(|state| owned(state)).collect();
        Request::from_message(ListGroupsRequest { states_filter, ..Default::default() })
    }

    fn parse_response(&self, response: &ListGroupsResponse<'_>, results: &mut ItemResults<'_, Self>) {
        let listing = || {
            let groups = response.groups.iter().map(|group| GroupListing {
                group: group.group_id.to_string(),
                protocol_type: group.protocol_type.to_string(),
                state: group.group_state.to_string(),
                kind: group.group_type.to_string(),
            });
            groups.collect()
        };
        results.set_only(ItemResult::new(response.error_code, None, listing));
    }
}

#[derive(Debug)]
pub(crate) struct DeleteGroups;

impl ApiHandler for DeleteGroups {
    type Api = DeleteGroupsRequest<'static>;
    type Item = Group;
    type Value = ();

    const REPLY: fn(PerItem<()>) -> AdminReply = AdminReply::Done;

    fn build_request(&self, items: &[&Group], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let groups_names = items.iter().map(|group| owned(&group.0)).collect();
        Request::from_message(DeleteGroupsRequest { groups_names })
    }

    fn parse_response(&self, response: &DeleteGroupsResponse<'_>, results: &mut ItemResults<'_, Self>) {
        for group in &response.results {
            results.set(&group.group_id, group.error_code, None, || ());
        }
    }

    fn already_done(&self, code: ErrorCode) -> Option<()> {
        (code == ErrorCode::GROUP_ID_NOT_FOUND).then_some(())
    }
}
