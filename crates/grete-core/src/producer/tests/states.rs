//! What a leader remembers of idempotent producers: Kafka's ProducerStateManager, without transactions.
//!
//! Two things that surprise: a producer of which nothing is known may start at any sequence number, and a batch that was
//! appended before the last five is out of order and not a duplicate (since Kafka 1.1).

use std::collections::{BTreeMap, VecDeque};

use grete_wire::ErrorCode as E;

/// Batches that are remembered per producer.
const REMEMBERED: usize = 5;

/// How a batch names its producer; nothing is checked where the id is negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub producer: i64,
    pub epoch: i16,
    /// Of the first record.
    pub sequence: i32,
    pub count: i32,
}

impl Stamp {
    /// Sequence number of the last record; they wrap from `i32::MAX` to 0.
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

/// What to do with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Append,
    /// It is there already, from this offset on.
    Duplicate(i64),
    Refuse(E),
}

/// Of one replica.
#[derive(Debug, Clone, Default)]
pub struct ProducerStates {
    entries: BTreeMap<i64, Entry>,
    /// As before Kafka 1.1: an old duplicate is called one.
    pub old_duplicates: bool,
    /// As before Kafka 2.5: who is not known must start at 0.
    pub must_be_known: bool,
}

impl ProducerStates {
    /// As `UnifiedLog.analyzeAndValidateProducerState`, `ProducerAppendInfo.checkProducerEpoch` and `checkSequence`.
    pub fn check(&self, stamp: Stamp) -> Verdict {
        if stamp.producer < 0 {
            return Verdict::Append;
        }
        let Some(entry) = self.entries.get(&stamp.producer) else {
            let refused = self.must_be_known && stamp.sequence != 0;
            return if refused { Verdict::Refuse(E::UNKNOWN_PRODUCER_ID) } else { Verdict::Append };
        };
        if stamp.epoch == entry.epoch {
            let same = |batch: &&Batch| batch.first == stamp.sequence && batch.last == stamp.last();
            if let Some(batch) = entry.batches.iter().find(same) {
                return Verdict::Duplicate(batch.offset);
            }
        }
        if stamp.epoch < entry.epoch {
            return Verdict::Refuse(E::INVALID_PRODUCER_EPOCH);
        }
        let next = match entry.batches.back().filter(|_| stamp.epoch == entry.epoch) {
            Some(Batch { last: i32::MAX, .. }) | None => 0,
            Some(batch) => batch.last + 1,
        };
        match stamp.sequence == next {
            true => Verdict::Append,
            false if self.old_duplicates && stamp.epoch == entry.epoch && stamp.last() < next => {
                Verdict::Refuse(E::DUPLICATE_SEQUENCE_NUMBER)
            }
            false => Verdict::Refuse(E::OUT_OF_ORDER_SEQUENCE_NUMBER),
        }
    }

    /// The batch was appended there.
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

    /// A broker that starts from a snapshot finds the last batch of each producer in it, and no others.
    pub fn reload(&mut self) {
        for entry in self.entries.values_mut() {
            entry.batches.drain(..entry.batches.len().saturating_sub(1));
        }
    }

    /// `producer.id.expiration.ms` is over.
    pub fn expire(&mut self) {
        self.entries.clear();
    }

    /// The same manners, and nothing known.
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

    fn filled(batches: i32) -> ProducerStates {
        let mut states = ProducerStates::default();
        for i in 0..batches {
            let stamp = stamp(3, i * 10, 10);
            assert_eq!(states.check(stamp), Verdict::Append);
            states.note(stamp, i64::from(i) * 10 + 100);
        }
        states
    }

    const OUT_OF_ORDER: Verdict = Verdict::Refuse(E::OUT_OF_ORDER_SEQUENCE_NUMBER);

    #[test]
    fn the_last_five_batches_are_known_by_their_offsets_and_older_ones_are_out_of_order() {
        let mut states = filled(7);
        for i in 2..7 {
            assert_eq!(states.check(stamp(3, i * 10, 10)), Verdict::Duplicate(i64::from(i) * 10 + 100));
        }
        assert_eq!(states.check(stamp(3, 10, 10)), OUT_OF_ORDER);
        // Another range that starts alike is no duplicate.
        assert_eq!(states.check(stamp(3, 60, 9)), OUT_OF_ORDER);
        states.old_duplicates = true;
        assert_eq!(states.check(stamp(3, 10, 10)), Verdict::Refuse(E::DUPLICATE_SEQUENCE_NUMBER));
        assert_eq!(states.check(stamp(3, 80, 10)), OUT_OF_ORDER);
    }

    #[test]
    fn a_gap_is_out_of_order_and_a_new_epoch_starts_at_nought() {
        let states = filled(2);
        assert_eq!(states.check(stamp(3, 21, 1)), OUT_OF_ORDER);
        assert_eq!(states.check(stamp(3, 20, 1)), Verdict::Append);
        assert_eq!(states.check(stamp(4, 20, 1)), OUT_OF_ORDER);
        assert_eq!(states.check(stamp(4, 0, 1)), Verdict::Append);
        assert_eq!(states.check(stamp(2, 0, 1)), Verdict::Refuse(E::INVALID_PRODUCER_EPOCH));
    }

    #[test]
    fn a_new_epoch_forgets_the_batches_of_the_old_one() {
        let mut states = filled(2);
        states.note(stamp(4, 0, 10), 120);
        assert_eq!(states.check(stamp(4, 0, 10)), Verdict::Duplicate(120));
        assert_eq!(states.check(stamp(3, 10, 10)), Verdict::Refuse(E::INVALID_PRODUCER_EPOCH));
        assert_eq!(states.check(stamp(4, 10, 10)), Verdict::Append);
    }

    #[test]
    fn who_is_not_known_may_start_anywhere_unless_the_broker_is_old() {
        let mut states = filled(1);
        states.expire();
        assert_eq!(states.check(stamp(3, 10, 10)), Verdict::Append);
        states.must_be_known = true;
        assert_eq!(states.check(stamp(3, 10, 10)), Verdict::Refuse(E::UNKNOWN_PRODUCER_ID));
        assert_eq!(states.check(stamp(3, 0, 10)), Verdict::Append);
    }

    #[test]
    fn sequences_wrap_within_and_between_batches() {
        let mut states = ProducerStates::default();
        let across = stamp(0, i32::MAX - 4, 10);
        assert_eq!(across.last(), 4);
        states.note(across, 0);
        assert_eq!(states.check(stamp(0, 5, 1)), Verdict::Append);
        let before = stamp(1, i32::MAX - 9, 10);
        assert_eq!(before.last(), i32::MAX);
        states.note(before, 10);
        assert_eq!(states.check(stamp(1, 0, 1)), Verdict::Append);
        assert_eq!(states.check(stamp(1, 1, 1)), OUT_OF_ORDER);
    }

    #[test]
    fn a_snapshot_holds_the_last_batch_only() {
        let mut states = filled(3);
        states.reload();
        assert_eq!(states.check(stamp(3, 20, 10)), Verdict::Duplicate(120));
        assert_eq!(states.check(stamp(3, 10, 10)), OUT_OF_ORDER);
        assert_eq!(states.check(stamp(3, 30, 10)), Verdict::Append);
    }

    #[test]
    fn a_batch_without_a_producer_is_always_new() {
        let plain = Stamp { producer: -1, epoch: -1, sequence: -1, count: 5 };
        let mut states = ProducerStates::default();
        states.note(plain, 0);
        assert_eq!(states.check(plain), Verdict::Append);
    }
}
