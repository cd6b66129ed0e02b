//! Offsets of a group: committed ones, and those of open transactions.

use std::collections::{BTreeMap, BTreeSet};

use crate::effects::group::CommittedOffset;
use crate::ids::TopicPartition;

/// Offset with its place in the order of all commits of the group.
#[derive(Debug, Clone, PartialEq)]
struct Stored {
    offset: CommittedOffset,
    position: u64,
}

/// Commits that were made together: the producer whose transaction contains them, and the offsets.
pub(super) type Commits = (Option<i64>, Vec<(TopicPartition, CommittedOffset)>);

/// Offsets of a group.
#[derive(Debug, Default)]
pub(super) struct OffsetStore {
    committed: BTreeMap<TopicPartition, Stored>,
    /// Offsets of open transactions, by producer id.
    pending: BTreeMap<i64, BTreeMap<TopicPartition, Stored>>,
    /// Number of commits so far.
    position: u64,
}

impl OffsetStore {
    /// Stores an offset. `producer_id`: the offset is valid when the transaction of this producer is committed.
    pub(super) fn put(&mut self, producer_id: Option<i64>, tp: TopicPartition, offset: CommittedOffset) {
        self.position += 1;
        let stored = Stored { offset, position: self.position };
        match producer_id {
            None => self.committed.insert(tp, stored),
            Some(id) => self.pending.entry(id).or_default().insert(tp, stored),
        };
    }

    /// Returns the committed offset of a partition.
    pub(super) fn get(&self, tp: &TopicPartition) -> Option<&CommittedOffset> {
        self.committed.get(tp).map(|stored| &stored.offset)
    }

    /// Returns all committed offsets.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&TopicPartition, &CommittedOffset)> {
        self.committed.iter().map(|(tp, stored)| (tp, &stored.offset))
    }

    /// Returns whether an open transaction has an offset for the partition.
    pub(super) fn is_pending(&self, tp: &TopicPartition) -> bool {
        self.pending.values().any(|offsets| offsets.contains_key(tp))
    }

    /// Returns whether the producer has an open transaction with offsets of this group.
    pub(super) fn has_transaction(&self, producer_id: i64) -> bool {
        self.pending.contains_key(&producer_id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.committed.is_empty() && self.pending.is_empty()
    }

    /// Returns the partitions with an offset, committed or not, that satisfy a condition.
    pub(super) fn partitions(&self, mut condition: impl FnMut(&TopicPartition) -> bool) -> Vec<TopicPartition> {
        let all: BTreeSet<_> = self.committed.keys().chain(self.pending.values().flat_map(BTreeMap::keys)).collect();
        all.into_iter().filter(|tp| condition(tp)).cloned().collect()
    }

    /// Deletes the offsets of a partition, also those of open transactions.
    pub(super) fn remove(&mut self, tp: &TopicPartition) {
        self.committed.remove(tp);
        for offsets in self.pending.values_mut() {
            offsets.remove(tp);
        }
    }

    /// Ends the transaction of a producer. Offsets that were committed later than those of the transaction stay.
    pub(super) fn end_transaction(&mut self, producer_id: i64, commit: bool) {
        let offsets = self.pending.remove(&producer_id).filter(|_| commit).unwrap_or_default();
        for (tp, stored) in offsets {
            if self.committed.get(&tp).is_none_or(|current| current.position < stored.position) {
                self.committed.insert(tp, stored);
            }
        }
    }

    /// Returns the commits that lead to these offsets, in order.
    pub(super) fn to_commits(&self) -> Vec<Commits> {
        let committed = self.committed.iter().map(|(tp, stored)| (stored.position, None, tp, &stored.offset));
        let pending = self.pending.iter().flat_map(|(id, offsets)| {
            offsets.iter().map(|(tp, stored)| (stored.position, Some(*id), tp, &stored.offset))
        });
        let mut all: Vec<_> = committed.chain(pending).collect();
        all.sort_by_key(|(position, ..)| *position);
        let mut commits: Vec<Commits> = Vec::new();
        for (_, producer_id, tp, offset) in all {
            let entry = (tp.clone(), offset.clone());
            match commits.last_mut() {
                Some((last, offsets)) if *last == producer_id => offsets.push(entry),
                _ => commits.push((producer_id, vec![entry])),
            }
        }
        commits
    }
}
