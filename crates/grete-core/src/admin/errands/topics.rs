//! Topics are created, deleted, and get more partitions: all at the controller.

use std::sync::Arc;

use grete_wire::WireError;
use grete_wire::api_key::ApiKey;
use grete_wire::error_code::ErrorCode;
use grete_wire::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig};
use grete_wire::messages::delete_topics_request::DeleteTopicState;
use grete_wire::messages::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic, CreateTopicsRequest,
    CreateTopicsResponse, DeleteTopicsRequest, DeleteTopicsResponse,
};

use super::super::errand::{Errand, Outcomes, Place};
use super::super::error::AdminError;
use super::super::operation::AdminReply;
use super::{done_by_name, owned};
use crate::cluster::Cluster;
use crate::ids::NodeId;
use crate::request::{Request, Response};

/// A topic to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: Arc<str>,
    /// How many; -1: the broker's `num.partitions`.
    pub partitions: i32,
    /// How many brokers keep each partition; -1: the broker's `default.replication.factor`.
    pub replication_factor: i16,
    /// Or which brokers keep it, by partition; then the two numbers are -1.
    pub assignment: Vec<Vec<NodeId>>,
    /// Settings of its own.
    pub config: Vec<(String, String)>,
}

#[derive(Debug)]
pub(crate) struct CreateTopics {
    topics: Vec<NewTopic>,
    names: Vec<Arc<str>>,
    validate_only: bool,
}

impl CreateTopics {
    pub fn new(topics: Vec<NewTopic>, validate_only: bool) -> Self {
        let names = topics.iter().map(|topic| Arc::clone(&topic.name)).collect();
        Self { topics, names, validate_only }
    }
}

impl Errand for CreateTopics {
    type Value = ();

    fn api(&self) -> ApiKey {
        ApiKey::CreateTopics
    }

    fn len(&self) -> usize {
        self.topics.len()
    }

    fn place(&self, _item: usize) -> Place<'_> {
        Place::Controller
    }

    fn subject(&self, item: usize) -> String {
        subject(&self.names, item)
    }

    fn request(&self, items: &mut Vec<usize>, _cluster: &Cluster, timeout_ms: i32) -> Request {
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
        Request::any(CreateTopicsRequest {
            topics: items.iter().filter_map(|&item| self.topics.get(item)).map(topic).collect(),
            timeout_ms,
            validate_only: self.validate_only,
        })
    }

    fn read(
        &mut self,
        items: &[usize],
        _node: NodeId,
        response: &Response,
        out: &mut Outcomes<()>,
    ) -> Result<(), WireError> {
        let answer = response.decode(CreateTopicsResponse::decode)?;
        let topics = answer.topics.iter().map(|t| (&*t.name, t.error_code, t.error_message.as_deref()));
        done_by_name(items, &self.names, topics, out);
        Ok(())
    }

    fn done_before(&self, _item: usize, code: ErrorCode) -> Option<()> {
        (code == ErrorCode::TOPIC_ALREADY_EXISTS && !self.validate_only).then_some(())
    }

    fn reply(&self, results: Vec<Result<(), AdminError>>) -> AdminReply {
        AdminReply::Done(results)
    }
}

#[derive(Debug)]
pub(crate) struct DeleteTopics {
    pub names: Vec<Arc<str>>,
}

impl Errand for DeleteTopics {
    type Value = ();

    fn api(&self) -> ApiKey {
        ApiKey::DeleteTopics
    }

    fn len(&self) -> usize {
        self.names.len()
    }

    fn place(&self, _item: usize) -> Place<'_> {
        Place::Controller
    }

    fn subject(&self, item: usize) -> String {
        subject(&self.names, item)
    }

    fn request(&self, items: &mut Vec<usize>, _cluster: &Cluster, timeout_ms: i32) -> Request {
        let topic = |name: &Arc<str>| DeleteTopicState { name: Some(owned(name)), topic_id: 0 };
        Request::any(DeleteTopicsRequest {
            topics: items.iter().filter_map(|&item| self.names.get(item)).map(topic).collect(),
            timeout_ms,
            ..Default::default()
        })
    }

    fn read(
        &mut self,
        items: &[usize],
        _node: NodeId,
        response: &Response,
        out: &mut Outcomes<()>,
    ) -> Result<(), WireError> {
        let answer = response.decode(DeleteTopicsResponse::decode)?;
        let named = answer.responses.iter().filter_map(|t| Some((t.name.as_deref()?, t)));
        let topics = named.map(|(name, t)| (name, t.error_code, t.error_message.as_deref()));
        done_by_name(items, &self.names, topics, out);
        Ok(())
    }

    fn done_before(&self, _item: usize, code: ErrorCode) -> Option<()> {
        (code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION).then_some(())
    }

    fn reply(&self, results: Vec<Result<(), AdminError>>) -> AdminReply {
        AdminReply::Done(results)
    }
}

#[derive(Debug)]
pub(crate) struct CreatePartitions {
    names: Vec<Arc<str>>,
    totals: Vec<i32>,
    validate_only: bool,
}

impl CreatePartitions {
    pub fn new(totals: Vec<(Arc<str>, i32)>, validate_only: bool) -> Self {
        let (names, totals) = totals.into_iter().unzip();
        Self { names, totals, validate_only }
    }
}

impl Errand for CreatePartitions {
    type Value = ();

    fn api(&self) -> ApiKey {
        ApiKey::CreatePartitions
    }

    fn len(&self) -> usize {
        self.names.len()
    }

    fn place(&self, _item: usize) -> Place<'_> {
        Place::Controller
    }

    fn subject(&self, item: usize) -> String {
        subject(&self.names, item)
    }

    fn request(&self, items: &mut Vec<usize>, _cluster: &Cluster, timeout_ms: i32) -> Request {
        let all = items.iter().filter_map(|&item| Some((self.names.get(item)?, self.totals.get(item)?)));
        let topic =
            |(name, &count): (&Arc<str>, &i32)| CreatePartitionsTopic { name: owned(name), count, assignments: None };
        let topics = all.map(topic).collect();
        Request::any(CreatePartitionsRequest { topics, timeout_ms, validate_only: self.validate_only })
    }

    fn read(
        &mut self,
        items: &[usize],
        _node: NodeId,
        response: &Response,
        out: &mut Outcomes<()>,
    ) -> Result<(), WireError> {
        let answer = response.decode(CreatePartitionsResponse::decode)?;
        let topics = answer.results.iter().map(|t| (&*t.name, t.error_code, t.error_message.as_deref()));
        done_by_name(items, &self.names, topics, out);
        Ok(())
    }

    /// "Topic already has n partitions". A total below that has the same code, but it had been refused the first time.
    fn done_before(&self, _item: usize, code: ErrorCode) -> Option<()> {
        (code == ErrorCode::INVALID_PARTITIONS && !self.validate_only).then_some(())
    }

    fn reply(&self, results: Vec<Result<(), AdminError>>) -> AdminReply {
        AdminReply::Done(results)
    }
}

fn subject(names: &[Arc<str>], item: usize) -> String {
    format!("topic {}", names.get(item).map_or("", |name| name))
}
