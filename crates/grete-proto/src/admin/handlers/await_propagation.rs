//! AwaitPropagation: waits until each of these brokers knows a change, because the controller responds before they do.

use std::sync::Arc;

use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{MetadataRequest, MetadataResponse, MetadataResponseTopic};

use super::super::handler::{ApiHandler, ItemResult, ItemResults};
use super::super::reply::{AdminReply, PerItem};
use super::super::types::ExpectedTopicState;
use super::items::Broker;
use super::util::metadata_request;
use crate::cluster::Cluster;
use crate::request::Request;

#[derive(Debug)]
pub(crate) struct AwaitPropagation {
    names: Vec<Arc<str>>,
    expected: Vec<ExpectedTopicState>,
}

impl AwaitPropagation {
    pub fn new(expected: Vec<(Arc<str>, ExpectedTopicState)>) -> Self {
        let (names, expected) = expected.into_iter().unzip();
        Self { names, expected }
    }

    /// Returns the first expectation that the response does not meet; `None`: all are met.
    fn missing(&self, response: &MetadataResponse<'_>) -> Option<String> {
        let lacks = |(name, expected): (&Arc<str>, &ExpectedTopicState)| {
            let topic = response.topics.iter().find(|topic| topic.name.as_deref() == Some(&**name));
            let topic = topic.filter(|topic| topic.error_code != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0);
            let led = |topic: &MetadataResponseTopic<'_>| topic.partitions.iter().filter(|p| p.leader_id >= 0).count();
            match (*expected, topic) {
                (ExpectedTopicState::Gone, None) => None,
                (ExpectedTopicState::Gone, Some(_)) => Some(format!("topic {name} still exists")),
                (ExpectedTopicState::Partitions(_), None) => Some(format!("topic {name} does not exist yet")),
                (ExpectedTopicState::Partitions(count), Some(topic)) if led(topic) >= count => None,
                (ExpectedTopicState::Partitions(_), Some(_)) => {
                    Some(format!("topic {name} has partitions without a leader"))
                }
            }
        };
        self.names.iter().zip(&self.expected).find_map(lacks)
    }
}

impl ApiHandler for AwaitPropagation {
    type Api = MetadataRequest<'static>;
    type Item = Broker;
    type Value = ();

    const REPLY: fn(PerItem<()>) -> AdminReply = AdminReply::Done;

    fn build_request(&self, _items: &[&Broker], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        metadata_request(Some(&self.names))
    }

    fn parse_response(&self, response: &MetadataResponse<'_>, results: &mut ItemResults<'_, Self>) {
        results.set_only(self.missing(response).map_or(ItemResult::Done(()), ItemResult::Pending));
    }
}
