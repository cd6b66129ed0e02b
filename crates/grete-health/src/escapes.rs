//! Escapes of texts that others wrote, such as names of topics, in what people read on terminals.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns whether a character begins another line, commands a terminal, or reverses the direction of the text after it.
pub(crate) fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the value of a label in Prometheus' text format. Control characters other than the line break, for which the
/// format has an escape, become the text `\x1b`.
pub(crate) fn label(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| matches!(c, '"' | '\\') || is_unsafe(c)) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // A write to a String cannot fail.
        let _ = match (c, u32::from(c)) {
            ('\n', _) => write!(out, "\\n"),
            ('"' | '\\', _) => write!(out, "\\{c}"),
            (c, _) if !is_unsafe(c) => write!(out, "{c}"),
            (_, code @ ..=0xff) => write!(out, "\\\\x{code:02x}"),
            (_, code) => write!(out, "\\\\u{code:04x}"),
        };
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::label;

    #[test]
    fn labels_hold_no_control_characters() {
        for (text, expected) in [
            ("orders", "orders"),
            ("a\"b\\c\nd", "a\\\"b\\\\c\\nd"),
            ("\u{1b}[2J\r\0\u{9b}", "\\\\x1b[2J\\\\x0d\\\\x00\\\\x9b"),
            ("\u{202e}é\u{2028}", "\\\\u202eé\\\\u2028"),
        ] {
            assert_eq!(label(text), expected);
        }
    }
}
