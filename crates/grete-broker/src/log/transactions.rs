//! Ongoing and aborted transactions of a partition, for the last stable offset and `isolation.level=read_committed`.

use std::collections::{BTreeMap, VecDeque};

use grete_wire::records::AbortedTransaction;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Aborted {
    producer_id: i64,
    first_offset: i64,
    /// Offset of the marker.
    last_offset: i64,
    /// Last stable offset after the marker: transactions that end later begin there or later.
    last_stable_offset: i64,
}

/// Transactions of a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Transactions {
    /// Producer ids by first offset.
    ongoing: BTreeMap<i64, i64>,
    /// By ascending offset of the marker.
    aborted: VecDeque<Aborted>,
}

impl Transactions {
    /// Returns the first offset of the oldest ongoing transaction.
    pub fn first_ongoing(&self) -> Option<i64> {
        self.ongoing.first_key_value().map(|(&first, _)| first)
    }

    pub fn begin(&mut self, producer_id: i64, first_offset: i64) {
        self.ongoing.insert(first_offset, producer_id);
    }

    /// Ends the transaction that begins at `first_offset`, with a marker at `marker_offset`.
    pub fn end(&mut self, producer_id: i64, first_offset: i64, marker_offset: i64, commit: bool) {
        self.ongoing.remove(&first_offset);
        if !commit {
            let last_stable_offset = self.first_ongoing().unwrap_or(marker_offset + 1);
            let last_offset = marker_offset;
            self.aborted.push_back(Aborted { producer_id, first_offset, last_offset, last_stable_offset });
        }
    }

    /// Returns the aborted transactions that overlap the offsets from `from` to before `end`.
    pub fn aborted(&self, from: i64, end: i64) -> Vec<AbortedTransaction> {
        let start = self.aborted.partition_point(|aborted| aborted.last_offset < from);
        let mut out = Vec::new();
        for aborted in self.aborted.range(start..) {
            if aborted.first_offset < end {
                let Aborted { producer_id, first_offset, .. } = *aborted;
                out.push(AbortedTransaction { producer_id, first_offset });
            }
            if aborted.last_stable_offset >= end {
                break;
            }
        }
        out
    }

    /// Forgets the aborted transactions whose marker is before `offset`.
    pub fn delete_before(&mut self, offset: i64) {
        while self.aborted.pop_front_if(|aborted| aborted.last_offset < offset).is_some() {}
    }

    /// Forgets the aborted transaction with the marker at `offset`, which compaction removed. Otherwise a client that
    /// fetches would wait for the marker, and hide later transactions of the same producer.
    pub fn marker_removed(&mut self, offset: i64) {
        self.aborted.retain(|aborted| aborted.last_offset != offset);
    }

    /// Returns the bytes of memory that the transactions take, roughly.
    pub fn heap_bytes(&self) -> usize {
        self.ongoing.len() * size_of::<[i64; 4]>() + self.aborted.len() * size_of::<Aborted>()
    }
}
