//! Names for the things that machines talk about.

use std::fmt;
use std::sync::Arc;

/// A broker's id; bootstrap addresses have negative ones until metadata names them.
pub type NodeId = i32;

/// Dense index of a partition that one client fetches; never reused for another assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);

impl Slot {
    /// As an index into the struct-of-arrays.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One TCP connection, from the attempt to connect until it is closed; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(pub u32);

/// A topic's name and a partition number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number, from 0.
    pub partition: i32,
}

impl TopicPartition {
    /// Names one partition.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.topic, self.partition)
    }
}
