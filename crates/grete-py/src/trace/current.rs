//! Current span of this context: of an asyncio task, or of a thread.

use pyo3::PyTypeCheck;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::ffi::cpython;

static VARIABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

fn context_var(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    let make = || {
        let keywords = PyDict::new(py);
        keywords.set_item("default", py.None())?;
        let class = py.import("contextvars")?.getattr("ContextVar")?;
        class.call(("grete_span",), Some(&keywords)).map(Bound::unbind)
    };
    Ok(VARIABLE.get_or_try_init(py, make)?.bind(py))
}

/// Returns the current span; `None`: there is none.
pub(super) fn get<T: PyTypeCheck>(py: Python<'_>) -> PyResult<Option<Bound<'_, T>>> {
    let current = cpython::context_value(context_var(py)?)?;
    Ok(current.and_then(|current| current.cast_into::<T>().ok()))
}

/// Makes `span` the current span. Returns the token for [`reset`].
pub(super) fn set<'py>(py: Python<'py>, span: &Bound<'py, PyAny>) -> PyResult<Py<PyAny>> {
    cpython::set_context_value(context_var(py)?, span).map(Bound::unbind)
}

/// Restores the span that was current before the call that returned the token. A generator may end in another context
/// than it began in: then there is nothing to restore.
pub(super) fn reset(py: Python<'_>, token: &Py<PyAny>) -> PyResult<()> {
    match cpython::reset_context_value(context_var(py)?, token.bind(py)) {
        Err(error) if !error.is_instance_of::<PyValueError>(py) => Err(error),
        _ => Ok(()),
    }
}
