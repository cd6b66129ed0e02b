//! What is known about each assigned partition: struct of arrays, indexed by a dense slot.
//!
//! The position machine decides where a slot starts, the fetch machine moves it on. A generation number fences both:
//! every seek, reset and removal draws a new one, and whatever carries an older one is late and ignored. Numbers are
//! drawn from one counter for all slots, so that not even another slot's generation can match by chance.

use std::collections::HashMap;

use crate::ids::{NodeId, Slot, TopicPartition};
use crate::request::NO_NODE;
use crate::view::ClusterView;

/// Who takes care of a slot at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SlotState {
    /// No longer assigned.
    #[default]
    Removed,
    /// The position machine looks for the offset to go on from.
    Resolving,
    /// The fetch machine fetches from `fetch_offset`.
    Fetching,
    /// Stopped with an error that was reported; a new start position revives it.
    Failed,
}

macro_rules! columns {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $default:expr, $set:ident;)*) => {
        /// The table of slots.
        #[derive(Debug, Default)]
        pub struct Partitions {
            tp: Vec<TopicPartition>,
            by_name: HashMap<TopicPartition, Slot>,
            live: Vec<Slot>,
            recreated: Vec<Slot>,
            generations: u32,
            layout: u64,
            seen_metadata: Option<u64>,
            queued_total: usize,
            $($name: Vec<$type>,)*
        }

        impl Partitions {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(&self, slot: Slot) -> $type {
                    self.$name.get(slot.index()).copied().unwrap_or($default)
                }

                #[allow(dead_code, reason = "not every column is set from outside")]
                pub(crate) fn $set(&mut self, slot: Slot, value: $type) {
                    if let Some(cell) = self.$name.get_mut(slot.index()) {
                        *cell = value;
                    }
                }
            )*

            fn push(&mut self, tp: TopicPartition) -> Slot {
                let slot = Slot(u32::try_from(self.tp.len()).unwrap_or(u32::MAX));
                self.tp.push(tp);
                $(self.$name.push($default);)*
                slot
            }
        }
    };
}

columns! {
    /// Who takes care of it.
    state: SlotState = SlotState::Removed, set_state;
    /// The topic's id; 0 when metadata has none.
    topic_id: u128 = 0, set_topic_id;
    /// The node that leads it, or [`NO_NODE`].
    leader: NodeId = NO_NODE, set_leader_node;
    /// The leader's epoch; -1 when unknown.
    leader_epoch: i32 = -1, set_leader_epoch;
    /// The next offset to fetch (header-derived); -1 while it is being resolved for the first time.
    fetch_offset: i64 = -1, set_fetch_offset;
    /// The leader epoch of the record before `fetch_offset`; -1 when unknown.
    last_fetched_epoch: i32 = -1, set_last_fetched_epoch;
    /// The assignment that the slot was made for.
    assignment_epoch: u32 = 0, set_assignment_epoch;
    /// Changes with each seek, reset and removal; what carries another value is late.
    fetch_generation: u32 = 0, set_fetch_generation;
    /// Bytes fetched (or decompressed) and not yet released.
    queued_bytes: usize = 0, set_queued_bytes;
    /// End of what is replicated, as of the last answer; -1 when unknown.
    high_watermark: i64 = -1, set_high_watermark;
    /// End of what is decided by transactions; -1 when unknown.
    last_stable_offset: i64 = -1, set_last_stable_offset;
    /// First offset that retention left; -1 when unknown.
    log_start_offset: i64 = -1, set_log_start_offset;
}

impl Partitions {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a partition on, as of `assignment_epoch`. It fetches nothing until it was given a start position.
    /// A slot that the partition had before is removed.
    pub fn add(&mut self, tp: TopicPartition, assignment_epoch: u32) -> Slot {
        if let Some(old) = self.slot(&tp) {
            self.remove(old);
        }
        let slot = self.push(tp.clone());
        self.by_name.insert(tp, slot);
        self.live.push(slot);
        self.set_state(slot, SlotState::Resolving);
        self.set_assignment_epoch(slot, assignment_epoch);
        self.new_generation(slot);
        self.layout += 1;
        self.seen_metadata = None;
        slot
    }

    /// Gives a partition up. Its queued bytes stay accounted until they are released.
    pub fn remove(&mut self, slot: Slot) {
        if self.state(slot) == SlotState::Removed {
            return;
        }
        self.set_state(slot, SlotState::Removed);
        self.new_generation(slot);
        self.live.retain(|live| *live != slot);
        if let Some(tp) = self.tp.get(slot.index())
            && self.by_name.get(tp) == Some(&slot)
        {
            self.by_name.remove(tp);
        }
        self.layout += 1;
    }

    /// The slot of an assigned partition.
    #[must_use]
    pub fn slot(&self, tp: &TopicPartition) -> Option<Slot> {
        self.by_name.get(tp).copied()
    }

    /// The partition's name; of a removed slot, too.
    #[must_use]
    pub fn tp(&self, slot: Slot) -> Option<&TopicPartition> {
        self.tp.get(slot.index())
    }

    /// The partition's name for messages.
    pub(crate) fn name(&self, slot: Slot) -> TopicPartition {
        self.tp(slot).cloned().unwrap_or_else(|| TopicPartition::new("?", -1))
    }

