//! Backoff after failed requests.

use std::time::Duration;

const INITIAL_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(10);

/// Exponential backoff from 0.1 to 10 s. It subtracts a random part of up to a half, so that many processes do not
/// return at once.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns the delay after another failure.
    pub(crate) fn next_delay(&mut self) -> Duration {
        let longest = INITIAL_DELAY.saturating_mul(1 << self.failures.min(16)).min(MAX_DELAY);
        self.failures = self.failures.saturating_add(1);
        let part = (crate::ids::next_id() >> 11) as f64 / (1u64 << 53) as f64;
        longest.mul_f64(1.0 - part / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_to_a_cap_with_jitter_and_starts_anew() {
        let mut backoff = Backoff::default();
        for expected in [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000] {
            let longest = Duration::from_millis(expected);
            let wait = backoff.next_delay();
            assert!(longest / 2 <= wait && wait <= longest, "{wait:?} for {longest:?}");
        }
        let different: std::collections::HashSet<_> = (0..100).map(|_| backoff.next_delay()).collect();
        assert!(different.len() > 90);
        backoff.reset();
        assert!(backoff.next_delay() <= INITIAL_DELAY);
    }
}
