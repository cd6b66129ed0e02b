//! Model of a leader's state of idempotent producers: Kafka's ProducerStateManager, without transactions.
//!
//! Not obvious: a producer without state may start at any sequence number. A batch that was appended before the last
//! five is out of order, not a duplicate (since Kafka 1.1).

use std::collections::{BTreeMap, VecDeque};

use grete_wire::ErrorCode as E;

/// Number of batches remembered per producer.
const REMEMBERED: usize = 5;

/// Producer id, epoch and sequence of a batch; a negative id disables all checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub producer: i64,
    pub epoch: i16,
    /// Sequence number of the first record.
    pub sequence: i32,
    pub count: i32,
}

impl Stamp {
    /// Returns the sequence number of the last record; sequence numbers wrap from `i32::MAX` to 0.
    pub fn last(&self) -> i32 {
        let last = i64::from(self.sequence) + i64::from(self.count) - 1;
        i32::try_from(last % (i64::from(i32::MAX) + 1)).unwrap()
    }
}

#[derive(Debug, Clone, Copy)]
struct Batch {
    first: i32,
    last: i32,
    offset: i64,
}

#[derive(Debug, Clone)]
struct Entry {
    epoch: i16,
    batches: VecDeque<Batch>,
}

/// Result of the sequence check of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceCheck {
    Append,
    /// The batch is a duplicate, stored from this offset on.
    Duplicate(i64),
    Refuse(E),
}

/// Producer state of one replica.
#[derive(Debug, Clone, Default)]
pub struct ProducerStateManager {
    entries: BTreeMap<i64, Entry>,
    /// Behavior before Kafka 1.1: an old duplicate is reported as a duplicate.
    pub old_duplicates: bool,
    /// Behavior before Kafka 2.5: an unknown producer must start at 0.
    pub must_be_known: bool,
}

impl ProducerStateManager {
    /// Models `UnifiedLog.analyzeAndValidateProducerState`, `ProducerAppendInfo.checkProducerEpoch` and
    /// `checkSequence`.
    pub fn check(&self, stamp: Stamp) -> SequenceCheck {
        if stamp.producer < 0 {
            return SequenceCheck::Append;
        }
        let Some(entry) = self.entries.get(&stamp.producer) else {
            let refused = self.must_be_known && stamp.sequence != 0;
            return if refused { SequenceCheck::Refuse(E::UNKNOWN_PRODUCER_ID) } else { SequenceCheck::Append };
        };
        if stamp.epoch == entry.epoch {
            let same = |batch: &&Batch| batch.first == stamp.sequence && batch.last == stamp.last();
            if let Some(batch) = entry.batches.iter().find(same) {
                return SequenceCheck::Duplicate(batch.offset);
            }
        }
        if stamp.epoch < entry.epoch {
            return SequenceCheck::Refuse(E::INVALID_PRODUCER_EPOCH);
        }
        let next = match entry.batches.back().filter(|_| stamp.epoch == entry.epoch) {
            Some(Batch { last: i32::MAX, .. }) | None => 0,
            Some(batch) => batch.last + 1,
        };
        match stamp.sequence == next {
            true => SequenceCheck::Append,
            false if self.old_duplicates && stamp.epoch == entry.epoch && stamp.last() < next => {
                SequenceCheck::Refuse(E::DUPLICATE_SEQUENCE_NUMBER)
            }
            false => SequenceCheck::Refuse(E::OUT_OF_ORDER_SEQUENCE_NUMBER),
        }
    }

    /// Records that the batch was appended at this offset.
    pub fn note(&mut self, stamp: Stamp, offset: i64) {
        if stamp.producer < 0 {
            return;
        }
        let entry = Entry { epoch: stamp.epoch, batches: VecDeque::new() };
        let entry = self.entries.entry(stamp.producer).or_insert(entry);
        if entry.epoch != stamp.epoch {
            entry.epoch = stamp.epoch;
            entry.batches.clear();
        }
        if entry.batches.len() == REMEMBERED {
            entry.batches.pop_front();
        }
        entry.batches.push_back(Batch { first: stamp.sequence, last: stamp.last(), offset });
    }

    /// Restarts from a snapshot, which contains only the last batch of each producer.
    pub fn reload(&mut self) {
        for entry in self.entries.values_mut() {
            entry.batches.drain(..entry.batches.len().saturating_sub(1));
        }
    }

    /// Removes all producers, as after `producer.id.expiration.ms`.
    pub fn expire(&mut self) {
        self.entries.clear();
    }

