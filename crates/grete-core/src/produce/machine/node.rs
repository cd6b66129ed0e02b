//! One broker, as far as partitions wait for it.

use std::collections::VecDeque;

use crate::ids::NodeId;
use crate::produce::accumulator::PartitionId;
use crate::time::Nanos;

#[derive(Debug)]
pub(super) struct Node {
    pub id: NodeId,
    /// Partitions with something to send, each once; who has been served goes to the end.
    pub queue: VecDeque<PartitionId>,
    /// Requests on their way.
    pub in_flight: usize,
    /// A connection was asked for, and is asked for again only then.
    pub asked_until: Nanos,
}

impl Node {
    pub fn new(id: NodeId) -> Self {
        Self { id, queue: VecDeque::new(), in_flight: 0, asked_until: 0 }
    }
}
