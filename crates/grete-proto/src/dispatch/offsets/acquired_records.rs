//! Records of a lane that a share group has acquired: which are open, and how those that are done were acknowledged.

use std::collections::BTreeMap;

use crate::fetch::AcquiredRange;
use crate::share::{AckType, Acknowledgement};

/// Acquired records of one lane.
///
/// A record is *undecoded* until its batch is decoded, then *open* until its job ends, and then acknowledged. Offsets come
/// in any order: a record that was released is acquired again behind later ones.
#[derive(Debug, Default)]
pub(in crate::dispatch) struct AcquiredRecords {
    records: BTreeMap<i64, AcquiredRecord>,
    open: usize,
    /// Acknowledgements that [`AcquiredRecords::take_acks`] has not returned.
    acks: Vec<Acknowledgement>,
}

#[derive(Debug, Clone, Copy)]
struct AcquiredRecord {
    /// Number of deliveries, this one included.
    deliveries: u16,
    is_open: bool,
}

impl AcquiredRecords {
    /// Adds records that were acquired. A record that is here already keeps its state.
    pub(in crate::dispatch) fn acquire(&mut self, ranges: &[AcquiredRange]) {
        for range in ranges {
            for offset in range.offsets() {
                let new = AcquiredRecord { deliveries: range.deliveries, is_open: false };
                self.records.entry(offset).or_insert(new).deliveries = range.deliveries;
            }
        }
    }

    /// Opens decoded records.
    pub(super) fn open(&mut self, offsets: impl Iterator<Item = i64>) {
        for offset in offsets {
            if let Some(record) = self.records.get_mut(&offset).filter(|record| !record.is_open) {
                record.is_open = true;
                self.open += 1;
            }
        }
    }

    pub(super) fn open_count(&self) -> usize {
        self.open
    }

    pub(super) fn first_open(&self) -> Option<i64> {
        self.records.iter().find(|(_, record)| record.is_open).map(|(offset, _)| *offset)
    }

    pub(super) fn is_open(&self, offset: i64) -> bool {
        self.records.get(&offset).is_some_and(|record| record.is_open)
    }

    /// Returns the number of records that are not acknowledged.
    pub(in crate::dispatch) fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns whether the record is not acknowledged.
    pub(super) fn contains(&self, offset: i64) -> bool {
        self.records.contains_key(&offset)
    }

    pub(super) fn count_open(&self, first: i64, last: i64) -> usize {
        if first > last { 0 } else { self.records.range(first..=last).filter(|(_, record)| record.is_open).count() }
    }

    /// Acknowledges open records of `first..=last`. Returns their number.
    pub(in crate::dispatch) fn finish_open(&mut self, first: i64, last: i64, kind: AckType) -> usize {
        if first > last {
            return 0;
        }
        let open = self.records.range(first..=last).filter(|(_, record)| record.is_open);
        let open: Vec<i64> = open.map(|(offset, _)| *offset).collect();
        for offset in &open {
            self.records.remove(offset);
            self.acks.push(Acknowledgement::one(*offset, kind));
        }
        self.open -= open.len();
        open.len()
    }

    /// Acknowledges records, open or not.
    pub(in crate::dispatch) fn finish(&mut self, ack: Acknowledgement) {
        let there: Vec<i64> =
            self.records.range(ack.first..=ack.last.max(ack.first)).map(|(offset, _)| *offset).collect();
        for offset in there {
            if let Some(record) = self.records.remove(&offset) {
                self.open -= usize::from(record.is_open);
                self.acks.push(Acknowledgement::one(offset, ack.kind));
            }
        }
    }

    /// Gives back the records that are not decoded.
    pub(in crate::dispatch) fn release_undecoded(&mut self) {
        let undecoded: Vec<i64> =
            self.records.iter().filter(|(_, record)| !record.is_open).map(|(offset, _)| *offset).collect();
        undecoded.into_iter().for_each(|offset| self.finish(Acknowledgement::one(offset, AckType::Release)));
    }

    /// Gives back all records.
    pub(in crate::dispatch) fn release_all(&mut self) {
        self.open = 0;
        let all = std::mem::take(&mut self.records);
        self.acks.extend(all.into_keys().map(|offset| Acknowledgement::one(offset, AckType::Release)));
    }

    /// Returns the number of deliveries of a record, this one included; 1: the record is not here.
    pub(in crate::dispatch) fn deliveries(&self, offset: i64) -> u32 {
        self.records.get(&offset).map_or(1, |record| u32::from(record.deliveries).max(1))
    }

    /// Takes the acknowledgements since the last call.
    pub(in crate::dispatch) fn take_acks(&mut self) -> Vec<Acknowledgement> {
        std::mem::take(&mut self.acks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: i64, last: i64, deliveries: u16) -> AcquiredRange {
        AcquiredRange { first, last, deliveries }
    }

    #[test]
    fn each_record_is_acknowledged_once() {
        let mut records = AcquiredRecords::default();
        records.acquire(&[range(5, 9, 1)]);
        records.acquire(&[range(2, 3, 2)]); // released before by another member
        records.open([2, 5, 6].into_iter());
        assert_eq!((records.open_count(), records.first_open(), records.deliveries(2)), (3, Some(2), 2));
        assert_eq!(records.finish_open(0, 100, AckType::Accept), 3);
        assert_eq!(records.finish_open(0, 100, AckType::Accept), 0);
        records.finish(Acknowledgement::one(7, AckType::Gap));
        records.release_undecoded();
        let acks: Vec<_> = records.take_acks().into_iter().map(|ack| (ack.first, ack.kind)).collect();
        use AckType::{Accept, Gap, Release};
        assert_eq!(acks, [(2, Accept), (5, Accept), (6, Accept), (7, Gap), (3, Release), (8, Release), (9, Release)]);
        records.release_all();
        assert!(records.take_acks().is_empty());
    }
}
