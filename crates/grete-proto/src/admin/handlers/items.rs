//! Items of the operations.

use std::sync::Arc;

use super::super::handler::{CoordinatorType, LookupStrategy, OperationItem};
use super::super::types::ConfigResource;
use crate::ids::{NodeId, TopicPartition};

/// Topic with what the controller does to it.
#[derive(Debug)]
pub(crate) struct Topic<T> {
    pub name: Arc<str>,
    pub spec: T,
}

impl<T: std::fmt::Debug + Send> OperationItem for Topic<T> {
    type Key = str;

    fn key(&self) -> &str {
        &self.name
    }

    fn lookup_strategy(&self) -> LookupStrategy<'_> {
        LookupStrategy::Controller
    }

    fn describe(&self) -> String {
        format!("topic {}", self.name)
    }
}

/// Partition with the request to its leader.
impl<T: std::fmt::Debug + Send> OperationItem for (TopicPartition, T) {
    type Key = TopicPartition;

    fn key(&self) -> &TopicPartition {
        &self.0
    }

    fn lookup_strategy(&self) -> LookupStrategy<'_> {
        LookupStrategy::Leader(&self.0)
    }

    fn describe(&self) -> String {
        self.0.to_string()
    }
}

/// Broker that serves the request itself.
#[derive(Debug)]
pub(crate) struct Broker {
    pub id: NodeId,
    /// Text before the id in errors: "broker".
    pub subject: &'static str,
}

impl OperationItem for Broker {
    type Key = NodeId;

    fn key(&self) -> &NodeId {
        &self.id
    }

    fn lookup_strategy(&self) -> LookupStrategy<'_> {
        LookupStrategy::Node(self.id)
    }

    fn describe(&self) -> String {
        format!("{} {}", self.subject, self.id)
    }
}

/// Group id.
#[derive(Debug)]
pub(crate) struct Group(pub Arc<str>);

impl OperationItem for Group {
    type Key = str;

    fn key(&self) -> &str {
        &self.0
    }

    fn lookup_strategy(&self) -> LookupStrategy<'_> {
        LookupStrategy::Coordinator(CoordinatorType::Group, &self.0)
    }

    fn describe(&self) -> String {
        format!("group {}", self.0)
    }
}

/// Member of a group, by its `group.instance.id`.
#[derive(Debug)]
pub(crate) struct StaticMember {
    pub group: Arc<str>,
    pub instance: Arc<str>,
}

impl OperationItem for StaticMember {
    type Key = str;

    fn key(&self) -> &str {
        &self.instance
    }

    fn lookup_strategy(&self) -> LookupStrategy<'_> {
        LookupStrategy::Coordinator(CoordinatorType::Group, &self.group)
    }

    fn describe(&self) -> String {
        format!("member {} of group {}", self.instance, self.group)
    }
}

/// Transactional id.
#[derive(Debug)]
pub(crate) struct TransactionalId(pub Arc<str>);

impl OperationItem for TransactionalId {
    type Key = str;

    fn key(&self) -> &str {
        &self.0
    }

    fn lookup_strategy(&self) -> LookupStrategy<'_> {
        LookupStrategy::Coordinator(CoordinatorType::Transaction, &self.0)
    }

    fn describe(&self) -> String {
        format!("transactional id {}", self.0)
    }
}

/// Transactional id in a request that has place for one. All have one key, so each gets a request of its own.
#[derive(Debug)]
pub(crate) struct LoneTransactionalId(pub Arc<str>);

impl OperationItem for LoneTransactionalId {
    type Key = ();

    fn key(&self) -> &() {
        &()
    }

    fn lookup_strategy(&self) -> LookupStrategy<'_> {
        LookupStrategy::Coordinator(CoordinatorType::Transaction, &self.0)
    }

    fn describe(&self) -> String {
        format!("transactional id {}", self.0)
    }
}

/// Topic, broker or group with what happens to its settings.
impl<T: std::fmt::Debug + Send> OperationItem for (ConfigResource, T) {
    type Key = ConfigResource;

    fn key(&self) -> &ConfigResource {
        &self.0
    }

    fn lookup_strategy(&self) -> LookupStrategy<'_> {
        match self.0 {
            ConfigResource::Broker(node) => LookupStrategy::Node(node),
            ConfigResource::Topic(_) | ConfigResource::AllBrokers | ConfigResource::Group(_) => LookupStrategy::Any,
        }
    }

    fn describe(&self) -> String {
        match &self.0 {
            ConfigResource::Topic(name) => format!("topic {name}"),
            ConfigResource::Broker(node) => format!("broker {node}"),
            ConfigResource::AllBrokers => "all brokers".to_owned(),
            ConfigResource::Group(name) => format!("group {name}"),
        }
    }
}

/// Only item of an operation at any broker: its name for errors.
#[derive(Debug)]
pub(crate) struct OnlyItem(pub String);

impl OperationItem for OnlyItem {
    type Key = ();

    fn key(&self) -> &() {
        &()
    }

    fn lookup_strategy(&self) -> LookupStrategy<'_> {
        LookupStrategy::Any
    }

    fn describe(&self) -> String {
        self.0.clone()
    }
}
