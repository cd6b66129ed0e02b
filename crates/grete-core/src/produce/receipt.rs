//! The shared outcome of one batch: whoever appended a record looks here for what became of it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::accumulator::PartitionId;
use super::error::ProduceError;
use crate::time::Nanos;

/// All records are settled.
const SETTLED: u32 = 1;
/// A thread sleeps on the word, or is about to.
const WAITED: u32 = 2;
/// Somebody wants [`super::ProduceAction::Settled`].
const WATCHED: u32 = 4;
/// One settlement of a part of the records.
const PART: u32 = 8;

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A broker has it.
    Written,
    /// No broker has it.
    NotWritten,
    /// It was sent, and nobody has said what became of it.
    Unknown,
}

/// The final word on one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// What became of it.
    pub outcome: Outcome,
    /// Where it is; `None` where no broker has told (`acks=0`, a duplicate of a batch long ago).
    pub offset: Option<i64>,
    /// Milliseconds at which the broker appended it, if the topic is set to keep that; `None`: the record keeps its
    /// own.
    pub timestamp: Option<i64>,
    /// Why it was not written, or why nobody knows.
    pub error: Option<Arc<ProduceError>>,
    /// When the answer was read, or the record given up.
    pub at: Nanos,
}

/// What became of a run of records.
#[derive(Debug, Clone)]
pub(super) struct Settlement {
    pub outcome: Outcome,
    /// Of the first record.
    pub offset: Option<i64>,
    pub timestamp: Option<i64>,
    pub error: Option<Arc<ProduceError>>,
    pub at: Nanos,
}

#[derive(Debug)]
struct Part {
    first: u32,
    count: u32,
    settlement: Settlement,
}

/// See the module. The word is one that a futex can sleep on:
///
/// ```text
/// waiter:  seen = announce_wait()       settler:  the settlement is stored
///          result(index)? done                    the word changes (SETTLED, or one PART more)
///          sleep while word == seen               WAITED was set in the word before? wake
/// ```
///
/// No wake-up is lost: both change the word in one atomic step, so one comes first. If the waiter does, the settler
/// sees WAITED and wakes; whoever has not fallen asleep by then does not, because the word is not `seen` any more. If
/// the settler does, its change is in `seen`, and with it the settlement is visible to `result`, so the waiter does not
/// sleep.
#[derive(Debug)]
pub struct Receipt {
    topic: Arc<str>,
    partition: i32,
    /// The accumulator's name for the partition.
    slot: PartitionId,
    word: AtomicU32,
    /// The usual end: all records at once.
    whole: OnceLock<Settlement>,
    /// After a split, in the order in which they came.
    parts: Mutex<Vec<Part>>,
}

impl Receipt {
    /// Of a batch that was just opened, which is for the accumulator to do.
    #[must_use]
    pub fn new(topic: Arc<str>, partition: i32, slot: PartitionId) -> Self {
        Self { topic, partition, slot, word: AtomicU32::new(0), whole: OnceLock::new(), parts: Mutex::new(Vec::new()) }
    }

    /// Where the records go.
    #[must_use]
    pub fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// Where the records go.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.partition
    }

    pub(super) fn slot(&self) -> PartitionId {
        self.slot
    }

    /// What became of a record; `None` until that is final.
    #[must_use]
    pub fn result(&self, index: u32) -> Option<Settled> {
        let word = self.word.load(Ordering::Acquire);
        if let Some(whole) = self.whole.get() {
            return Some(settled(whole, index));
        }
        if word < PART {
            return None;
        }
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let part = parts.iter().find(|part| index.wrapping_sub(part.first) < part.count)?;
        Some(settled(&part.settlement, index - part.first))
    }

    /// Whether all records are settled.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.word.load(Ordering::Acquire) & SETTLED != 0
    }

    /// Whether a record is known to have failed: one look at a batch, where [`Receipt::result`] is one per record.
    #[must_use]
    pub fn has_failures(&self) -> bool {
        let word = self.word.load(Ordering::Acquire);
        match self.whole.get() {
            Some(whole) => whole.error.is_some(),
            None if word < PART => false,
            None => {
                let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
                parts.iter().any(|part| part.settlement.error.is_some())
            }
        }
    }

    /// The word to sleep on.
    #[must_use]
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Asks to be woken. Returns the value on which to sleep: after one more look at [`Receipt::result`].
    #[must_use]
    pub fn announce_wait(&self) -> u32 {
        self.word.fetch_or(WAITED, Ordering::AcqRel) | WAITED
    }

    /// Changes the word though nothing is settled: for news of another kind, which whoever sleeps shall look for.
    pub fn disturb(&self) {
        self.word.fetch_add(PART, Ordering::AcqRel);
    }

    /// Asks for [`super::ProduceAction::Settled`] with each settlement from now on; false if all records are settled
    /// already. Whoever watches one record looks at its [`Receipt::result`] after this.
    #[must_use]
    pub fn watch(&self) -> bool {
        self.word.fetch_or(WATCHED, Ordering::AcqRel) & SETTLED == 0
    }

    /// Settles all records at once; whether somebody waits or watches.
    pub(super) fn settle(&self, settlement: Settlement) -> bool {
        // The first word is the last one.
        if self.whole.set(settlement).is_err() {
            return false;
        }
        self.word.fetch_or(SETTLED, Ordering::AcqRel) & (WAITED | WATCHED) != 0
    }

    /// Settles some records of a batch that was split, `last` if these are the last ones; whether somebody waits or
    /// watches.
    pub(super) fn settle_part(&self, first: u32, count: u32, settlement: Settlement, last: bool) -> bool {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).push(Part { first, count, settlement });
        let mut before = self.word.fetch_add(PART, Ordering::AcqRel);
        if last {
            before |= self.word.fetch_or(SETTLED, Ordering::AcqRel);
        }
        before & (WAITED | WATCHED) != 0
    }
}

fn settled(settlement: &Settlement, index: u32) -> Settled {
    Settled {
        outcome: settlement.outcome,
        offset: settlement.offset.map(|first| first.saturating_add(index.into())),
        timestamp: settlement.timestamp,
        error: settlement.error.clone(),
        at: settlement.at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt() -> Receipt {
        Receipt::new("t".into(), 0, PartitionId(0))
    }

    fn settlement(failed: bool) -> Settlement {
        let error = failed.then(|| Arc::new(ProduceError::UnknownTopic { topic: "t".into(), partition: 0 }));
        let outcome = if failed { Outcome::NotWritten } else { Outcome::Written };
        Settlement { outcome, offset: Some(7), timestamp: None, error, at: 1 }
    }

    #[test]
    fn failures_of_whole_batches_and_of_parts_show() {
        for failed in [false, true] {
            let whole = receipt();
            assert!(!whole.has_failures());
            whole.settle(settlement(failed));
            assert_eq!(whole.has_failures(), failed);
            let split = receipt();
            split.settle_part(0, 2, settlement(false), false);
            assert!(!split.has_failures());
            split.settle_part(2, 2, settlement(failed), true);
            assert_eq!(split.has_failures(), failed);
            for index in 0..4 {
                let error = split.result(index).and_then(|settled| settled.error);
                assert_eq!(error.is_some(), failed && index >= 2);
            }
        }
    }
}
