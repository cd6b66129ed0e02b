//! Settings of a whole consumer.

use crate::cluster::ClusterConfig;
use crate::fetch::FetchConfig;
use crate::group::GroupConfig;
use crate::position::PositionConfig;
use crate::time::Nanos;

/// Settings of each machine.
#[derive(Debug, Clone, Default)]
pub struct ConsumerCoreConfig {
    /// Connections and metadata.
    pub cluster: ClusterConfig,
    /// Fetching.
    pub fetch: FetchConfig,
    /// Where partitions start.
    pub position: PositionConfig,
    /// The group, if there is one.
    pub group: Option<GroupConfig>,
    /// `auto.commit.interval.ms`; `None`: offsets are committed when the user says so.
    pub auto_commit: Option<Nanos>,
}
