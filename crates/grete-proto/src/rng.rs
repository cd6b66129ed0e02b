//! Random numbers, seeded by the driver (from getrandom, after any fork) or by tests.

use crate::time::Nanos;

/// SplitMix64 generator: small and sufficient for jitter and for spreading load; and for member ids, which only
/// have to be unique; never for secrets.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// Creates a generator; the same seed gives the same sequence.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns an independent generator for another component.
    #[must_use]
    pub fn split(&mut self) -> Self {
        Self(self.next_u64())
    }

    /// Returns a number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next_u64() % bound }
    }

    /// Returns `base` changed by up to `percent` % in either direction.
    pub fn jitter(&mut self, base: Nanos, percent: u64) -> Nanos {
        let span = base / 100 * percent;
        (base - span.min(base)).saturating_add(self.below(span.saturating_mul(2).saturating_add(1)))
    }
}
