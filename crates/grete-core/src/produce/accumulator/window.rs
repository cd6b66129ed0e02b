//! The batches that are not settled, in the order in which they were opened: who is due next, and what a flush waits
//! for.

use std::collections::VecDeque;

use super::PartitionId;
use crate::time::Nanos;

/// One batch that was opened.
#[derive(Debug)]
struct Entry {
    deadline: Nanos,
    partition: PartitionId,
    settled: bool,
}

/// Batches are numbered as they are opened. All have the same time to live, so that the oldest unsettled one is the
/// next to expire: to know who is due costs nothing, however many there are.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Number of the first entry; everything before is settled.
    base: u64,
    entries: VecDeque<Entry>,
}

impl Window {
    pub fn open(&mut self, partition: PartitionId, deadline: Nanos) -> u64 {
        let number = self.next();
        self.entries.push_back(Entry { deadline, partition, settled: false });
        number
    }

    /// The number that the next batch gets.
    pub fn next(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    /// Whether everything before this number is settled.
    pub fn is_past(&self, number: u64) -> bool {
        self.base >= number
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The partition, the first time.
    pub fn settle(&mut self, number: u64) -> Option<PartitionId> {
        let index = usize::try_from(number.checked_sub(self.base)?).ok()?;
        let entry = self.entries.get_mut(index).filter(|entry| !entry.settled)?;
        entry.settled = true;
        let partition = entry.partition;
        while self.entries.front().is_some_and(|entry| entry.settled) {
            self.entries.pop_front();
            self.base += 1;
        }
        Some(partition)
    }

    /// When the oldest batch expires.
    pub fn deadline(&self) -> Option<Nanos> {
        self.entries.front().map(|entry| entry.deadline)
    }

    /// The oldest batch, if its time is over.
    pub fn expired(&self, now: Nanos) -> Option<(u64, PartitionId)> {
        self.entries.front().filter(|entry| now >= entry.deadline).map(|entry| (self.base, entry.partition))
    }

    /// The oldest batch.
    pub fn oldest(&self) -> Option<(u64, PartitionId)> {
        self.entries.front().map(|entry| (self.base, entry.partition))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_unsettled_batch_is_the_next_to_expire() {
        let mut window = Window::default();
        let numbers: Vec<u64> = (0..3).map(|n| window.open(PartitionId(n), 100 + Nanos::from(n))).collect();
        assert_eq!(numbers, [0, 1, 2]);
        assert_eq!(window.settle(1), Some(PartitionId(1)));
        assert_eq!(window.settle(1), None, "only once");
        assert_eq!((window.deadline(), window.is_past(1)), (Some(100), false));
        assert_eq!(window.expired(99), None);
        assert_eq!(window.expired(100), Some((0, PartitionId(0))));
        window.settle(0);
        assert!(window.is_past(2) && !window.is_past(3));
        assert_eq!((window.deadline(), window.next()), (Some(102), 3));
        window.settle(2);
        assert!(window.is_empty() && window.is_past(3));
        assert_eq!(window.open(PartitionId(9), 0), 3);
    }
}
