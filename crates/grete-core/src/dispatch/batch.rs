//! Decoded rows that a job works on, and the pool that their columns come from.

use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use grete_wire::records::Columns;

/// Columns that are recycled. Clones share the pool.
#[derive(Debug, Clone, Default)]
pub struct ColumnsPool {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    free: Mutex<Vec<Columns>>,
    pinned_bytes: AtomicUsize,
}

/// Idle columns kept; more than this many workers decode at the same time rarely.
const KEEP: usize = 8;
/// Columns that have grown beyond this are not kept.
const KEEP_BYTES: usize = 8 << 20;

impl ColumnsPool {
    /// Empty columns with whatever capacity an earlier use left.
    #[must_use]
    pub fn take(&self) -> Columns {
        self.shared.free.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Puts columns back that were never shared.
    pub fn give(&self, columns: Columns) {
        self.shared.give(columns);
    }

    /// Makes them shareable; the last drop brings them back.
    #[must_use]
    pub fn share(&self, columns: Columns) -> Arc<PooledColumns> {
        Arc::new(PooledColumns { columns, pinned: AtomicBool::new(false), pool: Arc::clone(&self.shared) })
    }

    /// Bytes under columns that users kept after their job.
    #[must_use]
    pub fn pinned_bytes(&self) -> usize {
        self.shared.pinned_bytes.load(Ordering::Relaxed)
    }
}

impl Shared {
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

/// Columns on loan from a pool.
#[derive(Debug)]
pub struct PooledColumns {
    columns: Columns,
    pinned: AtomicBool,
    pool: Arc<Shared>,
}

impl PooledColumns {
    /// The job is over and somebody still holds them: from now on they count as the user's.
    pub fn pin(&self) {
        if !self.pinned.swap(true, Ordering::Relaxed) {
            self.pool.pinned_bytes.fetch_add(self.weight(), Ordering::Relaxed);
        }
    }

    /// Some of the rows (their views, not their bytes) in columns from the same pool.
    fn gathered(&self, rows: &[u32]) -> Arc<Self> {
        let pool = ColumnsPool { shared: Arc::clone(&self.pool) };
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

/// A run of rows of one partition.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The columns; they may hold more rows than these.
    pub columns: Arc<PooledColumns>,
    /// The rows meant here.
    pub rows: Range<usize>,
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
    /// End of the partition as the broker last told.
    pub high_watermark: i64,
    /// The offset to go on from once all rows are processed: behind the last record, and behind whatever follows it
    /// that holds no records for us (compacted away, aborted, control).
    pub next_offset: i64,
    /// Leader epoch of the last record batch, -1 if unknown.
    pub leader_epoch: i32,
}

impl Batch {
    /// Offsets of these rows, ascending.
    #[must_use]
    pub fn offsets(&self) -> &[i64] {
        self.columns.offsets.get(self.rows.clone()).unwrap_or_default()
    }

    /// When the first of them was written, in milliseconds since the epoch; -1 if unknown.
    pub(super) fn first_timestamp(&self) -> i64 {
        self.columns.timestamps.get(self.rows.start).copied().unwrap_or(-1)
    }

    /// When the one with that offset was, if it is one of them.
    pub(super) fn timestamp_of(&self, offset: i64) -> Option<i64> {
        let row = self.offsets().binary_search(&offset).ok()?;
        self.columns.timestamps.get(self.rows.start + row).copied()
    }

    /// Some of its columns' rows (their views, not their bytes), by number. They keep no place for what lies between them.
    pub(super) fn gathered(&self, rows: &[u32]) -> Self {
        let columns = self.columns.gathered(rows);
        let next_offset = columns.offsets.last().map_or(self.next_offset, |last| last + 1);
        Self { rows: 0..columns.len(), columns, next_offset, ..self.clone() }
    }

    /// Those of its rows that `keep` wants, by their place in the batch; `None` if it wants none.
    pub(super) fn filtered(&self, keep: impl Fn(usize) -> bool) -> Option<Self> {
        let rows = self.rows.clone();
        let kept: Vec<u32> =
            rows.clone().filter(|row| keep(row - rows.start)).filter_map(|row| u32::try_from(row).ok()).collect();
        match (kept.first(), kept.last()) {
            (Some(first), Some(last)) if (last - first) as usize + 1 == kept.len() => {
                let rows = *first as usize..*last as usize + 1;
                Some(Self { rows, ..self.clone() })
            }
            (Some(_), _) => Some(Self { next_offset: self.next_offset, ..self.gathered(&kept) }),
            _ => None,
        }
    }

    /// How many of its first `rows` rows fit into so many bytes: one at least.
    pub(super) fn fitting(&self, rows: usize, max_bytes: usize) -> usize {
        let size = |row| self.columns.key(row).map_or(0, <[u8]>::len) + self.columns.value(row).map_or(0, <[u8]>::len);
        let mut bytes = 0_usize;
        let fits = |row: &usize| {
            bytes = bytes.saturating_add(size(*row));
            bytes <= max_bytes
        };
        self.rows.clone().take(rows).take_while(fits).count().max(1)
    }

    /// Splits off the first `rows` rows.
    pub(super) fn split_to(&mut self, rows: usize) -> Self {
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
