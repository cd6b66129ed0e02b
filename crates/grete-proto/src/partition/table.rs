//! Table of all assigned partitions: a struct of arrays, indexed by a dense [`PartitionHandle`].
//!
//! The offset resolver sets a partition's start position, and the fetcher advances the position. A generation number
//! fences both: each seek, reset and removal draws a new generation, and data with an older generation is stale and
//! dropped. One counter serves all partitions, so a generation never matches another partition's by chance.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cluster::view::ClusterView;
use crate::ids::{NodeId, PartitionHandle, TopicPartition};
use crate::request::NO_NODE;

/// Stage of an assigned partition: which state machine owns the partition now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FetchState {
    /// The partition is no longer assigned.
    #[default]
    Removed,
    /// The offset resolver looks up the start position.
    Resolving,
    /// The fetcher fetches from `fetch_offset`.
    Fetching,
    /// An error stopped the partition and was reported. A new start position restarts the partition.
    Failed,
}

macro_rules! columns {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $default:expr, $set:ident, $planned:literal;)*) => {
        /// Table of partitions, one column per field.
        #[derive(Debug, Default)]
        pub struct PartitionTable {
            tp: Vec<TopicPartition>,
            by_name: HashMap<Arc<str>, HashMap<i32, PartitionHandle>>,
            live: Vec<PartitionHandle>,
            recreated: Vec<PartitionHandle>,
            generations: u32,
            layout: u64,
            seen_metadata: Option<u64>,
            queued_total: usize,
            /// Partitions to plan again, each at most once.
            changed: Vec<PartitionHandle>,
            is_changed: Vec<bool>,
            $($name: Vec<$type>,)*
        }

        impl PartitionTable {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(&self, slot: PartitionHandle) -> $type {
                    self.$name.get(slot.index()).copied().unwrap_or($default)
                }

                #[allow(dead_code, reason = "not every column is set from outside")]
                pub(crate) fn $set(&mut self, slot: PartitionHandle, value: $type) {
                    let Some(cell) = self.$name.get_mut(slot.index()) else { return };
                    if $planned && *cell != value {
                        *cell = value;
                        self.touch(slot);
                    } else {
                        *cell = value;
                    }
                }
            )*

            fn push(&mut self, tp: TopicPartition) -> PartitionHandle {
                let slot = PartitionHandle(u32::try_from(self.tp.len()).unwrap_or(u32::MAX));
                self.tp.push(tp);
                self.is_changed.push(false);
                $(self.$name.push($default);)*
                slot
            }
        }
    };
}

columns! {
    /// Stage of the partition.
    state: FetchState = FetchState::Removed, set_state, true;
    /// Topic id (KIP-516); 0 when the metadata has none.
    topic_id: u128 = 0, set_topic_id, false;
    /// Node id of the leader, or [`NO_NODE`].
    leader: NodeId = NO_NODE, set_leader_node, true;
    /// Node id of the follower that the partition is read from (KIP-392), or [`NO_NODE`]: its leader.
    read_replica: NodeId = NO_NODE, set_read_replica_node, true;
    /// Leader epoch; -1 when unknown.
    leader_epoch: i32 = -1, set_leader_epoch, true;
    /// Next offset to fetch, derived from batch headers; -1 during the first lookup.
    fetch_offset: i64 = -1, set_fetch_offset, true;
    /// Leader epoch of the record before `fetch_offset`; -1 when unknown.
    last_fetched_epoch: i32 = -1, set_last_fetched_epoch, true;
    /// Assignment that created the entry.
    assignment_epoch: u32 = 0, set_assignment_epoch, false;
    /// Generation of the position. Each seek, reset and removal changes the generation; data with another one is stale.
    fetch_generation: u32 = 0, set_fetch_generation, true;
    /// First generation of the current topic. Offsets from older generations belong to a deleted topic and are never
    /// committed. 0: the topic was never recreated.
    first_generation: u32 = 0, set_first_generation, false;
    /// Bytes fetched or decompressed, and not yet released.
    queued_bytes: usize = 0, set_queued_bytes, false;
    /// High watermark of the last response; -1 when unknown.
    high_watermark: i64 = -1, set_high_watermark, false;
    /// Last stable offset of the last response; -1 when unknown.
    last_stable_offset: i64 = -1, set_last_stable_offset, false;
    /// Log start offset of the last response; -1 when unknown.
    log_start_offset: i64 = -1, set_log_start_offset, false;
}

