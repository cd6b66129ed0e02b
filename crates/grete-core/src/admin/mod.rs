//! An admin client without I/O: a cluster's connections, and the operations that somebody waits for.
//!
//! ```text
//!  caller --Ask--> Operations --> Task (one per operation) --Send--> Cluster --Write--> driver
//!         <-Reply-            <--      |      ^           <-Reply--
//!                                   Errand: whom to ask about each item, what, how to read the answer
//! ```
//!
//! - `errands`: one file per noun; a request, how its answer is read, nothing else.
//! - `task`: where each item of an errand is asked (any broker, the controller, a broker, a leader, a coordinator), and all
//!   retries, until every item has its result or the time is up.
//! - `operations`: the tasks of one client, by the caller's number.
//!
//! Non-obvious:
//! - Items of one operation are independent: three topics are created, and the fourth is refused.
//! - An attempt that was not answered may have been carried out. The next one is then refused (the topic exists, the group
//!   is gone), and that counts as done: see `Errand::done_before`.
//! - What the metadata lacks is looked for once more before it is said not to exist: metadata can be of yesterday.
//! - Nothing connects before the first question.

mod errand;
mod errands;
mod error;
mod event;
mod operation;
mod operations;
mod task;
#[cfg(test)]
mod tests;

pub use errands::{
    Alteration, BrokerDescription, ClusterDescription, CommittedOffset, ConfigEntry, ConfigSource, FoundOffset,
    GroupDescription, GroupListing, GroupProtocol, MemberDescription, NewTopic, PartitionDescription, PartitionResult,
    Resource, TopicDescription, When, Wish,
};
pub use error::AdminError;
pub use event::{AdminAction, AdminEvent};
pub use operation::{AdminReply, Each, Operation};
pub use operations::{Operations, OperationsAction, OperationsConfig, OperationsEvent};

use std::collections::VecDeque;

use crate::cluster::{Cluster, ClusterAction, ClusterConfig, ClusterEvent, ClusterNotice};
use crate::request::{NotKafka, Owner};
use crate::rng::Rng;
use crate::time::{Nanos, earlier};

/// Settings of an admin client.
#[derive(Debug, Clone, Default)]
pub struct AdminCoreConfig {
    /// Of its connections.
    pub cluster: ClusterConfig,
    /// Of its operations.
    pub operations: OperationsConfig,
}

/// See the module.
#[derive(Debug)]
pub struct AdminCore {
    cluster: Cluster,
    operations: Operations,
    /// Something has been asked, so there is something to connect for.
    started: bool,
    fatal: Option<NotKafka>,
    finished: bool,
    todo: VecDeque<ClusterAction>,
    cluster_actions: Vec<ClusterAction>,
    operations_actions: Vec<OperationsAction>,
}

impl AdminCore {
    /// Connects to nothing until something is asked.
    #[must_use]
    pub fn new(config: AdminCoreConfig, mut rng: Rng) -> Self {
        Self {
            cluster: Cluster::new(config.cluster, rng.split()),
            operations: Operations::new(config.operations, Owner::Admin, rng),
            started: false,
            fatal: None,
            finished: false,
            todo: VecDeque::new(),
            cluster_actions: Vec::new(),
            operations_actions: Vec::new(),
        }
    }

    /// One event, and all that follows from it.
    pub fn step(&mut self, now: Nanos, event: AdminEvent, out: &mut Vec<AdminAction>) {
        if self.finished {
            return;
        }
        match event {
            AdminEvent::Tick => {
                if self.started {
                    self.cluster(now, ClusterEvent::Tick);
                    self.operations(now, OperationsEvent::Tick, out);
                }
            }
            AdminEvent::Connected(conn) => self.cluster(now, ClusterEvent::Connected(conn)),
            AdminEvent::Frame(conn, frame) => self.cluster(now, ClusterEvent::Frame(conn, frame)),
            AdminEvent::Closed(conn, reason) => self.cluster(now, ClusterEvent::Closed(conn, reason)),
            AdminEvent::Ask { id, operation, timeout } => {
                self.started = true;
                self.operations(now, OperationsEvent::Ask { id, operation, timeout }, out);
                if let Some(not_kafka) = self.fatal.clone() {
                    self.operations(now, OperationsEvent::Fatal(not_kafka), out);
                }
            }
            AdminEvent::Forget(id) => self.operations(now, OperationsEvent::Forget(id), out),
            AdminEvent::Close => {
                self.finished = true;
                out.push(AdminAction::Finished);
            }
        }
        while let Some(action) = self.todo.pop_front() {
            self.on_cluster(now, action, out);
        }
    }

    /// When to step with `Tick` at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        if !self.started {
            return None;
        }
        earlier(self.cluster.deadline(), self.operations.deadline())
    }

    fn cluster(&mut self, now: Nanos, event: ClusterEvent) {
        self.cluster.step(now, event, &mut self.cluster_actions);
        self.todo.extend(self.cluster_actions.drain(..));
    }

    fn operations(&mut self, now: Nanos, event: OperationsEvent, out: &mut Vec<AdminAction>) {
        let mut actions = std::mem::take(&mut self.operations_actions);
        self.operations.step(now, event, &self.cluster, &mut actions);
        for action in actions.drain(..) {
            match action {
                OperationsAction::Send(outgoing) => self.cluster(now, ClusterEvent::Send(outgoing)),
                OperationsAction::LearnNode { node, host, port } => {
                    self.cluster.learn_node(node, &host, i32::from(port));
                }
                OperationsAction::RefreshMetadata => self.cluster(now, ClusterEvent::RefreshMetadata),
                OperationsAction::TopicsChanged => {
                    let topics = self.operations.topics().to_vec();
                    self.cluster(now, ClusterEvent::SetTopics(topics));
                }
                OperationsAction::Reply(id, reply) => out.push(AdminAction::Reply(id, reply)),
            }
        }
        self.operations_actions = actions;
    }

    fn on_cluster(&mut self, now: Nanos, action: ClusterAction, out: &mut Vec<AdminAction>) {
        match action {
            ClusterAction::Connect { conn, address: (host, port) } => {
                out.push(AdminAction::Connect { conn, host, port });
            }
            ClusterAction::Write { conn, bytes } => out.push(AdminAction::Write { conn, bytes }),
            ClusterAction::Close { conn } => out.push(AdminAction::CloseConn(conn)),
            ClusterAction::Reply(reply) => self.operations(now, OperationsEvent::Reply(reply), out),
            ClusterAction::MetadataRefreshed => self.operations(now, OperationsEvent::MetadataRefreshed, out),
            ClusterAction::Notify(notice) => {
                if let ClusterNotice::Fatal(not_kafka) = &notice {
                    self.fatal = Some(not_kafka.clone());
                    self.operations(now, OperationsEvent::Fatal(not_kafka.clone()), out);
                }
                out.push(AdminAction::Notice(notice));
            }
            _ => {}
        }
    }
}
