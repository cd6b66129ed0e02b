//! A group's offsets: read, stored and deleted at its coordinator. One item: the group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grete_wire::WireError;
use grete_wire::api_key::ApiKey;
use grete_wire::error_code::ErrorCode;
use grete_wire::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use grete_wire::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use grete_wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use grete_wire::messages::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse, OffsetFetchRequest,
    OffsetFetchResponse,
};

use super::super::errand::{Errand, Outcome, Outcomes, Place, outcome};
use super::super::error::AdminError;
use super::super::operation::AdminReply;
use super::owned;
use crate::cluster::Cluster;
use crate::ids::{NodeId, TopicPartition};
use crate::request::{Request, Response};

/// What a coordinator says of one partition.
pub type PartitionResult<T> = (TopicPartition, Result<T, ErrorCode>);

/// The next offset to read, and the leader epoch of the record before it (-1: unknown).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The offset.
    pub offset: i64,
    /// The epoch.
    pub leader_epoch: i32,
}

/// The offsets that a group has committed, of these partitions or of all.
#[derive(Debug)]
pub(crate) struct FetchOffsets {
    pub group: Arc<str>,
    pub partitions: Option<Vec<TopicPartition>>,
    /// Wait for open transactions to decide about them (KIP-447).
    pub stable: bool,
}

impl Errand for FetchOffsets {
    type Value = Vec<PartitionResult<Option<CommittedOffset>>>;

    fn api(&self) -> ApiKey {
        ApiKey::OffsetFetch
    }

    fn len(&self) -> usize {
        1
    }

    fn place(&self, _item: usize) -> Place<'_> {
        Place::Coordinator(&self.group)
    }

    fn subject(&self, _item: usize) -> String {
        format!("group {}", self.group)
    }

    fn request(&self, _items: &mut Vec<usize>, _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let topic = |(name, partition_indexes): (&Arc<str>, Vec<i32>)| OffsetFetchRequestTopics {
            name: owned(name),
            partition_indexes,
            ..Default::default()
        };
        let topics = |tps: &Vec<TopicPartition>| by_topic(tps, |tp| tp.partition).into_iter().map(topic).collect();
        let group = OffsetFetchRequestGroup {
            group_id: owned(&self.group),
            topics: self.partitions.as_ref().map(topics),
            ..Default::default()
        };
        Request::OffsetFetch(OffsetFetchRequest {
            groups: vec![group],
            require_stable: self.stable,
            ..Default::default()
        })
    }

    fn read(
        &mut self,
        items: &[usize],
        _node: NodeId,
        response: &Response,
        out: &mut Outcomes<Self::Value>,
    ) -> Result<(), WireError> {
        let answer = response.decode(OffsetFetchResponse::decode)?;
        let Some(&item) = items.first() else { return Ok(()) };
        let Some(group) = answer.groups.iter().find(|group| *group.group_id == *self.group) else { return Ok(()) };
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
        // An answer that leaves a partition out says nothing of it, least of all that nothing is committed.
        let complete = self.partitions.iter().flatten().all(|tp| known.contains(tp));
        let passing = passing(found.iter().map(|(_, result)| result));
        out.push(match (ErrorCode(group.error_code), passing) {
            (ErrorCode::NONE, Some(code)) => (item, Outcome::Code(code, None)),
            (ErrorCode::NONE, None) if !complete => return Ok(()),
            (code, _) => (item, outcome(code.0, None, || found)),
        });
        Ok(())
    }

    fn reply(&self, results: Vec<Result<Self::Value, AdminError>>) -> AdminReply {
        AdminReply::Committed(results)
    }
}

/// Stores offsets for a group without members.
#[derive(Debug)]
pub(crate) struct CommitOffsets {
    pub group: Arc<str>,
    pub offsets: Vec<(TopicPartition, i64)>,
}

impl Errand for CommitOffsets {
    type Value = Vec<PartitionResult<()>>;

    fn api(&self) -> ApiKey {
        ApiKey::OffsetCommit
    }

    fn len(&self) -> usize {
        1
    }

