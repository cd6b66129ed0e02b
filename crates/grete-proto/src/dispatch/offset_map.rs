//! Map of marked offsets beyond the committable offset, and its text form in the metadata of a commit.
//!
//! The text is `grete1:` and base64url (no padding) of varints. The first varint is the committable offset. Then each
//! run of marked offsets has two varints: the number of open offsets before it less one, and its length less one. The
//! text repeats the committable offset because other tools copy metadata. A tool that stores the metadata with another
//! offset (a mirror that translates offsets) would otherwise make the consumer skip unprocessed records.

use std::ops::Range;

/// Longest metadata that brokers take by default (`offset.metadata.max.bytes`).
pub const MAX_METADATA: usize = 4096;

const PREFIX: &str = "grete1:";
/// Longest metadata that is decoded. A broker may allow more than the default, but no map needs more than this.
const MAX_DECODE_BYTES: usize = 1 << 20;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Longest varint of 64 bits.
const MAX_VARINT: usize = 10;

/// Runs of marked offsets: ascending, not empty, with open offsets between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OffsetMap {
    runs: Vec<Range<i64>>,
}

impl OffsetMap {
    /// Builds a map from runs in any order. Runs may touch or overlap.
    #[must_use]
    pub fn from_runs(runs: impl IntoIterator<Item = Range<i64>>) -> Self {
        let mut all: Vec<Range<i64>> = runs.into_iter().filter(|run| run.start < run.end).collect();
        all.sort_unstable_by_key(|run| run.start);
        let mut map = Self::default();
        for run in all {
            match map.runs.last_mut().filter(|last| run.start <= last.end) {
                Some(last) => last.end = last.end.max(run.end),
                None => map.runs.push(run),
            }
        }
        map
    }

    /// Returns the runs.
    pub fn runs(&self) -> &[Range<i64>] {
        &self.runs
    }

    /// Returns whether no offset is marked.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns whether this offset is marked.
    pub fn contains(&self, offset: i64) -> bool {
        let behind = self.runs.partition_point(|run| run.end <= offset);
        self.runs.get(behind).is_some_and(|run| run.contains(&offset))
    }

    /// Encodes the map as metadata of a commit of `committable`, in at most `max_bytes`: as many of the first runs as
    /// fit.
    ///
    /// Runs that do not fit are processed again after a restart. The text is empty if no run lies beyond `committable`,
    /// because the commit itself covers `committable` and all offsets below.
    pub fn encode(&self, committable: i64, max_bytes: usize) -> String {
        let room =
            max_bytes.saturating_sub(PREFIX.len()) / 4 * 3 + [0, 0, 1, 2][max_bytes.saturating_sub(PREFIX.len()) % 4];
        let Ok(base) = u64::try_from(committable) else { return String::new() };
        let mut bytes = Vec::with_capacity(room.min(MAX_METADATA));
        put_varint(&mut bytes, base);
        let head = bytes.len();
        let mut reached = committable;
        let first = committable.saturating_add(1);
        let runs = self.runs.iter().map(|run| run.start.max(first)..run.end);
        for run in runs.filter(|run| run.start < run.end) {
            let before = bytes.len();
            put_varint(&mut bytes, run.start.abs_diff(reached) - 1);
            put_varint(&mut bytes, run.end.abs_diff(run.start) - 1);
            if bytes.len() > room {
                bytes.truncate(before);
                break;
            }
            reached = run.end;
        }
        if bytes.len() == head { String::new() } else { encode_text(&bytes) }
    }

    /// Decodes the metadata of a commit of `committable`. Returns an empty map for metadata that grete did not write
    /// for that offset.
    #[must_use]
    pub fn decode(committable: i64, metadata: &str) -> Self {
        read(committable, metadata).unwrap_or_default()
    }
}

fn read(committable: i64, metadata: &str) -> Option<OffsetMap> {
    let text = metadata.strip_prefix(PREFIX).filter(|text| text.len() <= MAX_DECODE_BYTES)?;
    let bytes = decode_text(text)?;
    let mut rest = bytes.as_slice();
    if take_varint(&mut rest)? != u64::try_from(committable).ok()? {
        return None;
    }
    let (mut runs, mut reached) = (Vec::new(), committable);
    while !rest.is_empty() {
        let start = offset_after(reached, take_varint(&mut rest)?)?;
        let end = offset_after(start, take_varint(&mut rest)?)?;
        runs.push(start..end);
        reached = end;
    }
    Some(OffsetMap { runs })
}

/// Returns `from + less_one + 1`; `None` on overflow.
fn offset_after(from: i64, less_one: u64) -> Option<i64> {
    from.checked_add_unsigned(less_one)?.checked_add(1)
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for place in 0..MAX_VARINT {
        let (&byte, behind) = rest.split_first()?;
        *rest = behind;
        let bits = u64::from(byte & 0x7f);
        let shift = 7 * place as u32;
        if bits.checked_shl(shift)? >> shift != bits {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn encode_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(PREFIX.len() + bytes.len().div_ceil(3) * 4);
    text.push_str(PREFIX);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0_u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            let index = (group >> (18 - 6 * place)) & 0x3f;
            text.push(char::from(ALPHABET.get(index as usize).copied().unwrap_or(b'A')));
        }
    }
    text
}

fn decode_text(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for chunk in text.as_bytes().chunks(4) {
        if chunk.len() == 1 {
            return None;
        }
        let mut group = 0_u32;
        for byte in chunk {
            group = group << 6 | decode_base64url(*byte)?;
        }
        group <<= 6 * (4 - chunk.len());
        let [_, whole @ ..] = group.to_be_bytes();
        bytes.extend(whole.into_iter().take(chunk.len() - 1));
    }
    Some(bytes)
}

