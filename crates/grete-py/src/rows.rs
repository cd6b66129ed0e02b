//! What the `Messages` of one job and all their slices share: columns, decoded payloads, and how far an iteration came.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use grete_client::{Batch, PooledColumns};
use grete_wire::records::Columns;
use pyo3::exceptions::{PyException, PyGeneratorExit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::calls;
use crate::errors;
use crate::handle::Handle;

/// No row.
const NONE: u32 = u32::MAX;

/// One per job (or per test's batch).
pub(crate) struct Rows {
    columns: Handle<Arc<PooledColumns>>,
    pub(crate) topic: Py<PyString>,
    pub(crate) topic_name: Arc<str>,
    pub(crate) partition: i32,
    pub(crate) high_watermark: i64,
    /// The first row here and the number of rows: the columns may hold more.
    first: u32,
    count: u32,
    decoder: Option<Py<PyAny>>,
    /// One place a row, made at the first touch of a payload: a list, as that is cheaper to fill than locks. What is not
    /// decoded yet is `absent()`.
    payloads: PyOnceLock<Py<PyList>>,
    pub(crate) cursor: Cursor,
}

impl Rows {
    pub(crate) fn new(py: Python<'_>, batch: Batch, decoder: Option<Py<PyAny>>) -> Self {
        let end = u32::try_from(batch.rows.end).unwrap_or(u32::MAX);
        let first = u32::try_from(batch.rows.start).unwrap_or(end);
        Self {
            columns: Handle::new(batch.columns),
            topic: PyString::new(py, &batch.topic).unbind(),
            topic_name: batch.topic,
            partition: batch.partition,
            high_watermark: batch.high_watermark,
            first,
            count: end - first.min(end),
            decoder,
            payloads: PyOnceLock::new(),
            cursor: Cursor::default(),
        }
    }

    pub(crate) fn all(&self) -> Range<u32> {
        self.first..self.first + self.count
    }

    #[inline]
    pub(crate) fn columns(&self) -> &Columns {
        self.columns.memory()
    }

    pub(crate) fn pooled(&self) -> &Arc<PooledColumns> {
        self.columns.memory()
    }

    #[inline]
    pub(crate) fn offset_at(&self, row: usize) -> i64 {
        self.columns().offsets.get(row).copied().unwrap_or(-1)
    }

    /// The decoder; an error that names the cure if there is none.
    pub(crate) fn decoder<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyAny>> {
        match &self.decoder {
            Some(decoder) => Ok(decoder.bind(py)),
            None => Err(errors::no_payload(&self.topic_name)),
        }
    }

    /// The row's value, decoded now; `None` for a tombstone. The error is the decoder's own.
    #[inline]
    pub(crate) fn decode<'py>(&self, decoder: &Bound<'py, PyAny>, row: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = decoder.py();
        match self.columns().value(row) {
            Some(value) => calls::one(decoder, PyBytes::new(py, value).as_any()),
            None => Ok(py.None().into_bound(py)),
        }
    }

    /// The row's payload: decoded once, whatever it is. `message` makes the record that an error shall carry.
    pub(crate) fn payload<'py>(
        &self,
        py: Python<'py>,
        row: usize,
        message: impl FnOnce() -> PyResult<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let decoder = self.decoder(py)?;
        let absent = absent(py)?;
        let places = self.payloads.get_or_try_init(py, || {
            PyList::new(py, std::iter::repeat_n(absent, self.count as usize)).map(Bound::unbind)
        })?;
        let (places, place) = (places.bind(py), row.wrapping_sub(self.first as usize));
        let there = places.get_item(place)?;
        if !there.is(absent) {
            return Ok(there);
        }
        let payload = self.decode(decoder, row).map_err(|cause| self.undecodable(py, row, cause, message))?;
        // Another thread may have decoded it meanwhile: everybody gets the object that was there first.
        let there = places.get_item(place)?;
        if !there.is(absent) {
            return Ok(there);
        }
        places.set_item(place, &payload)?;
        Ok(payload)
    }

    /// The `DecodeError` of a row. What is no `Exception` (an interrupt, an exit) stays what it is, and so does what is the
    /// route's to answer: a registry that is down says nothing about the record.
    pub(crate) fn undecodable(
        &self,
        py: Python<'_>,
        row: usize,
        cause: PyErr,
        message: impl FnOnce() -> PyResult<Py<PyAny>>,
    ) -> PyErr {
        if !cause.is_instance_of::<PyException>(py) || errors::is_users_word(py, &cause) {
            return cause;
        }
        match message() {
            Ok(message) => errors::undecodable(&self.topic_name, self.partition, self.offset_at(row), message, cause),
            Err(error) => error,
        }
    }
}

/// What no decoder can return.
fn absent(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static ABSENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    ABSENT.get_or_try_init(py, || py.get_type::<PyAny>().call0().map(Bound::unbind)).map(|absent| absent.bind(py))
}

/// The row that an iteration handed out last. Which record failed? If the iteration had not ended, that one.
///
/// An iteration ends at its last row, or when its iterator goes while no exception is under way (`break`). When an
/// exception goes through the loop, the iterator goes, too, and the exception is noted: a handler that catches it and
/// fails later, with another one, did not fail at that row.
pub(crate) struct Cursor {
    row: AtomicU32,
    /// The address of the exception that ended the iteration, 0: none so far.
    cause: AtomicUsize,
}

impl Default for Cursor {
    fn default() -> Self {
        Self { row: AtomicU32::new(NONE), cause: AtomicUsize::new(0) }
    }
}

// The GIL orders all accesses; atomics only because frozen classes are shared.
impl Cursor {
    pub(crate) fn begin(&self) {
        self.cause.store(0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn at(&self, row: u32) {
        self.row.store(row, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.row.store(NONE, Ordering::Relaxed);
    }

    /// The iterator that had come to `row` goes away before its end.
    pub(crate) fn leave(&self, py: Python<'_>, row: u32) {
        if self.row.load(Ordering::Relaxed) != row {
            return; // another iteration has handed out rows since
        }
        // An exception under way has been set by the frame that is being left. (A generator that is closed sees
        // GeneratorExit here, whether its user failed or only stopped: that says nothing.)
        match calls::exception_under_way(py) {
            Some(error) if !error.is_instance_of::<PyGeneratorExit>() => {
                self.cause.store(error.as_ptr() as usize, Ordering::Relaxed);
            }
            _ => self.end(),
        }
    }

    /// The row at which `error` was raised, as far as iterations know.
    pub(crate) fn culprit(&self, error: Option<&Bound<'_, PyAny>>) -> Option<usize> {
        let row = self.row.load(Ordering::Relaxed);
        let cause = self.cause.load(Ordering::Relaxed);
        let known = row != NONE && error.is_none_or(|error| cause == 0 || stems_from(error, cause));
        known.then_some(row as usize)
    }
}

/// Whether `error` is the exception at this address, or was raised from it or while handling it.
fn stems_from(error: &Bound<'_, PyAny>, cause: usize) -> bool {
    const DEEP_ENOUGH: usize = 64; // chains may have cycles
    let mut open = vec![error.clone()];
    for _ in 0..DEEP_ENOUGH {
        let Some(error) = open.pop() else { return false };
        if error.as_ptr() as usize == cause {
            return true;
        }
        for name in ["__context__", "__cause__"] {
            open.extend(error.getattr(name).ok().filter(|next| !next.is_none()));
        }
    }
    false
}
