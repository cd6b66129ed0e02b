//! Committed offsets of a group: fetched, committed and deleted at its coordinator. One item: the group.

use std::collections::BTreeSet;
use std::sync::Arc;

use grete_wire::error_code::ErrorCode;
use grete_wire::messages::alter_share_group_offsets::{
    AlterShareGroupOffsetsRequestPartition, AlterShareGroupOffsetsRequestTopic,
};
use grete_wire::messages::delete_share_group_offsets::DeleteShareGroupOffsetsRequestTopic;
use grete_wire::messages::describe_share_group_offsets::DescribeShareGroupOffsetsRequestGroup;
use grete_wire::messages::offset_commit::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use grete_wire::messages::offset_delete::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use grete_wire::messages::offset_fetch::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use grete_wire::messages::{
    AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse, DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse,
    OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse, OffsetFetchRequest,
    OffsetFetchResponse,
};

use super::super::handler::{ApiHandler, ItemResult, ItemResults};
use super::super::reply::{AdminReply, PerItem};
use super::super::types::{CommittedOffset, PartitionResult, ShareOffset};
use super::items::Group;
use super::util::{by_topic, owned};
use crate::cluster::Cluster;
use crate::ids::TopicPartition;
use crate::request::Request;

/// FetchOffsets: committed offsets of these partitions, or of all.
#[derive(Debug)]
pub(crate) struct FetchOffsets {
    pub partitions: Option<Vec<TopicPartition>>,
    /// Wait for pending transactional offsets (KIP-447).
    pub stable: bool,
}

impl ApiHandler for FetchOffsets {
    type Api = OffsetFetchRequest<'static>;
    type Item = Group;
    type Value = Vec<PartitionResult<Option<CommittedOffset>>>;

    const REPLY: fn(PerItem<Self::Value>) -> AdminReply = AdminReply::Committed;

    fn build_request(&self, items: &[&Group], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let topic = |(name, partition_indexes): (&Arc<str>, Vec<i32>)| OffsetFetchRequestTopics {
            name: owned(name),
            partition_indexes,
            ..Default::default()
        };
        let topics = |tps: &Vec<TopicPartition>| by_topic(tps.iter().map(|tp| (tp, tp.partition)), topic);
        let group = |group: &&Group| OffsetFetchRequestGroup {
            group_id: owned(&group.0),
            topics: self.partitions.as_ref().map(topics),
            ..Default::default()
        };
        Request::OffsetFetch(OffsetFetchRequest {
            groups: items.iter().map(group).collect(),
            require_stable: self.stable,
            ..Default::default()
        })
    }

    fn parse_response(&self, response: &OffsetFetchResponse<'_>, results: &mut ItemResults<'_, Self>) {
        for group in &response.groups {
            let mut found = Vec::new();
            for topic in &group.topics {
                let name: Arc<str> = Arc::from(&*topic.name);
                for partition in &topic.partitions {
                    let tp = TopicPartition::new(Arc::clone(&name), partition.partition_index);
                    let offset = CommittedOffset {
                        offset: partition.committed_offset,
                        leader_epoch: partition.committed_leader_epoch,
                    };
                    found.push((tp, check(partition.error_code, (offset.offset >= 0).then_some(offset))));
                }
            }
            let known: BTreeSet<&TopicPartition> = found.iter().map(|(tp, _)| tp).collect();
            // A response that omits a partition proves nothing about it, in particular not that no offset is committed.
            let complete = self.partitions.iter().flatten().all(|tp| known.contains(tp));
            let passing = first_retriable(&found);
            results.set_with(&group.group_id, |_| match (ErrorCode(group.error_code), passing) {
                (ErrorCode::NONE, Some(code)) => Some(ItemResult::Code(code, None)),
                (ErrorCode::NONE, None) if !complete => None,
                (code, _) => Some(ItemResult::new(code.0, None, || found)),
            });
        }
    }
}

/// FetchShareOffsets: offsets of a share group in all partitions that it has read (KIP-932).
#[derive(Debug)]
pub(crate) struct FetchShareOffsets;

impl ApiHandler for FetchShareOffsets {
    type Api = DescribeShareGroupOffsetsRequest<'static>;
    type Item = Group;
    type Value = Vec<PartitionResult<ShareOffset>>;

    const REPLY: fn(PerItem<Self::Value>) -> AdminReply = AdminReply::ShareOffsets;