fn decode_base64url(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn map<const N: usize>(runs: [(i64, i64); N]) -> OffsetMap {
        OffsetMap::from_runs(runs.map(|(start, end)| start..end))
    }

    #[test]
    fn runs_are_sorted_and_merged() {
        assert_eq!(map([(9, 10), (3, 5), (5, 6), (4, 5), (20, 20)]).runs(), [3..6, 9..10]);
        let map = map([(3, 6), (9, 10)]);
        let marked: Vec<i64> = (0..12).filter(|offset| map.contains(*offset)).collect();
        assert_eq!(marked, [3, 4, 5, 9]);
    }

    /// The text form is stored in clusters, so it must never change under this prefix.
    #[test]
    fn the_form_is_fixed() {
        assert_eq!(map([(102, 105), (106, 107), (400, 700)]).encode(100, MAX_METADATA), "grete1:ZAECAACkAqsC");
        assert_eq!(OffsetMap::decode(100, "grete1:ZAECAACkAqsC").runs(), [102..105, 106..107, 400..700]);
        assert_eq!(OffsetMap::default().encode(100, MAX_METADATA), "");
    }

    #[test]
    fn metadata_beside_another_offset_says_nothing() {
        let text = map([(102, 105)]).encode(100, MAX_METADATA);
        assert!(OffsetMap::decode(101, &text).is_empty());
        assert!(!OffsetMap::decode(100, &text).is_empty());
    }

    #[test]
    fn what_others_write_says_nothing() {
        for foreign in [
            "",
            "x",
            "grete1:",
            "grete1:A",
            "grete1:ZAE",
            "grete1:ZA=",
            "grete2:ZAEC",
            "grete1:ZAEC ",
            "{\"a\":1}",
            "grete1:é",
        ] {
            assert!(OffsetMap::decode(100, foreign).is_empty(), "{foreign}");
        }
        // An offset beyond all offsets, and a number of more than 64 bits.
        for bytes in [
            &[100, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0][..],
            &[100, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0],
        ] {
            assert!(OffsetMap::decode(100, &encode_text(bytes)).is_empty());
        }
        let huge = format!("{PREFIX}{}", "A".repeat(MAX_DECODE_BYTES + 4));
        assert!(OffsetMap::decode(0, &huge).is_empty());
    }

    #[test]
    fn offsets_at_the_end_of_the_range_pass() {
        let all = map([(1, i64::MAX)]);
        assert_eq!(OffsetMap::decode(0, &all.encode(0, MAX_METADATA)), all);
        assert_eq!(map([(1, 3)]).encode(i64::MAX, MAX_METADATA), "");
        assert_eq!(map([(1, 3)]).encode(-1, MAX_METADATA), "");
    }

    #[test]
    fn runs_that_begin_before_what_is_committed_are_cut() {
        let text = map([(i64::MIN, 3), (5, 6), (8, 14), (20, 22)]).encode(9, MAX_METADATA);
        assert_eq!(OffsetMap::decode(9, &text), map([(10, 14), (20, 22)]));
    }

    fn any_map() -> impl Strategy<Value = (i64, OffsetMap)> {
        let run = prop_oneof![4 => (1..20_i64, 1..20_i64), 1 => (1..1_000_000_i64, 1..1_000_000_i64)];
        (0..1_000_000_000_i64, prop::collection::vec(run, 0..400)).prop_map(|(base, steps)| {
            let mut at = base;
            let runs = steps.into_iter().map(|(open, marked)| {
                let start = at + open;
                at = start + marked;
                start..at
            });
            (base, OffsetMap::from_runs(runs))
        })
    }

    proptest! {
        #[test]
        fn there_and_back((base, map) in any_map()) {
            let text = map.encode(base, 1 << 20);
            prop_assert!(text.is_ascii());
            prop_assert_eq!(OffsetMap::decode(base, &text), map);
        }

        #[test]
        fn the_longest_prefix_that_fits((base, map) in any_map(), max in 0..600_usize) {
            let text = map.encode(base, max);
            prop_assert!(text.len() <= max);
            let back = OffsetMap::decode(base, &text);
            prop_assert!(map.runs().starts_with(back.runs()));
            if let Some(next) = map.runs().get(..=back.runs().len()) {
                let more = OffsetMap { runs: next.to_vec() }.encode(base, 1 << 20);
                prop_assert!(more.len() > max, "one more run would have fitted");
            }
        }

        #[test]
        fn nothing_hostile_does_harm(base in any::<i64>(), bytes in prop::collection::vec(any::<u8>(), 0..200), known in any::<bool>()) {
            let mut all = Vec::new();
            if known {
                put_varint(&mut all, base.unsigned_abs());
            }
            all.extend(bytes);
            let text = encode_text(&all);
            let map = OffsetMap::decode(base.saturating_abs(), &text);
            prop_assert!(map.runs().len() * 2 <= text.len());
            prop_assert!(map.runs().iter().all(|run| run.start < run.end));
            prop_assert!(map.runs().is_sorted_by(|a, b| a.end < b.start));
        }

        #[test]
        fn nor_does_any_text(base in 0..9_i64, text in "(grete1:)?.{0,80}") {
            let map = OffsetMap::decode(base, &text);
            prop_assert!(map.is_empty() || text.starts_with(PREFIX));
        }
    }
}
