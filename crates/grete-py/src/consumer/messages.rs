//! Records of one partition, stored in columns, with rows on demand.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use grete_arrow::ColumnLayouts;
use grete_client::DecodedBatch;
use grete_proto::dispatch::ColumnPool;
use grete_wire::records::Columns;
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::critical_section::with_critical_section;
use pyo3::types::{
    PyBool, PyBytes, PyCapsule, PyDict, PyList, PyMemoryView, PySlice, PySliceMethods, PyString, PyTuple, PyType,
};

use crate::consumer::int64_column::{ColumnKind, ExportedColumns, Int64Column};
use crate::consumer::job_batch::JobBatch;
use crate::consumer::message::Message;
use crate::ffi::buffers;

/// Records of one partition, in offset order. Offsets may have gaps: compaction, transactions, retries.
///
/// The records are stored in columns, and `Message` rows are made on demand. Polars, pyarrow and duckdb accept the
/// object directly: it exports Arrow struct{offset int64, timestamp timestamp[ms, UTC], key binary_view, value
/// binary_view} without a copy. Everything zero-copy (this object, its slices and messages, Arrow arrays, memoryviews)
/// keeps the whole fetched batch in memory. `values()`, `keys()` and the fields of a `Message` are copies and keep
/// nothing.
#[pyclass(frozen, sequence, module = "grete")]
pub(crate) struct Messages {
    shared: Arc<JobBatch>,
    rows: Range<u32>,
    next_offset: i64,
}

impl Messages {
    /// `decoder` makes payloads from values.
    pub(crate) fn new(py: Python<'_>, batch: DecodedBatch, decoder: Option<Py<PyAny>>) -> Self {
        let next_offset = batch.next_offset;
        let shared = JobBatch::new(py, batch, decoder);
        Self { rows: shared.row_range(), shared: Arc::new(shared), next_offset }
    }

    #[inline]
    pub(crate) fn job_batch(&self) -> &Arc<JobBatch> {
        &self.shared
    }

    #[inline]
    pub(crate) fn columns(&self) -> &Columns {
        self.shared.columns()
    }

    pub(crate) fn topic_object<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        self.shared.topic.bind(py).clone()
    }

    pub(crate) fn offset_at(&self, row: usize) -> i64 {
        self.shared.offset_at(row)
    }

    /// Returns the first and last offset, and the offset to read after all of it; `None` when empty.
    pub(crate) fn offset_bounds(&self) -> Option<(i64, i64, i64)> {
        let last = self.offset_at(self.rows.end.checked_sub(1)? as usize);
        (!self.rows.is_empty()).then(|| (self.offset_at(self.rows.start as usize), last, self.next_offset))
    }

    /// Returns the offset of each record.
    pub(crate) fn row_offsets(&self) -> Vec<i64> {
        self.range().map(|row| self.offset_at(row)).collect()
    }

    pub(crate) fn rows(&self) -> Range<u32> {
        self.rows.clone()
    }

    pub(crate) fn range(&self) -> Range<usize> {
        self.rows.start as usize..self.rows.end as usize
    }

    fn edge_offset(&self, edge: fn(Range<usize>) -> Option<usize>) -> PyResult<i64> {
        let row = edge(self.range()).ok_or_else(|| PyIndexError::new_err("no messages here, so no offset"))?;
        Ok(self.offset_at(row))
    }

    fn slice(&self, start: usize, stop: usize) -> Self {
        let length = self.rows.len();
        let stop = stop.min(length);
        let start = start.min(stop);
        let rows = self.rows.start + start as u32..self.rows.start + stop as u32;
        // Only a slice that reaches the end may skip the offsets behind it (control records, compacted ones).
        let next_offset = match rows.end.checked_sub(1) {
            Some(last) if stop < length && start < stop => self.offset_at(last as usize) + 1,
            _ => self.next_offset,
        };
        Self { shared: Arc::clone(&self.shared), rows, next_offset }
    }

    fn bytes_list<'py>(
        &self,
        py: Python<'py>,
        get: for<'a> fn(&'a Columns, usize) -> Option<&'a [u8]>,
    ) -> PyResult<Bound<'py, PyList>> {
        let columns = self.columns();
        PyList::new(py, self.range().map(|row| get(columns, row).map(|bytes| PyBytes::new(py, bytes))))
    }

    /// Returns no messages: the result of a `poll` that timed out.
    fn none(py: Python<'_>) -> Self {
        let columns = ColumnPool::default().share(Columns::default());
        let (topic, next_offset) = (Arc::from(""), -1);
        Self::new(
            py,
            DecodedBatch {
                columns,
                rows: 0..0,
                topic,
                partition: -1,
                high_watermark: -1,
                next_offset,
                leader_epoch: -1,
            },
            None,
        )
    }

    fn memory_view<'py>(&self, py: Python<'py>, which: ColumnKind) -> PyResult<Bound<'py, PyMemoryView>> {
        let column = Bound::new(py, Int64Column::new(self.shared.pooled(), which, self.range()))?;
        PyMemoryView::from(column.as_any())
    }
}