    fn build_request(&self, items: &[&Group], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let group = |group: &&Group| DescribeShareGroupOffsetsRequestGroup { group_id: owned(&group.0), topics: None };
        Request::from_message(DescribeShareGroupOffsetsRequest { groups: items.iter().map(group).collect() })
    }

    fn parse_response(&self, response: &DescribeShareGroupOffsetsResponse<'_>, results: &mut ItemResults<'_, Self>) {
        let known = |number: i64| Some(number).filter(|number| *number >= 0);
        for group in &response.groups {
            let mut found = Vec::new();
            for topic in &group.topics {
                let name: Arc<str> = Arc::from(&*topic.topic_name);
                for partition in &topic.partitions {
                    let tp = TopicPartition::new(Arc::clone(&name), partition.partition_index);
                    let offset = ShareOffset { start: known(partition.start_offset), lag: known(partition.lag) };
                    found.push((tp, check(partition.error_code, offset)));
                }
            }
            let passing = first_retriable(&found);
            let message = group.error_message.as_deref();
            results.set_with(&group.group_id, |_| match (ErrorCode(group.error_code), passing) {
                (ErrorCode::NONE, Some(code)) => Some(ItemResult::Code(code, None)),
                (code, _) => Some(ItemResult::new(code.0, message, || found)),
            });
        }
    }
}

/// AlterShareOffsets: sets the start offsets of a share group without members. What was done from there on is forgotten
/// (KIP-932).
#[derive(Debug)]
pub(crate) struct AlterShareOffsets {
    pub offsets: Vec<(TopicPartition, i64)>,
}

impl ApiHandler for AlterShareOffsets {
    type Api = AlterShareGroupOffsetsRequest<'static>;
    type Item = Group;
    type Value = Vec<PartitionResult<()>>;

    const REPLY: fn(PerItem<Self::Value>) -> AdminReply = AdminReply::Partitions;

    fn build_request(&self, items: &[&Group], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let partition = |(tp, start_offset): &(TopicPartition, i64)| AlterShareGroupOffsetsRequestPartition {
            partition_index: tp.partition,
            start_offset: *start_offset,
        };
        let topic = |(name, partitions): (&Arc<str>, _)| AlterShareGroupOffsetsRequestTopic {
            topic_name: owned(name),
            partitions,
        };
        Request::from_message(AlterShareGroupOffsetsRequest {
            group_id: owned(items.first().map_or("", |group| &group.0)),
            topics: by_topic(self.offsets.iter().map(|offset| (&offset.0, partition(offset))), topic),
        })
    }

    fn parse_response(&self, response: &AlterShareGroupOffsetsResponse<'_>, results: &mut ItemResults<'_, Self>) {
        let mut found = Vec::new();
        for topic in &response.responses {
            for partition in &topic.partitions {
                let tp = TopicPartition::new(&*topic.topic_name, partition.partition_index);
                found.push((tp, check(partition.error_code, ())));
            }
        }
        let code = first_retriable(&found).map_or(response.error_code, |code| code.0);
        results.set_only(ItemResult::new(code, response.error_message.as_deref(), || found));
    }
}

/// DeleteShareOffsets: deletes the offsets of a share group without members, in all partitions of topics (KIP-932).
#[derive(Debug)]
pub(crate) struct DeleteShareOffsets {
    /// Partitions of the result: an error of a topic is the error of each of its partitions.
    pub partitions: Vec<TopicPartition>,
}

impl ApiHandler for DeleteShareOffsets {
    type Api = DeleteShareGroupOffsetsRequest<'static>;
    type Item = Group;
    type Value = Vec<PartitionResult<()>>;

    const REPLY: fn(PerItem<Self::Value>) -> AdminReply = AdminReply::Partitions;

    fn build_request(&self, items: &[&Group], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let names: BTreeSet<&Arc<str>> = self.partitions.iter().map(|tp| &tp.topic).collect();
        let topic = |name: &Arc<str>| DeleteShareGroupOffsetsRequestTopic { topic_name: owned(name) };
        Request::from_message(DeleteShareGroupOffsetsRequest {
            group_id: owned(items.first().map_or("", |group| &group.0)),
            topics: names.into_iter().map(topic).collect(),
        })
    }

