//! ConsumerGroupHeartbeat and ConsumerGroupDescribe.

use std::borrow::Cow;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::consumer_group_describe::{
    Assignment, DescribedGroup, Member, TopicPartitions as DescribedPartitions,
};
use grete_wire::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
};

use super::Lookup;
use super::admin::AUTHORIZED_OPERATIONS;
use crate::effects::Effects;
use crate::effects::consumer_group::{ConsumerMember, Partitions};
use crate::group::consumer::{ConsumerDescription, DescribedMember, Refusal};
use crate::group::{GroupCoordinator, Requester};
use crate::ids::{Millis, TopicId};

/// Type of a member of the consumer protocol, in ConsumerGroupDescribe.
const CONSUMER_MEMBER: i8 = 1;

/// Handles ConsumerGroupHeartbeat.
pub fn consumer_heartbeat(
    coordinator: &mut GroupCoordinator,
    now: Millis,
    requester: &Requester<'_>,
    request: &ConsumerGroupHeartbeatRequest<'_>,
    lookup: &impl Lookup,
    effects: &mut Effects,
) -> ConsumerGroupHeartbeatResponse<'static> {
    let find_topic = |name: &str| lookup.topic_id(name).map(|id| (id, lookup.partition_count(id)));
    coordinator.consumer_heartbeat(now, requester, request, &find_topic, effects).unwrap_or_else(Refusal::into_response)
}

/// Handles ConsumerGroupDescribe.
pub fn describe_consumer_groups(
    coordinator: &GroupCoordinator,
    request: &ConsumerGroupDescribeRequest<'_>,
    lookup: &impl Lookup,
) -> ConsumerGroupDescribeResponse<'static> {
    let groups = request.group_ids.iter().map(|group| {
        if let Some(code) = lookup.coordinator_error(group) {
            return consumer_describe_error(group, code, None);
        }
        let Some(description) = coordinator.describe_consumer(group) else {
            let message = format!("Group {group} does not exist, or is of the classic protocol.");
            return consumer_describe_error(group, ErrorCode::GROUP_ID_NOT_FOUND, Some(message));
        };
        let mut described = described(group, description, lookup);
        if request.include_authorized_operations {
            described.authorized_operations = AUTHORIZED_OPERATIONS;
        }
        described
    });
    ConsumerGroupDescribeResponse { groups: groups.collect(), ..ConsumerGroupDescribeResponse::default() }
}

/// Builds the response for a group that cannot be described.
pub(super) fn consumer_describe_error(
    group: &str,
    code: ErrorCode,
    message: Option<String>,
) -> DescribedGroup<'static> {
    DescribedGroup {
        group_id: Cow::Owned(group.to_owned()),
        error_code: code.0,
        error_message: message.map(Cow::Owned),
        ..DescribedGroup::default()
    }
}

fn described(group: &str, description: ConsumerDescription, lookup: &impl Lookup) -> DescribedGroup<'static> {
    DescribedGroup {
        group_id: Cow::Owned(group.to_owned()),
        group_state: Cow::Borrowed(description.state),
        group_epoch: description.epoch,
        assignment_epoch: description.target_epoch,
        assignor_name: Cow::Borrowed(description.assignor),
        members: description.members.into_iter().map(|member| described_member(member, lookup)).collect(),
        ..DescribedGroup::default()
    }
}

fn described_member(described: DescribedMember, lookup: &impl Lookup) -> Member<'static> {
    let DescribedMember { member, target } = described;
    let ConsumerMember { member_id, instance_id, rack_id, epoch, client_id, client_host, topics, regex, .. } = member;
    let owned = |text: Arc<str>| Cow::<'static, str>::Owned(text.to_string());
    // Partitions that the member has to give up belong to it, too.
    let mut assigned = Partitions::new();
    for (topic, owned) in member.assigned.iter().chain(&member.revoking) {
        assigned.entry(*topic).or_default().extend(owned.keys());
    }
    let assigned = assigned.into_iter().map(|(topic, partitions)| (topic, partitions.into_iter().collect()));
    let target = target.iter().map(|(topic, partitions)| (*topic, partitions.iter().copied().collect()));
    Member {
        member_id: owned(member_id),
        instance_id: instance_id.map(owned),
        rack_id: rack_id.map(owned),
        member_epoch: epoch,
        client_id: owned(client_id),
        client_host: Cow::Owned(format!("/{client_host}")),
        subscribed_topic_names: topics.into_iter().map(owned).collect(),
        subscribed_topic_regex: Some(owned(regex)),
        assignment: assignment(assigned, lookup),
        target_assignment: assignment(target, lookup),
        member_type: CONSUMER_MEMBER,
    }
}

/// Names the topics of an assignment. Topics that do not exist any more have no name, and are left out.
fn assignment(partitions: impl Iterator<Item = (TopicId, Vec<i32>)>, lookup: &impl Lookup) -> Assignment<'static> {
    let topic = |(topic_id, partitions)| {
        let topic_name = Cow::Owned(lookup.topic_name(topic_id)?.to_string());
        Some(DescribedPartitions { topic_id, topic_name, partitions })
    };
    Assignment { topic_partitions: partitions.filter_map(topic).collect() }
}
