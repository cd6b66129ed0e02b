//! Groups and their members, of either protocol.

use std::sync::Arc;

use grete_wire::WireError;
use grete_wire::api_key::ApiKey;
use grete_wire::error_code::ErrorCode;
use grete_wire::messages::consumer_group_describe_response::{
    Assignment, DescribedGroup as DescribedConsumerGroup, Member,
};
use grete_wire::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use grete_wire::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribeGroupsRequest, DescribeGroupsResponse,
};

use super::super::errand::{Errand, Outcome, Outcomes, Place, outcome};
use super::super::error::AdminError;
use super::super::operation::AdminReply;
use super::{by_name, owned};
use crate::cluster::Cluster;
use crate::group::subscription::{PROTOCOL_TYPE, decode_assignment};
use crate::ids::{NodeId, TopicPartition};
use crate::request::{Request, Response};

/// Which rules a group follows; each has an API of its own to be described by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupProtocol {
    /// JoinGroup and SyncGroup: a member assigns.
    Classic,
    /// KIP-848: the coordinator assigns.
    Consumer,
}

impl GroupProtocol {
    /// Kafka's name for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
        }
    }
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberDescription {
    /// The coordinator's name for it.
    pub id: String,
    /// `group.instance.id`, if it has one.
    pub instance: Option<String>,
    /// `client.id`.
    pub client: String,
    /// Where it connects from.
    pub host: String,
    /// What it has.
    pub partitions: Vec<TopicPartition>,
}

/// A group as its coordinator has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDescription {
    /// Its id.
    pub group: String,
    /// "Stable", "Empty"...
    pub state: String,
    /// Which rules it follows.
    pub protocol: GroupProtocol,
    /// What its members are: "consumer", "connect"...; empty for a group that has only offsets.
    pub protocol_type: String,
    /// How its partitions are assigned; empty if nothing is.
    pub assignor: String,
    /// Who coordinates it.
    pub coordinator: NodeId,
    /// Who is in it.
    pub members: Vec<MemberDescription>,
}

#[derive(Debug)]
pub(crate) struct DescribeGroups {
    pub groups: Vec<Arc<str>>,
    pub protocol: GroupProtocol,
}

impl DescribeGroups {
    fn read_classic(
        &self,
        items: &[usize],
        node: NodeId,
        response: &Response,
        out: &mut Outcomes<GroupDescription>,
    ) -> Result<(), WireError> {
        let answer = response.decode(DescribeGroupsResponse::decode)?;
        let places = by_name(items, &self.groups);
        for group in &answer.groups {
            let Some(&item) = places.get(&*group.group_id) else { continue };
            // Before version 6 a group that does not exist is a dead one.
            let dead = group.group_state == "Dead" && group.members.is_empty();
            let found = if dead && group.error_code == ErrorCode::NONE.0 {
                Outcome::Code(ErrorCode::GROUP_ID_NOT_FOUND, None)
            } else {
                outcome(group.error_code, None, || classic(group, node))
            };
            out.push((item, found));
        }
        Ok(())
    }

    fn read_consumer(
        &self,
        items: &[usize],
        node: NodeId,
        response: &Response,
        out: &mut Outcomes<GroupDescription>,
    ) -> Result<(), WireError> {
        let answer = response.decode(ConsumerGroupDescribeResponse::decode)?;
        let places = by_name(items, &self.groups);
        for group in &answer.groups {
            if let Some(&item) = places.get(&*group.group_id) {
                out.push((item, outcome(group.error_code, group.error_message.as_deref(), || consumer(group, node))));
            }
        }
        Ok(())
    }
}

impl Errand for DescribeGroups {
    type Value = GroupDescription;

    fn api(&self) -> ApiKey {
        match self.protocol {
            GroupProtocol::Classic => ApiKey::DescribeGroups,
            GroupProtocol::Consumer => ApiKey::ConsumerGroupDescribe,
        }
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
        let names = items.iter().filter_map(|&item| self.groups.get(item)).map(|group| owned(group)).collect();
        match self.protocol {
            GroupProtocol::Classic => Request::any(DescribeGroupsRequest { groups: names, ..Default::default() }),
            GroupProtocol::Consumer => {
                Request::any(ConsumerGroupDescribeRequest { group_ids: names, ..Default::default() })
            }
        }
    }

    fn read(
        &mut self,
        items: &[usize],
        node: NodeId,
        response: &Response,
        out: &mut Outcomes<GroupDescription>,
    ) -> Result<(), WireError> {
        match self.protocol {
            GroupProtocol::Classic => self.read_classic(items, node, response, out),
            GroupProtocol::Consumer => self.read_consumer(items, node, response, out),
        }
    }

    fn reply(&self, results: Vec<Result<GroupDescription, AdminError>>) -> AdminReply {
        AdminReply::Described(results)
    }
}

fn classic(group: &DescribedGroup<'_>, coordinator: NodeId) -> GroupDescription {
    let of_consumers = group.protocol_type == PROTOCOL_TYPE;
    let member = |member: &DescribedGroupMember<'_>| MemberDescription {
        id: member.member_id.to_string(),
        instance: member.group_instance_id.as_deref().map(str::to_owned),
        client: member.client_id.to_string(),
        host: member.client_host.trim_start_matches('/').to_owned(),
        // Members write these bytes, and brokers do not look at them: what cannot be read shows as nothing.
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
        partitions: flatten(&member.assignment),
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

fn flatten(assignment: &Assignment<'_>) -> Vec<TopicPartition> {
    let mut all = Vec::new();
    for topic in &assignment.topic_partitions {
        let name: Arc<str> = Arc::from(&*topic.topic_name);
        all.extend(topic.partitions.iter().map(|&partition| TopicPartition::new(Arc::clone(&name), partition)));
    }
    all.sort_unstable();
    all
}
