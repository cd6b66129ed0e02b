//! Rows that wait for their unit.

use std::ops::Range;
use std::sync::Arc;

use super::batch::Batch;
use super::parcel::Parcel;

/// A decoded batch whose rows go to several units.
#[derive(Debug)]
pub(super) struct Spread {
    pub(super) batch: Batch,
    /// Rows of the columns, unit by unit, ascending within each.
    pub(super) order: Vec<u32>,
}

#[derive(Debug)]
enum Rows {
    Run(Batch),
    Group(Arc<Spread>, Range<usize>),
}

/// Some rows, ascending, of one parcel.
#[derive(Debug)]
pub(super) struct Piece {
    rows: Rows,
    pub(super) parcel: Arc<Parcel>,
}

impl Piece {
    pub(super) fn run(batch: Batch, parcel: Arc<Parcel>) -> Self {
        Self { rows: Rows::Run(batch), parcel }
    }

    pub(super) fn group(spread: &Arc<Spread>, range: Range<usize>, parcel: &Arc<Parcel>) -> Self {
        Self { rows: Rows::Group(Arc::clone(spread), range), parcel: Arc::clone(parcel) }
    }

    pub(super) fn len(&self) -> usize {
        match &self.rows {
            Rows::Run(batch) => batch.rows.len(),
            Rows::Group(_, range) => range.len(),
        }
    }

    pub(super) fn offset(&self, index: usize) -> Option<i64> {
        match &self.rows {
            Rows::Run(batch) => batch.offsets().get(index).copied(),
            Rows::Group(spread, range) => {
                let row = spread.order.get(range.clone())?.get(index)?;
                spread.batch.columns.offsets.get(*row as usize).copied()
            }
        }
    }

    pub(super) fn offsets(&self) -> impl Iterator<Item = i64> {
        (0..self.len()).filter_map(|index| self.offset(index))
    }

    /// The timestamp of the row with that offset, if it is one of them.
    pub(super) fn timestamp_of(&self, offset: i64) -> Option<i64> {
        match &self.rows {
            Rows::Run(batch) => batch.timestamp_of(offset),
            Rows::Group(spread, range) => {
                let rows = spread.order.get(range.clone())?;
                let columns = &spread.batch.columns;
                let place = rows.binary_search_by_key(&Some(offset), |row| columns.offsets.get(*row as usize).copied());
                columns.timestamps.get(*rows.get(place.ok()?)? as usize).copied()
            }
        }
    }

    /// Splits off the first `rows` rows.
    pub(super) fn split_to(&mut self, rows: usize) -> Self {
        let parcel = Arc::clone(&self.parcel);
        let rows = match &mut self.rows {
            Rows::Run(batch) => Rows::Run(batch.split_to(rows)),
            Rows::Group(spread, range) => {
                let middle = (range.start + rows).min(range.end);
                let head = range.start..middle;
                range.start = middle;
                Rows::Group(Arc::clone(spread), head)
            }
        };
        Self { rows, parcel }
    }

    /// As a batch: rows of a group are gathered (their views, not their bytes).
    pub(super) fn into_batch(self) -> Batch {
        match self.rows {
            Rows::Run(batch) => batch,
            Rows::Group(spread, range) => spread.batch.gathered(spread.order.get(range).unwrap_or_default()),
        }
    }
}
