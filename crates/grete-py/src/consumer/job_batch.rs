//! State that the `Messages` of one job and all their slices share: columns, decoded payloads, and the progress of an
//! iteration.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use grete_client::{DecodedBatch, PooledColumns};
use grete_wire::records::Columns;
use pyo3::exceptions::{PyException, PyGeneratorExit, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::sync::critical_section::with_critical_section;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::errors;
use crate::ffi::cpython;
use crate::ffi::fork_guarded::ForkGuarded;

/// Sentinel for no row.
const NO_ROW: u32 = u32::MAX;

/// Shared state of one job's batch (or of one test's batch).
pub(crate) struct JobBatch {
    columns: ForkGuarded<Arc<PooledColumns>>,
    pub(crate) topic: Py<PyString>,
    pub(crate) topic_name: Arc<str>,
    pub(crate) partition: i32,
    pub(crate) high_watermark: i64,
    /// First row of the batch, and the number of rows. The columns may hold more rows.
    first: u32,
    count: u32,
    decoder: Option<Py<PyAny>>,
    /// Method `with_headers(value, headers)` of a decoder for records whose headers name their schema.
    headers_decoder: Option<Py<PyAny>>,
    /// One element per row, made on the first access to a payload. It is a list because a list is cheaper to fill than
    /// locks. Rows not decoded yet hold `undecoded_sentinel()`.
    payloads: PyOnceLock<Py<PyList>>,
    pub(crate) cursor: Cursor,
}

impl JobBatch {
    pub(crate) fn new(py: Python<'_>, batch: DecodedBatch, decoder: Option<Py<PyAny>>) -> Self {
        let end = u32::try_from(batch.rows.end).unwrap_or(u32::MAX);
        let first = u32::try_from(batch.rows.start).unwrap_or(end);
        let headers_decoder = decoder.as_ref().and_then(|one| one.bind(py).getattr_opt("with_headers").ok().flatten());
        Self {
            columns: ForkGuarded::new(batch.columns),
            topic: PyString::new(py, &batch.topic).unbind(),
            topic_name: batch.topic,
            partition: batch.partition,
            high_watermark: batch.high_watermark,
            first,
            count: end - first.min(end),
            decoder,
            headers_decoder: headers_decoder.map(Bound::unbind),
            payloads: PyOnceLock::new(),
            cursor: Cursor::default(),
        }
    }

    pub(crate) fn row_range(&self) -> Range<u32> {
        self.first..self.first + self.count
    }

    #[inline]
    pub(crate) fn columns(&self) -> &Columns {
        self.columns.get_unguarded()
    }

    pub(crate) fn pooled(&self) -> &Arc<PooledColumns> {
        self.columns.get_unguarded()
    }

    #[inline]
    pub(crate) fn offset_at(&self, row: usize) -> i64 {
        self.columns().offsets.get(row).copied().unwrap_or(-1)
    }

    /// Returns the decoder, or an error that names the cure if there is none.
    pub(crate) fn decoder<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyAny>> {
        match &self.decoder {
            Some(decoder) => Ok(decoder.bind(py)),
            None => Err(errors::no_payload(&self.topic_name)),
        }
    }

    /// Decodes the row's value; `None` for a tombstone. Errors are the decoder's own.
    #[inline]
    pub(crate) fn decode<'py>(&self, decoder: &Bound<'py, PyAny>, row: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = decoder.py();
        match self.columns().value(row) {
            Some(value) => match &self.headers_decoder {
                None => cpython::call_one_arg(decoder, PyBytes::new(py, value).as_any()),
                Some(method) if self.columns().headers(row).next().is_some() => {
                    method.bind(py).call1((PyBytes::new(py, value), self.headers(py, row)?))
                }
                Some(_) => cpython::call_one_arg(decoder, PyBytes::new(py, value).as_any()),
            },
            None => Ok(py.None().into_bound(py)),
        }
    }

    /// Returns the row's headers: a tuple of (str, bytes or None).
    pub(crate) fn headers<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyTuple>> {
        let mut headers = Vec::new();
        for header in self.columns().headers(row) {
            let (key, value) = header.map_err(|error| {
                PyValueError::new_err(format!("headers of offset {} do not parse: {error}", self.offset_at(row)))
            })?;
            headers.push((header_name(py, key), value.map(|bytes| PyBytes::new(py, bytes))));
        }
        PyTuple::new(py, headers)
    }

    /// Sets the payloads of the first rows; `None`: the row is decoded. Does nothing after the first access to a payload.
    pub(crate) fn preset_payloads(&self, py: Python<'_>, payloads: Vec<Option<Py<PyAny>>>) -> PyResult<()> {
        let absent = undecoded_sentinel(py)?;
        let given =
            payloads.into_iter().map(|payload| payload.map_or_else(|| absent.clone(), |one| one.into_bound(py)));
        let rest = std::iter::repeat_with(|| absent.clone());
        let row_payloads: Vec<_> = given.chain(rest).take(self.count as usize).collect();
        // Set already: rows have been decoded.
        let _ = self.payloads.set(py, PyList::new(py, row_payloads)?.unbind());
        Ok(())
    }

    /// Returns the row's payload, decoded once. `message` makes the record that an error carries.
    pub(crate) fn payload<'py>(
        &self,
        py: Python<'py>,
        row: usize,
        message: impl FnOnce() -> PyResult<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let absent = undecoded_sentinel(py)?;
        if self.payloads.get(py).is_none() {
            self.decoder(py)?;
        }
        let cache = self.payloads.get_or_try_init(py, || {
            PyList::new(py, std::iter::repeat_n(absent, self.count as usize)).map(Bound::unbind)
        })?;
        let (places, place) = (cache.bind(py), row.wrapping_sub(self.first as usize));
        let there = places.get_item(place)?;
        if !there.is(absent) {
            return Ok(there);
        }
        let payload =
            self.decode(self.decoder(py)?, row).map_err(|cause| self.decode_error(py, row, cause, message))?;
        // Another thread may have decoded the row meanwhile: all threads get the object that was stored first. Without
        // a GIL, the list is locked between the look and the store.
        with_critical_section(places.as_any(), || {
            let there = places.get_item(place)?;
            if !there.is(absent) {
                return Ok(there);
            }
            places.set_item(place, &payload)?;
            Ok(payload)
        })
    }

    /// Makes the `DecodeError` of a row. An exception that is no `Exception` (an interrupt, an exit) is returned
    /// unchanged. So is an exception that the route handles: a registry that is down says nothing about the record.
    pub(crate) fn decode_error(
        &self,
        py: Python<'_>,
        row: usize,
        cause: PyErr,
        message: impl FnOnce() -> PyResult<Py<PyAny>>,
    ) -> PyErr {
        if !cause.is_instance_of::<PyException>(py) || errors::is_reject_or_retry_later(py, &cause) {
            return cause;
        }
        match message() {
            Ok(message) => errors::decode_error(&self.topic_name, self.partition, self.offset_at(row), message, cause),
            Err(error) => error,
        }
    }
}

