//! Span that is being written.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grete_trace::{Link, LocalTrace, Span as Core, SpanContext as Place};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};

use super::context::SpanContext;
use super::current;

/// From here on, floats do not hold all integers exactly: larger integers are written as text.
const MAX_EXACT_INT: u64 = 1 << 53;

/// Unit of work that is under way, or finished.
#[pyclass(frozen, weakref, module = "grete._native")]
pub(crate) struct Span {
    pub(super) trace: Arc<LocalTrace>,
    #[pyo3(get)]
    pub(super) span_id: u64,
    #[pyo3(get)]
    parent_id: u64,
    state: Mutex<State>,
}

struct State {
    /// `None` once the span is finished.
    span: Option<Core>,
    /// Token that restores the previous current span; set inside `with`.
    token: Option<Py<PyAny>>,
}

impl Span {
    pub(super) fn new(trace: Arc<LocalTrace>, mut span: Core, parent_id: u64) -> Self {
        trace.start_span(&mut span, parent_id);
        let span_id = span.span_id;
        Self { trace, span_id, parent_id, state: Mutex::new(State { span: Some(span), token: None }) }
    }

    /// Locks the state for a few instructions that call no Python, so no thread waits for the GIL with the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Core)) {
        if let Some(span) = &mut self.lock().span {
            change(span);
        }
    }

    pub(super) fn finish_once(&self) {
        let span = self.lock().span.take();
        if let Some(span) = span {
            self.trace.finish_span(span);
        }
    }

    pub(super) fn to_context(&self) -> Place {
        self.trace.context(self.span_id)
    }
}

#[pymethods]
impl Span {
    #[getter]
    fn trace_id(&self) -> u128 {
        self.trace.id()
    }

    #[getter]
    fn finished(&self) -> bool {
        self.lock().span.is_none()
    }

    #[getter]
    fn context(&self) -> SpanContext {
        SpanContext { context: self.to_context() }
    }

    fn set_tag(&self, key: &Bound<'_, PyString>, value: &Bound<'_, PyAny>) {
        let key = to_utf8(key);
        if let Ok(value) = value.cast::<PyString>() {
            let value = to_utf8(value);
            self.update(|span| span.set_tag(&key, &value));
        } else if let Some(number) = to_exact_int(value) {
            self.update(|span| span.set_i64(&key, number));
        } else if let Ok(number) = value.cast::<PyFloat>() {
            let number = number.value();
            self.update(|span| span.set_metric(&key, number));
        } else if let Ok(value) = value.cast::<PyBool>() {
            let value = if value.is_true() { "true" } else { "false" };
            self.update(|span| span.set_tag(&key, value));
        } else {
            let value = str_or_type_name(value);
            self.update(|span| span.set_tag(&key, &value));
        }
    }

    fn set_metric(&self, key: &Bound<'_, PyString>, value: f64) {
        let key = to_utf8(key);
        self.update(|span| span.set_metric(&key, value));
    }

    fn set_resource(&self, resource: &Bound<'_, PyString>) {
        let resource = to_utf8(resource);
        self.update(|span| span.set_resource(&resource));
    }

    #[pyo3(signature = (error=None))]
    pub(super) fn set_error(&self, error: Option<&Bound<'_, PyAny>>) {
        let error_tags = error.map(describe_error);
        self.update(|span| {
            span.error = true;
            if let Some([class, message, stack]) = &error_tags {
                span.set_tag("error.type", class);
                span.set_tag("error.message", message);
                span.set_tag("error.stack", stack);
            }
        });
    }

    #[pyo3(signature = (target, attributes=None))]
    fn link(&self, target: &Bound<'_, PyAny>, attributes: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let place = extract_context(target)?;
        // A copy: `str` of a key or a value may change the dict.
        let attributes = attributes.into_iter().flat_map(|attributes| attributes.items().iter());
        let attributes = attributes.map(|pair| {
            let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
            Ok((str_or_type_name(&key).into(), str_or_type_name(&value).into()))
        });
        let attributes = attributes.collect::<PyResult<_>>()?;
        self.update(|span| span.add_link(Link { attributes, ..Link::from(place) }));
        Ok(())
    }

    fn finish(&self) {
        self.finish_once();
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        let token = current::set(slf.py(), slf)?;
        let before = slf.get().lock().token.replace(token);
        drop(before); // may run Python: without the lock
        Ok(slf.clone())
    }

    #[pyo3(signature = (class, error, traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        class: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _ = (class, traceback);
        let token = self.lock().token.take();
        if !error.is_none() {
            self.set_error(Some(error));
        }
        self.finish_once();
        token.map_or(Ok(()), |token| current::reset(py, &token))
    }

    fn __repr__(&self) -> String {
        let (id, state) = (self.trace.id(), self.lock());
        let name = state.span.as_ref().map_or("finished", Core::name);
        format!("<Span {name:?} trace_id={id:032x} span_id={:016x}>", self.span_id)
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.span.take().is_some() {
            self.trace.discard();
        }
    }
}

/// Returns the context of a `Span` or a `SpanContext`.
pub(super) fn extract_context(target: &Bound<'_, PyAny>) -> PyResult<Place> {
    if let Ok(span) = target.cast::<Span>() {
        return Ok(span.get().to_context());
    }
    match target.cast::<SpanContext>() {
        Ok(context) => Ok(context.get().context.clone()),
        Err(_) => {
            let kind = target.get_type().name()?;
            Err(PyTypeError::new_err(format!("a Span or a SpanContext is expected, not {kind}")))
        }
    }
}

/// Returns an integer that a float holds exactly; `None` for bools and other values.
fn to_exact_int(value: &Bound<'_, PyAny>) -> Option<i64> {
    let int = value.cast::<PyInt>().ok().filter(|int| !int.is_instance_of::<PyBool>())?;
    int.extract::<i64>().ok().filter(|&int| is_exact(int))
}

/// Returns whether a float holds `int` exactly.
pub(super) fn is_exact(int: i64) -> bool {
    int.unsigned_abs() < MAX_EXACT_INT
}

/// Returns the class of an exception, its message and its traceback.
fn describe_error(error: &Bound<'_, PyAny>) -> [String; 3] {
    let class = error.get_type();
    let name = class.fully_qualified_name().map_or_else(|_| "?".into(), |name| to_utf8(&name).into_owned());
    let stack = || -> PyResult<String> {
        let lines = error.py().import("traceback")?.call_method1("format_exception", (error,))?;
        let lines: Vec<Bound<'_, PyString>> = lines.extract()?;
        Ok(lines.iter().map(|line| to_utf8(line).into_owned()).collect())
    };
    [name, str_or_type_name(error), stack().unwrap_or_default()]
}

/// Returns valid text without a copy. Lone surrogates are replaced, because a trace must not fail for them.
pub(super) fn to_utf8<'a>(string: &'a Bound<'_, PyString>) -> Cow<'a, str> {
    string.to_str().map_or_else(|_| string.to_string_lossy(), Cow::Borrowed)
}

/// Returns `str(object)`; if that fails, the name of the type.
fn str_or_type_name(object: &Bound<'_, PyAny>) -> String {
    match object.str() {
        Ok(string) => to_utf8(&string).into_owned(),
        Err(_) => object.get_type().name().map_or_else(|_| "?".into(), |name| format!("<{name} without str()>")),
    }
}
