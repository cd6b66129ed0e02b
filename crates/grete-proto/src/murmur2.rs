//! Partition of a key, computed as in Java's producer: a key must map to the same partition with every client.

const SEED: i32 = 0x9747_b28c_u32.cast_signed();
const M: i32 = 0x5bd1_e995;
const R: u32 = 24;

/// Returns the 32-bit MurmurHash2 with Kafka's seed, in Java's signed form.
#[must_use]
pub fn murmur2(key: &[u8]) -> i32 {
    // Java arrays are no longer than an i32 allows, and neither is a key.
    let mut hash = SEED ^ key.len() as i32;
    let (words, tail) = key.as_chunks::<4>();
    for &word in words {
        let mut k = i32::from_le_bytes(word).wrapping_mul(M);
        k ^= (k.cast_unsigned() >> R).cast_signed();
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        // The remaining bytes, unsigned and little-endian.
        let rest = tail.iter().rev().fold(0, |rest, &byte| rest << 8 | i32::from(byte));
        hash = (hash ^ rest).wrapping_mul(M);
    }
    hash ^= (hash.cast_unsigned() >> 13).cast_signed();
    hash = hash.wrapping_mul(M);
    hash ^ (hash.cast_unsigned() >> 15).cast_signed()
}

/// Returns the partition of a key, out of `count`; an empty key is a valid key. Returns 0 if `count` is 0.
#[must_use]
pub fn partition_for_key(key: &[u8], count: u32) -> u32 {
    // The sign is masked off, not negated: i32::MIN has no positive counterpart.
    let positive = murmur2(key).cast_unsigned() & 0x7fff_ffff;
    positive.checked_rem(count).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P42: sign mask, tail bytes and seed are those of Java, according to Kafka's own classes
    /// (`tests/vectors/Murmur2.java`).
    #[test]
    fn p42_keys_go_where_java_sends_them() {
        let mut hashes = Vec::new();
        for line in include_str!("../tests/vectors/murmur2.txt").lines() {
            let (hex, numbers) = line.strip_prefix('x').and_then(|line| line.split_once(' ')).unwrap();
            let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
            let key: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
            let numbers: Vec<i32> = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
            assert_eq!(murmur2(&key), numbers[0], "{hex}");
            let partitions = [1, 3, 12, 1000].map(|count| partition_for_key(&key, count).cast_signed());
            assert_eq!(partitions, numbers[1..], "{hex}");
            hashes.push((key, numbers[0]));
        }
        // The table must contain these values to be useful.
        for hash in [i32::MIN, -1, 0, i32::MAX] {
            assert!(hashes.iter().any(|&(_, found)| found == hash), "{hash}");
        }
        for len in 0..=12 {
            assert!(hashes.iter().any(|(key, _)| key.len() == len), "{len}");
            assert!(len == 0 || hashes.iter().any(|(key, _)| key.len() == len && key[len - 1] >= 0x80), "{len}");
        }
    }

    #[test]
    fn without_partitions_there_is_no_division() {
        assert_eq!(partition_for_key(b"key", 0), 0);
    }
}
