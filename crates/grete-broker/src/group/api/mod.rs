//! Requests about offsets and groups that are answered at once: from the decoded request to the response.
//!
//! JoinGroup, SyncGroup, Heartbeat and LeaveGroup are methods of the coordinator, because their responses may come
//! later.

mod admin;
mod commit;
mod consumer;
mod error;
mod fetch;

use std::sync::Arc;

use grete_wire::ErrorCode;

use crate::ids::TopicId;

pub use admin::{AUTHORIZED_OPERATIONS, delete_groups, delete_offsets, describe_groups, list_groups};
pub use commit::commit_offsets;
pub use consumer::{consumer_heartbeat, describe_consumer_groups};
pub use error::error_response;
pub use fetch::fetch_offsets;

/// View on the cluster, from the broker that answers.
pub trait Lookup {
    /// Returns the id of a topic. `None`: the topic does not exist.
    fn topic_id(&self, name: &str) -> Option<TopicId>;

    /// Returns the name of a topic. `None`: the topic does not exist.
    fn topic_name(&self, id: TopicId) -> Option<Arc<str>>;

    /// Returns the number of partitions of a topic. 0: the topic does not exist.
    fn partition_count(&self, topic: TopicId) -> i32;

    /// Returns whether the partition exists.
    fn has_partition(&self, topic: &str, partition: i32) -> bool;

    /// Returns the error of a broker that does not coordinate the group, for example `NOT_COORDINATOR`. `None`: the
    /// broker coordinates the group.
    fn coordinator_error(&self, group: &str) -> Option<ErrorCode>;
}
