//! One record, as a handle.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use crate::calls;
use crate::messages::Messages;
use crate::rows::Rows;
use crate::untracked;

/// One record: a handle into its `Messages`; what you touch is made when you touch it.
///
/// `key` and `value` are copies, so keeping them keeps nothing else. Keeping the message itself keeps the whole batch.
#[pyclass(frozen, module = "grete")]
pub(crate) struct Message {
    pub(crate) batch: Py<Messages>,
    /// Row in the columns (not in the slice that it came from).
    row: AtomicU32,
}

impl Message {
    pub(crate) fn new<'py>(batch: &Bound<'py, Messages>, row: u32) -> PyResult<Bound<'py, Self>> {
        untracked::new(batch.py(), Self { batch: batch.clone().unbind(), row: AtomicU32::new(row) })
    }

    /// A message for `row`: the one of `last` with another row if nobody else has it any more, else a new one.
    ///
    /// Most handlers let go of a message before the next one comes. Nobody can tell that it is the same object again.
    #[inline]
    pub(crate) fn next<'py>(last: &Bound<'py, Self>, row: u32) -> PyResult<Bound<'py, Self>> {
        if calls::is_only_reference(last) {
            last.get().row.store(row, Ordering::Relaxed);
            return Ok(last.clone());
        }
        Self::new(last.get().batch.bind(last.py()), row)
    }

    #[inline]
    pub(crate) fn row(&self) -> usize {
        self.row.load(Ordering::Relaxed) as usize
    }

    fn shared(&self) -> &Rows {
        self.batch.get().shared()
    }

    /// What makes a record itself.
    fn identity(&self) -> (&str, i32, i64) {
        let rows = self.shared();
        (&rows.topic_name, rows.partition, rows.offset_at(self.row()))
    }
}

#[pymethods]
impl Message {
    /// The topic that the record was read from.
    #[getter]
    fn topic<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        self.batch.get().topic_object(py)
    }

    /// The partition that the record was read from.
    #[getter]
    fn partition(&self) -> i32 {
        self.shared().partition
    }

    /// The record's offset in its partition.
    #[getter]
    pub(crate) fn offset(&self) -> i64 {
        self.shared().offset_at(self.row())
    }

    /// Milliseconds since 1970 UTC (the producer's time, or the broker's if the topic says so); -1: none.
    #[getter]
    fn timestamp(&self) -> i64 {
        self.shared().columns().timestamps.get(self.row()).copied().unwrap_or(-1)
    }

    /// The key, copied; `None` if the record has none.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.shared().columns().key(self.row()).map(|bytes| PyBytes::new(py, bytes))
    }

    /// The value, copied; `None` if the record has none (a tombstone).
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.shared().columns().value(self.row()).map(|bytes| PyBytes::new(py, bytes))
    }

    /// The value, decoded as the route's `payload=` says: at the first touch, then kept. `None` for a tombstone. Raises
    /// `DecodeError` from what the decoder raised.
    #[getter]
    fn payload<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let this = slf.get();
        this.shared().payload(slf.py(), this.row(), || Ok(slf.clone().into_any().unbind()))
    }

    /// The headers in the record's order, duplicates included: a tuple of (str, bytes or None), parsed on each access.
    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let mut headers = Vec::new();
        for header in self.shared().columns().headers(self.row()) {
            let (key, value) = header.map_err(|error| {
                PyValueError::new_err(format!("headers of offset {} do not parse: {error}", self.offset()))
            })?;
            headers.push((header_name(py, key), value.map(|bytes| PyBytes::new(py, bytes))));
        }
        PyTuple::new(py, headers)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Message>().is_ok_and(|other| self.identity() == other.get().identity())
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        self.identity().hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        let (topic, partition, offset) = self.identity();
        let columns = self.shared().columns();
        let size =
            |bytes: Option<&[u8]>| bytes.map_or_else(|| "none".to_string(), |bytes| format!("{} B", bytes.len()));
        let (key, value) = (size(columns.key(self.row())), size(columns.value(self.row())));
        format!("<Message {topic}[{partition}] offset {offset}, key {key}, value {value}>")
    }
}

/// Kafka says that header names are UTF-8; what is not is shown with backslashes, not refused.
fn header_name<'py>(py: Python<'py>, key: &[u8]) -> Bound<'py, PyString> {
    match std::str::from_utf8(key) {
        Ok(name) => PyString::new(py, name),
        Err(_) => PyString::new(py, &key.escape_ascii().to_string()),
    }
}
