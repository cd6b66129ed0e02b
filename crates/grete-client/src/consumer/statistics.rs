//! Counters of a client that other threads read.

use std::sync::Arc;

use grete_proto::group::GroupStats;
use grete_proto::share::ShareStats;

use super::Consumer;
use crate::dispatcher::LaneReport;

/// Counters of one client, as its network thread published them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConsumerNetStats {
    /// Bytes of record batches received from brokers.
    pub fetched_bytes: u64,
    /// Records in these batches, according to the batch headers.
    pub fetched_records: u64,
    /// Number of Fetch requests sent.
    pub fetches: u64,
    /// Number of connections that broke unexpectedly.
    pub reconnects: u64,
    /// Number of connections that are open and ready.
    pub connections: usize,
    /// Counters of the group membership; `None`: no group.
    pub group: Option<GroupStats>,
    /// Counters of a share group; `None`: the group is none.
    pub share: Option<ShareStats>,
}

/// Statistics of one client.
#[derive(Debug, Clone, Default)]
pub struct ConsumerStatistics {
    /// Bytes of record batches received from brokers.
    pub bytes_received: u64,
    /// Number of Fetch requests sent.
    pub fetches: u64,
    /// Number of connections that broke unexpectedly.
    pub reconnects: u64,
    /// Bytes of fetched records that wait to be processed.
    pub queued_bytes: usize,
    /// Bytes of batches that users kept after their jobs.
    pub pinned_bytes: usize,
}

impl Consumer {
    /// Returns current statistics.
    pub fn statistics(&self) -> ConsumerStatistics {
        let net_stats = self.net_stats();
        ConsumerStatistics {
            bytes_received: net_stats.fetched_bytes,
            fetches: net_stats.fetches,
            reconnects: net_stats.reconnects,
            queued_bytes: self.lane_statuses().iter().map(|lane| lane.queued_bytes).sum(),
            pinned_bytes: self.inner.dispatcher.pinned_bytes(),
        }
    }

    /// Returns the status of each assigned partition, ordered by topic and partition.
    #[must_use]
    pub fn partition_reports(&self) -> Vec<LaneReport> {
        let mut reports = self.inner.dispatcher.lanes();
        reports.retain(|lane| self.owns_lane(lane));
        reports.sort_by(|one, other| (&one.topic, one.partition).cmp(&(&other.topic, other.partition)));
        reports
    }

    /// Returns the failure of the last login; `None`: there was none, or a login has succeeded since.
    pub fn login_failure(&self) -> Option<Arc<str>> {
        self.inner.published.login_failure.get()
    }

    /// Returns the user as brokers name it, without `User:`; `None`: it is unknown.
    #[must_use]
    pub fn user(&self) -> Option<Arc<str>> {
        self.inner.config.principal().user()
    }

    /// Returns which ACL on the group is missing, with the command that creates it; `None`: none, as far as is known.
    pub fn authorization_failure(&self) -> Option<Arc<str>> {
        self.inner.published.authorization_failure.get()
    }

    /// Returns the counters that the network thread published last. Waits for no other thread.
    pub fn net_stats(&self) -> ConsumerNetStats {
        self.inner.published.stats.get()
    }
}
