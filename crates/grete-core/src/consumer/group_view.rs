//! What the group asks of the cluster's metadata.

use grete_wire::error_code::ErrorCode;

use crate::cluster::Cluster;
use crate::group::ClusterView;

impl ClusterView for Cluster {
    fn partition_count(&self, topic: &str) -> Option<i32> {
        let meta = self.topic(topic)?;
        match meta.error {
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => Some(0),
            ErrorCode::NONE | ErrorCode::LEADER_NOT_AVAILABLE => i32::try_from(meta.partitions.len()).ok(),
            _ => None,
        }
    }
}