impl PartitionTable {
    /// Creates an empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a partition of assignment `assignment_epoch`. The partition is not fetched before it has a start position.
    /// An earlier entry of the same partition is removed.
    pub fn add(&mut self, tp: TopicPartition, assignment_epoch: u32) -> PartitionHandle {
        if let Some(old) = self.handle(&tp) {
            self.remove(old);
        }
        let slot = self.push(tp.clone());
        self.by_name.entry(tp.topic).or_default().insert(tp.partition, slot);
        self.live.push(slot);
        self.set_state(slot, FetchState::Resolving);
        self.set_assignment_epoch(slot, assignment_epoch);
        self.new_generation(slot);
        self.layout += 1;
        self.seen_metadata = None;
        slot
    }

    /// Removes a partition. Its queued bytes stay counted until they are released.
    pub fn remove(&mut self, slot: PartitionHandle) {
        self.remove_all(&[slot]);
    }

    /// Removes partitions, in one pass over those that stay.
    pub fn remove_all(&mut self, slots: &[PartitionHandle]) {
        let mut removed = false;
        for &slot in slots {
            if self.state(slot) == FetchState::Removed {
                continue;
            }
            removed = true;
            self.set_state(slot, FetchState::Removed);
            self.new_generation(slot);
        }
        if removed {
            let states = &self.state;
            self.live.retain(|live| states.get(live.index()).is_some_and(|state| *state != FetchState::Removed));
            self.layout += 1;
        }
    }

    /// Returns the handle of an assigned partition.
    #[must_use]
    pub fn handle(&self, tp: &TopicPartition) -> Option<PartitionHandle> {
        self.last_handle(tp).filter(|slot| self.is_live(*slot))
    }

    /// Returns the partition's current handle, or else its last one.
    #[must_use]
    pub fn last_handle(&self, tp: &TopicPartition) -> Option<PartitionHandle> {
        self.by_name.get(&tp.topic)?.get(&tp.partition).copied()
    }

    /// Returns the topic and partition of a handle, also after removal.
    pub fn topic_partition(&self, slot: PartitionHandle) -> Option<&TopicPartition> {
        self.tp.get(slot.index())
    }

    /// Returns the topic and partition for messages; `?[-1]` for an unknown handle.
    pub(crate) fn name(&self, slot: PartitionHandle) -> TopicPartition {
        self.topic_partition(slot).cloned().unwrap_or_else(|| TopicPartition::new("?", -1))
    }

    /// Returns the handles of the assigned partitions, in order of assignment.
    #[must_use]
    pub fn live(&self) -> &[PartitionHandle] {
        &self.live
    }

    /// Returns whether the partition is assigned.
    pub fn is_live(&self, slot: PartitionHandle) -> bool {
        self.state(slot) != FetchState::Removed
    }

    /// Returns whether data fetched under these numbers may still be delivered to the application.
    pub fn is_current(&self, slot: PartitionHandle, assignment_epoch: u32, fetch_generation: u32) -> bool {
        self.is_live(slot)
            && self.assignment_epoch(slot) == assignment_epoch
            && self.fetch_generation(slot) == fetch_generation
    }

    /// Draws a new generation: queued and in-flight data of the partition becomes stale.
    pub(crate) fn new_generation(&mut self, slot: PartitionHandle) -> u32 {
        self.generations = self.generations.wrapping_add(1).max(1);
        self.set_fetch_generation(slot, self.generations);
        self.generations
    }

    /// Returns whether an offset from a position of this generation belongs to the current topic of that name.
    pub fn is_of_current_topic(&self, slot: PartitionHandle, generation: u32) -> bool {
        // Generations are drawn in order and may wrap.
        let first = self.first_generation(slot);
        first == 0 || generation.wrapping_sub(first) < u32::MAX / 2
    }

