//! Hasher for maps whose keys are numbers of our own.

use std::hash::Hasher;

/// Hasher for one integer that no peer chooses: an address, or a number that counts up.
///
/// The standard hasher withstands chosen keys, for 150 instructions a look-up. Where there is a look-up per job or per
/// record, that is a measurable part of the whole.
#[derive(Debug, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("the key is one integer");
    }

    fn write_usize(&mut self, key: usize) {
        self.write_u64(key as u64);
    }

    fn write_u64(&mut self, key: u64) {
        // The map uses the highest bits and the lowest ones.
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = hash ^ (hash >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_count_up_differ_in_the_highest_and_in_the_lowest_bits() {
        let hash = |key: u64| {
            let mut hasher = IdHasher::default();
            hasher.write_u64(key);
            hasher.finish()
        };
        let high: std::collections::HashSet<_> = (0..128).map(|key| hash(key) >> 57).collect();
        let low: std::collections::HashSet<_> = (0..128).map(|key| hash(key) & 127).collect();
        assert!(high.len() > 64 && low.len() > 64, "{} and {} of 128", high.len(), low.len());
    }
}
