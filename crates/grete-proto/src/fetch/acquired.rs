//! Ranges of acquired records.

/// Records that a leader has acquired for this member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcquiredRange {
    /// First offset.
    pub first: i64,
    /// Last offset.
    pub last: i64,
    /// Number of deliveries of each record, this one included; at least 1.
    pub deliveries: u16,
}

impl AcquiredRange {
    /// Returns the offsets.
    pub fn offsets(&self) -> impl Iterator<Item = i64> + use<> {
        self.first..=self.last
    }
}

/// Returns whether the ascending ranges contain the offset.
#[must_use]
pub fn contains(ranges: &[AcquiredRange], offset: i64) -> bool {
    let at = ranges.partition_point(|range| range.last < offset);
    ranges.get(at).is_some_and(|range| range.first <= offset)
}

/// Returns the parts of the ranges whose offsets pass `keep`.
pub fn retain(ranges: &[AcquiredRange], mut keep: impl FnMut(i64) -> bool) -> Vec<AcquiredRange> {
    let mut kept: Vec<AcquiredRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        for offset in range.offsets().filter(|offset| keep(*offset)) {
            let joins = |last: &&mut AcquiredRange| {
                last.deliveries == range.deliveries && last.last.checked_add(1) == Some(offset)
            };
            match kept.last_mut().filter(joins) {
                Some(last) => last.last = offset,
                None => kept.push(AcquiredRange { first: offset, last: offset, deliveries: range.deliveries }),
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_searched_and_split() {
        let range = |first, last, deliveries| AcquiredRange { first, last, deliveries };
        let ranges = [range(5, 7, 1), range(8, 9, 2), range(20, 20, 1)];
        let found: Vec<i64> = (0..30).filter(|offset| contains(&ranges, *offset)).collect();
        assert_eq!(found, [5, 6, 7, 8, 9, 20]);
        assert_eq!(
            retain(&ranges, |offset| offset != 6),
            [range(5, 5, 1), range(7, 7, 1), range(8, 9, 2), range(20, 20, 1)]
        );
    }
}
