//! Records that were handed out together.

use std::ops::Range;
use std::sync::Arc;

use super::batch::{Batch, PooledColumns};
use super::tracker::is_dense;

/// Offsets of a span, ascending, not empty.
#[derive(Debug)]
pub(super) enum Offsets {
    /// All of them, without a gap.
    Dense(Range<i64>),
    /// In columns that somebody works on for as long as the span is of interest.
    Shared(Arc<PooledColumns>, Range<usize>),
    /// A copy: the span outlives its job.
    Copied(Box<[i64]>),
}

impl Offsets {
    /// Of a batch. `outlives`: the span may be of interest after the batch is gone, and must not keep its memory.
    pub(super) fn of(batch: &Batch, outlives: bool) -> Self {
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

    /// How many are below that offset.
    fn below(&self, offset: i64) -> usize {
        match self {
            Self::Dense(range) => usize::try_from(offset.clamp(range.start, range.end) - range.start).unwrap_or(0),
            sparse => sparse.slice().partition_point(|other| *other < offset),
        }
    }
}

/// Some records, and which of them are marked.
#[derive(Debug)]
pub(super) struct Span {
    offsets: Offsets,
    first: i64,
    last: i64,
    open: usize,
    /// One bit a record; empty while all or none are marked.
    marked: Vec<u64>,
    /// The offset to go on from once all are marked.
    pub(super) next_offset: i64,
    pub(super) leader_epoch: i32,
    /// The first one's; -1 if unknown.
    pub(super) timestamp: i64,
}

impl Span {
    /// `None` without records.
    pub(super) fn new(offsets: Offsets, next_offset: i64, leader_epoch: i32, timestamp: i64) -> Option<Self> {
        let open = offsets.len();
        let (first, last) = (offsets.get(0)?, offsets.get(open.checked_sub(1)?)?);
        Some(Self { offsets, first, last, open, marked: Vec::new(), next_offset, leader_epoch, timestamp })
    }

    pub(super) fn first(&self) -> i64 {
        self.first
    }

    pub(super) fn last(&self) -> i64 {
        self.last
    }

    pub(super) fn len(&self) -> usize {
        self.offsets.len()
    }

    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Marks `first..=last`; returns how many were open.
    pub(super) fn mark(&mut self, first: i64, last: i64) -> usize {
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

    pub(super) fn is_open(&self, offset: i64) -> bool {
        if self.open == 0 || offset < self.first || offset > self.last {
            return false;
        }
        let index = self.offsets.below(offset);
        self.offsets.get(index) == Some(offset) && !self.is_marked(index)
    }

    pub(super) fn first_open(&self) -> Option<i64> {
        if self.open == 0 { None } else { self.offsets.get(self.marked_in_front()) }
    }

    /// Records before the first open one.
    pub(super) fn marked_in_front(&self) -> usize {
        if self.open == 0 {
            return self.len();
        }
        let word = self.marked.iter().position(|word| *word != u64::MAX);
        let bits = word.and_then(|word| self.marked.get(word)).map_or(0, |bits| bits.trailing_ones() as usize);
        word.map_or(0, |word| word * 64 + bits)
    }

    /// Those that are not marked, ascending.
    pub(super) fn open_offsets(&self) -> impl Iterator<Item = i64> {
        let rows = if self.open == 0 { 0 } else { self.len() };
        (0..rows).filter(|index| !self.is_marked(*index)).filter_map(|index| self.offsets.get(index))
    }

    fn is_marked(&self, index: usize) -> bool {
        self.marked.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }
}

/// The lowest `count` bits.
fn ones(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}