/// Returns a header's name. Kafka says that header names are UTF-8; other bytes are shown with backslashes, not
/// refused.
fn header_name<'py>(py: Python<'py>, key: &[u8]) -> Bound<'py, PyString> {
    match std::str::from_utf8(key) {
        Ok(name) => PyString::new(py, name),
        Err(_) => PyString::new(py, &key.escape_ascii().to_string()),
    }
}

/// Returns an object that no decoder can return.
fn undecoded_sentinel(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static ABSENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    ABSENT.get_or_try_init(py, || py.get_type::<PyAny>().call0().map(Bound::unbind)).map(|absent| absent.bind(py))
}

/// Row that an iteration handed out last. If the iteration had not ended, this is the record that failed.
///
/// An iteration ends at its last row, or when its iterator is dropped while no exception propagates (`break`). When an
/// exception propagates through the loop, the iterator is dropped, too, and the exception is recorded: a handler that
/// catches it and fails later, with another exception, did not fail at that row.
pub(crate) struct Cursor {
    row: AtomicU32,
    /// Address of the exception that ended the iteration; 0: none so far.
    cause: AtomicUsize,
}

impl Default for Cursor {
    fn default() -> Self {
        Self { row: AtomicU32::new(NO_ROW), cause: AtomicUsize::new(0) }
    }
}

// Iterations of one thread order all accesses. Threads that iterate over the same messages at once overwrite each
// other's row, with and without a GIL: the error of one of them may then be put down to a row of the other one.
impl Cursor {
    pub(crate) fn restart(&self) {
        self.cause.store(0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn advance_to(&self, row: u32) {
        self.row.store(row, Ordering::Relaxed);
    }

    pub(crate) fn clear(&self) {
        self.row.store(NO_ROW, Ordering::Relaxed);
    }

    /// Handles the drop of an iterator that had reached `row`, before its end.
    pub(crate) fn on_iterator_dropped(&self, py: Python<'_>, row: u32) {
        if self.row.load(Ordering::Relaxed) != row {
            return; // another iteration has handed out rows since
        }
        // A propagating exception was set by the frame that is being left. (A generator that is closed sees
        // GeneratorExit here, whether its user failed or only stopped: that says nothing.)
        match cpython::current_exception(py) {
            Some(error) if !error.is_instance_of::<PyGeneratorExit>() => {
                self.cause.store(error.as_ptr() as usize, Ordering::Relaxed);
            }
            _ => self.clear(),
        }
    }

    /// Returns the row at which `error` was raised, as far as iterations know.
    pub(crate) fn failed_row(&self, error: Option<&Bound<'_, PyAny>>) -> Option<usize> {
        let row = self.row.load(Ordering::Relaxed);
        let cause = self.cause.load(Ordering::Relaxed);
        let is_known = row != NO_ROW && error.is_none_or(|error| cause == 0 || is_chained_from(error, cause));
        is_known.then_some(row as usize)
    }
}

/// Returns whether `error` is the exception at this address, or was raised from it or while handling it.
fn is_chained_from(error: &Bound<'_, PyAny>, cause: usize) -> bool {
    const MAX_CHAIN_LENGTH: usize = 64; // chains may have cycles
    let mut open = vec![error.clone()];
    for _ in 0..MAX_CHAIN_LENGTH {
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
