//! Writes JSON. Commas are its own business; brackets must be closed by whoever opens them.

use std::time::Duration;

/// Longer texts are cut, at a character.
pub const MAX_TEXT: usize = 256;

/// Text that grows.
#[derive(Debug, Default)]
pub struct Json {
    text: Vec<u8>,
    /// What comes next needs a comma before it.
    comma: bool,
}

/// Where the text was once.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    len: usize,
    comma: bool,
}

impl Json {
    /// Begins after these bytes, which are not JSON.
    #[must_use]
    pub fn after(prefix: Vec<u8>) -> Self {
        Self { text: prefix, comma: false }
    }

    /// All that was written, the prefix included.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.text
    }

    /// How long it is so far, the prefix included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Whether nothing has been written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// For [`Json::back_to`].
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark { len: self.text.len(), comma: self.comma }
    }

    /// Takes back what was written since.
    pub fn back_to(&mut self, mark: Mark) {
        self.text.truncate(mark.len);
        self.comma = mark.comma;
    }

    /// `{` or `[`.
    pub fn open(&mut self, bracket: u8) -> &mut Self {
        self.separate();
        self.text.push(bracket);
        self.comma = false;
        self
    }

    /// `}` or `]`.
    pub fn close(&mut self, bracket: u8) -> &mut Self {
        self.text.push(bracket);
        self.comma = true;
        self
    }

    /// A field's name; its value is to follow.
    pub fn name(&mut self, name: &str) -> &mut Self {
        self.text(name);
        self.text.push(b':');
        self.comma = false;
        self
    }

    /// A whole number.
    pub fn count(&mut self, count: u64) {
        // As far as all readers count; what is more is wrong anyway.
        let count = count.min(i64::MAX.unsigned_abs());
        self.raw(count.to_string().as_bytes());
    }

    /// Seconds, to the microsecond.
    pub fn seconds(&mut self, time: Duration) {
        let seconds = time.as_secs().min(1_000_000_000);
        self.raw(format!("{seconds}.{:06}", time.subsec_micros()).as_bytes());
    }

    /// `true` or `false`.
    pub fn flag(&mut self, flag: bool) {
        self.raw(if flag { b"true" } else { b"false" });
    }

    /// `null`, unless there is something to write.
    pub fn known<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            Some(value) => write(self, value),
            None => self.raw(b"null"),
        }
    }

    /// A string, cut at [`MAX_TEXT`] bytes, with everything escaped that has to be.
    pub fn text(&mut self, text: &str) {
        self.separate();
        self.text.push(b'"');
        for byte in text[..text.floor_char_boundary(MAX_TEXT)].bytes() {
            match byte {
                b'"' | b'\\' => self.text.extend([b'\\', byte]),
                // DEL is allowed as it is, and upsets terminals.
                0..0x20 | 0x7f => self.text.extend(format!("\\u{byte:04x}").into_bytes()),
                _ => self.text.push(byte),
            }
        }
        self.text.push(b'"');
        self.comma = true;
    }

    fn raw(&mut self, value: &[u8]) {
        self.separate();
        self.text.extend_from_slice(value);
        self.comma = true;
    }

    fn separate(&mut self) {
        if self.comma {
            self.text.push(b',');
        }
    }
}
