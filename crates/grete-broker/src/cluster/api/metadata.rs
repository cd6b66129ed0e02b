//! Metadata and DescribeCluster.

use std::borrow::Cow;

use grete_wire::ErrorCode;
use grete_wire::messages::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse, MetadataRequest, MetadataRequestTopic,
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};

use crate::cluster::{Cluster, RequestContext};
use crate::message::{Request, Response};
use crate::topics::{Topic, check_topic_name};

/// First version that accepts topic ids. Versions 10 and 11 have the field already.
const FIRST_VERSION_WITH_IDS: i16 = 12;

/// Operations that a client may perform, as bits by Kafka's number of the operation: everybody may do everything.
pub(super) const TOPIC_OPERATIONS: i32 = 0b1101_1111_1000;
const CLUSTER_OPERATIONS: i32 = 0b1_1111_1010_0000;

impl Cluster {
    pub(in crate::cluster) fn metadata(&mut self, context: &RequestContext, request: &MetadataRequest<'_>) {
        let has_id = |topic: &MetadataRequestTopic<'_>| topic.topic_id != 0 || topic.name.is_none();
        if context.version < FIRST_VERSION_WITH_IDS && request.topics.iter().flatten().any(has_id) {
            let request = Request::Metadata(request.clone());
            return self.refuse(context, &request, ErrorCode::INVALID_REQUEST);
        }
        let topics = match request.topics.as_deref() {
            // In version 0 an empty list asks for all topics.
            None => self.topics.iter().map(|topic| self.topic_metadata(topic, context.version)).collect(),
            Some([]) if context.version == 0 => self.topics.iter().map(|topic| self.topic_metadata(topic, 0)).collect(),
            Some(topics) => {
                let may_create = request.allow_auto_topic_creation && self.config.auto_create_topics;
                // Names are ignored beside ids.
                let has_ids = topics.iter().any(|topic| topic.topic_id != 0);
                let wanted = topics.iter().filter(|topic| !has_ids || topic.topic_id != 0);
                wanted.map(|topic| self.requested_topic(topic, may_create, context.version)).collect()
            }
        };
        let mut topics: Vec<MetadataResponseTopic<'static>> = topics;
        if request.include_topic_authorized_operations {
            let found = topics.iter_mut().filter(|topic| topic.error_code != ErrorCode::UNKNOWN_TOPIC_ID.0);
            found.for_each(|topic| topic.topic_authorized_operations = TOPIC_OPERATIONS);
        }
        let broker = |broker: &crate::cluster::BrokerAddress| MetadataResponseBroker {
            node_id: broker.id,
            host: Cow::Owned(broker.host.to_string()),
            port: broker.port.into(),
            rack: Self::rack_of(broker).map(Cow::Owned),
        };
        let response = MetadataResponse {
            brokers: self.live_brokers().map(broker).collect(),
            cluster_id: Some(Cow::Owned(self.cluster_id.to_string())),
            controller_id: self.controller(),
            topics,
            cluster_authorized_operations: match request.include_cluster_authorized_operations {
                true => CLUSTER_OPERATIONS,
                false => i32::MIN,
            },
            ..MetadataResponse::default()
        };
        self.reply(context, Response::Metadata(response));
    }

    fn requested_topic(
        &mut self,
        requested: &MetadataRequestTopic<'_>,
        may_create: bool,
        version: i16,
    ) -> MetadataResponseTopic<'static> {
        if requested.topic_id != 0 {
            return match self.topics.by_id(requested.topic_id) {
                Some(topic) => self.topic_metadata(topic, version),
                None => MetadataResponseTopic {
                    error_code: ErrorCode::UNKNOWN_TOPIC_ID.0,
                    topic_id: requested.topic_id,
                    name: None,
                    ..MetadataResponseTopic::default()
                },
            };
        }
        let name = requested.name.as_deref().unwrap_or_default();
        let failed = |error: ErrorCode| MetadataResponseTopic {
            error_code: error.0,
            name: Some(Cow::Owned(name.to_owned())),
            ..MetadataResponseTopic::default()
        };
        if self.topics.get(name).is_none() {
            if check_topic_name(name).is_err() {
                return failed(ErrorCode::INVALID_TOPIC_EXCEPTION);
            }
            if !may_create || self.auto_create_topic(name).is_err() {
                return failed(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
            }
        }
        match self.topics.get(name) {
            Some(topic) => self.topic_metadata(topic, version),
            None => failed(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        }
    }

    fn topic_metadata(&self, topic: &Topic, _version: i16) -> MetadataResponseTopic<'static> {
        let partition = |(index, partition): (i32, &crate::topics::Partition)| {
            let in_sync = partition.in_sync(&self.live);
            let error = if partition.leader.is_some() { ErrorCode::NONE } else { ErrorCode::LEADER_NOT_AVAILABLE };
            MetadataResponsePartition {
                error_code: error.0,
                partition_index: index,
                leader_id: partition.leader.unwrap_or(-1),
                leader_epoch: partition.leader_epoch,
                offline_replicas: partition.replicas.iter().copied().filter(|id| !in_sync.contains(id)).collect(),
                isr_nodes: in_sync,
                replica_nodes: partition.replicas.clone(),
            }
        };
        MetadataResponseTopic {
            name: Some(Cow::Owned(topic.name.to_string())),
            topic_id: topic.id,
            partitions: topic.indexed().map(partition).collect(),
            ..MetadataResponseTopic::default()
        }
    }

    pub(in crate::cluster) fn describe_cluster(&mut self, context: &RequestContext, request: &DescribeClusterRequest) {
        if request.endpoint_type != 1 {
            let (error, message) = match request.endpoint_type {
                2 => (ErrorCode::MISMATCHED_ENDPOINT_TYPE, "The request was sent to a broker, not to a controller."),
                _ => (ErrorCode::UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type: use 1 for brokers."),
            };
            let response = DescribeClusterResponse {
                error_code: error.0,
                error_message: Some(Cow::Borrowed(message)),
                ..DescribeClusterResponse::default()
            };
            return self.reply(context, Response::DescribeCluster(response));
        }
        let broker = |broker: &crate::cluster::BrokerAddress| DescribeClusterBroker {
            broker_id: broker.id,
            host: Cow::Owned(broker.host.to_string()),
            port: broker.port.into(),
            rack: Self::rack_of(broker).map(Cow::Owned),
            is_fenced: false,
        };
        let response = DescribeClusterResponse {
            cluster_id: Cow::Owned(self.cluster_id.to_string()),
            controller_id: self.controller(),
            brokers: self.live_brokers().map(broker).collect(),
            cluster_authorized_operations: match request.include_cluster_authorized_operations {
                true => CLUSTER_OPERATIONS,
                false => i32::MIN,
            },
            ..DescribeClusterResponse::default()
        };
        self.reply(context, Response::DescribeCluster(response));
    }
}
