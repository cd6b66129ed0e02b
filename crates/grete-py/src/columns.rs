//! A column of i64 as a buffer.

use std::ffi::c_int;
use std::ops::{Deref, Range};
use std::sync::Arc;

use grete_client::PooledColumns;
use grete_wire::records::Columns;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::buffers;
use crate::handle::Handle;

/// Columns that something outside of `Messages` holds on to: an Arrow consumer, a memoryview.
pub(crate) struct Lent(Handle<Arc<PooledColumns>>);

impl Lent {
    pub(crate) fn new(columns: &Arc<PooledColumns>) -> Self {
        Self(Handle::new(Arc::clone(columns)))
    }
}

impl Deref for Lent {
    type Target = Columns;
    fn deref(&self) -> &Columns {
        self.0.memory()
    }
}

/// Which of the i64 columns.
#[derive(Clone, Copy)]
pub(crate) enum Which {
    Offsets,
    Timestamps,
}

/// The owner behind `Messages.offsets` and `Messages.timestamps`.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct Int64Column {
    columns: Lent,
    which: Which,
    rows: Range<usize>,
    shape: isize,
    strides: isize,
}

impl Int64Column {
    pub(crate) fn new(columns: &Arc<PooledColumns>, which: Which, rows: Range<usize>) -> Self {
        Self { columns: Lent::new(columns), which, shape: rows.len().cast_signed(), strides: 8, rows }
    }
}

#[pymethods]
impl Int64Column {
    #[allow(unsafe_code)]
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.get();
        let column = match this.which {
            Which::Offsets => &this.columns.offsets,
            Which::Timestamps => &this.columns.timestamps,
        };
        let data = column.get(this.rows.clone()).unwrap_or_default();
        // SAFETY: `view` comes from CPython; a frozen pyclass does not move, and it owns the columns.
        unsafe { buffers::lend_i64(slf.as_any().clone(), data, &this.shape, &this.strides, view, flags) }
    }
}
