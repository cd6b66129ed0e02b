//! Operations in progress of one client.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::context::Context;
use super::driver::{ApiDriver, RunningOperation};
use super::error::AdminError;
use super::event::{OperationsAction, OperationsEvent};
use super::handler::ApiHandler;
use super::handlers::{
    AbortTransaction, AlterConfigs, AlterShareOffsets, AwaitPropagation, Broker, CommitOffsets, CreateAcls,
    CreatePartitions, CreateTopics, DeleteAcls, DeleteGroups, DeleteOffsets, DeleteRecords, DeleteShareOffsets,
    DeleteTopics, DescribeAcls, DescribeClassicGroups, DescribeCluster, DescribeConfigs, DescribeConsumerGroups,
    DescribeProducers, DescribeShareGroups, DescribeTopics, DescribeTransactions, FenceProducers, FetchOffsets,
    FetchShareOffsets, Group, ListGroups, ListOffsets, ListTransactions, LoneTransactionalId, OnlyItem, RemoveMembers,
    StaticMember, Topic, TransactionalId,
};
use super::operation::Operation;
use super::types::GroupProtocol;
use crate::backoff::Backoff;
use crate::cluster::Cluster;
use crate::request::RequestOwner;
use crate::rng::Rng;
use crate::time::{MILLI, Nanos, SECOND, earliest};

/// Settings of all operations.
#[derive(Debug, Clone)]
pub struct OperationsConfig {
    /// `request.timeout.ms`.
    pub request_timeout: Nanos,
    /// Delay after the first failure (`retry.backoff.ms`).
    pub retry_backoff: Nanos,
    /// Maximum delay after repeated failures (`retry.backoff.max.ms`).
    pub retry_backoff_max: Nanos,
}

impl Default for OperationsConfig {
    fn default() -> Self {
        Self { request_timeout: 30 * SECOND, retry_backoff: 100 * MILLI, retry_backoff_max: SECOND }
    }
}

/// State machine of all operations in progress.
#[derive(Debug)]
pub struct OperationTable {
    config: OperationsConfig,
    owner: RequestOwner,
    rng: Rng,
    tasks: BTreeMap<u32, Box<dyn RunningOperation>>,
    /// Operation id of each request token. Responses to completed or canceled operations are ignored.
    tokens: BTreeMap<u32, u32>,
    next_token: u32,
    /// Number of metadata responses so far.
    refreshes: u64,
    topics: Vec<Arc<str>>,
}

impl OperationTable {
    /// Creates an empty table. All requests carry tokens of `owner`.
    pub fn new(config: OperationsConfig, owner: RequestOwner, rng: Rng) -> Self {
        Self {
            config,
            owner,
            rng,
            tasks: BTreeMap::new(),
            tokens: BTreeMap::new(),
            next_token: 0,
            refreshes: 0,
            topics: Vec::new(),
        }
    }

    /// Returns the time of the next `Tick`; `None`: no timer is running.
    pub fn deadline(&self) -> Option<Nanos> {
        self.tasks.values().fold(None, |deadline, task| earliest(deadline, task.deadline()))
    }

    /// Returns the topics whose leaders are needed, sorted.
    pub fn topics(&self) -> &[Arc<str>] {
        &self.topics
    }