    /// Moves the position, under a new generation.
    pub(crate) fn move_to(&mut self, slot: PartitionHandle, offset: i64, last_fetched_epoch: i32) {
        self.set_fetch_offset(slot, offset);
        self.set_last_fetched_epoch(slot, last_fetched_epoch);
        self.new_generation(slot);
    }

    /// Returns the queued bytes of all partitions, including removed ones.
    pub fn queued_total(&self) -> usize {
        self.queued_total
    }

    /// Adds to the bytes held for the partition.
    pub fn charge(&mut self, slot: PartitionHandle, bytes: usize) {
        if slot.index() < self.tp.len() {
            self.set_queued_bytes(slot, self.queued_bytes(slot).saturating_add(bytes));
            self.queued_total = self.queued_total.saturating_add(bytes);
        }
    }

    /// Subtracts from the bytes held for the partition, never below 0.
    pub fn release(&mut self, slot: PartitionHandle, bytes: usize) {
        let bytes = bytes.min(self.queued_bytes(slot));
        self.set_queued_bytes(slot, self.queued_bytes(slot) - bytes);
        self.queued_total = self.queued_total.saturating_sub(bytes);
    }

    /// Records that the partition must be planned again: a field of its Fetch requests, or a reason to fetch the
    /// partition or not, has changed.
    pub(crate) fn touch(&mut self, slot: PartitionHandle) {
        if let Some(is_changed) = self.is_changed.get_mut(slot.index())
            && !std::mem::replace(is_changed, true)
        {
            self.changed.push(slot);
        }
    }

    /// Passes each partition that was touched since the last call to `plan`.
    pub(crate) fn drain_changed(&mut self, mut plan: impl FnMut(PartitionHandle)) {
        for slot in self.changed.drain(..) {
            if let Some(is_changed) = self.is_changed.get_mut(slot.index()) {
                *is_changed = false;
            }
            plan(slot);
        }
    }

    /// Returns a counter that grows whenever the set of partitions or a leader changes.
    pub(crate) fn layout(&self) -> u64 {
        self.layout
    }

    /// Copies leaders, leader epochs and topic ids from the metadata. Returns whether a leader, an epoch or a topic id
    /// changed.
    ///
    /// An older epoch is stale metadata and ignored. An equal or unknown epoch is accepted: two brokers may report the
    /// same epoch during a reassignment.
    pub fn refresh(&mut self, view: &impl ClusterView) -> bool {
        let version = view.metadata_version();
        if self.seen_metadata == Some(version) {
            return false;
        }
        self.seen_metadata = Some(version);
        let mut changed = false;
        for index in 0..self.live.len() {
            let Some(&slot) = self.live.get(index) else { continue };
            let Some(tp) = self.tp.get(slot.index()) else { continue };
            let (id, leader) = (view.topic_id(&tp.topic).unwrap_or(0), view.leader(tp));
            changed |= self.refresh_partition(slot, id, leader);
        }
        self.layout += u64::from(changed);
        changed
    }

    fn refresh_partition(&mut self, slot: PartitionHandle, id: u128, leader: Option<(NodeId, i32)>) -> bool {
        let mut changed = false;
        if id != 0 && id != self.topic_id(slot) {
            if self.topic_id(slot) != 0 && self.state(slot) != FetchState::Failed {
                // The name is the same, but the topic is new: offsets of the old topic mean nothing there and must
                // never be used.
                self.set_state(slot, FetchState::Failed);
                let generation = self.new_generation(slot);
                self.set_first_generation(slot, generation);
                self.recreated.push(slot);
            }
            self.set_topic_id(slot, id);
            self.set_high_watermark(slot, -1);
            self.set_last_stable_offset(slot, -1);
            self.set_log_start_offset(slot, -1);
            self.set_leader_epoch(slot, -1);
            self.set_last_fetched_epoch(slot, -1);
            changed = true;
        }
        match leader {
            Some((node, epoch)) => {
                let ours = self.leader_epoch(slot);
                let stale = epoch >= 0 && epoch < ours;
                if !stale && (node, epoch) != (self.leader(slot), ours) {
                    // The new leader names the replica to read from.
                    self.set_read_replica_node(slot, NO_NODE);
                    self.set_leader_node(slot, node);
                    self.set_leader_epoch(slot, epoch);
                    changed = true;
                }
            }
            None if self.leader(slot) != NO_NODE => {
                self.set_leader_node(slot, NO_NODE);
                changed = true;
            }
            None => {}
        }
        changed
    }

