//! Column of i64 exported as a buffer.

use std::ffi::c_int;
use std::ops::{Deref, Range};
use std::sync::Arc;

use grete_client::PooledColumns;
use grete_wire::records::Columns;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::ffi::buffers;
use crate::ffi::fork_guarded::ForkGuarded;

/// Columns that an object outside of `Messages` keeps: an Arrow consumer, a memoryview.
pub(crate) struct ExportedColumns(ForkGuarded<Arc<PooledColumns>>);

impl ExportedColumns {
    pub(crate) fn new(columns: &Arc<PooledColumns>) -> Self {
        Self(ForkGuarded::new(Arc::clone(columns)))
    }
}

impl Deref for ExportedColumns {
    type Target = Columns;
    fn deref(&self) -> &Columns {
        self.0.get_unguarded()
    }
}

/// Selects one of the i64 columns.
#[derive(Clone, Copy)]
pub(crate) enum ColumnKind {
    Offsets,
    Timestamps,
}

/// Owner of the buffer behind `Messages.offsets` and `Messages.timestamps`.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct Int64Column {
    columns: ExportedColumns,
    which: ColumnKind,
    rows: Range<usize>,
    shape: isize,
    strides: isize,
}

impl Int64Column {
    pub(crate) fn new(columns: &Arc<PooledColumns>, which: ColumnKind, rows: Range<usize>) -> Self {
        Self { columns: ExportedColumns::new(columns), which, shape: rows.len().cast_signed(), strides: 8, rows }
    }
}

#[pymethods]
impl Int64Column {
    #[allow(unsafe_code)]
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.get();
        let column = match this.which {
            ColumnKind::Offsets => &this.columns.offsets,
            ColumnKind::Timestamps => &this.columns.timestamps,
        };
        let data = column.get(this.rows.clone()).unwrap_or_default();
        // SAFETY: `view` comes from CPython; a frozen pyclass does not move, and it owns the columns.
        unsafe { buffers::export_i64_buffer(slf.as_any().clone(), data, &this.shape, &this.strides, view, flags) }
    }
}
