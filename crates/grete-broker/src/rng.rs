//! Seeded random numbers, so that a seed decides all ids of a run.

/// Generator of random numbers (SplitMix64). Not for secrets.
#[derive(Debug, Clone)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// Creates a generator. Equal seeds give equal numbers.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a random UUID of version 4 as a number. Never 0, which means "no id" on the wire.
    pub fn uuid(&mut self) -> u128 {
        let bits = (u128::from(self.next_u64()) << 64) | u128::from(self.next_u64());
        (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62)
    }
}