    /// Returns the node that the partition is fetched from: its read replica or its leader; [`NO_NODE`] without a leader.
    pub fn source(&self, slot: PartitionHandle) -> NodeId {
        match (self.leader(slot), self.read_replica(slot)) {
            (leader, NO_NODE) => leader,
            (NO_NODE, _) => NO_NODE,
            (_, replica) => replica,
        }
    }

    /// Sets the follower that the partition is read from; [`NO_NODE`]: its leader. Returns whether it changed.
    pub(crate) fn set_read_replica(&mut self, slot: PartitionHandle, node: NodeId) -> bool {
        let changed = self.read_replica(slot) != node;
        if changed {
            self.set_read_replica_node(slot, node);
            self.layout += 1;
        }
        changed
    }

    /// Returns the partitions that stopped because their topic was deleted and created again, since the last call.
    pub(crate) fn take_recreated(&mut self) -> Vec<PartitionHandle> {
        std::mem::take(&mut self.recreated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_util::FakeClusterView;

    fn tp(partition: i32) -> TopicPartition {
        TopicPartition::new("orders", partition)
    }

    #[test]
    fn a_slot_is_never_used_twice_and_bytes_outlive_it() {
        let mut partitions = PartitionTable::new();
        let first = partitions.add(tp(0), 1);
        partitions.charge(first, 100);
        let generation = partitions.fetch_generation(first);
        let second = partitions.add(tp(0), 2);
        assert_ne!(first, second);
        assert!(!partitions.is_current(first, 1, generation));
        assert_eq!(partitions.handle(&tp(0)), Some(second));
        assert_eq!(partitions.live(), [second]);
        assert_eq!(partitions.queued_total(), 100);
        partitions.release(first, 1000);
        assert_eq!((partitions.queued_total(), partitions.queued_bytes(first)), (0, 0));
    }

    #[test]
    fn p11_equal_and_unknown_epochs_move_the_leader_and_older_ones_do_not() {
        let mut view = FakeClusterView::new();
        let mut partitions = PartitionTable::new();
        let slot = partitions.add(tp(0), 1);
        for (answer, expected) in [
            (Some((1, 5)), (1, 5)),
            (Some((2, 5)), (2, 5)),
            (Some((3, 4)), (2, 5)),
            (Some((3, 6)), (3, 6)),
            (None, (NO_NODE, 6)),
            (Some((4, -1)), (4, -1)),
        ] {
            view.set_leader(&tp(0), answer);
            partitions.refresh(&view);
            assert_eq!((partitions.leader(slot), partitions.leader_epoch(slot)), expected, "after {answer:?}");
        }
    }

    #[test]
    fn p13_a_topic_made_again_stops_the_slot() {
        let mut view = FakeClusterView::new();
        view.set_topic_id("orders", 7);
        view.set_leader(&tp(0), Some((1, 5)));
        let mut partitions = PartitionTable::new();
        let slot = partitions.add(tp(0), 1);
        partitions.refresh(&view);
        assert_eq!(partitions.topic_id(slot), 7);
        view.set_topic_id("orders", 8);
        view.set_leader(&tp(0), Some((1, 0)));
        assert!(partitions.refresh(&view));
        assert_eq!(partitions.state(slot), FetchState::Failed);
        assert_eq!(partitions.take_recreated(), [slot]);
        assert_eq!(partitions.leader_epoch(slot), 0);
    }
}
