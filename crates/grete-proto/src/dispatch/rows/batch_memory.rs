//! Reference count of one decoded batch: its bytes are released with its last row.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Rows of a decoded batch that are not released, and the batch's bytes. Changed under the dispatcher's lock, or by the
/// worker that decodes, before other threads can reach the batch.
#[derive(Debug)]
pub(in crate::dispatch) struct BatchMemory {
    rows: AtomicUsize,
    bytes: usize,
}

impl BatchMemory {
    pub(in crate::dispatch) fn new(rows: usize, bytes: usize) -> Self {
        Self { rows: AtomicUsize::new(rows), bytes }
    }

    /// Returns the batch's bytes: an upper bound for each row, and for all rows together.
    pub(in crate::dispatch) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Releases `rows` rows. Returns the bytes to release: all bytes with the last row, else 0.
    pub(in crate::dispatch) fn release_rows(&self, rows: usize) -> usize {
        if rows > 0 && self.rows.fetch_sub(rows, Ordering::Relaxed) == rows { self.bytes } else { 0 }
    }

    /// Moves the rows into another batch. Returns the bytes that the other batch accounts for now.
    pub(in crate::dispatch) fn absorb(&self) -> usize {
        self.rows.store(0, Ordering::Relaxed);
        self.bytes
    }
}
