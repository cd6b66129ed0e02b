//! When rows may go to a handler: not too many in a time, not too early, not too late.

use std::ops::Range;

use super::route::RatePolicy;
use crate::time::Nanos;

/// At most so many records in so much time: a bucket that holds one period's records, is full at first, and fills
/// evenly. So any stretch of time `t` lets through at most `records x (1 + t / per)`: what the bucket holds at its
/// beginning, and what flows in meanwhile. (Over one period that is twice the rate, once; in the long run it is the rate.)
#[derive(Debug, Clone)]
pub struct RateLimit {
    records: u128,
    per: u128,
    /// What is in the bucket, in records x nanoseconds: a record costs `per`, each nanosecond brings `records`.
    level: u128,
    /// The level is of then.
    at: Nanos,
}

impl RateLimit {
    /// A full bucket.
    #[must_use]
    pub fn new(policy: RatePolicy, now: Nanos) -> Self {
        // A rate of nothing would be a route that never runs: whoever reads settings refuses it.
        let (records, per) = (u128::from(policy.records.max(1)), u128::from(policy.per.max(1)));
        Self { records, per, level: records * per, at: now }
    }

    /// Takes up to `want` records out; returns how many that were. 0: none are allowed yet.
    pub fn take(&mut self, now: Nanos, want: usize) -> usize {
        self.level = self.level_at(now);
        self.at = self.at.max(now);
        let granted = (self.level / self.per).min(want as u128);
        self.level -= granted * self.per;
        usize::try_from(granted).unwrap_or(want)
    }

    /// These were granted and not handed out.
    pub fn put_back(&mut self, rows: usize) {
        self.level = (rows as u128).saturating_mul(self.per).saturating_add(self.level).min(self.records * self.per);
    }

    /// When one more record is allowed; `now` if one is at once.
    #[must_use]
    pub fn next_at(&self, now: Nanos) -> Nanos {
        let missing = self.per.saturating_sub(self.level_at(now));
        let wait = Nanos::try_from(missing.div_ceil(self.records)).unwrap_or(Nanos::MAX);
        if wait == 0 { now } else { now.max(self.at).saturating_add(wait) }
    }

    fn level_at(&self, now: Nanos) -> u128 {
        let passed = u128::from(now.saturating_sub(self.at));
        (self.level + passed * self.records).min(self.records * self.per)
    }
}

/// What is old enough to be handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// So many of the first rows.
    pub rows: usize,
    /// The wall clock's milliseconds at which the next one is; `None` if all are.
    pub next_at_ms: Option<i64>,
}

/// The leading rows that are at least `delay_ms` old. Rows without a timestamp (-1) are. Rows behind one that is not wait
/// with it, whatever their age: a partition's order holds.
#[must_use]
pub fn due(timestamps: &[i64], delay_ms: i64, wall_ms: i64) -> Due {
    let due_at = |timestamp: i64| timestamp.saturating_add(delay_ms);
    let waits = |timestamp: &i64| *timestamp >= 0 && due_at(*timestamp) > wall_ms;
    let rows = timestamps.iter().position(waits).unwrap_or(timestamps.len());
    Due { rows, next_at_ms: timestamps.get(rows).map(|timestamp| due_at(*timestamp)) }
}

/// What is left of rows of which some have expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fresh {
    /// The others, ascending; next to each other only in one range.
    pub kept: Vec<Range<usize>>,
    /// How many have expired.
    pub expired: usize,
}