    /// Handles one event and appends the resulting actions to `out`.
    pub fn step(&mut self, now: Nanos, event: OperationsEvent, cluster: &Cluster, out: &mut Vec<OperationsAction>) {
        let mut touched = Vec::new();
        match event {
            OperationsEvent::Submit { id, operation, timeout } => {
                let backoff = Backoff::new(self.config.retry_backoff, self.config.retry_backoff_max);
                self.tasks.insert(id, start(operation, now.saturating_add(timeout), &backoff));
                self.advance(now, id, cluster, out);
                touched.push(id);
            }
            OperationsEvent::Cancel(id) => {
                if self.tasks.remove(&id).is_some() {
                    self.tokens.retain(|_, task| *task != id);
                    self.update_topics(out);
                }
            }
            OperationsEvent::Reply(reply) => {
                if let Some(id) = self.tokens.remove(&reply.token.id) {
                    self.with(now, id, cluster, out, |task, cx| task.on_reply(&reply, cx));
                    touched.push(id);
                }
            }
            OperationsEvent::MetadataRefreshed => {
                self.refreshes += 1;
                touched.extend(self.tasks.keys());
                for &id in &touched {
                    self.advance(now, id, cluster, out);
                }
            }
            OperationsEvent::Fatal(fault) => {
                touched.extend(self.tasks.keys());
                self.tasks.values_mut().for_each(|task| task.fail(&AdminError::Unusable(fault.clone())));
            }
            OperationsEvent::Tick => {
                let due = self.tasks.iter().filter(|(_, task)| task.deadline().is_some_and(|deadline| deadline <= now));
                touched.extend(due.map(|(id, _)| *id));
                for &id in &touched {
                    self.advance(now, id, cluster, out);
                }
            }
        }
        self.settle(&touched, out);
    }

    fn advance(&mut self, now: Nanos, id: u32, cluster: &Cluster, out: &mut Vec<OperationsAction>) {
        self.with(now, id, cluster, out, |task, cx| task.advance(cx));
    }

    fn with(
        &mut self,
        now: Nanos,
        id: u32,
        cluster: &Cluster,
        out: &mut Vec<OperationsAction>,
        step: impl FnOnce(&mut dyn RunningOperation, &mut Context<'_>),
    ) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let mut cx = Context {
            now,
            cluster,
            refreshes: self.refreshes,
            rng: &mut self.rng,
            stale_metadata: false,
            operation: id,
            request_timeout: self.config.request_timeout,
            owner: self.owner,
            tokens: &mut self.tokens,
            next_token: &mut self.next_token,
            out,
        };
        step(&mut **task, &mut cx);
        if cx.stale_metadata {
            out.push(OperationsAction::RefreshMetadata);
        }
    }

    /// Sends the replies of completed operations.
    fn settle(&mut self, touched: &[u32], out: &mut Vec<OperationsAction>) {
        for id in touched {
            if self.tasks.get(id).is_some_and(|task| task.is_complete())
                && let Some(task) = self.tasks.remove(id)
            {
                self.tokens.retain(|_, task| task != id);
                out.push(OperationsAction::Reply(*id, task.finish()));
            }
        }
        if !touched.is_empty() {
            self.update_topics(out);
        }
    }

    fn update_topics(&mut self, out: &mut Vec<OperationsAction>) {
        let mut topics = Vec::new();
        self.tasks.values().for_each(|task| task.topics(&mut topics));
        topics.sort_unstable();
        topics.dedup();
        if topics != self.topics {
            self.topics = topics;
            out.push(OperationsAction::TopicsChanged);
        }
    }
}

