//! Settings of a whole consumer.

use crate::cluster::ClusterConfig;
use crate::fetch::FetchConfig;
use crate::group::GroupConfig;
use crate::position::PositionConfig;
use crate::share::ShareConfig;
use crate::time::{Nanos, SECOND};

/// Settings of each state machine of the consumer.
#[derive(Debug, Clone, Default)]
pub struct ConsumerCoreConfig {
    /// Connections and metadata.
    pub cluster: ClusterConfig,
    /// Fetching.
    pub fetch: FetchConfig,
    /// Start positions and resets.
    pub position: PositionConfig,
    /// Consumer group; `None`: no group.
    pub group: Option<GroupConfig>,
    /// `Some`: the group is a share group (KIP-932), and its protocol is
    /// [`GroupProtocol::Share`](crate::group::GroupProtocol::Share).
    pub share: Option<ShareConfig>,
    /// `auto.commit.interval.ms`, in nanoseconds; `None`: only explicit commits.
    pub auto_commit: Option<Nanos>,
    /// Whether offsets are committed in transactions. `auto_commit` is then the time from the first work that is not
    /// committed to its transaction.
    pub transactional: bool,
    /// Recovery of partitions that cannot be read. `None`: each error is reported once, and the partition stays stopped
    /// until a seek.
    pub partition_recovery: Option<PartitionRecovery>,
}

/// Recovery of partitions that cannot be read.
#[derive(Debug, Clone)]
pub struct PartitionRecovery {
    /// Longest wait between two attempts, in nanoseconds.
    pub retry_backoff_max: Nanos,
    /// Time after which a condition that mostly ends by itself (no leader, no response) counts as a failure, in
    /// nanoseconds.
    pub unserved_after: Nanos,
    /// Interval for repeating the report of a lasting failure, in nanoseconds; `None`: one report only.
    pub repeat_after: Option<Nanos>,
    /// Interval for querying the end offsets of partitions that are not fetched, in nanoseconds.
    pub ends_every: Nanos,
}

impl Default for PartitionRecovery {
    fn default() -> Self {
        Self {
            retry_backoff_max: 5 * SECOND,
            unserved_after: 30 * SECOND,
            repeat_after: Some(30 * SECOND),
            ends_every: 5 * SECOND,
        }
    }
}
