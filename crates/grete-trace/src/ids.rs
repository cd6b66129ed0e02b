//! Generator of trace and span ids: random, never 0, and never repeated in a forked child.

use std::cell::Cell;

use grete_sys::fork::generation;
use grete_sys::random::random;

thread_local! {
    /// State of this thread's sequence, and the fork generation in which it was seeded.
    static STATE: Cell<(u64, u32)> = const { Cell::new((0, u32::MAX)) };
}

/// Returns the next id of this thread: 64 bits, never 0.
pub(crate) fn next_id() -> u64 {
    STATE.with(|state| {
        let (mut seed, begun) = state.get();
        if begun != generation() {
            seed = random();
        }
        loop {
            // SplitMix64: each state occurs once in 2^64 steps, and ids are a bijection of states.
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut id = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            id = (id ^ (id >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            id ^= id >> 31;
            if id != 0 {
                state.set((seed, generation()));
                return id;
            }
        }
    })
}

/// Returns a trace id of 128 bits: 32 bits of seconds since 1970, 32 zero bits, and 64 random bits, as in Datadog's
/// tracers.
pub(crate) fn next_trace_id(seconds: u64) -> u128 {
    u128::from((seconds & 0xffff_ffff) << 32) << 64 | u128::from(next_id())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_are_never_zero_and_never_the_same() {
        let ids: HashSet<u64> = (0..100_000).map(|_| next_id()).collect();
        assert_eq!(ids.len(), 100_000);
        assert!(!ids.contains(&0));
        let elsewhere = std::thread::spawn(next_id).join().expect("an id");
        assert!(!ids.contains(&elsewhere));
    }

    #[test]
    fn a_trace_id_holds_its_start_time() {
        let id = next_trace_id(0x6543_2100);
        assert_eq!((id >> 64) as u64, 0x6543_2100_0000_0000);
        assert_ne!(id as u64, 0);
    }

    #[test]
    fn a_child_goes_on_with_other_ids() {
        next_id();
        let before = STATE.get();
        assert_eq!(
            grete_sys::fork::status_of_child(|| {
                next_id();
                STATE.get().0 != before.0.wrapping_add(0x9e37_79b9_7f4a_7c15)
            }),
            0
        );
    }
}