#[pymethods]
impl Messages {
    /// Raises TypeError: records are read, and tests make them with `grete.testing`.
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn refuse_construction(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Err(PyTypeError::new_err(
            "Messages are records that were read: in a test, make them with grete.testing.messages([value, ...])",
        ))
    }

    /// Returns `Messages[Order]` for annotations: messages whose payload is an `Order`.
    #[classmethod]
    fn __class_getitem__<'py>(cls: &Bound<'py, PyType>, item: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        cls.py().import("types")?.getattr("GenericAlias")?.call1((cls, item))
    }

    /// On an object: whether there are no messages. On the class: a function that returns no messages, which are the
    /// result of a `poll` that timed out.
    #[classattr]
    fn empty() -> Emptiness {
        Emptiness
    }

    /// Topic; "" for the empty result of a `poll` that timed out.
    #[getter]
    fn topic<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        self.topic_object(py)
    }

    /// Partition; -1 for the empty result of a `poll` that timed out.
    #[getter]
    fn partition(&self) -> i32 {
        self.shared.partition
    }

    /// Offset of the first record. Raises IndexError when empty.
    #[getter]
    fn first_offset(&self) -> PyResult<i64> {
        self.edge_offset(|mut rows| rows.next())
    }

    /// Offset of the last record. Raises IndexError when empty.
    #[getter]
    fn last_offset(&self) -> PyResult<i64> {
        self.edge_offset(|rows| rows.last())
    }

    /// Offset to continue from once all of these records are processed. It is behind the last record, and behind
    /// offsets that follow it without records for us (compacted away, aborted, control records). -1 when empty.
    #[getter]
    fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// High watermark of the partition at fetch time: the offset that the next record will get.
    #[getter]
    fn high_watermark(&self) -> i64 {
        self.shared.high_watermark
    }

    /// All offsets: a read-only `memoryview` of format "q", without a copy.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        self.memory_view(py, ColumnKind::Offsets)
    }

    /// All timestamps in ms since 1970 UTC (-1: none): a read-only `memoryview` of format "q", without a copy.
    #[getter]
    fn timestamps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        self.memory_view(py, ColumnKind::Timestamps)
    }

    /// Returns all values, copied: a list of bytes or None.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.bytes_list(py, Columns::value)
    }

    /// Returns all keys, copied: a list of bytes or None.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.bytes_list(py, Columns::key)
    }

    /// Returns each record's `payload`. Raises `DecodeError` at the first record that does not decode.
    fn payloads<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        let (py, this) = (slf.py(), slf.get());
        let payloads = PyList::empty(py);
        for row in this.rows() {
            let message = || Message::new(slf, row).map(|message| message.into_any().unbind());
            payloads.append(this.shared.payload(py, row as usize, message)?)?;
        }
        Ok(payloads)
    }

    fn __len__(&self) -> usize {
        self.rows.len()
    }

    fn __iter__(slf: &Bound<'_, Self>) -> MessagesIterator {
        MessagesIterator::new(slf)
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
            return Ok(Bound::new(py, this.slice(start, stop.max(start)))?.into_any());
        }
        let Ok(index) = index.extract::<isize>() else {
            return Err(PyTypeError::new_err("Messages are indexed by int or slice"));
        };
        let position = if index < 0 { index + length } else { index };
        if !(0..length).contains(&position) {
            return Err(PyIndexError::new_err(format!("index {index} is out of range: there are {length} messages")));
        }
        Ok(Message::new(slf, this.rows.start + position as u32)?.into_any())
    }

    /// Exports the records through the Arrow PyCapsule interface. The types binary and large_binary in
    /// `requested_schema` are honored for key and value (by copying); otherwise these are binary_view. A timestamp of
    /// -1 is null.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyCapsule>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let requested = buffers::requested_layouts(requested_schema)?;
        let exported = Arc::new(ExportedColumns::new(self.shared.pooled()));
        let (array, layouts) = grete_arrow::export(&exported, self.range(), requested);
        Ok((buffers::schema_capsule(py, layouts.schema())?, buffers::array_capsule(py, array)?))
    }

    /// Returns the schema that `__arrow_c_array__` exports, through the Arrow PyCapsule interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        buffers::schema_capsule(py, ColumnLayouts::default().schema())
    }

    /// Returns a table for notebooks.
    fn _repr_html_(slf: &Bound<'_, Self>) -> PyResult<String> {
        slf.py().import("grete._notebook")?.call_method1("messages", (slf,))?.extract()
    }

    fn __repr__(&self) -> String {
        match self.offset_bounds() {
            Some((first, last, _)) => format!(
                "<Messages {}[{}] offsets {first}..{last}, {} messages, high watermark {}>",
                self.shared.topic_name,
                self.shared.partition,
                self.rows.len(),
                self.shared.high_watermark
            ),
            None if self.shared.topic_name.is_empty() => "<Messages, none>".to_string(),
            None => format!("<Messages {}[{}], none>", self.shared.topic_name, self.shared.partition),
        }
    }
}

