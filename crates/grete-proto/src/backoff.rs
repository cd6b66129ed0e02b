//! Exponential backoff between attempts.

use crate::rng::Rng;
use crate::time::Nanos;

/// Exponential backoff: doubles up to a maximum, with a jitter of 20 %.
#[derive(Debug, Clone)]
pub struct Backoff {
    initial: Nanos,
    max: Nanos,
    failures: u32,
}

impl Backoff {
    /// Creates a backoff with the first and the maximum delay.
    pub fn new(initial: Nanos, max: Nanos) -> Self {
        Self { initial, max, failures: 0 }
    }

    /// Counts a failure and returns the delay.
    pub fn next_delay(&mut self, rng: &mut Rng) -> Nanos {
        let doubled = self.initial.saturating_mul(1_u64.checked_shl(self.failures).unwrap_or(u64::MAX));
        self.failures = self.failures.saturating_add(1).min(62);
        rng.jitter(doubled.min(self.max), 20)
    }

    /// Returns the number of failures since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Resets the failures after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{MILLI, SECOND};

    #[test]
    fn waits_double_up_to_the_cap() {
        let mut rng = Rng::new(1);
        let mut backoff = Backoff::new(50 * MILLI, SECOND);
        for expected in [50, 100, 200, 400, 800, 1000, 1000] {
            let wait = backoff.next_delay(&mut rng);
            let expected = expected * MILLI;
            assert!(wait >= expected / 10 * 8 && wait <= expected / 10 * 12, "{wait} for {expected}");
        }
        backoff.reset();
        assert!(backoff.next_delay(&mut rng) <= 60 * MILLI);
    }
}
