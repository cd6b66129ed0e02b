//! How old records are, before anybody has decoded them.

use grete_wire::records::{BatchHeader, walk};

/// Of what time the records of some batches are, in milliseconds since the epoch, as far as headers tell. Neither is proven:
/// checksums are looked at later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// The first record's. (Of a batch that begins before what was asked for it is that of the batch's first.)
    pub oldest: Option<i64>,
    /// The largest of the last batch.
    pub newest: Option<i64>,
}

impl Times {
    /// Of whole batches.
    #[must_use]
    pub fn of(records: &[u8]) -> Self {
        let mut times = Self::default();
        walk(records).map_while(Result::ok).for_each(|(header, _)| times.add(&header));
        times
    }

    /// One batch more, behind the others. What holds nothing for an application has no say.
    pub(super) fn add(&mut self, header: &BatchHeader) {
        if header.is_control() || header.record_count == 0 {
            return;
        }
        self.oldest = self.oldest.or(header.first_timestamp());
        self.newest = Some(header.max_timestamp).filter(|time| *time >= 0).or(self.newest);
    }
}

#[cfg(test)]
mod tests {
    use grete_wire::records::testing::{BatchOptions, TestRecord, build_batch, build_marker};

    use super::*;

    fn batch(base: i64, times: &[i64], options: &BatchOptions) -> Vec<u8> {
        let records: Vec<_> = times.iter().map(|time| TestRecord::value(*time, "v")).collect();
        build_batch(base, &records, options)
    }

    fn times(oldest: impl Into<Option<i64>>, newest: impl Into<Option<i64>>) -> Times {
        Times { oldest: oldest.into(), newest: newest.into() }
    }

    #[test]
    fn the_first_and_the_last_of_several_batches() {
        let plain = BatchOptions::default();
        let two = [batch(0, &[50, 90, 70], &plain), batch(3, &[60, 80], &plain)].concat();
        assert_eq!(Times::of(&two), times(50, 80));
        assert_eq!(Times::of(&[]), times(None, None));
    }

    #[test]
    fn the_brokers_time_is_every_records() {
        let appended = BatchOptions { log_append: Some(1_000), ..BatchOptions::default() };
        assert_eq!(Times::of(&batch(0, &[50, 90], &appended)), times(1_000, 1_000));
    }

    #[test]
    fn markers_empty_batches_and_records_without_a_time_say_nothing() {
        let plain = BatchOptions::default();
        let emptied = BatchOptions { last_offset_delta: Some(4), ..BatchOptions::default() };
        let some = [build_marker(0, 1, true), batch(1, &[], &emptied), batch(6, &[70], &plain)].concat();
        assert_eq!(Times::of(&some), times(70, 70));
        let behind = [batch(0, &[70], &plain), build_marker(1, 1, true)].concat();
        assert_eq!(Times::of(&behind), times(70, 70));
        assert_eq!(Times::of(&batch(0, &[-1, -1], &plain)), times(None, None));
    }

    #[test]
    fn a_base_that_tells_when_tombstones_go_is_no_records_time() {
        // Attribute bit 6 (KIP-534): the base timestamp is the delete horizon.
        let mut kept = batch(0, &[5_000, 70, 90], &BatchOptions::default());
        kept[22] |= 0x40;
        assert_eq!(Times::of(&kept), times(5_000, 5_000), "the largest is the best that the header has");
        kept[35..43].copy_from_slice(&90_i64.to_be_bytes());
        assert_eq!(Times::of(&kept), times(90, 90));
    }
}
