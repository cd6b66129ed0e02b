//! Which groups lists and descriptions show.
//!
//! Kafka keeps a group in memory and as records of its partition of `__consumer_offsets`. Lists and descriptions show the
//! groups as of the partition's last record. A group whose first commit was refused has no record of its own: requests of
//! members find the group at once, and lists show the group from the partition's next record on, whichever group or
//! transaction wrote that record.

use crate::coordinator_partition::{COORDINATOR_PARTITIONS, coordinator_partition};

/// Number of records that were stored since the start, by partition of `__consumer_offsets`.
#[derive(Debug)]
pub(super) struct RecordCounts([u64; COORDINATOR_PARTITIONS]);

impl RecordCounts {
    /// Creates the counts of a coordinator that has stored nothing yet.
    pub(super) fn new() -> Self {
        Self([0; COORDINATOR_PARTITIONS])
    }

    /// Counts a record of a group.
    pub(super) fn count(&mut self, group: &str) {
        if let Some(count) = self.0.get_mut(coordinator_partition(group)) {
            *count += 1;
        }
    }

    /// Returns the number of records in the partition of a group.
    pub(super) fn of(&self, group: &str) -> u64 {
        self.0.get(coordinator_partition(group)).copied().unwrap_or(0)
    }
}
