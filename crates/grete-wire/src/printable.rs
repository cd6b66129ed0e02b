//! Texts that others wrote, for one line of a log or an error.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns whether a character may not be in a line as it is: it would begin another line, command a terminal, or reverse
/// the direction of the text after it.
pub(crate) fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the text on one line, with control characters as `\x1b` or `\u2028`. A broker's error, the name of a topic or
/// of a group, the header of a record: none of them may forge a line of the log, or command a terminal.
///
/// ```
/// assert_eq!(grete_wire::one_line("no\nERROR all is lost"), "no\\x0aERROR all is lost");
/// ```
#[must_use]
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return text.into();
    }
    let mut line = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        let code = u32::from(c);
        // Writing to a String does not fail.
        let _ = match (is_unsafe(c), code) {
            (false, _) => line.write_char(c),
            (true, ..=0xff) => write!(line, "\\x{code:02x}"),
            (true, _) => write!(line, "\\u{code:04x}"),
        };
    }
    line.into()
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn what_breaks_a_line_or_commands_a_terminal_is_escaped() {
        for (text, line) in [
            ("orders", "orders"),
            ("a\nb\r\nc", "a\\x0ab\\x0d\\x0ac"),
            ("\u{1b}[2Jx\0", "\\x1b[2Jx\\x00"),
            ("\u{85}\u{9b}31m\u{7f}", "\\x85\\x9b31m\\x7f"),
            ("\u{2028}\u{202e}drow\u{2066}", "\\u2028\\u202edrow\\u2066"),
            ("a\tb", "a\\x09b"),
            ("é 日本 \u{1f980}", "é 日本 \u{1f980}"),
        ] {
            assert_eq!(one_line(text), line);
        }
    }
}
