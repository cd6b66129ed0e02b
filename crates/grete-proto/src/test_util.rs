//! Shared helpers for tests of several state machines: a cluster made of a table, and seeds.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use grete_wire::api::ApiKey;
use grete_wire::error_code::ErrorCode;

use crate::cluster::view::ClusterView;
use crate::cluster::{NO_EPOCH, NO_LEADER, PartitionMetadata};
use crate::ids::{NodeId, TopicPartition};
use crate::request::Channel;
use crate::time::Nanos;

#[derive(Debug, Default)]
pub(crate) struct FakeClusterView {
    leaders: HashMap<TopicPartition, (NodeId, i32)>,
    partitions: HashMap<Arc<str>, Vec<PartitionMetadata>>,
    ids: HashMap<Arc<str>, u128>,
    fetch_versions: HashMap<NodeId, i16>,
    muted: HashMap<NodeId, Nanos>,
    disconnected: HashSet<NodeId>,
    version: u64,
}

impl FakeClusterView {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn set_leader(&mut self, tp: &TopicPartition, leader: Option<(NodeId, i32)>) {
        self.version += 1;
        let partitions = self.partitions.entry(Arc::clone(&tp.topic)).or_default();
        let index = usize::try_from(tp.partition).expect("a partition's number");
        let leaderless =
            PartitionMetadata { leader: NO_LEADER, leader_epoch: NO_EPOCH, error: ErrorCode::LEADER_NOT_AVAILABLE };
        partitions.resize(partitions.len().max(index + 1), leaderless);
        partitions[index] = leader.map_or(leaderless, |(leader, leader_epoch)| PartitionMetadata {
            leader,
            leader_epoch,
            error: ErrorCode::NONE,
        });
        match leader {
            Some(leader) => self.leaders.insert(tp.clone(), leader),
            None => self.leaders.remove(tp),
        };
    }

    pub(crate) fn set_topic_id(&mut self, topic: &str, id: u128) {
        self.version += 1;
        self.ids.insert(Arc::from(topic), id);
    }

    /// Sets the version of the fetch connection; `None`: the connection is not ready.
    pub(crate) fn set_fetch_version(&mut self, node: NodeId, version: Option<i16>) {
        match version {
            Some(version) => self.fetch_versions.insert(node, version),
            None => self.fetch_versions.remove(&node),
        };
    }

    /// Takes the connections of a node away, or returns them.
    pub(crate) fn set_connected(&mut self, node: NodeId, connected: bool) {
        if connected {
            self.disconnected.remove(&node)
        } else {
            self.disconnected.insert(node)
        };
    }

    pub(crate) fn mute_until(&mut self, node: NodeId, until: Nanos) {
        self.muted.insert(node, until);
    }
}

impl ClusterView for FakeClusterView {
    fn leader(&self, tp: &TopicPartition) -> Option<(NodeId, i32)> {
        self.leaders.get(tp).copied()
    }

    fn partitions(&self, topic: &str) -> Option<Result<&[PartitionMetadata], ErrorCode>> {
        self.partitions.get(topic).map(|partitions| Ok(&partitions[..]))
    }

    fn has_broker(&self, node: NodeId) -> bool {
        self.fetch_versions.contains_key(&node)
    }

    fn missing_at(&self, _: &str) -> Option<Nanos> {
        None
    }

    fn topic_id(&self, topic: &str) -> Option<u128> {
        self.ids.get(topic).copied()
    }

    fn api_version(&self, node: NodeId, channel: Channel, api: ApiKey) -> Option<i16> {
        match (channel, api) {
            _ if self.disconnected.contains(&node) => None,
            (Channel::Fetch, ApiKey::Fetch) => self.fetch_versions.get(&node).copied(),
            _ => Some(*api.ours().end()),
        }
    }

    fn is_muted(&self, node: NodeId, now: Nanos) -> bool {
        self.muted.get(&node).is_some_and(|until| now < *until)
    }

    fn metadata_version(&self) -> u64 {
        self.version
    }
}

/// Simulates `regressions` (seeds that have failed once) and `count` seeds from 0. `GRETE_SEED=n` runs only seed n,
/// with `run`'s trace output enabled; `GRETE_SEEDS=n` sets the number of seeds.
#[allow(clippy::disallowed_methods)] // the seed is set by the developer who debugs a failure
pub(crate) fn for_each_seed(regressions: &[u64], count: u64, run: impl Fn(u64, bool) + std::panic::RefUnwindSafe) {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    if let Some(seed) = number("GRETE_SEED") {
        return run(seed, true);
    }
    for seed in regressions.iter().copied().chain(0..number("GRETE_SEEDS").unwrap_or(count)) {
        if let Err(panic) = std::panic::catch_unwind(|| run(seed, false)) {
            eprintln!("failed with GRETE_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
