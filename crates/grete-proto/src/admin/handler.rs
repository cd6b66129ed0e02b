//! Handler of one kind of operation: items, request, and parsing of the response.
//!
//! A handler knows nothing of time, retries, leaders or coordinators. Those are handled by `ApiDriver`, the same for
//! all operations.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use grete_wire::KafkaRequest;
use grete_wire::error_code::ErrorCode;

use super::reply::{AdminReply, PerItem};
use crate::cluster::Cluster;
use crate::ids::{NodeId, TopicPartition};
use crate::request::Request;

/// Broker that can serve an item.
#[derive(Debug, Clone, Copy)]
pub(super) enum LookupStrategy<'e> {
    /// Any broker.
    Any,
    /// The controller. A KRaft broker forwards the request; a ZooKeeper-based broker that is no longer the controller
    /// responds with an error.
    Controller,
    /// The broker with this id.
    Node(NodeId),
    /// The leader of the partition.
    Leader(&'e TopicPartition),
    /// The coordinator of the group, or of the transactional id.
    Coordinator(CoordinatorType, &'e Arc<str>),
}

/// Kind of a coordinator, by its number in FindCoordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CoordinatorType {
    /// Coordinator of groups.
    Group = 0,
    /// Coordinator of transactional ids.
    Transaction = 1,
}

/// Item of an operation: a topic, a partition, a group...
pub(super) trait OperationItem: fmt::Debug + Send {
    /// Name of the item in requests and responses. A request names each key once.
    type Key: Eq + Hash + ?Sized;

    /// Returns the name of the item in requests and responses.
    fn key(&self) -> &Self::Key;

    /// Returns the target of the item.
    fn lookup_strategy(&self) -> LookupStrategy<'_>;

    /// Returns the name of the item for errors: "group billing".
    fn describe(&self) -> String;
}

/// Operation on several items, which may have different target brokers.
pub(super) trait ApiHandler: fmt::Debug + Send + Sized {
    /// Message type of the API in use.
    type Api: KafkaRequest;
    /// Item of the operation.
    type Item: OperationItem;
    /// Result of one item.
    type Value: fmt::Debug + Send;

    /// Builds the reply for the caller.
    const REPLY: fn(PerItem<Self::Value>) -> AdminReply;

    /// Builds the request for `items`, whose keys are unique.
    fn build_request(&self, items: &[&Self::Item], cluster: &Cluster, timeout_ms: i32) -> Request;

    /// Parses the response. Items that the response omits are retried.
    fn parse_response(&self, response: &<Self::Api as KafkaRequest>::Response<'_>, results: &mut ItemResults<'_, Self>);

    /// Changes an item whose result is `Continue` for its next request.
    fn prepare_next_request(&self, _item: &mut Self::Item) {}

    /// Returns the result of an item if `code`, after an attempt without a response, proves that the attempt was
    /// executed (the topic exists, the group is gone). `None`: the code is an error.
    fn already_done(&self, _code: ErrorCode) -> Option<Self::Value> {
        None
    }
}

/// Result of one item in a response.
#[derive(Debug)]
pub(super) enum ItemResult<V> {
    /// The item succeeded.
    Done(V),
    /// Error code other than `NONE`, and the broker's message if there is one. The driver knows which codes are
    /// retriable.
    Code(ErrorCode, Option<String>),
    /// The expected state is not reached yet; retry later.
    Pending(String),
    /// The handler needs another request for the item, at once.
    Continue,
}

impl<V> ItemResult<V> {
    /// Converts an error code and message; `value` if there is no error.
    pub fn new(code: i16, message: Option<&str>, value: impl FnOnce() -> V) -> Self {
        match ErrorCode(code) {
            ErrorCode::NONE => Self::Done(value()),
            code => Self::Code(code, message.filter(|message| !message.is_empty()).map(str::to_owned)),
        }
    }
}

/// Results of the items of one request, in the order of the response.
pub(super) struct ItemResults<'r, H: ApiHandler> {
    node: NodeId,
    items: HashMap<&'r Key<H>, (usize, &'r H::Item)>,
    results: Vec<(usize, ItemResult<H::Value>)>,
}

type Key<H> = <<H as ApiHandler>::Item as OperationItem>::Key;

impl<'r, H: ApiHandler> ItemResults<'r, H> {
    /// Creates an empty list of results for a response of `node`; `items`: the request's items with their indexes.
    pub fn new(node: NodeId, items: impl Iterator<Item = (usize, &'r H::Item)>) -> Self {
        Self { node, items: items.map(|(index, item)| (item.key(), (index, item))).collect(), results: Vec::new() }
    }

    /// Returns the broker that responded.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Sets the result of the item with this key; `result` gets the item. Keys that the request did not name are
    /// ignored.
    pub fn set_with(&mut self, key: &Key<H>, result: impl FnOnce(&H::Item) -> Option<ItemResult<H::Value>>) {
        if let Some(&(index, item)) = self.items.get(key) {
            self.results.extend(result(item).map(|result| (index, result)));
        }
    }

    /// Sets the result of the item with this key; `value` if there is no error.
    pub fn set(&mut self, key: &Key<H>, code: i16, message: Option<&str>, value: impl FnOnce() -> H::Value) {
        self.set_with(key, |_| Some(ItemResult::new(code, message, value)));
    }

    /// Sets the same result for all items of the request.
    pub fn set_all(&mut self, result: impl Fn() -> ItemResult<H::Value>) {
        self.results.extend(self.items.values().map(|(index, _)| (*index, result())));
        self.results.sort_unstable_by_key(|(index, _)| *index); // each retry draws its delay, in a stable order
    }

    /// Sets the result of the request's only item.
    pub fn set_only(&mut self, result: ItemResult<H::Value>) {
        self.results.extend(self.items.values().next().map(|(index, _)| (*index, result)));
    }

    /// Returns the results with the indexes of their items.
    pub fn into_results(self) -> Vec<(usize, ItemResult<H::Value>)> {
        self.results
    }
}
