//! The span that is current in this context: this task's of asyncio, or this thread's.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use super::span::Span;

/// The methods of one `ContextVar`, bound.
struct Current {
    get: Py<PyAny>,
    set: Py<PyAny>,
    reset: Py<PyAny>,
}

static CURRENT: PyOnceLock<Current> = PyOnceLock::new();

fn current(py: Python<'_>) -> PyResult<&Current> {
    CURRENT.get_or_try_init(py, || {
        let keywords = PyDict::new(py);
        keywords.set_item("default", py.None())?;
        let variable = py.import("contextvars")?.getattr("ContextVar")?.call(("grete_span",), Some(&keywords))?;
        let method = |name: &str| variable.getattr(name).map(Bound::unbind);
        Ok(Current { get: method("get")?, set: method("set")?, reset: method("reset")? })
    })
}

pub(super) fn get(py: Python<'_>) -> PyResult<Option<Bound<'_, Span>>> {
    let current = current(py)?.get.bind(py).call0()?;
    Ok(current.cast_into::<Span>().ok())
}

/// Returns the token that [`reset`] is to be given.
pub(super) fn set<'py>(py: Python<'py>, span: &Bound<'py, Span>) -> PyResult<Py<PyAny>> {
    Ok(crate::calls::one(current(py)?.set.bind(py), span.as_any())?.unbind())
}

/// A generator may end in another context than it began in: then there is nothing to be set back.
pub(super) fn reset(py: Python<'_>, token: &Py<PyAny>) -> PyResult<()> {
    match crate::calls::one(current(py)?.reset.bind(py), token.bind(py)) {
        Err(error) if !error.is_instance_of::<PyValueError>(py) => Err(error),
        _ => Ok(()),
    }
}
