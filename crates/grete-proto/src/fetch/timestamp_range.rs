//! Timestamps of fetched records, available before decoding.

use grete_wire::records::{BatchHeader, iter_batches};

/// Timestamps of the records of some batches, in milliseconds since the epoch, from the batch headers; `None`: unknown.
/// Neither is proven, because checksums are checked later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimestampRange {
    /// Timestamp of the first record. (If the first batch begins before the fetch offset: of that batch's first
    /// record.)
    pub oldest: Option<i64>,
    /// Largest timestamp of the last batch.
    pub newest: Option<i64>,
}

impl TimestampRange {
    /// Reads the timestamps of whole batches.
    #[must_use]
    pub fn from_batches(records: &[u8]) -> Self {
        let mut times = Self::default();
        iter_batches(records).map_while(Result::ok).for_each(|(header, _)| times.add_batch(&header));
        times
    }

    /// Adds the following batch. Batches without records for the application are ignored.
    pub(super) fn add_batch(&mut self, header: &BatchHeader) {
        if header.is_control() || header.record_count == 0 {
            return;
        }
        self.oldest = self.oldest.or(header.first_timestamp());
        self.newest = Some(header.max_timestamp).filter(|time| *time >= 0).or(self.newest);
    }
}

#[cfg(test)]
mod tests {
    use grete_wire::records::test_encoder::{BatchOptions, TestRecord, build_batch, build_control_batch};

    use super::*;

    fn batch(base: i64, times: &[i64], options: &BatchOptions) -> Vec<u8> {
        let records: Vec<_> = times.iter().map(|time| TestRecord::value(*time, "v")).collect();
        build_batch(base, &records, options)
    }

    fn times(oldest: impl Into<Option<i64>>, newest: impl Into<Option<i64>>) -> TimestampRange {
        TimestampRange { oldest: oldest.into(), newest: newest.into() }
    }

    #[test]
    fn the_first_and_the_last_of_several_batches() {
        let plain = BatchOptions::default();
        let two = [batch(0, &[50, 90, 70], &plain), batch(3, &[60, 80], &plain)].concat();
        assert_eq!(TimestampRange::from_batches(&two), times(50, 80));
        assert_eq!(TimestampRange::from_batches(&[]), times(None, None));
    }

    #[test]
    fn the_brokers_time_is_every_records() {
        let appended = BatchOptions { log_append: Some(1_000), ..BatchOptions::default() };
        assert_eq!(TimestampRange::from_batches(&batch(0, &[50, 90], &appended)), times(1_000, 1_000));
    }

    #[test]
    fn markers_empty_batches_and_records_without_a_time_say_nothing() {
        let plain = BatchOptions::default();
        let emptied = BatchOptions { last_offset_delta: Some(4), ..BatchOptions::default() };
        let some = [build_control_batch(0, 1, true), batch(1, &[], &emptied), batch(6, &[70], &plain)].concat();
        assert_eq!(TimestampRange::from_batches(&some), times(70, 70));
        let behind = [batch(0, &[70], &plain), build_control_batch(1, 1, true)].concat();
        assert_eq!(TimestampRange::from_batches(&behind), times(70, 70));
        assert_eq!(TimestampRange::from_batches(&batch(0, &[-1, -1], &plain)), times(None, None));
    }

    #[test]
    fn a_delete_horizon_as_base_timestamp_is_no_records_time() {
        // Attribute bit 6 (KIP-534): the base timestamp is the delete horizon.
        let mut kept = batch(0, &[5_000, 70, 90], &BatchOptions::default());
        kept[22] |= 0x40;
        assert_eq!(
            TimestampRange::from_batches(&kept),
            times(5_000, 5_000),
            "the largest is the best that the header has"
        );
        kept[35..43].copy_from_slice(&90_i64.to_be_bytes());
        assert_eq!(TimestampRange::from_batches(&kept), times(90, 90));
    }
}
