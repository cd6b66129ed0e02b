//! Questions that a user waits for: partitions of a topic, offsets by time, committed offsets.
//!
//! Offsets are asked for as an admin client does it: leaders and coordinators, retries and errors are the same matter there.
//! A question never disturbs an assignment.

use std::collections::BTreeSet;
use std::sync::Arc;

use grete_wire::error_code::ErrorCode;

use super::config::ConsumerCoreConfig;
use super::{ConsumerAction, ConsumerCore, ConsumerReply};
use crate::admin::{
    AdminError, AdminReply, CommittedOffset, Operation, Operations, OperationsAction, OperationsConfig,
    OperationsEvent, PartitionResult, When,
};
use crate::cluster::ClusterEvent;
use crate::ids::TopicPartition;
use crate::request::Owner;
use crate::rng::Rng;
use crate::time::Nanos;

/// Who asks also knows for how long, and says when it is over.
const UNTIL_FORGOTTEN: Nanos = Nanos::MAX;

/// What is still to be answered.
#[derive(Debug)]
pub(super) struct Questions {
    partitions: Vec<(u32, Arc<str>)>,
    operations: Operations,
    actions: Vec<OperationsAction>,
}

impl Questions {
    pub(super) fn new(config: &ConsumerCoreConfig, rng: Rng) -> Self {
        let operations = OperationsConfig {
            request_timeout: config.position.request_timeout,
            retry_backoff: config.position.retry_backoff,
            retry_backoff_max: config.position.retry_backoff_max,
        };
        Self {
            partitions: Vec::new(),
            operations: Operations::new(operations, Owner::Client, rng),
            actions: Vec::new(),
        }
    }

    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.operations.deadline()
    }

    /// The topics whose leaders have to be known to answer.
    pub(super) fn topics(&self) -> &[Arc<str>] {
        self.operations.topics()
    }
}

impl ConsumerCore {
    pub(super) fn ask_partitions(&mut self, now: Nanos, topic: Arc<str>, id: u32, out: &mut Vec<ConsumerAction>) {
        self.want_topic(now, &topic);
        // An error may be of yesterday: only the next answer counts.
        match self.cluster.topic(&topic).filter(|meta| meta.error == ErrorCode::NONE) {
            Some(meta) => {
                let count = i32::try_from(meta.partitions.len()).unwrap_or(i32::MAX);
                out.push(ConsumerAction::Reply(id, ConsumerReply::Partitions(Ok(count))));
            }
            None => self.questions.partitions.push((id, topic)),
        }
    }

    pub(super) fn ask_offsets(
        &mut self,
        now: Nanos,
        starts: Vec<(TopicPartition, When)>,
        id: u32,
        out: &mut Vec<ConsumerAction>,
    ) {
        let operation = Operation::ListOffsets { starts, read_committed: self.config.position.read_committed };
        self.step_questions(now, OperationsEvent::Ask { id, operation, timeout: UNTIL_FORGOTTEN }, out);
    }

    pub(super) fn ask_committed(
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
        // Each is answered once, however often it is named.
        let partitions: BTreeSet<TopicPartition> = tps.into_iter().collect();
        // An offset that an open transaction may still move is no position (KIP-447).
        let operation = Operation::FetchOffsets {
            group: group.group_id.clone(),
            partitions: Some(partitions.into_iter().collect()),
            stable: true,
        };
        self.step_questions(now, OperationsEvent::Ask { id, operation, timeout: UNTIL_FORGOTTEN }, out);
    }

    /// The caller does not wait any more.
    pub(super) fn forget(&mut self, now: Nanos, id: u32, out: &mut Vec<ConsumerAction>) {
        self.questions.partitions.retain(|(other, _)| *other != id);
        self.step_questions(now, OperationsEvent::Forget(id), out);
    }

    /// After each metadata answer. A topic without an answer is waited for.
    pub(super) fn answer_partitions(&mut self, out: &mut Vec<ConsumerAction>) {
        let cluster = &self.cluster;
        self.questions.partitions.retain(|(id, topic)| {
            let Some(meta) = cluster.topic(topic) else { return true };
            let answer = match meta.error {
                ErrorCode::NONE => Ok(i32::try_from(meta.partitions.len()).unwrap_or(i32::MAX)),
                // Being created, or being elected: the next refresh tells.
                code if code.is_retriable() && code != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => return true,
                code => Err(code),
            };
            out.push(ConsumerAction::Reply(*id, ConsumerReply::Partitions(answer)));
            false
        });
    }

    /// Topics are asked about for as long as somebody waits for the answer.
    pub(super) fn forget_topics(&mut self) {
        if self.questions.partitions.is_empty() {
            self.topics.asked.clear();
        }
    }

    fn want_topic(&mut self, now: Nanos, topic: &Arc<str>) {
        if !self.topics.asked.contains(topic) {
            self.topics.asked.push(topic.clone());
            self.want_topics(now);
        }
        self.cluster(now, ClusterEvent::RefreshMetadata);
    }

    pub(super) fn step_questions(&mut self, now: Nanos, event: OperationsEvent, out: &mut Vec<ConsumerAction>) {
        let mut actions = std::mem::take(&mut self.questions.actions);
        self.questions.operations.step(now, event, &self.cluster, &mut actions);
        for action in actions.drain(..) {
            match action {
                OperationsAction::Send(outgoing) => self.cluster(now, ClusterEvent::Send(outgoing)),
                OperationsAction::LearnNode { node, host, port } => {
                    self.cluster.learn_node(node, &host, i32::from(port));
                }
                OperationsAction::RefreshMetadata => self.cluster(now, ClusterEvent::RefreshMetadata),
                OperationsAction::TopicsChanged => self.want_topics(now),
                OperationsAction::Reply(id, AdminReply::Offsets(found)) => {
                    let offsets = found.into_iter().map(|found| found.map(|found| found.offset)).collect();
                    out.push(ConsumerAction::Reply(id, ConsumerReply::Offsets(offsets)));
                }
                OperationsAction::Reply(id, AdminReply::Committed(found)) => {
                    let found = found.into_iter().next().unwrap_or_else(|| Ok(Vec::new())).and_then(committed);
                    out.push(ConsumerAction::Reply(id, ConsumerReply::Committed(found)));
                }
                OperationsAction::Reply(..) => {} // nothing else is asked here
            }
        }
        self.questions.actions = actions;
    }
}

/// All offsets, or the first partition's error.
fn committed(
    found: Vec<PartitionResult<Option<CommittedOffset>>>,
) -> Result<Vec<(TopicPartition, Option<i64>)>, AdminError> {
    let offset = |(tp, found): PartitionResult<Option<CommittedOffset>>| match found {
        Ok(found) => Ok((tp, found.map(|found| found.offset))),
        Err(code) => Err(AdminError::Refused { code, message: Some(format!("{tp}: {}", code.message())) }),
    };
    found.into_iter().map(offset).collect()
}
