//! Rate limit of a route.

use crate::dispatch::route_config::RatePolicy;
use crate::time::Nanos;

/// Token bucket of a route. The bucket holds the records of one period, is full at first, and fills evenly.
///
/// Any stretch of time `t` lets through at most `records x (1 + t / per)`: the level at its start, and the inflow
/// meanwhile. (Over one period that is twice the rate, once; in the long run the limit is the rate.)
#[derive(Debug, Clone)]
pub struct RateLimit {
    records: u128,
    per: u128,
    /// Level of the bucket, in records x nanoseconds: a record costs `per`, each nanosecond adds `records`.
    level: u128,
    /// Time at which `level` was computed.
    at: Nanos,
}

impl RateLimit {
    /// Creates a full bucket.
    pub fn new(policy: RatePolicy, now: Nanos) -> Self {
        // A route with rate 0 would never run. The parser of the settings rejects 0.
        let (records, per) = (u128::from(policy.records.max(1)), u128::from(policy.per.max(1)));
        Self { records, per, level: records * per, at: now }
    }

    /// Takes up to `want` records out of the bucket. Returns their number; 0: none is allowed yet.
    pub fn take(&mut self, now: Nanos, want: usize) -> usize {
        self.level = self.level_at(now);
        self.at = self.at.max(now);
        let granted = (self.level / self.per).min(want as u128);
        self.level -= granted * self.per;
        usize::try_from(granted).unwrap_or(want)
    }

    /// Puts back records that were granted and not handed out.
    pub fn put_back(&mut self, rows: usize) {
        self.level = (rows as u128).saturating_mul(self.per).saturating_add(self.level).min(self.records * self.per);
    }

    /// Returns when the next record is allowed; `now` if one is allowed now.
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
        // After a long pause the bucket holds the records of one period, not more.
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
        // One record takes 3 1/3 ns.
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
        // A clock that goes backwards adds nothing and takes nothing.
        let mut limit = limit(1, SECOND);
        assert_eq!(limit.take(7 * SECOND, 1), 1);
        assert_eq!((limit.take(6 * SECOND, 1), limit.next_at(6 * SECOND)), (0, 8 * SECOND));
    }

    proptest! {
        /// A caller that takes all records and waits until `next_at` gets the rate, and no stretch of time exceeds the
        /// bound.
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
                prop_assert!(!wait || granted > 0, "records are allowed at the time that next_at returned");
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
    }
}