    fn parse_response(&self, response: &DeleteShareGroupOffsetsResponse<'_>, results: &mut ItemResults<'_, Self>) {
        let mut found = Vec::new();
        for topic in &response.responses {
            let of_topic = self.partitions.iter().filter(|tp| *tp.topic == *topic.topic_name);
            found.extend(of_topic.map(|tp| (tp.clone(), check(topic.error_code, ()))));
        }
        let code = first_retriable(&found).map_or(response.error_code, |code| code.0);
        results.set_only(ItemResult::new(code, response.error_message.as_deref(), || found));
    }
}

/// CommitOffsets: commits offsets for a group without members.
#[derive(Debug)]
pub(crate) struct CommitOffsets {
    pub offsets: Vec<(TopicPartition, i64)>,
}

impl ApiHandler for CommitOffsets {
    type Api = OffsetCommitRequest<'static>;
    type Item = Group;
    type Value = Vec<PartitionResult<()>>;

    const REPLY: fn(PerItem<Self::Value>) -> AdminReply = AdminReply::Partitions;

    fn build_request(&self, items: &[&Group], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let partition = |(tp, offset): &(TopicPartition, i64)| OffsetCommitRequestPartition {
            partition_index: tp.partition,
            committed_offset: *offset,
            committed_leader_epoch: -1,
            committed_metadata: Some(owned("")),
        };
        let topic = |(name, partitions): (&Arc<str>, _)| OffsetCommitRequestTopic {
            name: owned(name),
            partitions,
            ..Default::default()
        };
        Request::OffsetCommit(OffsetCommitRequest {
            group_id: owned(items.first().map_or("", |group| &group.0)),
            generation_id_or_member_epoch: -1, // not a member
            topics: by_topic(self.offsets.iter().map(|offset| (&offset.0, partition(offset))), topic),
            ..Default::default()
        })
    }

    fn parse_response(&self, response: &OffsetCommitResponse<'_>, results: &mut ItemResults<'_, Self>) {
        let mut found = Vec::new();
        for topic in &response.topics {
            for partition in &topic.partitions {
                let tp = TopicPartition::new(&*topic.name, partition.partition_index);
                found.push((tp, check(partition.error_code, ())));
            }
        }
        // Retry all partitions: committing the same offset twice is harmless.
        results.set_only(match first_retriable(&found) {
            Some(code) => ItemResult::Code(code, None),
            None => ItemResult::Done(found),
        });
    }
}

/// DeleteOffsets: deletes committed offsets of topics that no member is subscribed to.
#[derive(Debug)]
pub(crate) struct DeleteOffsets {
    pub partitions: Vec<TopicPartition>,
}

impl ApiHandler for DeleteOffsets {
    type Api = OffsetDeleteRequest<'static>;
    type Item = Group;
    type Value = Vec<PartitionResult<()>>;

    const REPLY: fn(PerItem<Self::Value>) -> AdminReply = AdminReply::Partitions;

    fn build_request(&self, items: &[&Group], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let partition = |tp: &TopicPartition| OffsetDeleteRequestPartition { partition_index: tp.partition };
        let topic = |(name, partitions): (&Arc<str>, _)| OffsetDeleteRequestTopic { name: owned(name), partitions };
        Request::from_message(OffsetDeleteRequest {
            group_id: owned(items.first().map_or("", |group| &group.0)),
            topics: by_topic(self.partitions.iter().map(|tp| (tp, partition(tp))), topic),
        })
    }

    fn parse_response(&self, response: &OffsetDeleteResponse<'_>, results: &mut ItemResults<'_, Self>) {
        let mut found = Vec::new();
        for topic in &response.topics {
            for partition in &topic.partitions {
                let tp = TopicPartition::new(&*topic.name, partition.partition_index);
                found.push((tp, check(partition.error_code, ())));
            }
        }
        results.set_only(ItemResult::new(response.error_code, None, || found));
    }
}

fn check<T>(code: i16, value: T) -> Result<T, ErrorCode> {
    match ErrorCode(code) {
        ErrorCode::NONE => Ok(value),
        code => Err(code),
    }
}

/// Returns the first error code of a partition that requires a retry at the coordinator.
fn first_retriable<T>(results: &[PartitionResult<T>]) -> Option<ErrorCode> {
    results.iter().find_map(|(_, result)| match result {
        Err(code) if code.is_retriable() && *code != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => Some(*code),
        _ => None,
    })
}
