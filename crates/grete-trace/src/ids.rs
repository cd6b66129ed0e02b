//! Ids of traces and spans: random, never 0, and never a forked parent's.

use std::cell::Cell;

use crate::sys;

thread_local! {
    /// Where this thread's sequence stands, and the fork generation that it was begun in.
    static STATE: Cell<(u64, u32)> = const { Cell::new((0, u32::MAX)) };
}

/// The next id of this thread: 64 bits, never 0.
pub(crate) fn next() -> u64 {
    STATE.with(|state| {
        let (mut seed, generation) = state.get();
        if generation != sys::generation() {
            seed = sys::random();
        }
        loop {
            // SplitMix64: each state is met once in 2^64 steps, and ids are a bijection of states.
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut id = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            id = (id ^ (id >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            id ^= id >> 31;
            if id != 0 {
                state.set((seed, sys::generation()));
                return id;
            }
        }
    })
}

/// A trace's id: 128 bits, the upper 32 of them the seconds since 1970, then 32 zeroes, as Datadog's tracers make them.
pub(crate) fn next_trace(seconds: u64) -> u128 {
    u128::from((seconds & 0xffff_ffff) << 32) << 64 | u128::from(next())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_are_never_zero_and_never_the_same() {
        let ids: HashSet<u64> = (0..100_000).map(|_| next()).collect();
        assert_eq!(ids.len(), 100_000);
        assert!(!ids.contains(&0));
        let elsewhere = std::thread::spawn(next).join().expect("an id");
        assert!(!ids.contains(&elsewhere));
    }

    #[test]
    fn a_trace_tells_when_it_began() {
        let id = next_trace(0x6543_2100);
        assert_eq!((id >> 64) as u64, 0x6543_2100_0000_0000);
        assert_ne!(id as u64, 0);
    }

    #[test]
    fn a_child_goes_on_with_other_ids() {
        next();
        let before = STATE.get();
        assert_eq!(
            sys::status_of_fork(|| {
                next();
                STATE.get().0 != before.0.wrapping_add(0x9e37_79b9_7f4a_7c15)
            }),
            0
        );
    }
}
