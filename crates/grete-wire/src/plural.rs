//! Numbers with their nouns in log lines and error messages: "1 record", "2 records".

use std::fmt::Display;

/// Returns `one` for the count 1, and `many` for all others: for verbs and for nouns without a plural in "s".
///
/// ```
/// assert_eq!(grete_wire::plural(1, "is", "are"), "is");
/// assert_eq!(grete_wire::plural(0, "is", "are"), "are");
/// ```
#[must_use]
pub fn plural<C: PartialEq + From<u8>>(count: C, one: &'static str, many: &'static str) -> &'static str {
    if count == C::from(1) { one } else { many }
}

/// Returns a count with its noun, whose plural ends in "s".
///
/// ```
/// assert_eq!(grete_wire::counted(1, "record"), "1 record");
/// assert_eq!(grete_wire::counted(2, "record"), "2 records");
/// ```
#[must_use]
pub fn counted<C: Display + PartialEq + From<u8>>(count: C, noun: &str) -> String {
    let ending = if count == C::from(1) { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::{counted, plural};

    #[test]
    fn only_one_is_singular() {
        let counts = [0u64, 1, 2, 11].map(|count| counted(count, "member"));
        assert_eq!(counts, ["0 members", "1 member", "2 members", "11 members"]);
        assert_eq!([0i32, 1, 2, -1].map(|count| plural(count, "was", "were")), ["were", "was", "were", "were"]);
    }
}
