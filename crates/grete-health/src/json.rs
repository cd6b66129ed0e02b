//! JSON writer. It places commas; the caller closes the brackets that it opens.

use std::time::Duration;

use crate::escapes::is_unsafe;

/// Maximum length of a string in bytes. Longer strings are truncated at a character boundary.
pub const MAX_STRING_BYTES: usize = 256;
/// Maximum length in bytes of a text for people, which names a cause and its cure.
pub const MAX_TEXT_BYTES: usize = 1024;

/// JSON text under construction.
#[derive(Debug, Default)]
pub struct Json {
    text: Vec<u8>,
    /// The next value needs a comma before it.
    comma: bool,
}

/// Position in the text, to which [`Json::truncate_to`] returns.
#[derive(Debug, Clone, Copy)]
pub struct Checkpoint {
    len: usize,
    comma: bool,
}

impl Json {
    /// Starts after `prefix`, which is kept and is not JSON.
    #[must_use]
    pub fn with_prefix(prefix: Vec<u8>) -> Self {
        Self { text: prefix, comma: false }
    }

    /// Returns the whole text, including the prefix.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.text
    }

    /// Returns the length in bytes, including the prefix.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns whether the text is empty, including the prefix.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns a position for [`Json::truncate_to`].
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint { len: self.text.len(), comma: self.comma }
    }

    /// Removes everything that was written since `checkpoint`.
    pub fn truncate_to(&mut self, checkpoint: Checkpoint) {
        self.text.truncate(checkpoint.len);
        self.comma = checkpoint.comma;
    }

    /// Opens an object or a list: `{` or `[`.
    pub fn open(&mut self, bracket: u8) -> &mut Self {
        self.write_comma();
        self.text.push(bracket);
        self.comma = false;
        self
    }

    /// Closes an object or a list: `}` or `]`.
    pub fn close(&mut self, bracket: u8) -> &mut Self {
        self.text.push(bracket);
        self.comma = true;
        self
    }

    /// Writes a field's name; the caller writes its value next.
    pub fn name(&mut self, name: &str) -> &mut Self {
        self.string(name);
        self.text.push(b':');
        self.comma = false;
        self
    }

    /// Writes an integer.
    pub fn number(&mut self, count: u64) {
        // i64 is as far as all JSON readers count; a larger value is wrong anyway.
        let count = count.min(i64::MAX.unsigned_abs());
        self.raw(count.to_string().as_bytes());
    }

    /// Writes seconds with microsecond precision.
    pub fn seconds(&mut self, time: Duration) {
        let seconds = time.as_secs().min(1_000_000_000);
        self.raw(format!("{seconds}.{:06}", time.subsec_micros()).as_bytes());
    }

    /// Writes `true` or `false`.
    pub fn boolean(&mut self, flag: bool) {
        self.raw(if flag { b"true" } else { b"false" });
    }

    /// Writes the value with `write`; `None`: writes `null`.
    pub fn nullable<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            Some(value) => write(self, value),
            None => self.raw(b"null"),
        }
    }

    /// Writes a string: truncated at [`MAX_STRING_BYTES`], and escaped.
    pub fn string(&mut self, text: &str) {
        self.write_chars(text[..text.floor_char_boundary(MAX_STRING_BYTES)].chars());
    }

    /// Writes a text for people: truncated at [`MAX_TEXT_BYTES`], where `…` shows the cut, and escaped.
    pub fn text(&mut self, text: &str) {
        let kept = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
        self.write_chars(kept.chars().chain((kept.len() < text.len()).then_some('…')));
    }

    /// Writes a string of at most `max_bytes`: what comes before is left out, where `…` shows the cut, and escaped.
    pub fn string_up_to(&mut self, text: &str, max_bytes: usize) {
        let cut = text.ceil_char_boundary(text.len().saturating_sub(max_bytes));
        self.write_chars((cut > 0).then_some('…').into_iter().chain(text[cut..].chars()));
    }

    /// Writes text that is JSON already.
    pub fn verbatim(&mut self, json: &str) {
        self.raw(json.as_bytes());
    }

    fn write_chars(&mut self, chars: impl Iterator<Item = char>) {
        self.write_comma();
        self.text.push(b'"');
        for c in chars {
            match c {
                '"' | '\\' => self.text.extend(format!("\\{c}").into_bytes()),
                // JSON allows DEL and others as they are, but they command terminals.
                c if is_unsafe(c) => self.text.extend(format!("\\u{:04x}", u32::from(c)).into_bytes()),
                c => self.text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        self.text.push(b'"');
        self.comma = true;
    }

    fn raw(&mut self, value: &[u8]) {
        self.write_comma();
        self.text.extend_from_slice(value);
        self.comma = true;
    }

    fn write_comma(&mut self) {
        if self.comma {
            self.text.push(b',');
        }
    }
}
