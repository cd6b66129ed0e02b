//! Start offsets of leader epochs (KIP-101), for OffsetForLeaderEpoch.

use serde::{Deserialize, Serialize};

/// Epoch and offset of an answer without an answer.
const UNDEFINED: (i32, i64) = (-1, -1);

/// Leader epochs, each with the first offset that may belong to the epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LeaderEpochs {
    /// Epoch and start offset; both ascend.
    entries: Vec<(i32, i64)>,
}

impl LeaderEpochs {
    /// Returns the latest epoch.
    pub fn latest(&self) -> Option<i32> {
        self.entries.last().map(|&(epoch, _)| epoch)
    }

    /// Begins an epoch at an offset. An epoch without any batch is replaced. Returns whether anything changed.
    pub fn assign(&mut self, epoch: i32, start: i64) -> bool {
        if epoch < 0 || self.latest() == Some(epoch) {
            return false;
        }
        while self.entries.pop_if(|&mut (last, from)| last >= epoch || from >= start).is_some() {}
        self.entries.push((epoch, start));
        true
    }

    /// Returns the epoch of an offset; `None`: unknown.
    pub fn epoch_of(&self, offset: i64) -> Option<i32> {
        let after = self.entries.partition_point(|&(_, start)| start <= offset);
        self.entries.get(after.checked_sub(1)?).map(|&(epoch, _)| epoch)
    }

    /// Forgets the epochs that end before `offset`.
    pub fn delete_before(&mut self, offset: i64) {
        let after = self.entries.partition_point(|&(_, start)| start <= offset);
        self.entries.drain(..after.saturating_sub(1));
        if after > 0
            && let Some((_, start)) = self.entries.first_mut()
        {
            *start = offset;
        }
    }

    /// Returns the largest epoch that is not above `epoch`, and its end offset, as OffsetForLeaderEpoch answers; -1
    /// and -1: unknown.
    pub fn end_offset(&self, epoch: i32, log_end: i64) -> (i32, i64) {
        if epoch < 0 {
            return UNDEFINED;
        }
        if self.latest() == Some(epoch) {
            return (epoch, log_end);
        }
        let higher = self.entries.partition_point(|&(entry, _)| entry <= epoch);
        let Some(&(_, end)) = self.entries.get(higher) else { return UNDEFINED };
        // An epoch that is older than the log ends where the log begins.
        let found = higher.checked_sub(1).and_then(|floor| self.entries.get(floor)).map_or(epoch, |&(floor, _)| floor);
        (found, end)
    }
}
