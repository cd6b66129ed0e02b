//! What was decoded together: its memory is given back when the last of its rows is done with.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Rows that somebody still holds or waits for, and the bytes under them. Counted under the dispatcher's lock, or by the worker
/// that decodes, before anybody else knows of it.
#[derive(Debug)]
pub(super) struct Parcel {
    rows: AtomicUsize,
    bytes: usize,
}

impl Parcel {
    pub(super) fn new(rows: usize, bytes: usize) -> Self {
        Self { rows: AtomicUsize::new(rows), bytes }
    }

    /// No row of it is larger, nor all of them together.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// So many rows are done with. Returns the bytes to give back: all of them with the last row, else none.
    #[must_use]
    pub(super) fn finish(&self, rows: usize) -> usize {
        if rows > 0 && self.rows.fetch_sub(rows, Ordering::Relaxed) == rows { self.bytes } else { 0 }
    }

    /// Its rows become part of another parcel, whose bytes these are now.
    #[must_use]
    pub(super) fn take_over(&self) -> usize {
        self.rows.store(0, Ordering::Relaxed);
        self.bytes
    }
}
