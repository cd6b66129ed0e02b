//! The span that is current in this context: this task's of asyncio, or this thread's.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use super::span::Span;
use crate::calls;

static VARIABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

fn variable(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    let make = || {
        let keywords = PyDict::new(py);
        keywords.set_item("default", py.None())?;
        let class = py.import("contextvars")?.getattr("ContextVar")?;
        class.call(("grete_span",), Some(&keywords)).map(Bound::unbind)
    };
    Ok(VARIABLE.get_or_try_init(py, make)?.bind(py))
}

pub(super) fn get(py: Python<'_>) -> PyResult<Option<Bound<'_, Span>>> {
    let current = calls::context_value(variable(py)?)?;
    Ok(current.and_then(|current| current.cast_into::<Span>().ok()))
}

/// Returns the token that [`reset`] is to be given.
pub(super) fn set<'py>(py: Python<'py>, span: &Bound<'py, Span>) -> PyResult<Py<PyAny>> {
    calls::set_context_value(variable(py)?, span).map(Bound::unbind)
}

/// A generator may end in another context than it began in: then there is nothing to be set back.
pub(super) fn reset(py: Python<'_>, token: &Py<PyAny>) -> PyResult<()> {
    match calls::reset_context_value(variable(py)?, token.bind(py)) {
        Err(error) if !error.is_instance_of::<PyValueError>(py) => Err(error),
        _ => Ok(()),
    }
}
