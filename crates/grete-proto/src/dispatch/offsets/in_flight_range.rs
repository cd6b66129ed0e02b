//! Range of records that were handed out together, with their marks.

use std::ops::Range;
use std::sync::Arc;

use crate::dispatch::rows::decoded_batch::{DecodedBatch, PooledColumns};

/// Offsets of a range, ascending, not empty.
#[derive(Debug)]
pub(in crate::dispatch) enum Offsets {
    /// All offsets of the range, without a gap.
    Dense(Range<i64>),
    /// Offsets in columns that a job holds for as long as the range is needed.
    Shared(Arc<PooledColumns>, Range<usize>),
    /// A copy: the range outlives its job.
    Copied(Box<[i64]>),
}

impl Offsets {
    /// Creates the offsets of a batch. `outlives`: the range may be needed after the batch is gone, and must not keep
    /// its memory.
    pub(in crate::dispatch) fn from_batch(batch: &DecodedBatch, outlives: bool) -> Self {
        let offsets = batch.offsets();
        match (offsets.first(), offsets.last()) {
            (Some(first), Some(last)) if is_dense(offsets) => Self::Dense(*first..last + 1),
            _ if outlives => Self::Copied(offsets.into()),
            _ => Self::Shared(Arc::clone(&batch.columns), batch.rows.clone()),
        }
    }

    fn slice(&self) -> &[i64] {
        match self {
            Self::Dense(_) => &[],
            Self::Shared(columns, rows) => columns.offsets.get(rows.clone()).unwrap_or_default(),
            Self::Copied(offsets) => offsets,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Dense(range) => usize::try_from(range.end - range.start).unwrap_or(0),
            sparse => sparse.slice().len(),
        }
    }

    fn get(&self, index: usize) -> Option<i64> {
        match self {
            Self::Dense(range) => i64::try_from(index).ok().map(|index| range.start + index),
            sparse => sparse.slice().get(index).copied(),
        }
    }

    /// Returns the offsets.
    pub(in crate::dispatch) fn iter(&self) -> impl Iterator<Item = i64> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Returns how many offsets are below `offset`.
    fn below(&self, offset: i64) -> usize {
        match self {
            Self::Dense(range) => usize::try_from(offset.clamp(range.start, range.end) - range.start).unwrap_or(0),
            sparse => sparse.slice().partition_point(|other| *other < offset),
        }
    }
}

/// Records that were handed out together, and their marks.
#[derive(Debug)]
pub(in crate::dispatch) struct InFlightRange {
    offsets: Offsets,
    first: i64,
    last: i64,
    open: usize,
    /// One bit per record; empty while all or none are marked.
    marked: Vec<u64>,
    /// Next offset to read once all records are marked.
    pub(in crate::dispatch) next_offset: i64,
    pub(in crate::dispatch) leader_epoch: i32,
    /// Timestamp of the first record; -1 if unknown.
    pub(in crate::dispatch) timestamp: i64,
}

impl InFlightRange {
    /// Creates a range without marks; `None`: there are no records.
    pub(in crate::dispatch) fn new(
        offsets: Offsets,
        next_offset: i64,
        leader_epoch: i32,
        timestamp: i64,
    ) -> Option<Self> {
        let open = offsets.len();
        let (first, last) = (offsets.get(0)?, offsets.get(open.checked_sub(1)?)?);
        Some(Self { offsets, first, last, open, marked: Vec::new(), next_offset, leader_epoch, timestamp })
    }

    pub(in crate::dispatch) fn first(&self) -> i64 {
        self.first
    }

    pub(in crate::dispatch) fn last(&self) -> i64 {
        self.last
    }

    pub(in crate::dispatch) fn len(&self) -> usize {
        self.offsets.len()
    }

    pub(in crate::dispatch) fn open(&self) -> usize {
        self.open
    }

    /// Marks `first..=last`. Returns how many records were open.
    pub(in crate::dispatch) fn mark(&mut self, first: i64, last: i64) -> usize {
        let len = self.len();
        let start = if first <= self.first { 0 } else { self.offsets.below(first) };
        let end = if last >= self.last { len } else { self.offsets.below(last + 1) };
        if self.open == 0 || start >= end {
            return 0;
        }
        if self.open == len && end - start == len {
            return std::mem::take(&mut self.open);
        }
        self.marked.resize(len.div_ceil(64), 0);
        let mut new = 0;
        for word in start / 64..=(end - 1) / 64 {
            let from = start.saturating_sub(word * 64).min(64);
            let to = (end - word * 64).min(64);
            let mask = ones(to) & !ones(from);
            if let Some(marked) = self.marked.get_mut(word) {
                new += (mask & !*marked).count_ones() as usize;
                *marked |= mask;
            }
        }
        self.open -= new;
        new
    }

    pub(in crate::dispatch) fn is_open(&self, offset: i64) -> bool {
        if self.open == 0 || offset < self.first || offset > self.last {
            return false;
        }
        let index = self.offsets.below(offset);
        self.offsets.get(index) == Some(offset) && !self.is_marked(index)
    }

    pub(in crate::dispatch) fn first_open(&self) -> Option<i64> {
        if self.open == 0 { None } else { self.offsets.get(self.leading_marked()) }
    }

    /// Returns the number of records before the first open one.
    pub(in crate::dispatch) fn leading_marked(&self) -> usize {
        if self.open == 0 {
            return self.len();
        }
        let word = self.marked.iter().position(|word| *word != u64::MAX);
        let bits = word.and_then(|word| self.marked.get(word)).map_or(0, |bits| bits.trailing_ones() as usize);
        word.map_or(0, |word| word * 64 + bits)
    }

    /// Returns the offsets that are not marked, ascending.
    pub(in crate::dispatch) fn open_offsets(&self) -> impl Iterator<Item = i64> {
        let rows = if self.open == 0 { 0 } else { self.len() };
        (0..rows).filter(|index| !self.is_marked(*index)).filter_map(|index| self.offsets.get(index))
    }

    fn is_marked(&self, index: usize) -> bool {
        self.marked.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }
}

/// Returns a mask of the lowest `count` bits.
fn ones(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

/// Returns whether ascending offsets have no gap.
pub(in crate::dispatch) fn is_dense(offsets: &[i64]) -> bool {
    match (offsets.first(), offsets.last()) {
        (Some(first), Some(last)) => usize::try_from(last - first).is_ok_and(|span| span + 1 == offsets.len()),
        _ => true,
    }
}