    /// Returns an empty state with the same version flags.
    pub fn emptied(&self) -> Self {
        Self { entries: BTreeMap::new(), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(epoch: i16, sequence: i32, count: i32) -> Stamp {
        Stamp { producer: 7, epoch, sequence, count }
    }

    fn filled(batches: i32) -> ProducerStateManager {
        let mut states = ProducerStateManager::default();
        for i in 0..batches {
            let stamp = stamp(3, i * 10, 10);
            assert_eq!(states.check(stamp), SequenceCheck::Append);
            states.note(stamp, i64::from(i) * 10 + 100);
        }
        states
    }

    const OUT_OF_ORDER: SequenceCheck = SequenceCheck::Refuse(E::OUT_OF_ORDER_SEQUENCE_NUMBER);

    #[test]
    fn the_last_five_batches_are_known_by_their_offsets_and_older_ones_are_out_of_order() {
        let mut states = filled(7);
        for i in 2..7 {
            assert_eq!(states.check(stamp(3, i * 10, 10)), SequenceCheck::Duplicate(i64::from(i) * 10 + 100));
        }
        assert_eq!(states.check(stamp(3, 10, 10)), OUT_OF_ORDER);
        // Another range with the same start is no duplicate.
        assert_eq!(states.check(stamp(3, 60, 9)), OUT_OF_ORDER);
        states.old_duplicates = true;
        assert_eq!(states.check(stamp(3, 10, 10)), SequenceCheck::Refuse(E::DUPLICATE_SEQUENCE_NUMBER));
        assert_eq!(states.check(stamp(3, 80, 10)), OUT_OF_ORDER);
    }

    #[test]
    fn a_gap_is_out_of_order_and_a_new_epoch_starts_at_nought() {
        let states = filled(2);
        assert_eq!(states.check(stamp(3, 21, 1)), OUT_OF_ORDER);
        assert_eq!(states.check(stamp(3, 20, 1)), SequenceCheck::Append);
        assert_eq!(states.check(stamp(4, 20, 1)), OUT_OF_ORDER);
        assert_eq!(states.check(stamp(4, 0, 1)), SequenceCheck::Append);
        assert_eq!(states.check(stamp(2, 0, 1)), SequenceCheck::Refuse(E::INVALID_PRODUCER_EPOCH));
    }

    #[test]
    fn a_new_epoch_forgets_the_batches_of_the_old_one() {
        let mut states = filled(2);
        states.note(stamp(4, 0, 10), 120);
        assert_eq!(states.check(stamp(4, 0, 10)), SequenceCheck::Duplicate(120));
        assert_eq!(states.check(stamp(3, 10, 10)), SequenceCheck::Refuse(E::INVALID_PRODUCER_EPOCH));
        assert_eq!(states.check(stamp(4, 10, 10)), SequenceCheck::Append);
    }

    #[test]
    fn who_is_not_known_may_start_anywhere_unless_the_broker_is_old() {
        let mut states = filled(1);
        states.expire();
        assert_eq!(states.check(stamp(3, 10, 10)), SequenceCheck::Append);
        states.must_be_known = true;
        assert_eq!(states.check(stamp(3, 10, 10)), SequenceCheck::Refuse(E::UNKNOWN_PRODUCER_ID));
        assert_eq!(states.check(stamp(3, 0, 10)), SequenceCheck::Append);
    }

    #[test]
    fn sequences_wrap_within_and_between_batches() {
        let mut states = ProducerStateManager::default();
        let across = stamp(0, i32::MAX - 4, 10);
        assert_eq!(across.last(), 4);
        states.note(across, 0);
        assert_eq!(states.check(stamp(0, 5, 1)), SequenceCheck::Append);
        let before = stamp(1, i32::MAX - 9, 10);
        assert_eq!(before.last(), i32::MAX);
        states.note(before, 10);
        assert_eq!(states.check(stamp(1, 0, 1)), SequenceCheck::Append);
        assert_eq!(states.check(stamp(1, 1, 1)), OUT_OF_ORDER);
    }

    #[test]
    fn a_snapshot_holds_the_last_batch_only() {
        let mut states = filled(3);
        states.reload();
        assert_eq!(states.check(stamp(3, 20, 10)), SequenceCheck::Duplicate(120));
        assert_eq!(states.check(stamp(3, 10, 10)), OUT_OF_ORDER);
        assert_eq!(states.check(stamp(3, 30, 10)), SequenceCheck::Append);
    }

    #[test]
    fn a_batch_without_a_producer_is_always_new() {
        let plain = Stamp { producer: -1, epoch: -1, sequence: -1, count: 5 };
        let mut states = ProducerStateManager::default();
        states.note(plain, 0);
        assert_eq!(states.check(plain), SequenceCheck::Append);
    }
}
