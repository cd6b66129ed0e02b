//! Queries that a caller waits for: partition counts, offsets by time, committed offsets.
//!
//! Offset queries use the machinery of the admin client, which already finds leaders and coordinators and handles
//! retries and errors. A query never disturbs an assignment.

use std::collections::BTreeSet;
use std::sync::Arc;

use grete_wire::error_code::ErrorCode;

use super::config::ConsumerCoreConfig;
use super::{ConsumerAction, ConsumerCore, ConsumerReply};
use crate::admin::{
    AdminError, AdminReply, CommittedOffset, OffsetSpec, Operation, OperationTable, OperationsAction, OperationsConfig,
    OperationsEvent, PartitionResult,
};
use crate::cluster::ClusterEvent;
use crate::ids::TopicPartition;
use crate::request::RequestOwner;
use crate::rng::Rng;
use crate::time::Nanos;

/// The caller has its own timeout and cancels the query when it expires.
const NO_TIMEOUT: Nanos = Nanos::MAX;

/// Queries without an answer.
#[derive(Debug)]
pub(super) struct PendingQueries {
    partitions: Vec<(u32, Arc<str>)>,
    operations: OperationTable,
    actions: Vec<OperationsAction>,
}

impl PendingQueries {
    pub(super) fn new(config: &ConsumerCoreConfig, rng: Rng) -> Self {
        let operations = OperationsConfig {
            request_timeout: config.position.request_timeout,
            retry_backoff: config.position.retry_backoff,
            retry_backoff_max: config.position.retry_backoff_max,
        };
        Self {
            partitions: Vec::new(),
            operations: OperationTable::new(operations, RequestOwner::Client, rng),
            actions: Vec::new(),
        }
    }

    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.operations.deadline()
    }

    /// Returns the topics whose leaders the queries need.
    pub(super) fn topics(&self) -> &[Arc<str>] {
        self.operations.topics()
    }
}

impl ConsumerCore {
    pub(super) fn query_partition_count(
        &mut self,
        now: Nanos,
        topic: Arc<str>,
        id: u32,
        out: &mut Vec<ConsumerAction>,
    ) {
        self.add_queried_topic(now, &topic);
        // A cached error may be outdated: only the next metadata response counts.
        match self.cluster.topic(&topic).filter(|meta| meta.error == ErrorCode::NONE) {
            Some(meta) => {
                let count = i32::try_from(meta.partitions.len()).unwrap_or(i32::MAX);
                out.push(ConsumerAction::Reply(id, ConsumerReply::Partitions(Ok(count))));
            }
            None => self.queries.partitions.push((id, topic)),
        }
    }

    pub(super) fn query_offsets(
        &mut self,
        now: Nanos,
        starts: Vec<(TopicPartition, OffsetSpec)>,
        id: u32,
        out: &mut Vec<ConsumerAction>,
    ) {
        let operation = Operation::ListOffsets { specs: starts, read_committed: self.config.position.read_committed };
        self.step_queries(now, OperationsEvent::Submit { id, operation, timeout: NO_TIMEOUT }, out);
    }

    pub(super) fn query_committed(
        &mut self,
        now: Nanos,
        tps: Vec<TopicPartition>,
        id: u32,
        out: &mut Vec<ConsumerAction>,
    ) {
        let Some(group) = self.config.group.as_ref().filter(|_| !tps.is_empty()) else {
            out.push(ConsumerAction::Reply(id, ConsumerReply::Committed(Ok(Vec::new()))));
            return;
        };
        // A partition is answered once, even if the caller names it several times.
        let partitions: BTreeSet<TopicPartition> = tps.into_iter().collect();
        // An offset that an open transaction may still move is not a position (KIP-447).
        let operation = Operation::FetchOffsets {
            group: group.group_id.clone(),
            partitions: Some(partitions.into_iter().collect()),
            stable: true,
        };
        self.step_queries(now, OperationsEvent::Submit { id, operation, timeout: NO_TIMEOUT }, out);
    }

    /// Drops a query whose caller no longer waits.
    pub(super) fn cancel_query(&mut self, now: Nanos, id: u32, out: &mut Vec<ConsumerAction>) {
        self.queries.partitions.retain(|(other, _)| *other != id);
        self.step_queries(now, OperationsEvent::Cancel(id), out);
    }

    /// Answers partition counts after each metadata response. A topic that is missing from the response stays pending.
    pub(super) fn reply_partition_counts(&mut self, out: &mut Vec<ConsumerAction>) {
        let cluster = &self.cluster;
        self.queries.partitions.retain(|(id, topic)| {
            let Some(meta) = cluster.topic(topic) else { return true };
            let answer = match meta.error {
                ErrorCode::NONE => Ok(i32::try_from(meta.partitions.len()).unwrap_or(i32::MAX)),
                // The topic is being created or electing leaders: wait for the next refresh.
                code if code.is_retriable() && code != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => return true,
                code => Err(code),
            };
            out.push(ConsumerAction::Reply(*id, ConsumerReply::Partitions(answer)));
            false
        });
    }

    /// Forgets queried topics once no caller waits for a partition count.
    pub(super) fn drop_queried_topics(&mut self) {
        if self.queries.partitions.is_empty() {
            self.topics.queried.clear();
        }
    }

    fn add_queried_topic(&mut self, now: Nanos, topic: &Arc<str>) {
        if !self.topics.queried.contains(topic) {
            self.topics.queried.push(topic.clone());
            self.update_metadata_topics(now);
        }
        self.cluster(now, ClusterEvent::RefreshMetadata);
    }

    pub(super) fn step_queries(&mut self, now: Nanos, event: OperationsEvent, out: &mut Vec<ConsumerAction>) {
        let mut actions = std::mem::take(&mut self.queries.actions);
        self.queries.operations.step(now, event, &self.cluster, &mut actions);
        for action in actions.drain(..) {
            match action {
                OperationsAction::Send(outgoing) => self.cluster(now, ClusterEvent::Send(outgoing)),
                OperationsAction::LearnNode { node, host, port } => {
                    self.cluster.learn_node(node, &host, i32::from(port));
                }
                OperationsAction::RefreshMetadata => self.cluster(now, ClusterEvent::RefreshMetadata),
                OperationsAction::TopicsChanged => self.update_metadata_topics(now),
                OperationsAction::Reply(id, AdminReply::Offsets(found)) => {
                    let offsets = found.into_iter().map(|found| found.map(|found| found.offset)).collect();
                    if self.end_offsets.is_pending(id) {
                        self.on_end_offsets(offsets, out);
                        continue;
                    }
                    out.push(ConsumerAction::Reply(id, ConsumerReply::Offsets(offsets)));
                }
                OperationsAction::Reply(id, AdminReply::Committed(found)) => {
                    let found = found.into_iter().next().unwrap_or_else(|| Ok(Vec::new())).and_then(committed_offsets);
                    out.push(ConsumerAction::Reply(id, ConsumerReply::Committed(found)));
                }
                OperationsAction::Reply(..) => {} // the consumer sends no other operations
            }
        }
        self.queries.actions = actions;
    }
}

/// Returns all offsets, or the first partition's error.
fn committed_offsets(
    found: Vec<PartitionResult<Option<CommittedOffset>>>,
) -> Result<Vec<(TopicPartition, Option<i64>)>, AdminError> {
    let offset = |(tp, found): PartitionResult<Option<CommittedOffset>>| match found {
        Ok(found) => Ok((tp, found.map(|found| found.offset))),
        Err(code) => Err(AdminError::Refused { code, message: Some(format!("{tp}: {}", code.message())) }),
    };
    found.into_iter().map(offset).collect()
}
