//! Records of one partition: columns underneath, rows on demand.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use grete_client::{Batch, PooledColumns};
use grete_columns::Layouts;
use grete_core::dispatch::ColumnsPool;
use grete_wire::records::Columns;
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList, PyMemoryView, PySlice, PySliceMethods, PyString};

use crate::buffers;
use crate::columns::{Int64Column, Lent, Which};
use crate::handle::Handle;
use crate::message::Message;

/// Records of one partition, in offset order. Offsets may have gaps: compaction, transactions, retries.
///
/// Columns underneath, `Message` rows on demand. Hand it to polars, pyarrow or duckdb as it is: it exports Arrow
/// struct{offset int64, timestamp timestamp[ms, UTC], key binary_view, value binary_view} without a copy. Whatever is
/// zero-copy (this object, its slices and messages, Arrow arrays, memoryviews) keeps the whole fetched batch in memory;
/// `values()`, `keys()` and the fields of a `Message` are copies and keep nothing.
#[pyclass(frozen, sequence, module = "grete")]
pub(crate) struct Messages {
    columns: Handle<Arc<PooledColumns>>,
    rows: Range<u32>,
    topic: Py<PyString>,
    topic_name: Arc<str>,
    pub(crate) partition: i32,
    high_watermark: i64,
    next_offset: i64,
}

impl Messages {
    pub(crate) fn new(py: Python<'_>, batch: Batch) -> Self {
        let end = u32::try_from(batch.rows.end).unwrap_or(u32::MAX);
        let start = u32::try_from(batch.rows.start).unwrap_or(end);
        Self {
            columns: Handle::new(batch.columns),
            rows: start..end,
            topic: PyString::new(py, &batch.topic).unbind(),
            topic_name: batch.topic,
            partition: batch.partition,
            high_watermark: batch.high_watermark,
            next_offset: batch.next_offset,
        }
    }

    #[inline]
    pub(crate) fn columns(&self) -> &Columns {
        self.columns.memory()
    }

    pub(crate) fn topic_str(&self) -> &str {
        &self.topic_name
    }

    pub(crate) fn topic_object<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        self.topic.bind(py).clone()
    }

    pub(crate) fn offset_at(&self, row: usize) -> i64 {
        self.columns().offsets.get(row).copied().unwrap_or(-1)
    }

    /// First and last offset, and where to read on after all of it; `None` when empty.
    pub(crate) fn span(&self) -> Option<(i64, i64, i64)> {
        let last = self.offset_at(self.rows.end.checked_sub(1)? as usize);
        (!self.rows.is_empty()).then(|| (self.offset_at(self.rows.start as usize), last, self.next_offset))
    }

    pub(crate) fn range(&self) -> Range<usize> {
        self.rows.start as usize..self.rows.end as usize
    }

    fn edge(&self, edge: fn(Range<usize>) -> Option<usize>) -> PyResult<i64> {
        let row = edge(self.range()).ok_or_else(|| PyIndexError::new_err("no messages here, so no offset"))?;
        Ok(self.offset_at(row))
    }

    fn slice(&self, py: Python<'_>, start: usize, stop: usize) -> Self {
        let length = self.rows.len();
        let stop = stop.min(length);
        let start = start.min(stop);
        let rows = self.rows.start + start as u32..self.rows.start + stop as u32;
        // Only what reaches the end may skip what lies behind it (control records, compacted ones).
        let next_offset = match rows.end.checked_sub(1) {
            Some(last) if stop < length && start < stop => self.offset_at(last as usize) + 1,
            _ => self.next_offset,
        };
        Self {
            columns: Handle::new(Arc::clone(self.columns.memory())),
            rows,
            topic: self.topic.clone_ref(py),
            topic_name: Arc::clone(&self.topic_name),
            partition: self.partition,
            high_watermark: self.high_watermark,
            next_offset,
        }
    }

    fn bytes_list<'py>(
        &self,
        py: Python<'py>,
        get: for<'a> fn(&'a Columns, usize) -> Option<&'a [u8]>,
    ) -> PyResult<Bound<'py, PyList>> {
        let columns = self.columns();
        PyList::new(py, self.range().map(|row| get(columns, row).map(|bytes| PyBytes::new(py, bytes))))
    }

    fn view<'py>(&self, py: Python<'py>, which: Which) -> PyResult<Bound<'py, PyMemoryView>> {
        let column = Bound::new(py, Int64Column::new(self.columns.memory(), which, self.range()))?;
        PyMemoryView::from(column.as_any())
    }
}

#[pymethods]
impl Messages {
    /// No messages: what `poll` answers when its time is up.
    #[staticmethod]
    fn empty(py: Python<'_>) -> Self {
        let columns = ColumnsPool::default().share(Columns::default());
        let (topic, next_offset) = (Arc::from(""), -1);
        Self::new(
            py,
            Batch { columns, rows: 0..0, topic, partition: -1, high_watermark: -1, next_offset, leader_epoch: -1 },
        )
    }

