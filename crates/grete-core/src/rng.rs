//! Randomness that the driver seeds (from getrandom, after any fork) and tests choose.

use crate::time::Nanos;

/// SplitMix64: small, good enough for jitter and for spreading load; never for secrets or ids.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// A generator that repeats itself for the same seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A generator of its own, for a part that draws by itself.
    #[must_use]
    pub fn split(&mut self) -> Self {
        Self(self.next_u64())
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next_u64() % bound }
    }

    /// `base` moved by up to `percent` % either way.
    pub fn jitter(&mut self, base: Nanos, percent: u64) -> Nanos {
        let span = base / 100 * percent;
        (base - span.min(base)).saturating_add(self.below(span.saturating_mul(2).saturating_add(1)))
    }
}

/// Exponential backoff: doubles up to a cap, jittered by 20 %.
#[derive(Debug, Clone)]
pub struct Backoff {
    initial: Nanos,
    max: Nanos,
    failures: u32,
}

impl Backoff {
    /// First wait and longest wait.
    #[must_use]
    pub fn new(initial: Nanos, max: Nanos) -> Self {
        Self { initial, max, failures: 0 }
    }

    /// Counts one more failure and says how long to wait.
    pub fn next(&mut self, rng: &mut Rng) -> Nanos {
        let doubled = self.initial.saturating_mul(1_u64.checked_shl(self.failures).unwrap_or(u64::MAX));
        self.failures = self.failures.saturating_add(1).min(62);
        rng.jitter(doubled.min(self.max), 20)
    }

    /// Failures since the last success.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// After a success.
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
            let wait = backoff.next(&mut rng);
            let expected = expected * MILLI;
            assert!(wait >= expected / 10 * 8 && wait <= expected / 10 * 12, "{wait} for {expected}");
        }
        backoff.reset();
        assert!(backoff.next(&mut rng) <= 60 * MILLI);
    }
}
