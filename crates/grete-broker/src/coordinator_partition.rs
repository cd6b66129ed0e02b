//! Partition of `__consumer_offsets` or `__transaction_state` that a name belongs to: the partition decides about the
//! coordinator.

/// Number of partitions that both topics have in Kafka.
pub const COORDINATOR_PARTITIONS: usize = 50;

/// Returns the partition of a group or a transactional id: by the absolute value of the name's hash, like Kafka's
/// `Utils.abs`, which is 0 for the smallest number.
#[must_use]
pub fn coordinator_partition(name: &str) -> usize {
    usize::try_from(java_hash(name).checked_abs().unwrap_or(0)).unwrap_or(0) % COORDINATOR_PARTITIONS
}

/// Returns `String.hashCode` of Java.
fn java_hash(name: &str) -> i32 {
    name.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

#[cfg(test)]
mod tests {
    use super::{coordinator_partition, java_hash};

    #[test]
    fn the_hash_is_javas() {
        assert_eq!((java_hash(""), java_hash("orders"), java_hash("billing")), (0, -1_008_770_331, -109_829_509));
    }

    #[test]
    fn the_sign_of_a_hash_is_dropped() {
        assert_eq!(["", "orders", "billing"].map(coordinator_partition), [0, 31, 9]);
        assert_eq!((java_hash("polygenelubricants"), coordinator_partition("polygenelubricants")), (i32::MIN, 0));
    }
}
