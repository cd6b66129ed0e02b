//! Sans-IO admin client: the connections of a cluster, and the operations in progress.
//!
//! ```text
//!  caller --Submit--> OperationTable --> ApiDriver (one per operation) --Send--> Cluster --Write--> driver
//!   <-Reply-   <--      |   ^     <-Reply--
//!             ApiHandler: target broker of each item, request, response
//! ```
//!
//! - `handlers`: one file per noun; requests and the parsing of responses, nothing else. `items`: their items, each with
//!   its key and target.
//! - `driver`: finds the target of each item (any broker, the controller, a broker, a leader, a coordinator) and
//!   retries until each item has a result or the operation times out.
//! - `operation_table`: the operations of one client, by the caller's id.
//!
//! Not obvious:
//! - Items of one operation are independent: three topics are created, and the fourth is refused.
//! - An attempt without a response may have been executed. The retry is then refused (the topic exists, the group is
//!   gone), and that counts as success: see `ApiHandler::already_done`.
//! - An object that is missing in the metadata is looked up once more before it is reported as missing, because
//!   metadata can be stale.
//! - The client does not connect before the first operation.

mod context;
mod driver;
mod error;
mod event;
mod handler;
mod handlers;
mod operation;
mod operation_table;
mod reply;
#[cfg(test)]
mod tests;
mod transaction_types;
mod types;

pub use error::AdminError;
pub use event::{AdminAction, AdminEvent, OperationsAction, OperationsEvent};
pub use operation::Operation;
pub use operation_table::{OperationTable, OperationsConfig};
pub use reply::{AdminReply, PerItem};
pub use transaction_types::{
    AbortMarker, ActiveProducer, TransactionDescription, TransactionFilter, TransactionListing,
};
pub use types::{
    AclBinding, AclFilter, BrokerDescription, ClusterDescription, CommittedOffset, ConfigAlteration, ConfigEntry,
    ConfigResource, ConfigSource, ExpectedTopicState, GroupDescription, GroupListing, GroupProtocol, ListedOffset,
    MemberDescription, NewTopic, OffsetSpec, PartitionDescription, PartitionResult, ShareOffset, TopicDescription,
};

use std::collections::VecDeque;

use crate::cluster::{Cluster, ClusterAction, ClusterConfig, ClusterEvent, ClusterLogEvent};
use crate::request::{AddressFault, RequestOwner};
use crate::rng::Rng;
use crate::time::{Nanos, earliest};

/// Settings of an admin client.
#[derive(Debug, Clone, Default)]
pub struct AdminCoreConfig {
    /// Settings of the connections.
    pub cluster: ClusterConfig,
    /// Settings of the operations.
    pub operations: OperationsConfig,
}

/// State machine of a whole admin client: [`Cluster`] plus [`OperationTable`].
#[derive(Debug)]
pub struct AdminCore {
    cluster: Cluster,
    operations: OperationTable,
    /// An operation was submitted, so the client connects.
    started: bool,
    fatal: Option<AddressFault>,
    finished: bool,
    todo: VecDeque<ClusterAction>,
    cluster_actions: Vec<ClusterAction>,
    operations_actions: Vec<OperationsAction>,
}

impl AdminCore {
    /// Creates an admin client. It does not connect before the first operation.
    pub fn new(config: AdminCoreConfig, mut rng: Rng) -> Self {
        Self {
            cluster: Cluster::new(config.cluster, rng.split()),
            operations: OperationTable::new(config.operations, RequestOwner::Admin, rng),
            started: false,
            fatal: None,
            finished: false,
            todo: VecDeque::new(),
            cluster_actions: Vec::new(),
            operations_actions: Vec::new(),
        }
    }

    /// Handles one event and every internal action that follows from it; appends the actions for the caller to `out`.
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
            AdminEvent::Gss(conn, result) => self.cluster(now, ClusterEvent::Gss(conn, result)),
            AdminEvent::Submit { id, operation, timeout } => {
                self.started = true;
                self.operations(now, OperationsEvent::Submit { id, operation, timeout }, out);
                if let Some(fault) = self.fatal.clone() {
                    self.operations(now, OperationsEvent::Fatal(fault), out);
                }
            }
            AdminEvent::Cancel(id) => self.operations(now, OperationsEvent::Cancel(id), out),
            AdminEvent::Close => {
                self.finished = true;
                out.push(AdminAction::Finished);
            }
        }
        while let Some(action) = self.todo.pop_front() {
            self.on_cluster(now, action, out);
        }
    }

    /// Returns the latest time of the next `Tick`; `None`: no timer is running.
    pub fn deadline(&self) -> Option<Nanos> {
        if !self.started {
            return None;
        }
        earliest(self.cluster.deadline(), self.operations.deadline())
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
            ClusterAction::Transport(action) => out.push(AdminAction::Transport(action)),
            ClusterAction::Reply(reply) => self.operations(now, OperationsEvent::Reply(reply), out),
            ClusterAction::MetadataRefreshed => self.operations(now, OperationsEvent::MetadataRefreshed, out),
            ClusterAction::LogEvent(notice) => {
                if let ClusterLogEvent::Fatal(fault) = &notice {
                    // A refused login is tried again for the next operation: the password may have been changed.
                    self.fatal = Some(fault.clone()).filter(|fault| !matches!(fault, AddressFault::Login(_)));
                    self.operations(now, OperationsEvent::Fatal(fault.clone()), out);
                }
                out.push(AdminAction::LogEvent(notice));
            }
            _ => {}
        }
    }
}
