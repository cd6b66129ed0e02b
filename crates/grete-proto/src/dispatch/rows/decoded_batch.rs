//! Decoded rows of a job, and the pool of their columns.

use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use grete_wire::records::Columns;

/// Pool of columns for reuse. Clones share the pool.
#[derive(Debug, Clone, Default)]
pub struct ColumnPool {
    shared: Arc<PoolInner>,
}

#[derive(Debug, Default)]
struct PoolInner {
    free: Mutex<Vec<Columns>>,
    pinned_bytes: AtomicUsize,
}

/// Number of idle columns kept; more workers than this rarely decode at the same time.
const KEEP: usize = 8;
/// Columns larger than this, in bytes, are not kept.
const KEEP_BYTES: usize = 8 << 20;

impl ColumnPool {
    /// Returns empty columns, with the capacity of an earlier use.
    #[must_use]
    pub fn take(&self) -> Columns {
        self.shared.free.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Puts back columns that were never shared.
    pub fn give(&self, columns: Columns) {
        self.shared.give(columns);
    }

    /// Makes columns shareable; the last drop returns them to the pool.
    pub fn share(&self, columns: Columns) -> Arc<PooledColumns> {
        Arc::new(PooledColumns { columns, pinned: AtomicBool::new(false), pool: Arc::clone(&self.shared) })
    }

    /// Returns the bytes under columns that handlers kept after their job.
    pub fn pinned_bytes(&self) -> usize {
        self.shared.pinned_bytes.load(Ordering::Relaxed)
    }
}

impl PoolInner {
    fn give(&self, mut columns: Columns) {
        columns.clear();
        if columns.heap_bytes() > KEEP_BYTES {
            return;
        }
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEEP {
            free.push(columns);
        }
    }
}

/// Columns that return to their pool when dropped.
#[derive(Debug)]
pub struct PooledColumns {
    columns: Columns,
    pinned: AtomicBool,
    pool: Arc<PoolInner>,
}

impl PooledColumns {
    /// Counts the columns as pinned by the user: their job has ended, and the handler may still hold them.
    pub fn pin(&self) {
        if !self.pinned.swap(true, Ordering::Relaxed) {
            self.pool.pinned_bytes.fetch_add(self.weight(), Ordering::Relaxed);
        }
    }

    /// Copies some rows (their views, not their bytes) into columns from the same pool.
    fn gather(&self, rows: &[u32]) -> Arc<Self> {
        let pool = ColumnPool { shared: Arc::clone(&self.pool) };
        let mut columns = pool.take();
        self.columns.gather_into(rows, &mut columns);
        pool.share(columns)
    }

    fn weight(&self) -> usize {
        self.columns.heap_bytes() + self.columns.buffers.iter().map(|slab| slab.len()).sum::<usize>()
    }
}

impl Deref for PooledColumns {
    type Target = Columns;
    fn deref(&self) -> &Columns {
        &self.columns
    }
}

impl Drop for PooledColumns {
    fn drop(&mut self) {
        if *self.pinned.get_mut() {
            self.pool.pinned_bytes.fetch_sub(self.weight(), Ordering::Relaxed);
        }
        self.pool.give(std::mem::take(&mut self.columns));
    }
}

/// Contiguous rows of one partition.
#[derive(Debug, Clone)]
pub struct DecodedBatch {
    /// Columns of the rows; they may hold more rows than `rows`.
    pub columns: Arc<PooledColumns>,
    /// Range of rows in the columns.
    pub rows: Range<usize>,
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Number of the partition.
    pub partition: i32,
    /// Latest known high watermark; -1 if unknown.
    pub high_watermark: i64,
    /// Next offset to read once all rows are processed: behind the last record, and behind offsets after it without
    /// visible records (compacted, aborted, control).
    pub next_offset: i64,
    /// Leader epoch of the last record batch; -1 if unknown.
    pub leader_epoch: i32,
}

impl DecodedBatch {
    /// Returns the offsets of the rows, ascending.
    pub fn offsets(&self) -> &[i64] {
        self.columns.offsets.get(self.rows.clone()).unwrap_or_default()
    }

    /// Returns the timestamp of the first row, in milliseconds since the epoch; -1 if unknown.
    pub(in crate::dispatch) fn first_timestamp(&self) -> i64 {
        self.columns.timestamps.get(self.rows.start).copied().unwrap_or(-1)
    }

    /// Returns the timestamp of the row with this offset; `None`: the batch does not contain it.
    pub(in crate::dispatch) fn timestamp_of(&self, offset: i64) -> Option<i64> {
        let row = self.offsets().binary_search(&offset).ok()?;
        self.columns.timestamps.get(self.rows.start + row).copied()
    }

    /// Returns the rows with these indexes in the columns (their views, not their bytes), without the rows between
    /// them.
    pub(in crate::dispatch) fn gather(&self, rows: &[u32]) -> Self {
        let columns = self.columns.gather(rows);
        let next_offset = columns.offsets.last().map_or(self.next_offset, |last| last + 1);
        Self { rows: 0..columns.len(), columns, next_offset, ..self.clone() }
    }

    /// Returns the rows with these ascending indexes, without a copy of their views; `None`: other rows are between
    /// them, or there are none.
    pub(in crate::dispatch) fn adjacent(&self, rows: &[u32]) -> Option<Self> {
        let (first, last) = (*rows.first()? as usize, *rows.last()? as usize);
        let next_offset = self.columns.offsets.get(last)? + 1;
        (last - first + 1 == rows.len()).then(|| Self { rows: first..last + 1, next_offset, ..self.clone() })
    }

    /// Returns the rows for which `keep` returns true, by their index in the batch; `None`: no row.
    pub(in crate::dispatch) fn filter_rows(&self, keep: impl Fn(usize) -> bool) -> Option<Self> {
        let rows = self.rows.clone();
        let kept: Vec<u32> =
            rows.clone().filter(|row| keep(row - rows.start)).filter_map(|row| u32::try_from(row).ok()).collect();
        match (kept.first(), kept.last()) {
            (Some(first), Some(last)) if (last - first) as usize + 1 == kept.len() => {
                let rows = *first as usize..*last as usize + 1;
                Some(Self { rows, ..self.clone() })
            }
            (Some(_), _) => Some(Self { next_offset: self.next_offset, ..self.gather(&kept) }),
            _ => None,
        }
    }

    /// Returns how many of the first `rows` rows fit into `max_bytes`; at least 1.
    pub(in crate::dispatch) fn rows_within(&self, rows: usize, max_bytes: usize) -> usize {
        let size = |row| self.columns.key(row).map_or(0, <[u8]>::len) + self.columns.value(row).map_or(0, <[u8]>::len);
        let mut bytes = 0_usize;
        let fits = |row: &usize| {
            bytes = bytes.saturating_add(size(*row));
            bytes <= max_bytes
        };
        self.rows.clone().take(rows).take_while(fits).count().max(1)
    }

    /// Splits off the first `rows` rows.
    pub(in crate::dispatch) fn split_to(&mut self, rows: usize) -> Self {
        let middle = (self.rows.start + rows).min(self.rows.end);
        let next_offset = self.columns.offsets.get(middle).copied().filter(|_| middle < self.rows.end);
        let head = Self {
            rows: self.rows.start..middle,
            next_offset: next_offset.unwrap_or(self.next_offset),
            ..self.clone()
        };
        self.rows.start = middle;
        head
    }
}
