//! A route's rate in one process: no stretch of time lets through more than one period's records and what flows in.

use crate::dispatch::{Concurrency, RatePolicy, RoutePolicy};
use crate::time::Nanos;

#[derive(Debug)]
pub struct Rate {
    limit: RatePolicy,
    level: f64,
    at: Nanos,
}

impl Rate {
    pub fn new(limit: RatePolicy) -> Self {
        Self { limit, level: f64::from(limit.records), at: 0 }
    }

    /// So many records are handed out for the first time.
    pub fn take(&mut self, now: Nanos, rows: usize, policy: &RoutePolicy) {
        let flown = now.saturating_sub(self.at) as f64 * f64::from(self.limit.records) / self.limit.per as f64;
        // Where records wait in slots, what was let through counts, not what a worker took at last.
        let most = if policy.concurrency == Concurrency::Partition { f64::from(self.limit.records) } else { f64::MAX };
        self.level = (self.level + flown).min(most) - rows as f64;
        self.at = self.at.max(now);
        // What is granted to a worker that decodes is out of the bucket meanwhile, which then fills where it would be full.
        let slack = 0.2 * f64::from(self.limit.records);
        assert!(self.level > -slack, "{} more records than the rate lets through", -self.level);
    }
}
