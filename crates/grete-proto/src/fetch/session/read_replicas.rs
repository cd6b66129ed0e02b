//! Followers that partitions are read from (KIP-392), and followers that have failed.

use std::collections::BTreeMap;

use crate::ids::{NodeId, PartitionHandle};
use crate::time::Nanos;

/// Followers that partitions are read from, and followers that are avoided.
#[derive(Debug, Default)]
pub(in crate::fetch) struct ReadReplicas {
    /// Partitions that are read from a follower, and the end of that. Entries of removed partitions end by time.
    pub until: BTreeMap<PartitionHandle, Nanos>,
    /// Lower bound of the times in `until`; `None`: no partition is read from a follower.
    pub next_end: Option<Nanos>,
    /// Followers that have failed, and the time until which they are avoided.
    pub avoided: BTreeMap<NodeId, Nanos>,
    /// Followers that leaders have named in this step: index of the session, partition, follower.
    pub named: Vec<(usize, PartitionHandle, NodeId)>,
}

impl ReadReplicas {
    /// Records that a leader names a follower for a partition.
    pub fn name(&mut self, session: usize, slot: PartitionHandle, node: NodeId) {
        self.named.push((session, slot, node));
    }

    /// Avoids a follower for this long.
    pub fn avoid(&mut self, now: Nanos, node: NodeId, wait: Nanos) {
        self.avoided.retain(|_, until| now < *until);
        let until = self.avoided.entry(node).or_default();
        *until = now.saturating_add(wait).max(*until);
    }
}