    /// The topic; "" for the empty answer of a `poll` whose time was up.
    #[getter]
    fn topic<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        self.topic_object(py)
    }

    /// The partition; -1 for the empty answer of a `poll` whose time was up.
    #[getter]
    fn partition(&self) -> i32 {
        self.partition
    }

    /// Offset of the first record. Raises IndexError when empty.
    #[getter]
    fn first_offset(&self) -> PyResult<i64> {
        self.edge(|mut rows| rows.next())
    }

    /// Offset of the last record. Raises IndexError when empty.
    #[getter]
    fn last_offset(&self) -> PyResult<i64> {
        self.edge(|rows| rows.last())
    }

    /// The offset to go on from once all of these are processed: behind the last record, and behind what follows it and
    /// holds no records for us (compacted away, aborted, control records). -1 when empty.
    #[getter]
    fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// The partition's high watermark (the offset that the next record will get) when this was fetched.
    #[getter]
    fn high_watermark(&self) -> i64 {
        self.high_watermark
    }

    /// All offsets: a read-only `memoryview` of format "q", without a copy.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        self.view(py, Which::Offsets)
    }

    /// All timestamps in ms since 1970 UTC (-1: none): a read-only `memoryview` of format "q", without a copy.
    #[getter]
    fn timestamps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        self.view(py, Which::Timestamps)
    }

    /// All values, copied: a list of bytes or None.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.bytes_list(py, Columns::value)
    }

    /// All keys, copied: a list of bytes or None.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.bytes_list(py, Columns::key)
    }

    fn __len__(&self) -> usize {
        self.rows.len()
    }

    fn __iter__(slf: Py<Self>) -> MessagesIterator {
        let rows = slf.get().rows.clone();
        MessagesIterator { batch: slf, next: AtomicU32::new(rows.start), end: rows.end }
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let length = this.rows.len().cast_signed();
        if let Ok(slice) = index.cast::<PySlice>() {
            let indices = slice.indices(length)?;
            if indices.step != 1 {
                return Err(PyValueError::new_err(
                    "a slice of Messages is contiguous (step 1); for other steps slice a list: list(messages)[::2]",
                ));
            }
            let (start, stop) = (indices.start.max(0) as usize, indices.stop.max(0) as usize);
            return Ok(Bound::new(py, this.slice(py, start, stop.max(start)))?.into_any());
        }
        let Ok(index) = index.extract::<isize>() else {
            return Err(PyTypeError::new_err("Messages are indexed by int or slice"));
        };
        let position = if index < 0 { index + length } else { index };
        if !(0..length).contains(&position) {
            return Err(PyIndexError::new_err(format!("index {index} is out of range: there are {length} messages")));
        }
        let message = Message { batch: slf.clone().unbind(), row: this.rows.start + position as u32 };
        Ok(Bound::new(py, message)?.into_any())
    }

    /// The Arrow PyCapsule interface. Of `requested_schema` the types binary and large_binary for key and value are
    /// honoured (by copying); all else is answered with binary_view. A timestamp of -1 is null.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyCapsule>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let wanted = buffers::requested_layouts(requested_schema)?;
        let lent = Arc::new(Lent::new(self.columns.memory()));
        let (array, layouts) = grete_columns::export(&lent, self.range(), wanted);
        Ok((buffers::schema_capsule(py, layouts.schema())?, buffers::array_capsule(py, array)?))
    }

    /// The Arrow PyCapsule interface: the schema that `__arrow_c_array__` exports.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        buffers::schema_capsule(py, Layouts::default().schema())
    }

    fn __repr__(&self) -> String {
        match self.span() {
            Some((first, last, _)) => format!(
                "<Messages {}[{}] offsets {first}..{last}, {} messages, high watermark {}>",
                self.topic_name,
                self.partition,
                self.rows.len(),
                self.high_watermark
            ),
            None if self.topic_name.is_empty() => "<Messages, none>".to_string(),
            None => format!("<Messages {}[{}], none>", self.topic_name, self.partition),
        }
    }
}

/// Iterates over `Messages`.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct MessagesIterator {
    batch: Py<Messages>,
    next: AtomicU32,
    end: u32,
}

#[pymethods]
impl MessagesIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> Option<Message> {
        // The GIL orders the accesses; an atomic only because a frozen class is shared.
        let row = self.next.load(Ordering::Relaxed);
        if row >= self.end {
            return None;
        }
        self.next.store(row + 1, Ordering::Relaxed);
        Some(Message { batch: self.batch.clone_ref(py), row })
    }

    fn __length_hint__(&self) -> usize {
        self.end.saturating_sub(self.next.load(Ordering::Relaxed)) as usize
    }
}
