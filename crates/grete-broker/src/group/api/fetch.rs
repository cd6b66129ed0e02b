//! OffsetFetch.

use std::borrow::Cow;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::offset_fetch::{
    OffsetFetchRequestTopic, OffsetFetchRequestTopics, OffsetFetchResponseGroup, OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use grete_wire::messages::{OffsetFetchRequest, OffsetFetchResponse};

use super::Lookup;
use crate::effects::group::CommittedOffset;
use crate::group::GroupCoordinator;
use crate::ids::{TopicId, TopicPartition};

/// First version with an error code that is not of a partition.
const FIRST_VERSION_WITH_ERROR: i16 = 2;
/// First version with several groups (KIP-709).
const FIRST_VERSION_WITH_GROUPS: i16 = 8;
/// First version that names topics by id (KIP-848).
const FIRST_VERSION_WITH_TOPIC_IDS: i16 = 10;

/// Handles OffsetFetch.
pub fn fetch_offsets(
    coordinator: &GroupCoordinator,
    version: i16,
    request: &OffsetFetchRequest<'_>,
    lookup: &impl Lookup,
) -> OffsetFetchResponse<'static> {
    let stable = request.require_stable;
    if version >= FIRST_VERSION_WITH_GROUPS {
        let groups = request.groups.iter().map(|group| {
            let topics = group.topics.as_deref();
            match lookup.coordinator_error(&group.group_id) {
                Some(code) => group_error(&group.group_id, code),
                None => {
                    match coordinator.validate_fetch(&group.group_id, group.member_id.as_deref(), group.member_epoch) {
                        Ok(()) => fetch_group(coordinator, version, &group.group_id, topics, stable, lookup),
                        Err(code) => group_error(&group.group_id, code),
                    }
                }
            }
        });
        return OffsetFetchResponse { groups: groups.collect(), ..OffsetFetchResponse::default() };
    }
    if let Some(code) = lookup.coordinator_error(&request.group_id) {
        return single_error(version, request, code);
    }
    let topics: Option<Vec<_>> = request.topics.as_ref().map(|topics| topics.iter().map(with_zero_id).collect());
    let group = fetch_group(coordinator, version, &request.group_id, topics.as_deref(), stable, lookup);
    OffsetFetchResponse { topics: group.topics.into_iter().map(old_topic).collect(), ..OffsetFetchResponse::default() }
}

/// Builds the response for a group of version 8 or later that cannot be answered.
pub(super) fn group_error(group: &str, code: ErrorCode) -> OffsetFetchResponseGroup<'static> {
    let group_id = Cow::Owned(group.to_owned());
    OffsetFetchResponseGroup { group_id, error_code: code.0, ..OffsetFetchResponseGroup::default() }
}

/// Builds the response of version 7 or earlier to a request that cannot be answered.
pub(super) fn single_error(
    version: i16,
    request: &OffsetFetchRequest<'_>,
    code: ErrorCode,
) -> OffsetFetchResponse<'static> {
    if version >= FIRST_VERSION_WITH_ERROR {
        return OffsetFetchResponse { error_code: code.0, ..OffsetFetchResponse::default() };
    }
    let failed = |index: &i32| old_partition(partition(*index, Err(code)));
    let topics = request.topics.iter().flatten().map(|topic| OffsetFetchResponseTopic {
        name: Cow::Owned(topic.name.to_string()),
        partitions: topic.partition_indexes.iter().map(failed).collect(),
    });
    OffsetFetchResponse { topics: topics.collect(), ..OffsetFetchResponse::default() }
}

/// Fetches offsets of a group. `topics`: `None` fetches all offsets.
fn fetch_group(
    coordinator: &GroupCoordinator,
    version: i16,
    group: &str,
    topics: Option<&[OffsetFetchRequestTopics<'_>]>,
    require_stable: bool,
    lookup: &impl Lookup,
) -> OffsetFetchResponseGroup<'static> {
    let fetch = |tp: &TopicPartition| {
        let offset = coordinator.fetch_offset(group, tp, require_stable);
        partition(tp.partition, offset)
    };
    let by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS;
    let mut answered: Vec<OffsetFetchResponseTopics<'static>> = Vec::new();
    match topics {
        Some(topics) => {
            for topic in topics {
                let name: Option<Arc<str>> =
                    if by_id { lookup.topic_name(topic.topic_id) } else { Some(Arc::from(topic.name.as_ref())) };
                let partitions = topic.partition_indexes.iter().map(|&index| match &name {
                    Some(name) => fetch(&TopicPartition::new(Arc::clone(name), index)),
                    None => partition(index, Err(ErrorCode::UNKNOWN_TOPIC_ID)),
                });
                answered.push(answered_topic(&topic.name, topic.topic_id, partitions.collect()));
            }
        }
        None => {
            let mut last: Option<Arc<str>> = None;
            for tp in coordinator.committed_partitions(group) {
                // Offsets of a topic that does not exist have no form in a version with topic ids.
                let topic_id = lookup.topic_id(&tp.topic);
                if by_id && topic_id.is_none() {
                    continue;
                }
                if last.as_ref() != Some(&tp.topic) {
                    answered.push(answered_topic(&tp.topic, topic_id.unwrap_or_default(), Vec::new()));
                    last = Some(Arc::clone(&tp.topic));
                }
                if let Some(topic) = answered.last_mut() {
                    topic.partitions.push(fetch(&tp));
                }
            }
        }
    }
    let group_id = Cow::Owned(group.to_owned());
    OffsetFetchResponseGroup { group_id, topics: answered, ..OffsetFetchResponseGroup::default() }
}

fn answered_topic(
    name: &str,
    topic_id: TopicId,
    partitions: Vec<OffsetFetchResponsePartitions<'static>>,
) -> OffsetFetchResponseTopics<'static> {
    OffsetFetchResponseTopics { name: Cow::Owned(name.to_owned()), topic_id, partitions }
}

fn partition(
    index: i32,
    offset: Result<Option<&CommittedOffset>, ErrorCode>,
) -> OffsetFetchResponsePartitions<'static> {
    let (offset, code) = match offset {
        Ok(offset) => (offset, ErrorCode::NONE),
        Err(code) => (None, code),
    };
    OffsetFetchResponsePartitions {
        partition_index: index,
        committed_offset: offset.map_or(-1, |offset| offset.offset),
        committed_leader_epoch: offset.map_or(-1, |offset| offset.leader_epoch),
        metadata: Some(offset.map_or_else(Cow::default, |offset| Cow::Owned(offset.metadata.to_string()))),
        error_code: code.0,
    }
}

fn with_zero_id<'a>(topic: &'a OffsetFetchRequestTopic<'_>) -> OffsetFetchRequestTopics<'a> {
    OffsetFetchRequestTopics {
        name: Cow::Borrowed(topic.name.as_ref()),
        topic_id: 0,
        partition_indexes: topic.partition_indexes.clone(),
    }
}

fn old_topic(topic: OffsetFetchResponseTopics<'static>) -> OffsetFetchResponseTopic<'static> {
    let partitions = topic.partitions.into_iter().map(old_partition).collect();
    OffsetFetchResponseTopic { name: topic.name, partitions }
}

fn old_partition(partition: OffsetFetchResponsePartitions<'static>) -> OffsetFetchResponsePartition<'static> {
    OffsetFetchResponsePartition {
        partition_index: partition.partition_index,
        committed_offset: partition.committed_offset,
        committed_leader_epoch: partition.committed_leader_epoch,
        metadata: partition.metadata,
        error_code: partition.error_code,
    }
}
