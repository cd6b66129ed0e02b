//! What the fetch, position and produce machines need to know about the cluster, and no more: tests answer it from a table.

use grete_wire::api_key::ApiKey;
use grete_wire::error_code::ErrorCode;

use crate::cluster::{Cluster, PartitionMeta};
use crate::ids::{NodeId, TopicPartition};
use crate::request::Channel;
use crate::time::Nanos;

/// Read access to metadata and connections.
pub trait ClusterView {
    /// Leader and leader epoch (-1: unknown). `None` while no leader is known.
    fn leader(&self, tp: &TopicPartition) -> Option<(NodeId, i32)>;
    /// The topic's partitions by number; `None` while no answer has spoken of the topic. See [`Cluster::partitions`].
    fn partitions(&self, topic: &str) -> Option<Result<&[PartitionMeta], ErrorCode>>;
    /// The topic's id; 0 when the metadata has none. `None` when the topic itself is unknown.
    fn topic_id(&self, topic: &str) -> Option<u128>;
    /// The version of `api` to use on that connection. `None` while it is not ready.
    fn api_version(&self, node: NodeId, channel: Channel, api: ApiKey) -> Option<i16>;
    /// Whether the node asked for silence (KIP-219).
    fn is_muted(&self, node: NodeId, now: Nanos) -> bool;
    /// Grows whenever anything above may have changed.
    fn metadata_version(&self) -> u64;
}

impl ClusterView for Cluster {
    fn leader(&self, tp: &TopicPartition) -> Option<(NodeId, i32)> {
        self.leader(tp)
    }

    fn partitions(&self, topic: &str) -> Option<Result<&[PartitionMeta], ErrorCode>> {
        self.partitions(topic)
    }

    fn topic_id(&self, topic: &str) -> Option<u128> {
        self.topic(topic).map(|topic| topic.id)
    }

    fn api_version(&self, node: NodeId, channel: Channel, api: ApiKey) -> Option<i16> {
        self.api_version(node, channel, api)
    }

    fn is_muted(&self, node: NodeId, now: Nanos) -> bool {
        self.is_muted(node, now)
    }

    fn metadata_version(&self) -> u64 {
        self.metadata_version()
    }
}