/// Starts an operation, which ends at `end`.
fn start(operation: Operation, end: Nanos, backoff: &Backoff) -> Box<dyn RunningOperation> {
    fn run<H: ApiHandler + 'static>(
        handler: H,
        items: impl IntoIterator<Item = H::Item>,
        (end, backoff): (Nanos, &Backoff),
    ) -> Box<dyn RunningOperation> {
        Box::new(ApiDriver::new(handler, items, end, backoff))
    }
    let times = (end, backoff);
    let brokers = |nodes: Vec<_>, subject| nodes.into_iter().map(move |id| Broker { id, subject });
    match operation {
        Operation::CreateTopics { topics, validate_only } => {
            let topics = topics.into_iter().map(|topic| Topic { name: Arc::clone(&topic.name), spec: topic });
            run(CreateTopics { validate_only }, topics, times)
        }
        Operation::DeleteTopics { names } => {
            run(DeleteTopics, names.into_iter().map(|name| Topic { name, spec: () }), times)
        }
        Operation::CreatePartitions { totals, validate_only } => {
            let topics = totals.into_iter().map(|(name, total)| Topic { name, spec: total });
            run(CreatePartitions { validate_only }, topics, times)
        }
        Operation::AwaitPropagation { nodes, expected } => {
            run(AwaitPropagation::new(expected), brokers(nodes, "broker"), times)
        }
        Operation::DescribeTopics { names } => {
            let handler = DescribeTopics { names };
            let item = handler.item();
            run(handler, [item], times)
        }
        Operation::DescribeCluster => run(DescribeCluster, [OnlyItem("the cluster".to_owned())], times),
        Operation::DescribeConfigs { resources } => {
            run(DescribeConfigs, resources.into_iter().map(|resource| (resource, ())), times)
        }
        Operation::AlterConfigs { alterations, validate_only } => {
            let alterations = alterations.into_iter().map(|alteration| (alteration.resource.clone(), alteration));
            run(AlterConfigs { validate_only }, alterations, times)
        }
        Operation::DescribeAcls { filter } => run(DescribeAcls { filter }, [OnlyItem("the ACLs".to_owned())], times),
        Operation::CreateAcls { acls } => run(CreateAcls { acls }, [OnlyItem("the ACLs".to_owned())], times),
        Operation::DeleteAcls { filters } => run(DeleteAcls { filters }, [OnlyItem("the ACLs".to_owned())], times),
        Operation::ListGroups { nodes, states } => {
            run(ListGroups { states }, brokers(nodes, "the groups of broker"), times)
        }
        Operation::DescribeGroups { groups, protocol: GroupProtocol::Classic } => {
            run(DescribeClassicGroups, groups.into_iter().map(Group), times)
        }
        Operation::DescribeGroups { groups, protocol: GroupProtocol::Consumer } => {
            run(DescribeConsumerGroups, groups.into_iter().map(Group), times)
        }
        Operation::DescribeGroups { groups, protocol: GroupProtocol::Share } => {
            run(DescribeShareGroups, groups.into_iter().map(Group), times)
        }
        Operation::DeleteGroups { groups } => run(DeleteGroups, groups.into_iter().map(Group), times),
        Operation::RemoveMembers { group, instances } => {
            let member = |instance| StaticMember { group: Arc::clone(&group), instance };
            run(RemoveMembers, instances.into_iter().map(member), times)
        }
        Operation::ListTransactions { nodes, filter } => {
            run(ListTransactions { filter }, brokers(nodes, "the transactions of broker"), times)
        }
        Operation::DescribeTransactions { ids } => {
            run(DescribeTransactions, ids.into_iter().map(TransactionalId), times)
        }
        Operation::DescribeProducers { partitions } => {
            run(DescribeProducers, partitions.into_iter().map(|tp| (tp, ())), times)
        }
        Operation::FenceProducers { ids } => run(FenceProducers, ids.into_iter().map(LoneTransactionalId), times),
        Operation::AbortTransaction { partition, marker } => run(AbortTransaction, [(partition, marker)], times),
        Operation::FetchOffsets { group, partitions, stable } => {
            run(FetchOffsets { partitions, stable }, [Group(group)], times)
        }
        Operation::FetchShareOffsets { group } => run(FetchShareOffsets, [Group(group)], times),
        Operation::AlterShareOffsets { group, offsets } => run(AlterShareOffsets { offsets }, [Group(group)], times),
        Operation::DeleteShareOffsets { group, partitions } => {
            run(DeleteShareOffsets { partitions }, [Group(group)], times)
        }
        Operation::CommitOffsets { group, offsets } => run(CommitOffsets { offsets }, [Group(group)], times),
        Operation::DeleteOffsets { group, partitions } => run(DeleteOffsets { partitions }, [Group(group)], times),
        Operation::ListOffsets { specs, read_committed } => run(ListOffsets { read_committed }, specs, times),
        Operation::DeleteRecords { before } => run(DeleteRecords, before, times),
    }
}
