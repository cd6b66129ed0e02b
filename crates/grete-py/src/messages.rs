//! Records of one partition: columns underneath, rows on demand.

use std::ops::Range;
use std::sync::Arc;

use grete_client::Batch;
use grete_columns::Layouts;
use grete_core::dispatch::ColumnsPool;
use grete_wire::records::Columns;
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList, PyMemoryView, PySlice, PySliceMethods, PyString};

use crate::buffers;
use crate::columns::{Int64Column, Lent, Which};
use crate::iterator::MessagesIterator;
use crate::message::Message;
use crate::rows::Rows;

/// Records of one partition, in offset order. Offsets may have gaps: compaction, transactions, retries.
///
/// Columns underneath, `Message` rows on demand. Hand it to polars, pyarrow or duckdb as it is: it exports Arrow
/// struct{offset int64, timestamp timestamp[ms, UTC], key binary_view, value binary_view} without a copy. Whatever is
/// zero-copy (this object, its slices and messages, Arrow arrays, memoryviews) keeps the whole fetched batch in memory;
/// `values()`, `keys()` and the fields of a `Message` are copies and keep nothing.
#[pyclass(frozen, sequence, module = "grete")]
pub(crate) struct Messages {
    shared: Arc<Rows>,
    rows: Range<u32>,
    next_offset: i64,
}

impl Messages {
    /// `decoder` makes payloads from values.
    pub(crate) fn new(py: Python<'_>, batch: Batch, decoder: Option<Py<PyAny>>) -> Self {
        let next_offset = batch.next_offset;
        let shared = Rows::new(py, batch, decoder);
        Self { rows: shared.all(), shared: Arc::new(shared), next_offset }
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Arc<Rows> {
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

    /// First and last offset, and where to read on after all of it; `None` when empty.
    pub(crate) fn span(&self) -> Option<(i64, i64, i64)> {
        let last = self.offset_at(self.rows.end.checked_sub(1)? as usize);
        (!self.rows.is_empty()).then(|| (self.offset_at(self.rows.start as usize), last, self.next_offset))
    }

    /// The offset of each.
    pub(crate) fn row_offsets(&self) -> Vec<i64> {
        self.range().map(|row| self.offset_at(row)).collect()
    }

    pub(crate) fn rows(&self) -> Range<u32> {
        self.rows.clone()
    }

    pub(crate) fn range(&self) -> Range<usize> {
        self.rows.start as usize..self.rows.end as usize
    }

    fn edge(&self, edge: fn(Range<usize>) -> Option<usize>) -> PyResult<i64> {
        let row = edge(self.range()).ok_or_else(|| PyIndexError::new_err("no messages here, so no offset"))?;
        Ok(self.offset_at(row))
    }

    fn slice(&self, start: usize, stop: usize) -> Self {
        let length = self.rows.len();
        let stop = stop.min(length);
        let start = start.min(stop);
        let rows = self.rows.start + start as u32..self.rows.start + stop as u32;
        // Only what reaches the end may skip what lies behind it (control records, compacted ones).
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

    fn view<'py>(&self, py: Python<'py>, which: Which) -> PyResult<Bound<'py, PyMemoryView>> {
        let column = Bound::new(py, Int64Column::new(self.shared.pooled(), which, self.range()))?;
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
            None,
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
        self.shared.partition
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
        self.shared.high_watermark
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

    /// All payloads: a list of what each record's `payload` is. Raises `DecodeError` at the first that is not decodable.
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

    /// The Arrow PyCapsule interface. Of `requested_schema` the types binary and large_binary for key and value are
    /// honoured (by copying); all else is answered with binary_view. A timestamp of -1 is null.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyCapsule>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let wanted = buffers::requested_layouts(requested_schema)?;
        let lent = Arc::new(Lent::new(self.shared.pooled()));
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
