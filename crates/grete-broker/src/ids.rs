//! Identifiers and the broker's unit of time.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Time in milliseconds since 1970. The driver passes it with each event; it never goes back.
pub type Millis = i64;

/// `node.id` of a virtual broker, from 1.
pub type BrokerId = i32;

/// Topic id (KIP-516). 0: no id.
pub type TopicId = u128;

/// Connection of a client to a virtual broker. Unique in the life of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(pub u64);

/// Request that has not been answered yet. Unique in the life of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Partition of a topic, by the topic's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TopicPartition {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Index of the partition, from 0.
    pub partition: i32,
}

impl TopicPartition {
    /// Creates the identifier of a partition.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}
