//! DescribeTopics: metadata of the named topics, or of all.

use std::sync::Arc;

use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{MetadataRequest, MetadataResponse, MetadataResponsePartition, MetadataResponseTopic};

use super::super::error::AdminError;
use super::super::handler::{ApiHandler, ItemResult, ItemResults};
use super::super::reply::{AdminReply, PerItem};
use super::super::types::{PartitionDescription, TopicDescription};
use super::items::OnlyItem;
use super::util::metadata_request;
use crate::cluster::Cluster;
use crate::request::Request;

#[derive(Debug)]
pub(crate) struct DescribeTopics {
    pub names: Option<Vec<Arc<str>>>,
}

impl DescribeTopics {
    pub fn item(&self) -> OnlyItem {
        OnlyItem(match self.names.as_deref() {
            Some([name]) => format!("topic {name}"),
            Some(names) => format!("{} topics", names.len()),
            None => "all topics".to_owned(),
        })
    }
}

impl ApiHandler for DescribeTopics {
    type Api = MetadataRequest<'static>;
    type Item = OnlyItem;
    type Value = Vec<(String, Result<TopicDescription, AdminError>)>;

    const REPLY: fn(PerItem<Self::Value>) -> AdminReply = AdminReply::Topics;

    fn build_request(&self, _items: &[&OnlyItem], _cluster: &Cluster, _timeout_ms: i32) -> Request {
        let mut request = metadata_request(self.names.as_deref());
        if let Request::Metadata(metadata) = &mut request {
            metadata.include_topic_authorized_operations = true;
        }
        request
    }

    fn parse_response(&self, response: &MetadataResponse<'_>, results: &mut ItemResults<'_, Self>) {
        let topic = |topic: &MetadataResponseTopic<'_>| {
            let name = topic.name.as_deref()?.to_owned();
            let description = match ErrorCode(topic.error_code) {
                // A partition without a leader, which the partition's own fields report.
                ErrorCode::NONE | ErrorCode::LEADER_NOT_AVAILABLE => Ok(describe(&name, topic)),
                code => Err(AdminError::Refused { code, message: None }),
            };
            Some((name, description))
        };
        let topics = || response.topics.iter().filter_map(topic).collect();
        results.set_only(ItemResult::new(response.error_code, None, topics));
    }
}

fn describe(name: &str, topic: &MetadataResponseTopic<'_>) -> TopicDescription {
    let partition = |partition: &MetadataResponsePartition| PartitionDescription {
        id: partition.partition_index,
        leader: (partition.leader_id >= 0).then_some(partition.leader_id),
        leader_epoch: partition.leader_epoch,
        replicas: partition.replica_nodes.clone(),
        isr: partition.isr_nodes.clone(),
    };
    let mut partitions: Vec<PartitionDescription> = topic.partitions.iter().map(partition).collect();
    partitions.sort_unstable_by_key(|partition| partition.id);
    TopicDescription {
        name: name.to_owned(),
        id: topic.topic_id,
        internal: topic.is_internal,
        partitions,
        operations: topic.topic_authorized_operations,
    }
}
