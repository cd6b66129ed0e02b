//! Offsets of share groups: DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets.

use std::borrow::Cow;
use std::sync::Arc;

use grete_wire::ErrorCode;
use grete_wire::messages::alter_share_group_offsets::{
    AlterShareGroupOffsetsResponsePartition as AlteredPartition, AlterShareGroupOffsetsResponseTopic as AlteredTopic,
};
use grete_wire::messages::delete_share_group_offsets::DeleteShareGroupOffsetsResponseTopic as DeletedTopic;
use grete_wire::messages::describe_share_group_offsets::{
    DescribeShareGroupOffsetsRequestGroup as WantedGroup, DescribeShareGroupOffsetsResponseGroup as DescribedGroup,
    DescribeShareGroupOffsetsResponsePartition as DescribedPartition,
    DescribeShareGroupOffsetsResponseTopic as DescribedTopic,
};
use grete_wire::messages::{
    AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse, DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse,
};

use crate::cluster::{Cluster, RequestContext};
use crate::message::{Request, Response};
use crate::share::SharePartitionKey;

/// Offset and lag of a partition that the group has not read.
const UNKNOWN: i64 = -1;

impl Cluster {
    pub(super) fn describe_share_group_offsets(
        &mut self,
        context: &RequestContext,
        request: &DescribeShareGroupOffsetsRequest<'_>,
    ) {
        let groups = request.groups.iter().map(|group| self.described_offsets(context, group)).collect();
        let response = DescribeShareGroupOffsetsResponse { groups, ..DescribeShareGroupOffsetsResponse::default() };
        self.reply(context, Response::DescribeShareGroupOffsets(response));
    }

