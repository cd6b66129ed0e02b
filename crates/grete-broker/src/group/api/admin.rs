//! ListGroups, DescribeGroups, DeleteGroups and OffsetDelete.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::delete_groups::DeletableGroupResult;
use grete_wire::messages::describe_groups::DescribedGroup;
use grete_wire::messages::offset_delete::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic};
use grete_wire::messages::{
    DeleteGroupsRequest, DeleteGroupsResponse, DescribeGroupsRequest, DescribeGroupsResponse, ListGroupsRequest,
    ListGroupsResponse, OffsetDeleteRequest, OffsetDeleteResponse,
};

use super::Lookup;
use crate::effects::Effects;
use crate::group::GroupCoordinator;
use crate::ids::TopicPartition;

/// Operations on a group without an authorizer: READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS, each a bit.
pub const AUTHORIZED_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;

/// Handles ListGroups: the groups that the broker coordinates.
pub fn list_groups(
    coordinator: &GroupCoordinator,
    request: &ListGroupsRequest<'_>,
    lookup: &impl Lookup,
) -> ListGroupsResponse<'static> {
    let mut groups = coordinator.list(&request.states_filter, &request.types_filter);
    groups.retain(|group| lookup.coordinator_error(&group.group_id).is_none());
    ListGroupsResponse { groups, ..ListGroupsResponse::default() }
}

/// Handles DescribeGroups.
pub fn describe_groups(
    coordinator: &GroupCoordinator,
    version: i16,
    request: &DescribeGroupsRequest<'_>,
    lookup: &impl Lookup,
) -> DescribeGroupsResponse<'static> {
    let groups = request.groups.iter().map(|group| {
        if let Some(code) = lookup.coordinator_error(group) {
            return describe_error(group, code);
        }
        let mut described = coordinator.describe(version, group);
        if request.include_authorized_operations && described.error_code == 0 {
            described.authorized_operations = AUTHORIZED_OPERATIONS;
        }
        described
    });
    DescribeGroupsResponse { groups: groups.collect(), ..DescribeGroupsResponse::default() }
}

/// Builds the response for a group that cannot be described.
pub(super) fn describe_error(group: &str, code: ErrorCode) -> DescribedGroup<'static> {
    let group_id = Cow::Owned(group.to_owned());
    DescribedGroup { group_id, error_code: code.0, ..DescribedGroup::default() }
}

/// Handles DeleteGroups. A group that the request repeats is deleted once.
pub fn delete_groups(
    coordinator: &mut GroupCoordinator,
    request: &DeleteGroupsRequest<'_>,
    lookup: &impl Lookup,
    effects: &mut Effects,
) -> DeleteGroupsResponse<'static> {
    let mut seen = BTreeSet::new();
    let mut results = Vec::new();
    for group in request.groups_names.iter().map(AsRef::as_ref) {
        if !seen.insert(group) {
            continue;
        }
        let deleted = match lookup.coordinator_error(group) {
            Some(code) => Err(code),
            None => coordinator.delete_group(group, effects),
        };
        results.push(deletion(group, deleted.err().unwrap_or(ErrorCode::NONE)));
    }
    DeleteGroupsResponse { results, ..DeleteGroupsResponse::default() }
}

pub(super) fn deletion(group: &str, code: ErrorCode) -> DeletableGroupResult<'static> {
    DeletableGroupResult { group_id: Cow::Owned(group.to_owned()), error_code: code.0 }
}

/// Handles OffsetDelete.
pub fn delete_offsets(
    coordinator: &mut GroupCoordinator,
    request: &OffsetDeleteRequest<'_>,
    lookup: &impl Lookup,
    effects: &mut Effects,
) -> OffsetDeleteResponse<'static> {
    let group = request.group_id.as_ref();
    let mut known = Vec::new();
    for topic in &request.topics {
        let name: Arc<str> = Arc::from(topic.name.as_ref());
        let indexes = topic.partitions.iter().map(|partition| partition.partition_index);
        let indexes = indexes.filter(|index| lookup.has_partition(&name, *index));
        known.extend(indexes.map(|index| TopicPartition::new(Arc::clone(&name), index)));
    }
    let deleted = if group.is_empty() {
        Err(ErrorCode::INVALID_GROUP_ID)
    } else if let Some(code) = lookup.coordinator_error(group) {
        Err(code)
    } else {
        coordinator.delete_offsets(group, &known, effects)
    };
    let mut codes = match deleted {
        Ok(codes) => codes.into_iter(),
        Err(code) => return OffsetDeleteResponse { error_code: code.0, ..OffsetDeleteResponse::default() },
    };
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            let known = lookup.has_partition(&topic.name, partition.partition_index);
            let code = if known { codes.next() } else { Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) };
            let error_code = code.unwrap_or(ErrorCode::UNKNOWN_SERVER_ERROR).0;
            OffsetDeleteResponsePartition { partition_index: partition.partition_index, error_code }
        });
        OffsetDeleteResponseTopic { name: Cow::Owned(topic.name.to_string()), partitions: partitions.collect() }
    });
    OffsetDeleteResponse { topics: topics.collect(), ..OffsetDeleteResponse::default() }
}