/// Passes over rows that are older than `expire_ms`; rows without a timestamp (-1) never are. `None`: nothing has expired.
#[must_use]
pub fn fresh(timestamps: &[i64], expire_ms: i64, wall_ms: i64) -> Option<Fresh> {
    let limit = wall_ms.saturating_sub(expire_ms);
    let expired = |timestamp: &i64| *timestamp >= 0 && *timestamp < limit;
    let first = timestamps.iter().position(expired)?;
    let mut kept: Vec<Range<usize>> = Vec::new();
    let mut count = 0;
    if first > 0 {
        kept.push(0..first);
    }
    for (row, timestamp) in timestamps.iter().enumerate().skip(first) {
        if expired(timestamp) {
            count += 1;
        } else {
            match kept.last_mut().filter(|range| range.end == row) {
                Some(range) => range.end = row + 1,
                None => kept.push(row..row + 1),
            }
        }
    }
    Some(Fresh { kept, expired: count })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::{MILLI, SECOND};

    fn limit(records: u32, per: Nanos) -> RateLimit {
        RateLimit::new(RatePolicy { records, per }, 7 * SECOND)
    }

    #[test]
    fn a_full_bucket_then_the_rate() {
        let mut limit = limit(10, SECOND);
        let start = 7 * SECOND;
        assert_eq!(limit.next_at(start), start);
        assert_eq!(limit.take(start, 4), 4);
        assert_eq!(limit.take(start, 100), 6);
        assert_eq!((limit.take(start, 1), limit.next_at(start)), (0, start + 100 * MILLI));
        assert_eq!(limit.take(start + 99 * MILLI, 1), 0);
        assert_eq!(limit.take(start + 350 * MILLI, 9), 3);
        assert_eq!(limit.next_at(start + 350 * MILLI), start + 400 * MILLI);
        // A long pause saves up one period's records, not more.
        assert_eq!(limit.take(start + 3600 * SECOND, 100), 10);
    }

    #[test]
    fn what_was_not_handed_out_can_be_taken_again() {
        let mut limit = limit(10, SECOND);
        assert_eq!(limit.take(7 * SECOND, 8), 8);
        limit.put_back(5);
        assert_eq!(limit.take(7 * SECOND, 100), 7);
        limit.put_back(usize::MAX);
        assert_eq!(limit.take(7 * SECOND, 100), 10);
    }

    #[test]
    fn rates_that_do_not_divide_the_period() {
        let mut limit = limit(3, 10);
        let start = 7 * SECOND;
        assert_eq!(limit.take(start, 3), 3);
        // 3 1/3 ns a record.
        assert_eq!(limit.next_at(start), start + 4);
        let taken: usize = (1..=1000).map(|tick| limit.take(start + tick, 5)).sum();
        assert_eq!(taken, 300);
    }

    #[test]
    fn extreme_settings_and_clocks_do_no_harm() {
        let mut most = limit(u32::MAX, 1);
        assert_eq!(most.take(u64::MAX, usize::MAX), u32::MAX as usize);
        let mut least = limit(0, u64::MAX);
        assert_eq!(least.take(7 * SECOND, 5), 1);
        assert_eq!(least.next_at(8 * SECOND), u64::MAX);
        // A clock that goes back brings nothing and takes nothing.
        let mut limit = limit(1, SECOND);
        assert_eq!(limit.take(7 * SECOND, 1), 1);
        assert_eq!((limit.take(6 * SECOND, 1), limit.next_at(6 * SECOND)), (0, 8 * SECOND));
    }

    #[test]
    fn rows_are_due_when_they_are_old_enough() {
        assert_eq!(due(&[100, 200, 300], 50, 250), Due { rows: 2, next_at_ms: Some(350) });
        assert_eq!(due(&[100, 200], 50, 250), Due { rows: 2, next_at_ms: None });
        assert_eq!(due(&[-1, 100, -1, 300], 50, 150), Due { rows: 3, next_at_ms: Some(350) });
        // The one in front holds those behind it up.
        assert_eq!(due(&[400, 100], 50, 250), Due { rows: 0, next_at_ms: Some(450) });
        assert_eq!(due(&[i64::MAX], 50, 250), Due { rows: 0, next_at_ms: Some(i64::MAX) });
        assert_eq!(due(&[], 50, 250), Due { rows: 0, next_at_ms: None });
    }

    #[test]
    fn rows_that_are_too_old_are_left_out() {
        assert_eq!(fresh(&[100, 200, -1], 50, 150), None);
        let kept = vec![0..1, 3..4];
        assert_eq!(fresh(&[300, 100, 200, 300], 50, 260), Some(Fresh { kept, expired: 2 }));
        let kept = vec![0..2, 3..4, 5..6];
        assert_eq!(fresh(&[500, -1, 1, 500, 2, -1, 3], 50, 260), Some(Fresh { kept, expired: 3 }));
        assert_eq!(fresh(&[1], 50, 260), Some(Fresh { kept: vec![], expired: 1 }));
        assert_eq!(fresh(&[0], i64::MAX, i64::MIN), None);
    }

    proptest! {
        /// Whoever takes all that he can, and waits until he may, gets the rate; and no stretch of time more than was said.
        #[test]
        fn no_stretch_of_time_gets_more(
            records in 1..50_u32,
            per in 1..2000_u64,
            steps in prop::collection::vec((0..500_u64, 1..60_usize, any::<bool>()), 1..60),
        ) {
            let mut limit = limit(records, per);
            let (mut now, mut log) = (7 * SECOND, Vec::new());
            for (pause, want, wait) in steps {
                now = if wait { limit.next_at(now) } else { now + pause };
                let granted = limit.take(now, want);
                prop_assert!(!wait || granted > 0, "it may when it was told that it may");
                prop_assert_eq!(granted == want || limit.next_at(now) > now, true);
                log.push((now, granted as u128));
            }
            for (first, (start, _)) in log.iter().enumerate() {
                let mut sum = 0;
                for (end, granted) in &log[first..] {
                    sum += granted;
                    let most = u128::from(records) * u128::from(per + end - start) / u128::from(per);
                    prop_assert!(sum <= most, "{} records in {} ns", sum, end - start);
                }
            }
        }

        #[test]
        fn kept_rows_are_those_that_have_not_expired(times in prop::collection::vec(-1..20_i64, 0..40), wall in 0..40_i64) {
            let naive: Vec<usize> = (0..times.len()).filter(|row| times[*row] < 0 || wall - times[*row] <= 10).collect();
            let found = fresh(&times, 10, wall);
            prop_assert_eq!(found.is_none(), naive.len() == times.len());
            if let Some(Fresh { kept, expired }) = found {
                prop_assert!(kept.is_sorted_by(|a, b| a.end < b.start));
                prop_assert_eq!(kept.into_iter().flatten().collect::<Vec<_>>(), naive.clone());
                prop_assert_eq!(expired + naive.len(), times.len());
            }
        }
    }
}
