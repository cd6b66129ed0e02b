//! Slice of decoded rows that waits for its unit.

use std::ops::Range;
use std::sync::Arc;

use super::batch_memory::BatchMemory;
use super::decoded_batch::DecodedBatch;

/// Decoded batch whose rows go to several units.
#[derive(Debug)]
pub(in crate::dispatch) struct GroupedBatch {
    pub(in crate::dispatch) batch: DecodedBatch,
    /// Row indexes in the columns, grouped by unit, ascending within each unit.
    pub(in crate::dispatch) order: Vec<u32>,
}

#[derive(Debug)]
enum RowStorage {
    Contiguous(DecodedBatch),
    Grouped(Arc<GroupedBatch>, Range<usize>),
}

/// Some rows of one decoded batch, ascending.
#[derive(Debug)]
pub(in crate::dispatch) struct RowSlice {
    rows: RowStorage,
    pub(in crate::dispatch) memory: Arc<BatchMemory>,
}

impl RowSlice {
    pub(in crate::dispatch) fn contiguous(batch: DecodedBatch, parcel: Arc<BatchMemory>) -> Self {
        Self { rows: RowStorage::Contiguous(batch), memory: parcel }
    }

    pub(in crate::dispatch) fn grouped(
        spread: &Arc<GroupedBatch>,
        range: Range<usize>,
        parcel: &Arc<BatchMemory>,
    ) -> Self {
        Self { rows: RowStorage::Grouped(Arc::clone(spread), range), memory: Arc::clone(parcel) }
    }

    pub(in crate::dispatch) fn len(&self) -> usize {
        match &self.rows {
            RowStorage::Contiguous(batch) => batch.rows.len(),
            RowStorage::Grouped(_, range) => range.len(),
        }
    }

    pub(in crate::dispatch) fn offset(&self, index: usize) -> Option<i64> {
        match &self.rows {
            RowStorage::Contiguous(batch) => batch.offsets().get(index).copied(),
            RowStorage::Grouped(spread, range) => {
                let row = spread.order.get(range.clone())?.get(index)?;
                spread.batch.columns.offsets.get(*row as usize).copied()
            }
        }
    }

    pub(in crate::dispatch) fn offsets(&self) -> impl Iterator<Item = i64> {
        (0..self.len()).filter_map(|index| self.offset(index))
    }

    /// Returns the timestamp of the row with this offset; `None`: the slice does not contain it.
    pub(in crate::dispatch) fn timestamp_of(&self, offset: i64) -> Option<i64> {
        match &self.rows {
            RowStorage::Contiguous(batch) => batch.timestamp_of(offset),
            RowStorage::Grouped(spread, range) => {
                let rows = spread.order.get(range.clone())?;
                let columns = &spread.batch.columns;
                let place = rows.binary_search_by_key(&Some(offset), |row| columns.offsets.get(*row as usize).copied());
                columns.timestamps.get(*rows.get(place.ok()?)? as usize).copied()
            }
        }
    }

    /// Splits off the first `rows` rows.
    pub(in crate::dispatch) fn split_to(&mut self, rows: usize) -> Self {
        let parcel = Arc::clone(&self.memory);
        let rows = match &mut self.rows {
            RowStorage::Contiguous(batch) => RowStorage::Contiguous(batch.split_to(rows)),
            RowStorage::Grouped(spread, range) => {
                let middle = (range.start + rows).min(range.end);
                let head = range.start..middle;
                range.start = middle;
                RowStorage::Grouped(Arc::clone(spread), head)
            }
        };
        Self { rows, memory: parcel }
    }

    /// Returns the rows as a batch. Grouped rows are gathered (their views, not their bytes), unless they are next to
    /// each other in the columns.
    pub(in crate::dispatch) fn into_batch(self) -> DecodedBatch {
        match self.rows {
            RowStorage::Contiguous(batch) => batch,
            RowStorage::Grouped(spread, range) => {
                let rows = spread.order.get(range).unwrap_or_default();
                spread.batch.adjacent(rows).unwrap_or_else(|| spread.batch.gather(rows))
            }
        }
    }
}
