//! Read access to the cluster for the fetch, position and produce state machines; tests implement it with a table.

use grete_wire::api::ApiKey;
use grete_wire::error_code::ErrorCode;

use crate::cluster::{Cluster, PartitionMetadata};
use crate::ids::{NodeId, TopicPartition};
use crate::request::Channel;
use crate::time::Nanos;

/// Read access to metadata and connections.
pub trait ClusterView {
    /// Returns the leader and the leader epoch (-1: unknown); `None`: no leader is known.
    fn leader(&self, tp: &TopicPartition) -> Option<(NodeId, i32)>;
    /// Returns the partitions by number; `None`: no response has contained the topic yet. See [`Cluster::partitions`].
    fn partitions(&self, topic: &str) -> Option<Result<&[PartitionMetadata], ErrorCode>>;
    /// Returns whether the metadata contains this broker.
    fn has_broker(&self, node: NodeId) -> bool {
        let _ = node;
        true
    }
    /// Returns the time of the last response about the topic, if that response reports the topic as unknown.
    fn missing_at(&self, topic: &str) -> Option<Nanos>;
    /// Returns the topic id; 0: the metadata has no id. `None`: the topic is unknown.
    fn topic_id(&self, topic: &str) -> Option<u128>;
    /// Returns the version of `api` for that connection; `None`: the connection is not ready.
    fn api_version(&self, node: NodeId, channel: Channel, api: ApiKey) -> Option<i16>;
    /// Returns whether the node is throttled (KIP-219).
    fn is_muted(&self, node: NodeId, now: Nanos) -> bool;
    /// Returns a number that is incremented whenever a value above may have changed.
    fn metadata_version(&self) -> u64;
}

impl ClusterView for Cluster {
    fn leader(&self, tp: &TopicPartition) -> Option<(NodeId, i32)> {
        self.leader(tp)
    }

    fn partitions(&self, topic: &str) -> Option<Result<&[PartitionMetadata], ErrorCode>> {
        self.partitions(topic)
    }

    fn has_broker(&self, node: NodeId) -> bool {
        self.has_broker(node)
    }

    fn missing_at(&self, topic: &str) -> Option<Nanos> {
        self.topic(topic)?.missing_at
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
