//! Sequence numbers: they count records, and after `i32::MAX` comes 0.

/// One more than the largest.
const TURN: i64 = 1 << 31;

/// The number that follows `count` records from `base` on.
pub(super) fn after(base: i32, count: u32) -> i32 {
    // Below TURN, so that it fits.
    ((i64::from(base) + i64::from(count)) % TURN) as i32
}

/// Whether `a` comes later than `b`: numbers in use lie much less than half a turn apart.
pub(super) fn is_later(a: i32, b: i32) -> bool {
    let distance = (i64::from(a) - i64::from(b)).rem_euclid(TURN);
    distance != 0 && distance < TURN / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_the_largest_comes_zero() {
        assert_eq!(after(0, 10), 10);
        assert_eq!(after(i32::MAX, 1), 0);
        assert_eq!(after(i32::MAX - 1, 1), i32::MAX);
        assert_eq!(after(i32::MAX - 1, 5), 3);
        assert!(is_later(3, i32::MAX - 1) && !is_later(i32::MAX - 1, 3));
        assert!(is_later(10, 9) && !is_later(9, 9) && !is_later(9, 10));
    }
}
