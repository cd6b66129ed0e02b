//! Records as columns. The decoder fills them; Arrow export, Python records and filters read them.

use super::record_headers::{HeaderRange, Headers};
use super::{Bitmap, binary_view};
use crate::buffer_pool::PooledBuf;

/// Records of one partition, one entry per record in each column. Keys and values are Arrow BinaryViews into `buffers`.
/// A null has an all-zero view and a 0 in its bitmap.
#[derive(Debug, Clone, Default)]
pub struct Columns {
    /// Offsets, ascending within a batch.
    pub offsets: Vec<i64>,
    /// Timestamps in ms since 1970; -1: the producer set none.
    pub timestamps: Vec<i64>,
    /// Views of the keys.
    pub keys: Vec<u128>,
    /// Views of the values.
    pub values: Vec<u128>,
    /// Bitmap of null keys.
    pub key_nulls: Bitmap,
    /// Bitmap of null values (tombstones).
    pub value_nulls: Bitmap,
    /// Position of each record's headers; empty if no record has any.
    pub headers: Vec<HeaderRange>,
    /// Buffers that the views and ranges point into: response frames and decompressed batches.
    pub buffers: Vec<PooledBuf>,
}

impl Columns {
    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Returns whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Removes the records and the buffers, and keeps the columns' memory.
    pub fn clear(&mut self) {
        self.truncate(0);
        self.buffers.clear();
    }

    /// Returns the key of record `row`; `None`: the key is null, or there is no such record.
    pub fn key(&self, row: usize) -> Option<&[u8]> {
        let key = self.keys.get(row)?;
        (!self.key_nulls.is_null(row)).then(|| binary_view::bytes(key, &self.buffers))
    }

    /// Returns the value of record `row`; `None`: the value is null, or there is no such record.
    pub fn value(&self, row: usize) -> Option<&[u8]> {
        let value = self.values.get(row)?;
        (!self.value_nulls.is_null(row)).then(|| binary_view::bytes(value, &self.buffers))
    }

    /// Returns the headers of record `row`, in order.
    pub fn headers(&self, row: usize) -> Headers<'_> {
        let span = self.headers.get(row).copied().unwrap_or_default();
        let start = span.offset as usize;
        let bytes = self.buffers.get(span.buffer as usize).and_then(|slab| slab.get(start..start + span.len as usize));
        Headers::new(bytes.unwrap_or_default(), span.count)
    }

    /// Returns the given rows, in the given order, with the buffers that they need. Rows that do not exist are left
    /// out.
    pub fn gather(&self, rows: &[u32]) -> Columns {
        let mut out = Columns::default();
        self.gather_into(rows, &mut out);
        out
    }

    /// Replaces the content of `out` by the given rows, like [`Columns::gather`], and reuses its memory.
    pub fn gather_into(&self, rows: &[u32], out: &mut Columns) {
        out.clear();
        out.reserve(rows.len());
        let rows = || rows.iter().map(|&row| row as usize).filter(|&row| row < self.len());
        out.offsets.extend(rows().filter_map(|row| self.offsets.get(row)));
        out.timestamps.extend(rows().filter_map(|row| self.timestamps.get(row)));
        out.keys.extend(rows().filter_map(|row| self.keys.get(row)));
        out.values.extend(rows().filter_map(|row| self.values.get(row)));
        if !self.headers.is_empty() {
            out.headers.extend(rows().filter_map(|row| self.headers.get(row)));
        }
        if !self.key_nulls.is_empty() || !self.value_nulls.is_empty() {
            for (to, row) in rows().enumerate() {
                out.key_nulls.append(to, u64::from(!self.key_nulls.is_null(row)), 1);
                out.value_nulls.append(to, u64::from(!self.value_nulls.is_null(row)), 1);
            }
        }
        match &*self.buffers {
            [only] => out.buffers.push(only.clone()),
            many => out.add_buffers(many),
        }
    }

    /// Replaces `buffers`, which the views point into, by the buffers that the views need. Otherwise a few rows of many
    /// small batches would hold, and count, hundreds of buffers without any of their data.
    fn add_buffers(&mut self, buffers: &[PooledBuf]) {
        let mut indexes = vec![None; buffers.len()];
        let own = &mut self.buffers;
        let mut place = |buffer: u32| -> u32 {
            let Some(place) = indexes.get_mut(buffer as usize) else { return u32::MAX };
            *place.get_or_insert_with(|| {
                own.extend(buffers.get(buffer as usize).cloned());
                own.len() as u32 - 1
            })
        };
        for view in self.keys.iter_mut().chain(&mut self.values) {
            if let Some(buffer) = binary_view::buffer_index(*view) {
                *view = binary_view::with_buffer(*view, place(buffer));
            }
        }
        for span in self.headers.iter_mut().filter(|span| span.count > 0) {
            span.buffer = place(span.buffer);
        }
    }

    /// Returns the bytes held: the columns' capacity, and the buffers, which may be shared.
    pub fn heap_bytes(&self) -> usize {
        (self.offsets.capacity() + self.timestamps.capacity()) * 8
            + (self.keys.capacity() + self.values.capacity() + self.headers.capacity()) * 16
            + self.key_nulls.heap_bytes()
            + self.value_nulls.heap_bytes()
            + self.buffers.iter().map(|slab| slab.len()).sum::<usize>()
    }

    /// Keeps the first `rows` records only; the buffers stay.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows);
        self.timestamps.truncate(rows);
        self.keys.truncate(rows);
        self.values.truncate(rows);
        self.headers.truncate(rows);
        self.key_nulls.truncate(rows);
        self.value_nulls.truncate(rows);
    }

    /// Reserves memory for `rows` more records.
    pub(crate) fn reserve(&mut self, rows: usize) {
        self.offsets.reserve(rows);
        self.timestamps.reserve(rows);
        self.keys.reserve(rows);
        self.values.reserve(rows);
    }

    /// Appends `rows` records of zeros. The caller sets the validity bits.
    pub(crate) fn grow(&mut self, rows: usize, with_headers: bool) {
        let total = self.len() + rows;
        self.offsets.resize(total, 0);
        self.timestamps.resize(total, 0);
        self.keys.resize(total, 0);
        self.values.resize(total, 0);
        if with_headers || !self.headers.is_empty() {
            self.headers.resize(total, HeaderRange::default());
        }
    }

    /// Returns the index of the buffer `slab`, which is appended unless it is the last one.
    pub(crate) fn buffer_index(&mut self, slab: &PooledBuf) -> u32 {
        if !self.buffers.last().is_some_and(|last| last.ptr_eq(slab)) {
            self.buffers.push(slab.clone());
        }
        (self.buffers.len() - 1) as u32
    }
}
