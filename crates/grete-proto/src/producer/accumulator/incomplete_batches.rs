//! Incomplete batches in the order of their creation: which one expires next, and whether a flush is complete.

use std::collections::VecDeque;

use crate::ids::{PartitionId, TopicId};
use crate::time::Nanos;

/// Owner of an incomplete batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::producer) enum BatchOwner {
    /// A batch of this partition.
    Partition(PartitionId),
    /// A record that waits for the metadata of this topic.
    Topic(TopicId),
}

/// A batch that was opened, or a record that waits for metadata.
#[derive(Debug)]
pub(super) struct IncompleteEntry {
    deadline: Nanos,
    owner: BatchOwner,
    completed: bool,
}

/// Batches are numbered in the order of their creation. All have the same time to live, so the oldest incomplete batch
/// is the next to expire. The check for expiry therefore takes constant time.
#[derive(Debug, Default)]
pub(super) struct IncompleteBatches {
    /// Number of the first entry; all earlier batches are complete.
    base: u64,
    entries: VecDeque<IncompleteEntry>,
}

impl IncompleteBatches {
    pub fn open(&mut self, owner: BatchOwner, deadline: Nanos) -> u64 {
        let number = self.next_number();
        self.entries.push_back(IncompleteEntry { deadline, owner, completed: false });
        number
    }

    /// Makes the number of a record that waited for metadata that of a batch.
    pub fn assign(&mut self, number: u64, owner: BatchOwner) {
        let index = number.checked_sub(self.base).and_then(|index| usize::try_from(index).ok());
        if let Some(entry) = index.and_then(|index| self.entries.get_mut(index)) {
            entry.owner = owner;
        }
    }

    /// Returns the number of the next batch.
    pub fn next_number(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    /// Returns whether all batches before this number are complete.
    pub fn is_complete_before(&self, number: u64) -> bool {
        self.base >= number
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the owner of an incomplete batch.
    pub fn owner(&self, number: u64) -> Option<BatchOwner> {
        let index = usize::try_from(number.checked_sub(self.base)?).ok()?;
        self.entries.get(index).filter(|entry| !entry.completed).map(|entry| entry.owner)
    }

    /// Completes a batch. Returns false if it was complete already.
    pub fn complete(&mut self, number: u64) -> bool {
        let index = number.checked_sub(self.base).and_then(|index| usize::try_from(index).ok());
        let entry = index.and_then(|index| self.entries.get_mut(index)).filter(|entry| !entry.completed);
        let Some(entry) = entry else { return false };
        entry.completed = true;
        while self.entries.front().is_some_and(|entry| entry.completed) {
            self.entries.pop_front();
            self.base += 1;
        }
        true
    }

    /// Returns the time at which the oldest batch expires.
    pub fn deadline(&self) -> Option<Nanos> {
        self.entries.front().map(|entry| entry.deadline)
    }

    /// Returns the oldest batch if it has expired.
    pub fn expired(&self, now: Nanos) -> Option<(u64, BatchOwner)> {
        self.entries.front().filter(|entry| now >= entry.deadline).map(|entry| (self.base, entry.owner))
    }

    /// Returns the oldest batch.
    pub fn oldest(&self) -> Option<(u64, BatchOwner)> {
        self.entries.front().map(|entry| (self.base, entry.owner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(partition: u32) -> BatchOwner {
        BatchOwner::Partition(PartitionId(partition))
    }

    #[test]
    fn the_oldest_unsettled_batch_is_the_next_to_expire() {
        let mut window = IncompleteBatches::default();
        let numbers: Vec<u64> = (0..3).map(|n| window.open(of(n), 100 + Nanos::from(n))).collect();
        assert_eq!(numbers, [0, 1, 2]);
        assert_eq!(window.owner(1), Some(of(1)));
        assert!(window.complete(1));
        assert_eq!((window.owner(1), window.complete(1)), (None, false), "only once");
        assert_eq!((window.deadline(), window.is_complete_before(1)), (Some(100), false));
        assert_eq!(window.expired(99), None);
        assert_eq!(window.expired(100), Some((0, of(0))));
        window.complete(0);
        assert!(window.is_complete_before(2) && !window.is_complete_before(3));
        assert_eq!((window.deadline(), window.next_number()), (Some(102), 3));
        window.complete(2);
        assert!(window.is_empty() && window.is_complete_before(3));
        assert_eq!(window.open(of(9), 0), 3);
    }
}