/// Descriptor of `Messages.empty`. In other libraries `empty` is a property, and `if messages.empty:` would always be
/// true if `empty` were a function there.
#[pyclass(frozen, module = "grete._native", name = "_Emptiness")]
pub(crate) struct Emptiness;

#[pymethods]
impl Emptiness {
    fn __get__<'py>(
        slf: &Bound<'py, Self>,
        instance: Option<&Bound<'py, Messages>>,
        owner: Option<&Bound<'py, PyAny>>,
    ) -> Bound<'py, PyAny> {
        let _ = owner;
        match instance {
            Some(messages) => PyBool::new(slf.py(), messages.get().rows.is_empty()).to_owned().into_any(),
            None => slf.clone().into_any(),
        }
    }

    fn __call__(&self, py: Python<'_>) -> Messages {
        Messages::none(py)
    }
}

/// Iterates over `Messages`.
// Frozen: borrowing the iterator anew for each row would cost as much as the rest of a step. The GIL, or the critical
// section of the iterator where there is no GIL, orders all steps.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct MessagesIterator {
    messages: Py<Messages>,
    next: AtomicU32,
    end: u32,
    /// Whether `__next__` has returned the end.
    over: AtomicBool,
    /// Two messages that take turns. A loop still holds the last message when it asks for the next one. The message
    /// before that is reused for another row unless the handler has kept it.
    turns: [OnceLock<Py<Message>>; 2],
}

impl MessagesIterator {
    pub(crate) fn new(messages: &Bound<'_, Messages>) -> Self {
        messages.get().job_batch().cursor.restart();
        let rows = messages.get().rows();
        Self {
            messages: messages.clone().unbind(),
            next: AtomicU32::new(rows.start),
            end: rows.end,
            over: AtomicBool::new(false),
            turns: Default::default(),
        }
    }
}

#[pymethods]
impl MessagesIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, Message>>> {
        with_critical_section(slf.as_any(), || slf.get().step(slf.py()))
    }

    fn __length_hint__(&self) -> usize {
        self.end.saturating_sub(self.next.load(Ordering::Relaxed)) as usize
    }
}

impl MessagesIterator {
    /// Returns the next message. One thread at a time: otherwise two threads could find the same message unused, and
    /// both hand it out.
    fn step<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, Message>>> {
        let messages = self.messages.bind(py);
        let cursor = &messages.get().job_batch().cursor;
        let row = self.next.load(Ordering::Relaxed);
        if row >= self.end {
            if !self.over.swap(true, Ordering::Relaxed) {
                cursor.clear();
            }
            return Ok(None);
        }
        self.next.store(row + 1, Ordering::Relaxed);
        cursor.advance_to(row);
        let [even, odd] = &self.turns;
        let reusable_message = if row.is_multiple_of(2) { even } else { odd };
        if let Some(message) = reusable_message.get() {
            return Message::reuse_or_new(message.bind(py), row).map(Some);
        }
        let message = Message::new(messages, row)?;
        // No other thread can have set it: one thread at a time is here. Otherwise the message is only not reused.
        let _ = reusable_message.set(message.clone().unbind());
        Ok(Some(message))
    }
}

impl Drop for MessagesIterator {
    fn drop(&mut self) {
        let (next, over) = (*self.next.get_mut(), *self.over.get_mut());
        let started = next > self.messages.get().rows().start;
        if started && !over {
            // A frozen class is readable without the GIL; the thread that drops the last reference is attached.
            Python::try_attach(|py| self.messages.get().job_batch().cursor.on_iterator_dropped(py, next - 1));
        }
    }
}
