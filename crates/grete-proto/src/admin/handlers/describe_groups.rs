//! DescribeGroups: groups and their members. Each rebalance protocol has its own API.

use std::sync::Arc;

use grete_wire::error_code::ErrorCode;
use grete_wire::messages::consumer_group_describe::{DescribedGroup as DescribedConsumerGroup, Member};
use grete_wire::messages::describe_groups::{DescribedGroup, DescribedGroupMember};
use grete_wire::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribeGroupsRequest, DescribeGroupsResponse,
    ShareGroupDescribeRequest, ShareGroupDescribeResponse, share_group_describe,
};

use super::super::handler::{ApiHandler, ItemResults};
use super::super::reply::{AdminReply, PerItem};
use super::super::types::{GroupDescription, GroupProtocol, MemberDescription};
use super::items::Group;
use super::util::owned;
use crate::cluster::Cluster;
use crate::group::consumer_protocol::{PROTOCOL_TYPE, decode_assignment};
use crate::ids::{NodeId, TopicPartition};
use crate::request::Request;

#[derive(Debug)]
pub(crate) struct DescribeClassicGroups;

impl ApiHandler for DescribeClassicGroups {
    type Api = DescribeGroupsRequest<'static>;
    type Item = Group;
    type Value = GroupDescription;

    const REPLY: fn(PerItem<GroupDescription>) -> AdminReply = AdminReply::GroupDescriptions;

    fn build_request(&self, items: &[&Group], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let groups = items.iter().map(|group| owned(&group.0)).collect();
        Request::from_message(DescribeGroupsRequest { groups, ..Default::default() })
    }

    fn parse_response(&self, response: &DescribeGroupsResponse<'_>, results: &mut ItemResults<'_, Self>) {
        let node = results.node();
        for group in &response.groups {
            // Before version 6, a group that does not exist is reported as "Dead".
            let dead = group.group_state == "Dead" && group.members.is_empty();
            let code = match group.error_code {
                0 if dead => ErrorCode::GROUP_ID_NOT_FOUND.0,
                code => code,
            };
            results.set(&group.group_id, code, None, || classic(group, node));
        }
    }
}

#[derive(Debug)]
pub(crate) struct DescribeConsumerGroups;

impl ApiHandler for DescribeConsumerGroups {
    type Api = ConsumerGroupDescribeRequest<'static>;
    type Item = Group;
    type Value = GroupDescription;

    const REPLY: fn(PerItem<GroupDescription>) -> AdminReply = AdminReply::GroupDescriptions;

    fn build_request(&self, items: &[&Group], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let group_ids = items.iter().map(|group| owned(&group.0)).collect();
        Request::from_message(ConsumerGroupDescribeRequest { group_ids, ..Default::default() })
    }

    fn parse_response(&self, response: &ConsumerGroupDescribeResponse<'_>, results: &mut ItemResults<'_, Self>) {
        let node = results.node();
        for group in &response.groups {
            let message = group.error_message.as_deref();
            results.set(&group.group_id, group.error_code, message, || consumer(group, node));
        }
    }
}

#[derive(Debug)]
pub(crate) struct DescribeShareGroups;

impl ApiHandler for DescribeShareGroups {
    type Api = ShareGroupDescribeRequest<'static>;
    type Item = Group;
    type Value = GroupDescription;

    const REPLY: fn(PerItem<GroupDescription>) -> AdminReply = AdminReply::GroupDescriptions;

    fn build_request(&self, items: &[&Group], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let group_ids = items.iter().map(|group| owned(&group.0)).collect();
        Request::from_message(ShareGroupDescribeRequest { group_ids, ..Default::default() })
    }

    fn parse_response(&self, response: &ShareGroupDescribeResponse<'_>, results: &mut ItemResults<'_, Self>) {
        let node = results.node();
        for group in &response.groups {
            let message = group.error_message.as_deref();
            results.set(&group.group_id, group.error_code, message, || share(group, node));
        }
    }
}

fn classic(group: &DescribedGroup<'_>, coordinator: NodeId) -> GroupDescription {
    let of_consumers = group.protocol_type == PROTOCOL_TYPE;
    let member = |member: &DescribedGroupMember<'_>| MemberDescription {
        id: member.member_id.to_string(),
        instance: member.group_instance_id.as_deref().map(str::to_owned),
        client: member.client_id.to_string(),
        host: member.client_host.trim_start_matches('/').to_owned(),
        // Members write these bytes, and brokers do not validate them. Bytes that cannot be decoded count as no
        // assignment.
        partitions: match decode_assignment(&member.member_assignment) {
            Ok(partitions) if of_consumers => partitions.into_iter().collect(),
            _ => Vec::new(),
        },
    };
    GroupDescription {
        group: group.group_id.to_string(),
        state: group.group_state.to_string(),
        protocol: GroupProtocol::Classic,
        protocol_type: group.protocol_type.to_string(),
        assignor: group.protocol_data.to_string(),
        coordinator,
        members: group.members.iter().map(member).collect(),
    }
}

fn consumer(group: &DescribedConsumerGroup<'_>, coordinator: NodeId) -> GroupDescription {
    let member = |member: &Member<'_>| MemberDescription {
        id: member.member_id.to_string(),
        instance: member.instance_id.as_deref().map(str::to_owned),
        client: member.client_id.to_string(),
        host: member.client_host.trim_start_matches('/').to_owned(),
        partitions: flatten(
            member.assignment.topic_partitions.iter().map(|topic| (&*topic.topic_name, &*topic.partitions)),
        ),
    };
    GroupDescription {
        group: group.group_id.to_string(),
        state: group.group_state.to_string(),
        protocol: GroupProtocol::Consumer,
        protocol_type: PROTOCOL_TYPE.to_owned(),
        assignor: group.assignor_name.to_string(),
        coordinator,
        members: group.members.iter().map(member).collect(),
    }
}

fn share(group: &share_group_describe::DescribedGroup<'_>, coordinator: NodeId) -> GroupDescription {
    let member = |member: &share_group_describe::Member<'_>| MemberDescription {
        id: member.member_id.to_string(),
        instance: None,
        client: member.client_id.to_string(),
        host: member.client_host.trim_start_matches('/').to_owned(),
        partitions: flatten(
            member.assignment.topic_partitions.iter().map(|topic| (&*topic.topic_name, &*topic.partitions)),
        ),
    };
    GroupDescription {
        group: group.group_id.to_string(),
        state: group.group_state.to_string(),
        protocol: GroupProtocol::Share,
        protocol_type: GroupProtocol::Share.name().to_owned(),
        assignor: group.assignor_name.to_string(),
        coordinator,
        members: group.members.iter().map(member).collect(),
    }
}

/// Returns the partitions of an assignment, by name and index.
fn flatten<'a>(topics: impl Iterator<Item = (&'a str, &'a [i32])>) -> Vec<TopicPartition> {
    let mut all = Vec::new();
    for (name, partitions) in topics {
        let name: Arc<str> = Arc::from(name);
        all.extend(partitions.iter().map(|&partition| TopicPartition::new(Arc::clone(&name), partition)));
    }
    all.sort_unstable();
    all
}