    fn place(&self, _item: usize) -> Place<'_> {
        Place::Coordinator(&self.group)
    }

    fn subject(&self, _item: usize) -> String {
        format!("group {}", self.group)
    }

    fn request(&self, _items: &mut Vec<usize>, _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let mut topics: BTreeMap<&Arc<str>, Vec<OffsetCommitRequestPartition<'static>>> = BTreeMap::new();
        for (tp, offset) in &self.offsets {
            topics.entry(&tp.topic).or_default().push(OffsetCommitRequestPartition {
                partition_index: tp.partition,
                committed_offset: *offset,
                committed_leader_epoch: -1,
                committed_metadata: Some(owned("")),
            });
        }
        let topic = |(name, partitions): (&Arc<str>, _)| OffsetCommitRequestTopic {
            name: owned(name),
            partitions,
            ..Default::default()
        };
        Request::OffsetCommit(OffsetCommitRequest {
            group_id: owned(&self.group),
            generation_id_or_member_epoch: -1, // not a member
            topics: topics.into_iter().map(topic).collect(),
            ..Default::default()
        })
    }

    fn read(
        &mut self,
        items: &[usize],
        _node: NodeId,
        response: &Response,
        out: &mut Outcomes<Self::Value>,
    ) -> Result<(), WireError> {
        let answer = response.decode(OffsetCommitResponse::decode)?;
        let mut found = Vec::new();
        for topic in &answer.topics {
            for partition in &topic.partitions {
                let tp = TopicPartition::new(&*topic.name, partition.partition_index);
                found.push((tp, check(partition.error_code, ())));
            }
        }
        // All again: storing the same offset twice does no harm.
        let outcome = match passing(found.iter().map(|(_, result)| result)) {
            Some(code) => Outcome::Code(code, None),
            None => Outcome::Done(found),
        };
        out.extend(items.first().map(|&item| (item, outcome)));
        Ok(())
    }

    fn reply(&self, results: Vec<Result<Self::Value, AdminError>>) -> AdminReply {
        AdminReply::Partitions(results)
    }
}

/// Deletes a group's offsets of topics that none of its members reads.
#[derive(Debug)]
pub(crate) struct DeleteOffsets {
    pub group: Arc<str>,
    pub partitions: Vec<TopicPartition>,
}

impl Errand for DeleteOffsets {
    type Value = Vec<PartitionResult<()>>;

    fn api(&self) -> ApiKey {
        ApiKey::OffsetDelete
    }

    fn len(&self) -> usize {
        1
    }

    fn place(&self, _item: usize) -> Place<'_> {
        Place::Coordinator(&self.group)
    }

    fn subject(&self, _item: usize) -> String {
        format!("group {}", self.group)
    }

    fn request(&self, _items: &mut Vec<usize>, _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let partition = |tp: &TopicPartition| OffsetDeleteRequestPartition { partition_index: tp.partition };
        let topics = by_topic(&self.partitions, partition)
            .into_iter()
            .map(|(name, partitions)| OffsetDeleteRequestTopic { name: owned(name), partitions });
        Request::any(OffsetDeleteRequest { group_id: owned(&self.group), topics: topics.collect() })
    }

    fn read(
        &mut self,
        items: &[usize],
        _node: NodeId,
        response: &Response,
        out: &mut Outcomes<Self::Value>,
    ) -> Result<(), WireError> {
        let answer = response.decode(OffsetDeleteResponse::decode)?;
        let mut found = Vec::new();
        for topic in &answer.topics {
            for partition in &topic.partitions {
                let tp = TopicPartition::new(&*topic.name, partition.partition_index);
                found.push((tp, check(partition.error_code, ())));
            }
        }
        out.extend(items.first().map(|&item| (item, outcome(answer.error_code, None, || found))));
        Ok(())
    }

    fn reply(&self, results: Vec<Result<Self::Value, AdminError>>) -> AdminReply {
        AdminReply::Partitions(results)
    }
}

fn by_topic<T>(tps: &[TopicPartition], value: impl Fn(&TopicPartition) -> T) -> BTreeMap<&Arc<str>, Vec<T>> {
    let mut topics: BTreeMap<&Arc<str>, Vec<T>> = BTreeMap::new();
    for tp in tps {
        topics.entry(&tp.topic).or_default().push(value(tp));
    }
    topics
}

fn check<T>(code: i16, value: T) -> Result<T, ErrorCode> {
    match ErrorCode(code) {
        ErrorCode::NONE => Ok(value),
        code => Err(code),
    }
}

/// The first of the partitions' codes that says that the coordinator should be asked again.
fn passing<'r, T: 'r>(mut results: impl Iterator<Item = &'r Result<T, ErrorCode>>) -> Option<ErrorCode> {
    results.find_map(|result| match result {
        Err(code) if code.is_retriable() && *code != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => Some(*code),
        _ => None,
    })
}
