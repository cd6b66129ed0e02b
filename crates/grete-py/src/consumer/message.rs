//! Handle of one record.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple, PyType};

use crate::consumer::job_batch::JobBatch;
use crate::consumer::messages::Messages;
use crate::ffi::cpython;

/// One record: a handle into its `Messages`, which makes each field on access.
///
/// `key` and `value` are copies, so keeping them keeps nothing else. Keeping the message itself keeps the whole batch.
#[pyclass(frozen, module = "grete")]
pub(crate) struct Message {
    pub(crate) batch: Py<Messages>,
    /// Row in the columns (not in a slice of them).
    row: AtomicU32,
}

impl Message {
    pub(crate) fn new<'py>(messages: &Bound<'py, Messages>, row: u32) -> PyResult<Bound<'py, Self>> {
        cpython::new_untracked(messages.py(), Self { batch: messages.clone().unbind(), row: AtomicU32::new(row) })
    }

    /// Returns a message for `row`: the object of `last` with another row if it has no other reference, else a new one.
    ///
    /// Most handlers release a message before the next one comes. So the reuse of the object cannot be observed.
    #[inline]
    pub(crate) fn reuse_or_new<'py>(last: &Bound<'py, Self>, row: u32) -> PyResult<Bound<'py, Self>> {
        if cpython::is_only_reference(last) {
            last.get().row.store(row, Ordering::Relaxed);
            return Ok(last.clone());
        }
        Self::new(last.get().batch.bind(last.py()), row)
    }

    #[inline]
    pub(crate) fn row(&self) -> usize {
        self.row.load(Ordering::Relaxed) as usize
    }

    fn job_batch(&self) -> &JobBatch {
        self.batch.get().job_batch()
    }

    pub(crate) fn key_bytes(&self) -> Option<&[u8]> {
        self.job_batch().columns().key(self.row())
    }

    /// Returns the identity of the record: topic, partition and offset.
    fn identity(&self) -> (&str, i32, i64) {
        let rows = self.job_batch();
        (&rows.topic_name, rows.partition, rows.offset_at(self.row()))
    }
}

#[pymethods]
impl Message {
    /// Raises TypeError: records are read, and tests make them with `grete.testing`.
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn refuse_construction(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Err(PyTypeError::new_err(
            "a Message is a record that was read: in a test, make one with grete.testing.message(value, key=...)",
        ))
    }

    /// Returns `Message[Order]` for annotations: a message whose payload is an `Order`.
    #[classmethod]
    fn __class_getitem__<'py>(cls: &Bound<'py, PyType>, item: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        cls.py().import("types")?.getattr("GenericAlias")?.call1((cls, item))
    }

    /// Topic that the record was read from.
    #[getter]
    fn topic<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        self.batch.get().topic_object(py)
    }

    /// Partition that the record was read from.
    #[getter]
    fn partition(&self) -> i32 {
        self.job_batch().partition
    }

    /// Offset of the record in its partition.
    #[getter]
    pub(crate) fn offset(&self) -> i64 {
        self.job_batch().offset_at(self.row())
    }

    /// Topic, partition and offset, as "orders-3-42": the same in each run of the record. For idempotency keys.
    #[getter]
    fn id(&self, py: Python<'_>) -> String {
        let rows = self.job_batch();
        format!("{}-{}-{}", rows.topic.bind(py), rows.partition, self.offset())
    }

    /// Milliseconds since 1970 UTC (the producer's time, or the broker's if the topic says so); -1: none.
    #[getter]
    fn timestamp(&self) -> i64 {
        self.job_batch().columns().timestamps.get(self.row()).copied().unwrap_or(-1)
    }

    /// Key, copied; `None` if the record has none.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.job_batch().columns().key(self.row()).map(|bytes| PyBytes::new(py, bytes))
    }

    /// Value, copied; `None` if the record has none (a tombstone).
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.job_batch().columns().value(self.row()).map(|bytes| PyBytes::new(py, bytes))
    }

    /// Value as decoded by the route's `payload=`, on first access and then kept. `None` for a tombstone. Raises
    /// `DecodeError` from the decoder's exception.
    #[getter]
    fn payload<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let this = slf.get();
        this.job_batch().payload(slf.py(), this.row(), || Ok(slf.clone().into_any().unbind()))
    }

    /// Headers in the record's order, duplicates included: a tuple of (str, bytes or None), parsed on each access.
    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.job_batch().headers(py, self.row())
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
        let columns = self.job_batch().columns();
        let size =
            |bytes: Option<&[u8]>| bytes.map_or_else(|| "none".to_string(), |bytes| format!("{} B", bytes.len()));
        let (key, value) = (size(columns.key(self.row())), size(columns.value(self.row())));
        format!("<Message {topic}[{partition}] offset {offset}, key {key}, value {value}>")
    }
}
