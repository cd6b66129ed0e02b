//! CreateTopics, DeleteTopics and CreatePartitions, all at the controller.

use grete_wire::error_code::ErrorCode;
use grete_wire::messages::create_topics::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig};
use grete_wire::messages::delete_topics::DeleteTopicState;
use grete_wire::messages::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic, CreateTopicsRequest,
    CreateTopicsResponse, DeleteTopicsRequest, DeleteTopicsResponse,
};

use super::super::handler::{ApiHandler, ItemResults};
use super::super::reply::{AdminReply, PerItem};
use super::super::types::NewTopic;
use super::items::Topic;
use super::util::owned;
use crate::cluster::Cluster;
use crate::request::Request;

#[derive(Debug)]
pub(crate) struct CreateTopics {
    pub validate_only: bool,
}

impl ApiHandler for CreateTopics {
    type Api = CreateTopicsRequest<'static>;
    type Item = Topic<NewTopic>;
    type Value = ();

    const REPLY: fn(PerItem<()>) -> AdminReply = AdminReply::Done;

    fn build_request(&self, items: &[&Topic<NewTopic>], _cluster: &Cluster, timeout_ms: i32) -> Request {
        let topic = |topic: &NewTopic| CreatableTopic {
            name: owned(&topic.name),
            num_partitions: topic.partitions,
            replication_factor: topic.replication_factor,
            assignments: (0..)
                .zip(&topic.assignment)
                .map(|(partition_index, brokers)| CreatableReplicaAssignment {
                    partition_index,
                    broker_ids: brokers.clone(),
                })
                .collect(),
            configs: topic
                .config
                .iter()
                .map(|(name, value)| CreatableTopicConfig { name: owned(name), value: Some(owned(value)) })
                .collect(),
        };
        let topics = items.iter().map(|item| topic(&item.spec)).collect();
        Request::from_message(CreateTopicsRequest { topics, timeout_ms, validate_only: self.validate_only })
    }

    fn parse_response(&self, response: &CreateTopicsResponse<'_>, results: &mut ItemResults<'_, Self>) {
        for topic in &response.topics {
            results.set(&topic.name, topic.error_code, topic.error_message.as_deref(), || ());
        }
    }

    fn already_done(&self, code: ErrorCode) -> Option<()> {
        (code == ErrorCode::TOPIC_ALREADY_EXISTS && !self.validate_only).then_some(())
    }
}

#[derive(Debug)]
pub(crate) struct DeleteTopics;

impl ApiHandler for DeleteTopics {
    type Api = DeleteTopicsRequest<'static>;
    type Item = Topic<()>;
    type Value = ();

    const REPLY: fn(PerItem<()>) -> AdminReply = AdminReply::Done;

    fn build_request(&self, items: &[&Topic<()>], _cluster: &Cluster, timeout_ms: i32) -> Request {
        let topic = |topic: &&Topic<()>| DeleteTopicState { name: Some(owned(&topic.name)), topic_id: 0 };
        let topics = items.iter().map(topic).collect();
        Request::from_message(DeleteTopicsRequest { topics, timeout_ms, ..Default::default() })
    }

    fn parse_response(&self, response: &DeleteTopicsResponse<'_>, results: &mut ItemResults<'_, Self>) {
        for topic in &response.responses {
            let name = topic.name.as_deref().unwrap_or_default();
            results.set(name, topic.error_code, topic.error_message.as_deref(), || ());
        }
    }

    fn already_done(&self, code: ErrorCode) -> Option<()> {
        (code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION).then_some(())
    }
}

#[derive(Debug)]
pub(crate) struct CreatePartitions {
    pub validate_only: bool,
}

impl ApiHandler for CreatePartitions {
    type Api = CreatePartitionsRequest<'static>;
    /// Topic with its new total number of partitions.
    type Item = Topic<i32>;
    type Value = ();

    const REPLY: fn(PerItem<()>) -> AdminReply = AdminReply::Done;

    fn build_request(&self, items: &[&Topic<i32>], _cluster: &Cluster, timeout_ms: i32) -> Request {
        let topic = |topic: &&Topic<i32>| CreatePartitionsTopic {
            name: owned(&topic.name),
            count: topic.spec,
            assignments: None,
        };
        let topics = items.iter().map(topic).collect();
        Request::from_message(CreatePartitionsRequest { topics, timeout_ms, validate_only: self.validate_only })
    }

    fn parse_response(&self, response: &CreatePartitionsResponse<'_>, results: &mut ItemResults<'_, Self>) {
        for topic in &response.results {
            results.set(&topic.name, topic.error_code, topic.error_message.as_deref(), || ());
        }
    }

    /// Detects "topic already has n partitions". A total below the current count has the same code, but the first
    /// attempt would have been refused with it.
    fn already_done(&self, code: ErrorCode) -> Option<()> {
        (code == ErrorCode::INVALID_PARTITIONS && !self.validate_only).then_some(())
    }
}