    /// Assigned slots, in the order of their assignment.
    #[must_use]
    pub fn live(&self) -> &[Slot] {
        &self.live
    }

    /// Whether the slot is assigned.
    #[must_use]
    pub fn is_live(&self, slot: Slot) -> bool {
        self.state(slot) != SlotState::Removed
    }

    /// Whether data that was fetched under these numbers may still be handed to the app.
    #[must_use]
    pub fn is_current(&self, slot: Slot, assignment_epoch: u32, fetch_generation: u32) -> bool {
        self.is_live(slot)
            && self.assignment_epoch(slot) == assignment_epoch
            && self.fetch_generation(slot) == fetch_generation
    }

    /// Draws a new generation: what is queued or in flight for the slot becomes stale.
    pub(crate) fn new_generation(&mut self, slot: Slot) -> u32 {
        self.generations = self.generations.wrapping_add(1).max(1);
        self.set_fetch_generation(slot, self.generations);
        self.generations
    }

    /// Puts the position somewhere else.
    pub(crate) fn move_to(&mut self, slot: Slot, offset: i64, last_fetched_epoch: i32) {
        self.set_fetch_offset(slot, offset);
        self.set_last_fetched_epoch(slot, last_fetched_epoch);
        self.new_generation(slot);
    }

    /// Queued bytes of all slots, removed ones included.
    #[must_use]
    pub fn queued_total(&self) -> usize {
        self.queued_total
    }

    /// Counts bytes that are now held for the slot.
    pub fn charge(&mut self, slot: Slot, bytes: usize) {
        if slot.index() < self.tp.len() {
            self.set_queued_bytes(slot, self.queued_bytes(slot).saturating_add(bytes));
            self.queued_total = self.queued_total.saturating_add(bytes);
        }
    }

    /// Gives bytes back; never more than were charged.
    pub fn release(&mut self, slot: Slot, bytes: usize) {
        let bytes = bytes.min(self.queued_bytes(slot));
        self.set_queued_bytes(slot, self.queued_bytes(slot) - bytes);
        self.queued_total = self.queued_total.saturating_sub(bytes);
    }

    /// Grows whenever the set of slots or a leader changes.
    pub(crate) fn layout(&self) -> u64 {
        self.layout
    }

    /// Takes leaders, epochs and topic ids over from the metadata. True when a leader or an epoch has changed.
    ///
    /// An older epoch is stale metadata and ignored; an equal or unknown one is not (two brokers may name the same epoch
    /// during a reassignment).
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
            changed |= self.refresh_slot(slot, id, leader);
        }
        self.layout += u64::from(changed);
        changed
    }

    fn refresh_slot(&mut self, slot: Slot, id: u128, leader: Option<(NodeId, i32)>) -> bool {
        let mut changed = false;
        if id != 0 && id != self.topic_id(slot) {
            if self.topic_id(slot) != 0 && self.state(slot) != SlotState::Failed {
                // Same name, another topic: our offsets mean nothing there. Never go on by ourselves.
                self.set_state(slot, SlotState::Failed);
                self.new_generation(slot);
                self.recreated.push(slot);
            }
            self.set_topic_id(slot, id);
            self.set_leader_epoch(slot, -1);
            self.set_last_fetched_epoch(slot, -1);
            changed = true;
        }
        match leader {
            Some((node, epoch)) => {
                let ours = self.leader_epoch(slot);
                let stale = epoch >= 0 && epoch < ours;
                if !stale && (node, epoch) != (self.leader(slot), ours) {
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

    /// Slots that stopped because their topic was deleted and made again, since the last call.
    pub(crate) fn take_recreated(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.recreated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeView;

    fn tp(partition: i32) -> TopicPartition {
        TopicPartition::new("orders", partition)
    }

    #[test]
    fn a_slot_is_never_used_twice_and_bytes_outlive_it() {
        let mut partitions = Partitions::new();
        let first = partitions.add(tp(0), 1);
        partitions.charge(first, 100);
        let generation = partitions.fetch_generation(first);
        let second = partitions.add(tp(0), 2);
        assert_ne!(first, second);
        assert!(!partitions.is_current(first, 1, generation));
        assert_eq!(partitions.slot(&tp(0)), Some(second));
        assert_eq!(partitions.live(), [second]);
        assert_eq!(partitions.queued_total(), 100);
        partitions.release(first, 1000);
        assert_eq!((partitions.queued_total(), partitions.queued_bytes(first)), (0, 0));
    }

    #[test]
    fn p11_equal_and_unknown_epochs_move_the_leader_and_older_ones_do_not() {
        let mut view = FakeView::new();
        let mut partitions = Partitions::new();
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
        let mut view = FakeView::new();
        view.set_topic_id("orders", 7);
        view.set_leader(&tp(0), Some((1, 5)));
        let mut partitions = Partitions::new();
        let slot = partitions.add(tp(0), 1);
        partitions.refresh(&view);
        assert_eq!(partitions.topic_id(slot), 7);
        view.set_topic_id("orders", 8);
        view.set_leader(&tp(0), Some((1, 0)));
        assert!(partitions.refresh(&view));
        assert_eq!(partitions.state(slot), SlotState::Failed);
        assert_eq!(partitions.take_recreated(), [slot]);
        assert_eq!(partitions.leader_epoch(slot), 0);
    }
}
