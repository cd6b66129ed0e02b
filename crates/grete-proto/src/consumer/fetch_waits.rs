//! Reasons why no data of partitions comes, for the watch of the lanes.

use super::ConsumerCore;
use crate::group::ConsumerGroup;
use crate::ids::PartitionHandle;
use crate::partition::fetch_wait::FetchWait;
use crate::time::Nanos;

impl ConsumerCore {
    /// Returns the partitions for which something keeps data from coming, each with the reason, ordered by partition.
    ///
    /// The call visits all partitions. It is meant for a timer, not for each event.
    #[must_use]
    pub fn fetch_waits(&self, now: Nanos) -> Vec<(PartitionHandle, FetchWait)> {
        let mut waits: Vec<_> =
            self.partitions.live().iter().filter_map(|slot| Some((*slot, self.fetch_wait(now, *slot)?))).collect();
        waits.sort_unstable_by_key(|(slot, _)| *slot);
        waits
    }

    fn fetch_wait(&self, now: Nanos, slot: PartitionHandle) -> Option<FetchWait> {
        if let Some(share) = &self.share {
            return share.facts(now, slot, &self.cluster, &self.partitions).reason();
        }
        let mut facts = self.fetch.facts(now, slot, &self.cluster, &self.partitions);
        facts.lookup = self.positions.last_error(slot);
        facts.member_state = self.group.as_ref().map_or("", ConsumerGroup::state_name);
        facts.reason()
    }

    /// Returns whether a partition has failed, or has made no progress in the last check, or whether something may keep
    /// records from coming: a broker takes long to answer, or any reason in a share group.
    #[must_use]
    pub fn has_failing_partitions(&self, now: Nanos) -> bool {
        self.failures.deadline().is_some()
            || self.fetch.is_hindered(now)
            || self.share.as_ref().is_some_and(|share| share.is_hindered(now))
    }
}
