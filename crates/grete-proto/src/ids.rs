//! Ids that several state machines use.

use std::fmt;
use std::sync::Arc;

/// Broker id; bootstrap addresses have negative ids until the metadata names their brokers.
pub type NodeId = i32;

/// Dense index of a partition that one client fetches; never reused for another assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionHandle(pub u32);

impl PartitionHandle {
    /// Returns the index into the struct-of-arrays.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Id of one TCP connection, from the connection attempt to the close; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(pub u32);

/// Dense index of a topic that one producer writes to; valid for the lifetime of its accumulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicId(pub u32);

/// Dense index of a partition that one producer writes to, over all its topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionId(pub u32);

/// A topic name and a partition number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    /// Topic name.
    pub topic: Arc<str>,
    /// Partition number, from 0.
    pub partition: i32,
}

impl TopicPartition {
    /// Creates a topic partition.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.topic, self.partition)
    }
}

/// Producer id and epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerIdAndEpoch {
    /// Producer id; -1: none.
    pub id: i64,
    /// Producer epoch; -1: none.
    pub epoch: i16,
}

impl ProducerIdAndEpoch {
    /// Id and epoch of a producer without idempotence.
    pub const NONE: Self = Self { id: -1, epoch: -1 };
}
