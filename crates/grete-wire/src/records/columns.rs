//! Records as columns: what the decoder fills and Arrow, Python rows and filters read.

use super::headers::{HeaderSpan, Headers};
use super::{Bitmap, view};
use crate::slab::Slab;

/// Records of one partition, one entry per record in each column. Keys and values are Arrow BinaryViews into
/// `buffers`; a null has an all-zero view and a 0 in its bitmap.
#[derive(Debug, Clone, Default)]
pub struct Columns {
    /// Offsets, ascending within a batch.
    pub offsets: Vec<i64>,
    /// Milliseconds since the epoch; -1 if the producer set none.
    pub timestamps: Vec<i64>,
    /// Views of the keys.
    pub keys: Vec<u128>,
    /// Views of the values.
    pub values: Vec<u128>,
    /// Which keys are null.
    pub key_nulls: Bitmap,
    /// Which values are null (tombstones).
    pub value_nulls: Bitmap,
    /// Where each record's headers lie; empty if no record has any.
    pub headers: Vec<HeaderSpan>,
    /// What the views and spans point into: response frames and unpacked batches.
    pub buffers: Vec<Slab>,
}

impl Columns {
    /// Records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Whether there is no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Forgets the records, lets go of the buffers, keeps the columns' memory.
    pub fn clear(&mut self) {
        self.truncate(0);
        self.buffers.clear();
    }

    /// The key of record `row`; `None` if it is null or there is no such record.
    #[must_use]
    pub fn key(&self, row: usize) -> Option<&[u8]> {
        let key = self.keys.get(row)?;
        (!self.key_nulls.is_null(row)).then(|| view::bytes(key, &self.buffers))
    }

    /// The value of record `row`; `None` if it is null or there is no such record.
    #[must_use]
    pub fn value(&self, row: usize) -> Option<&[u8]> {
        let value = self.values.get(row)?;
        (!self.value_nulls.is_null(row)).then(|| view::bytes(value, &self.buffers))
    }

    /// The headers of record `row`, in order.
    #[must_use]
    pub fn headers(&self, row: usize) -> Headers<'_> {
        let span = self.headers.get(row).copied().unwrap_or_default();
        let start = span.offset as usize;
        let bytes = self.buffers.get(span.buffer as usize).and_then(|slab| slab.get(start..start + span.len as usize));
        Headers::new(bytes.unwrap_or_default(), span.count)
    }

    /// The given rows, in the given order, over the buffers that they lie in. Rows that do not exist are left out.
    #[must_use]
    pub fn gather(&self, rows: &[u32]) -> Columns {
        let mut out = Columns::default();
        self.gather_into(rows, &mut out);
        out
    }

    /// The same in place of what `out` held, whose memory is used again.
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
            many => out.adopt(many),
        }
    }

    /// The views point into `buffers`: takes those that they need, and no others. A few rows of many small batches would
    /// hold, and count, hundreds that they have nothing in.
    fn adopt(&mut self, buffers: &[Slab]) {
        let mut places = vec![None; buffers.len()];
        let own = &mut self.buffers;
        let mut place = |buffer: u32| -> u32 {
            let Some(place) = places.get_mut(buffer as usize) else { return u32::MAX };
            *place.get_or_insert_with(|| {
                own.extend(buffers.get(buffer as usize).cloned());
                own.len() as u32 - 1
            })
        };
        for view in self.keys.iter_mut().chain(&mut self.values) {
            if let Some(buffer) = view::buffer(*view) {
                *view = view::with_buffer(*view, place(buffer));
            }
        }
        for span in self.headers.iter_mut().filter(|span| span.count > 0) {
            span.buffer = place(span.buffer);
        }
    }

    /// Bytes held: the columns' capacity, and the buffers, which others may share.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        (self.offsets.capacity() + self.timestamps.capacity()) * 8
            + (self.keys.capacity() + self.values.capacity() + self.headers.capacity()) * 16
            + self.key_nulls.heap_bytes()
            + self.value_nulls.heap_bytes()
            + self.buffers.iter().map(|slab| slab.len()).sum::<usize>()
    }

    /// Back to the first `rows` records; buffers stay.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows);
        self.timestamps.truncate(rows);
        self.keys.truncate(rows);
        self.values.truncate(rows);
        self.headers.truncate(rows);
        self.key_nulls.truncate(rows);
        self.value_nulls.truncate(rows);
    }

    /// Room for `rows` more.
    pub(crate) fn reserve(&mut self, rows: usize) {
        self.offsets.reserve(rows);
        self.timestamps.reserve(rows);
        self.keys.reserve(rows);
        self.values.reserve(rows);
    }

    /// Appends `rows` records of zeros; the validity bits are the caller's.
    pub(crate) fn grow(&mut self, rows: usize, with_headers: bool) {
        let total = self.len() + rows;
        self.offsets.resize(total, 0);
        self.timestamps.resize(total, 0);
        self.keys.resize(total, 0);
        self.values.resize(total, 0);
        if with_headers || !self.headers.is_empty() {
            self.headers.resize(total, HeaderSpan::default());
        }
    }

    /// The index of `slab` among the buffers: the last one's if it is the same, else a new one.
    pub(crate) fn buffer_index(&mut self, slab: &Slab) -> u32 {
        if !self.buffers.last().is_some_and(|last| last.same(slab)) {
            self.buffers.push(slab.clone());
        }
        (self.buffers.len() - 1) as u32
    }
}