    fn described_offsets(&self, context: &RequestContext, wanted: &WantedGroup<'_>) -> DescribedGroup<'static> {
        let id = &*wanted.group_id;
        let error = self.share_coordinator_error(context, id).or_else(|| self.missing_share_group(id));
        if let Some(error) = error {
            return offsets_error(id, error);
        }
        let all: Vec<(String, Vec<i32>)> = match &wanted.topics {
            Some(topics) => {
                topics.iter().map(|topic| (topic.topic_name.to_string(), topic.partitions.clone())).collect()
            }
            None => self.share_offsets_of(id),
        };
        let topics = all.into_iter().map(|(name, partitions)| {
            let may = self.may(context, crate::acl::Operation::Describe, crate::acl::ResourceType::Topic, &name);
            let described = partitions.into_iter().map(|partition| match may {
                true => self.described_offset(id, &name, partition),
                false => failed_offset(partition, ErrorCode::TOPIC_AUTHORIZATION_FAILED),
            });
            DescribedTopic {
                topic_id: self.topics.get(&name).filter(|_| may).map_or(0, |topic| topic.id),
                partitions: described.collect(),
                topic_name: Cow::Owned(name),
            }
        });
        DescribedGroup { topics: topics.collect(), group_id: Cow::Owned(id.to_owned()), ..DescribedGroup::default() }
    }

    /// Returns the partitions that a group has read, by topic.
    fn share_offsets_of(&self, group: &str) -> Vec<(String, Vec<i32>)> {
        let mut all: Vec<(String, Vec<i32>)> = Vec::new();
        for (topic, partition) in self.share.read_partitions(group) {
            let Some(found) = self.topics.by_id(topic) else { continue };
            match all.last_mut().filter(|(name, _)| **name == *found.name) {
                Some((_, partitions)) => partitions.push(partition),
                None => all.push((found.name.to_string(), vec![partition])),
            }
        }
        all
    }

    fn described_offset(&self, group: &str, topic: &str, partition_index: i32) -> DescribedPartition<'static> {
        let topic = self.topics.get(topic);
        let found = topic.and_then(|topic| Some((topic.id, topic.partition(partition_index)?)));
        let Some((topic, led)) = found else {
            return failed_offset(partition_index, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        };
        let state = self.share.partition(group, topic, partition_index);
        let lag =
            |start: i64, done: i64| (led.log.high_watermark() - start.max(led.log.log_start_offset()) - done).max(0);
        DescribedPartition {
            partition_index,
            start_offset: state.map_or(UNKNOWN, |state| state.start()),
            leader_epoch: if state.is_some() { led.leader_epoch } else { 0 },
            lag: state.map_or(UNKNOWN, |state| lag(state.start(), state.done())),
            ..DescribedPartition::default()
        }
    }

    /// Returns the error of a group that is no share group.
    fn missing_share_group(&self, group: &str) -> Option<ErrorCode> {
        self.share.group(group).is_none().then_some(ErrorCode::GROUP_ID_NOT_FOUND)
    }

    /// Returns the error of a group whose offsets cannot be changed.
    fn unchangeable(&self, context: &RequestContext, group: &str) -> Option<ErrorCode> {
        let has_members = || self.share.group(group).is_some_and(|group| group.members().next().is_some());
        let missing = self.share_coordinator_error(context, group).or_else(|| self.missing_share_group(group));
        missing.or_else(|| has_members().then_some(ErrorCode::NON_EMPTY_GROUP))
    }

    pub(super) fn alter_share_group_offsets(
        &mut self,
        context: &RequestContext,
        request: &AlterShareGroupOffsetsRequest<'_>,
    ) {
        if let Some(error) = self.unchangeable(context, &request.group_id) {
            return self.refuse(context, &Request::AlterShareGroupOffsets(request.clone()), error);
        }
        let group: Arc<str> = request.group_id.as_ref().into();
        let mut responses = Vec::new();
        for topic in &request.topics {
            let id = self.topics.get(&topic.topic_name).map(|topic| topic.id);
            let mut partitions = Vec::new();
            for partition in &topic.partitions {
                let index = partition.partition_index;
                let known =
                    id.filter(|id| self.topics.by_id(*id).is_some_and(|topic| topic.partition(index).is_some()));
                if let Some(id) = known {
                    let key: SharePartitionKey = (Arc::clone(&group), id, index);
                    self.share.reset_partition(&key, partition.start_offset, &mut self.effects);
                }
                let error = if known.is_some() { ErrorCode::NONE } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
                partitions.push(AlteredPartition {
                    partition_index: index,
                    error_code: error.0,
                    ..AlteredPartition::default()
                });
            }
            let topic_name = Cow::Owned(topic.topic_name.to_string());
            responses.push(AlteredTopic { topic_name, topic_id: id.unwrap_or(0), partitions });
        }
        let response = AlterShareGroupOffsetsResponse { responses, ..AlterShareGroupOffsetsResponse::default() };
        self.reply(context, Response::AlterShareGroupOffsets(response));
    }

    pub(super) fn delete_share_group_offsets(
        &mut self,
        context: &RequestContext,
        request: &DeleteShareGroupOffsetsRequest<'_>,
    ) {
        if let Some(error) = self.unchangeable(context, &request.group_id) {
            return self.refuse(context, &Request::DeleteShareGroupOffsets(request.clone()), error);
        }
        let mut responses = Vec::new();
        for topic in &request.topics {
            let id = self.topics.get(&topic.topic_name).map(|topic| topic.id);
            let error = if id.is_some() { ErrorCode::NONE } else { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION };
            if let Some(id) = id {
                self.share.forget_offsets(&request.group_id, id, &mut self.effects);
            }
            responses.push(DeletedTopic {
                topic_name: Cow::Owned(topic.topic_name.to_string()),
                topic_id: id.unwrap_or(0),
                error_code: error.0,
                ..DeletedTopic::default()
            });
        }
        let response = DeleteShareGroupOffsetsResponse { responses, ..DeleteShareGroupOffsetsResponse::default() };
        self.reply(context, Response::DeleteShareGroupOffsets(response));
    }
}

fn failed_offset(partition_index: i32, error: ErrorCode) -> DescribedPartition<'static> {
    DescribedPartition {
        partition_index,
        start_offset: UNKNOWN,
        lag: UNKNOWN,
        error_code: error.0,
        error_message: Some(Cow::Borrowed(error.message())),
        ..DescribedPartition::default()
    }
}

/// Builds the response for a group whose offsets cannot be described.
pub(super) fn offsets_error(id: &str, error: ErrorCode) -> DescribedGroup<'static> {
    DescribedGroup {
        group_id: Cow::Owned(id.to_owned()),
        error_code: error.0,
        error_message: Some(Cow::Borrowed(error.message())),
        ..DescribedGroup::default()
    }
}
