//! What the group asks of the cluster's metadata.

use grete_wire::error_code::ErrorCode;

use crate::cluster::Cluster;
use crate::group::ClusterView;

impl ClusterView for Cluster {
    fn partition_count(&self, topic: &str) -> Option<i32> {
        let meta = self.topic(topic)?;
        let count = i32::try_from(meta.partitions.len()).ok()?;
        match meta.error {
            // Partitions that are still known outlive an answer of a broker that has not heard of the topic yet.
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => Some(count),
            ErrorCode::NONE | ErrorCode::LEADER_NOT_AVAILABLE if count > 0 => Some(count),
            _ => None,
        }
    }
}
