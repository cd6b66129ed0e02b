//! DescribeTopicPartitions, DescribeProducers and DescribeLogDirs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use grete_wire::ErrorCode;
use grete_wire::messages::describe_log_dirs::{DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic};
use grete_wire::messages::describe_producers::{PartitionResponse, ProducerState, TopicResponse};
use grete_wire::messages::{
    DescribeLogDirsRequest, DescribeLogDirsResponse, DescribeProducersRequest, DescribeProducersResponse,
    DescribeTopicPartitionsRequest, DescribeTopicPartitionsRequestCursor, DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor, DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
};

use crate::cluster::{Cluster, RequestContext};
use crate::message::{Request, Response};
use crate::topics::{Topic, check_topic_name};

/// Maximum partitions in a page: Kafka's default of `max.request.partition.size.limit`.
const MAX_PAGE: usize = 2000;

impl Cluster {
    pub(in crate::cluster) fn describe_topic_partitions(
        &mut self,
        context: &RequestContext,
        request: &DescribeTopicPartitionsRequest<'_>,
    ) {
        let mut names: Vec<&str> = request.topics.iter().map(|topic| &*topic.name).collect();
        if names.is_empty() {
            names = self.topics.iter().map(|topic| &*topic.name).collect();
        }
        names.sort_unstable();
        names.dedup();
        let is_invalid = |cursor: &DescribeTopicPartitionsRequestCursor<'_>| {
            cursor.partition_index < 0 || (!request.topics.is_empty() && !names.contains(&&*cursor.topic_name))
        };
        if request.cursor.as_ref().is_some_and(is_invalid) {
            let request = Request::DescribeTopicPartitions(request.clone());
            return self.refuse(context, &request, ErrorCode::INVALID_REQUEST);
        }
        let (from, mut first) =
            request.cursor.as_ref().map_or(("", 0), |at| (&*at.topic_name, at.partition_index.max(0)));
        let mut left = usize::try_from(request.response_partition_limit).unwrap_or(0).clamp(1, MAX_PAGE);
        let mut response = DescribeTopicPartitionsResponse::default();
        for name in names.into_iter().filter(|name| *name >= from) {
            if name != from {
                first = 0;
            }
            if left == 0 {
                response.next_cursor = Some(cursor(name, first));
                break;
            }
            let Some(topic) = self.topics.get(name) else {
                let error = match check_topic_name(name) {
                    Ok(()) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                    Err(_) => ErrorCode::INVALID_TOPIC_EXCEPTION,
                };
                response.topics.push(DescribeTopicPartitionsResponseTopic {
                    error_code: error.0,
                    name: Some(Cow::Owned(name.to_owned())),
                    topic_authorized_operations: super::metadata::TOPIC_OPERATIONS,
                    ..DescribeTopicPartitionsResponseTopic::default()
                });
                continue;
            };
            let partitions = self.described_partitions(topic, first, left);
            left -= partitions.len();
            let next = first.saturating_add(i32::try_from(partitions.len()).unwrap_or(i32::MAX));
            response.topics.push(DescribeTopicPartitionsResponseTopic {
                name: Some(Cow::Owned(name.to_owned())),
                topic_id: topic.id,
                partitions,
                topic_authorized_operations: super::metadata::TOPIC_OPERATIONS,
                ..DescribeTopicPartitionsResponseTopic::default()
            });
            if topic.partition(next).is_some() {
                response.next_cursor = Some(cursor(name, next));
                break;
            }
        }
        self.reply(context, Response::DescribeTopicPartitions(response));
    }

    fn described_partitions(
        &self,
        topic: &Topic,
        first: i32,
        limit: usize,
    ) -> Vec<DescribeTopicPartitionsResponsePartition> {
        let page = topic.indexed().filter(|(index, _)| *index >= first).take(limit);
        let described = page.map(|(index, partition)| {
            let in_sync = partition.in_sync(&self.live);
            let error = if partition.leader.is_some() { ErrorCode::NONE } else { ErrorCode::LEADER_NOT_AVAILABLE };
            DescribeTopicPartitionsResponsePartition {
                error_code: error.0,
                partition_index: index,
                leader_id: partition.leader.unwrap_or(-1),
                leader_epoch: partition.leader_epoch,
                replica_nodes: partition.replicas.clone(),
                offline_replicas: partition.replicas.iter().copied().filter(|id| !in_sync.contains(id)).collect(),
                isr_nodes: in_sync,
                eligible_leader_replicas: Some(Vec::new()),
                last_known_elr: Some(Vec::new()),
            }
        });
        described.collect()
    }

    pub(in crate::cluster) fn describe_producers(
        &mut self,
        context: &RequestContext,
        request: &DescribeProducersRequest<'_>,
    ) {
        let mut topics = Vec::new();
        for topic in &request.topics {
            let missing = match check_topic_name(&topic.name) {
                Ok(()) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                Err(_) => ErrorCode::INVALID_TOPIC_EXCEPTION,
            };
            let describe = |&index: &i32| {
                let Some(found) = self.topics.get(&topic.name) else { return failed_producers(index, missing) };
                // Only a missing topic has a text.
                let failed = |error| PartitionResponse { error_message: None, ..failed_producers(index, error) };
                let Some(partition) = found.partition(index) else {
                    return failed(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
                };
                // Followers answer, too: hanging transactions are searched broker by broker.
                if !partition.replicas.contains(&context.broker) {
                    return failed(ErrorCode::NOT_LEADER_OR_FOLLOWER);
                }
                let state = |state: crate::log::ProducerState| ProducerState {
                    producer_id: state.producer_id,
                    producer_epoch: state.producer_epoch.into(),
                    last_sequence: state.last_sequence,
                    last_timestamp: state.last_timestamp,
                    coordinator_epoch: state.coordinator_epoch,
                    current_txn_start_offset: state.transaction_start.unwrap_or(-1),
                };
                PartitionResponse {
                    partition_index: index,
                    active_producers: partition.log.producers().map(state).collect(),
                    ..PartitionResponse::default()
                }
            };
            let partitions = topic.partition_indexes.iter().map(describe).collect();
            topics.push(TopicResponse { name: Cow::Owned(topic.name.to_string()), partitions });
        }
        let response = DescribeProducersResponse { topics, ..DescribeProducersResponse::default() };
        self.reply(context, Response::DescribeProducers(response));
    }

    pub(in crate::cluster) fn describe_log_dirs(
        &mut self,
        context: &RequestContext,
        request: &DescribeLogDirsRequest<'_>,
    ) {
        let is_wanted = |name: &str, index: i32| {
            let mut wanted = request.topics.iter().flatten();
            request.topics.is_none() || wanted.any(|topic| topic.topic == name && topic.partitions.contains(&index))
        };
        let mut topics: BTreeMap<&str, Vec<DescribeLogDirsPartition>> = BTreeMap::new();
        for topic in self.topics.iter() {
            for (index, partition) in topic.indexed() {
                if partition.replicas.contains(&context.broker) && is_wanted(&topic.name, index) {
                    topics.entry(&topic.name).or_default().push(DescribeLogDirsPartition {
                        partition_index: index,
                        partition_size: i64::try_from(partition.log.size()).unwrap_or(i64::MAX),
                        offset_lag: 0,
                        is_future_key: false,
                    });
                }
            }
        }
        let result = DescribeLogDirsResult {
            log_dir: Cow::Borrowed("/embedded"),
            topics: topics
                .into_iter()
                .map(|(name, partitions)| DescribeLogDirsTopic { name: Cow::Owned(name.to_owned()), partitions })
                .collect(),
            ..DescribeLogDirsResult::default()
        };
        let response = DescribeLogDirsResponse { results: vec![result], ..DescribeLogDirsResponse::default() };
        self.reply(context, Response::DescribeLogDirs(response));
    }
}

fn cursor(topic: &str, partition_index: i32) -> DescribeTopicPartitionsResponseCursor<'static> {
    DescribeTopicPartitionsResponseCursor { topic_name: Cow::Owned(topic.to_owned()), partition_index }
}

fn failed_producers(partition_index: i32, error: ErrorCode) -> PartitionResponse<'static> {
    PartitionResponse {
        partition_index,
        error_code: error.0,
        error_message: Some(Cow::Borrowed(error.message())),
        ..PartitionResponse::default()
    }
}
