//! How long to leave an agent alone that did not take something.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);

/// Doubles with each failure in a row, from 0.1 to 10 s, and takes off up to half of it by chance, so that many processes do
/// not come back at once.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// How long to wait now that it failed again.
    pub(crate) fn failed(&mut self) -> Duration {
        let longest = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let part = (crate::ids::next() >> 11) as f64 / (1u64 << 53) as f64;
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
            let wait = backoff.failed();
            assert!(longest / 2 <= wait && wait <= longest, "{wait:?} for {longest:?}");
        }
        let different: std::collections::HashSet<_> = (0..100).map(|_| backoff.failed()).collect();
        assert!(different.len() > 90);
        backoff.succeeded();
        assert!(backoff.failed() <= FIRST);
    }
}
