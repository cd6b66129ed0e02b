//! Sequence numbers: one per record; 0 follows `i32::MAX`.

/// Number of distinct sequence numbers: the largest one plus 1.
const SEQUENCE_MODULUS: i64 = 1 << 31;

/// Returns the sequence number that follows `count` records starting at `base`.
pub(super) fn wrapping_add(base: i32, count: u32) -> i32 {
    // The result is less than `SEQUENCE_MODULUS`, so it fits an `i32`.
    ((i64::from(base) + i64::from(count)) % SEQUENCE_MODULUS) as i32
}

/// Returns whether `a` is later than `b`. Numbers in use are much less than half the modulus apart.
pub(super) fn is_later(a: i32, b: i32) -> bool {
    let distance = (i64::from(a) - i64::from(b)).rem_euclid(SEQUENCE_MODULUS);
    distance != 0 && distance < SEQUENCE_MODULUS / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_the_largest_comes_zero() {
        assert_eq!(wrapping_add(0, 10), 10);
        assert_eq!(wrapping_add(i32::MAX, 1), 0);
        assert_eq!(wrapping_add(i32::MAX - 1, 1), i32::MAX);
        assert_eq!(wrapping_add(i32::MAX - 1, 5), 3);
        assert!(is_later(3, i32::MAX - 1) && !is_later(i32::MAX - 1, 3));
        assert!(is_later(10, 9) && !is_later(9, 9) && !is_later(9, 10));
    }
}
