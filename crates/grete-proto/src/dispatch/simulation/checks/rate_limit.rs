//! Check of a route's rate in one process: no stretch of time lets through more than one period's records and the
//! inflow.

use crate::dispatch::{Concurrency, RatePolicy, RouteConfig};
use crate::time::Nanos;

#[derive(Debug)]
pub struct RateLimitCheck {
    limit: RatePolicy,
    level: f64,
    at: Nanos,
}

impl RateLimitCheck {
    pub fn new(limit: RatePolicy) -> Self {
        Self { limit, level: f64::from(limit.records), at: 0 }
    }

    /// Takes `rows` records that are handed out for the first time.
    pub fn take(&mut self, now: Nanos, rows: usize, policy: &RouteConfig) {
        let flown = now.saturating_sub(self.at) as f64 * f64::from(self.limit.records) / self.limit.per as f64;
        // With slots, the grant counts, not the time at which a worker takes the records.
        let most = if policy.concurrency == Concurrency::Partition { f64::from(self.limit.records) } else { f64::MAX };
        self.level = (self.level + flown).min(most) - rows as f64;
        self.at = self.at.max(now);
        // Records granted to a worker that decodes are out of the bucket meanwhile. The bucket then fills where it
        // would otherwise be full.
        let slack = 0.2 * f64::from(self.limit.records);
        assert!(self.level > -slack, "{} more records than the rate lets through", -self.level);
    }
}
