//! Reasons why no data of partitions comes, for the watch of the lanes.

use super::ConsumerCore;
use crate::group::ConsumerGroup;
use crate::ids::PartitionHandle;
use crate::partition::fetch_wait::FetchWait;
use crate::request::NO_NODE;
use crate::time::Nanos;

impl ConsumerCore {
    /// Returns the partitions for which something keeps data from coming, each with the reason, ordered by partition.
    ///
    /// The call visits all partitions. It is meant for a timer, not for each event.
    #[must_use]
    pub fn fetch_waits(&self, now: Nanos) -> Vec<(PartitionHandle, FetchWait)> {
        if self.is_shared() {
            // How many records are left only the leaders know.
            let live = self.partitions.live().iter();
            let leaderless = live.filter(|slot| self.partitions.leader(**slot) == NO_NODE);
            let mut waits: Vec<_> = leaderless.map(|slot| (*slot, FetchWait::NoLeader)).collect();
            waits.sort_unstable_by_key(|(slot, _)| *slot);
            return waits;
        }
        let mut waits: Vec<_> =
            self.partitions.live().iter().filter_map(|slot| Some((*slot, self.fetch_wait(now, *slot)?))).collect();
        waits.sort_unstable_by_key(|(slot, _)| *slot);
        waits
    }

    fn fetch_wait(&self, now: Nanos, slot: PartitionHandle) -> Option<FetchWait> {
        let mut facts = self.fetch.facts(now, slot, &self.cluster, &self.partitions);
        facts.lookup = self.positions.last_error(slot);
        facts.member_state = self.group.as_ref().map_or("", ConsumerGroup::state_name);
        facts.reason()
    }

    /// Returns whether a partition has failed, or has made no progress in the last check.
    #[must_use]
    pub fn has_failing_partitions(&self) -> bool {
        self.failures.deadline().is_some()
    }
}
