//! Story of a simulation: time, who, what.

use std::fmt;

use grete_proto::time::{Nanos, SECOND};

/// Line of a story.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Time, in nanoseconds.
    pub at: Nanos,
    /// Process, broker or client.
    pub who: String,
    /// Event, as text.
    pub what: String,
}

/// Lines in the order of time. A story that is not wanted takes no lines.
#[derive(Debug, Default)]
pub struct Story {
    lines: Option<Vec<Line>>,
    /// Time of the next line.
    pub(crate) now: Nanos,
}

impl Story {
    /// Creates a story. `wanted`: whether lines are kept.
    #[must_use]
    pub fn new(wanted: bool) -> Self {
        Self { lines: wanted.then(Vec::new), now: 0 }
    }

    /// Adds a line.
    pub(crate) fn tell(&mut self, who: &str, what: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(Line { at: self.now, who: who.to_owned(), what: what() });
        }
    }

    /// Returns the lines.
    #[must_use]
    pub fn lines(&self) -> &[Line] {
        self.lines.as_deref().unwrap_or_default()
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Line { at, who, what } in self.lines() {
            writeln!(f, "{:>9.3} {who:<8} {what}", *at as f64 / SECOND as f64)?;
        }
        Ok(())
    }
}
