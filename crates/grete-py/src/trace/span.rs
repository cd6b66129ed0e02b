//! A span that is being written.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grete_trace::{Link, Span as Core, SpanContext as Place, Trace};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};

use super::context::SpanContext;
use super::current;
use super::text::{display, text};

/// From here on, floats do not hold whole numbers exactly: such are written as text.
const LARGEST_EXACT: u64 = 1 << 53;

/// A piece of work that is under way, or finished.
#[pyclass(frozen, weakref, module = "grete._core")]
pub(crate) struct Span {
    pub(super) trace: Arc<Trace>,
    pub(super) span_id: u64,
    parent_id: u64,
    state: Mutex<State>,
}

struct State {
    /// None once it is finished.
    span: Option<Core>,
    /// What sets the current span back, inside of `with`.
    token: Option<Py<PyAny>>,
}

impl Span {
    pub(super) fn new(trace: Arc<Trace>, mut span: Core, parent_id: u64) -> Self {
        trace.open(&mut span, parent_id);
        let span_id = span.span_id;
        Self { trace, span_id, parent_id, state: Mutex::new(State { span: Some(span), token: None }) }
    }

    /// Held for a few instructions that call no Python, so that nobody waits for the GIL with it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Core)) {
        if let Some(span) = &mut self.lock().span {
            change(span);
        }
    }

    pub(super) fn end(&self) {
        let span = self.lock().span.take();
        if let Some(span) = span {
            self.trace.finish(span);
        }
    }

    pub(super) fn place(&self) -> Place {
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
    fn span_id(&self) -> u64 {
        self.span_id
    }

    #[getter]
    fn parent_id(&self) -> u64 {
        self.parent_id
    }

    #[getter]
    fn finished(&self) -> bool {
        self.lock().span.is_none()
    }

    #[getter]
    fn context(&self) -> SpanContext {
        SpanContext { context: self.place() }
    }

    fn set_tag(&self, key: &Bound<'_, PyString>, value: &Bound<'_, PyAny>) {
        let key = text(key);
        if let Ok(value) = value.cast::<PyString>() {
            let value = text(value);
            self.change(|span| span.set_tag(&key, &value));
        } else if let Some(number) = whole(value) {
            self.change(|span| span.set_whole(&key, number));
        } else if let Ok(number) = value.cast::<PyFloat>() {
            let number = number.value();
            self.change(|span| span.set_metric(&key, number));
        } else if let Ok(value) = value.cast::<PyBool>() {
            let value = if value.is_true() { "true" } else { "false" };
            self.change(|span| span.set_tag(&key, value));
        } else {
            let value = display(value);
            self.change(|span| span.set_tag(&key, &value));
        }
    }

    fn set_metric(&self, key: &Bound<'_, PyString>, value: f64) {
        let key = text(key);
        self.change(|span| span.set_metric(&key, value));
    }

    fn set_resource(&self, resource: &Bound<'_, PyString>) {
        let resource = text(resource);
        self.change(|span| span.set_resource(&resource));
    }

    #[pyo3(signature = (error=None))]
    pub(super) fn set_error(&self, error: Option<&Bound<'_, PyAny>>) {
        let told = error.map(tell);
        self.change(|span| {
            span.error = true;
            if let Some([class, message, stack]) = &told {
                span.set_tag("error.type", class);
                span.set_tag("error.message", message);
                span.set_tag("error.stack", stack);
            }
        });
    }

    #[pyo3(signature = (target, attributes=None))]
    fn link(&self, target: &Bound<'_, PyAny>, attributes: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let place = place(target)?;
        let attributes = attributes.into_iter().flatten();
        let attributes = attributes.map(|(key, value)| (display(&key).into(), display(&value).into())).collect();
        self.change(|span| span.add_link(Link { attributes, ..Link::from(place) }));
        Ok(())
    }

    fn finish(&self) {
        self.end();
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
        self.end();
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
            self.trace.abandon();
        }
    }
}

/// The place of a span, or of what came in headers.
pub(super) fn place(target: &Bound<'_, PyAny>) -> PyResult<Place> {
    if let Ok(span) = target.cast::<Span>() {
        return Ok(span.get().place());
    }
    match target.cast::<SpanContext>() {
        Ok(context) => Ok(context.get().context.clone()),
        Err(_) => {
            let kind = target.get_type().name()?;
            Err(PyTypeError::new_err(format!("a Span or a SpanContext is wanted here, not {kind}")))
        }
    }
}

/// A whole number that a float holds exactly, too; no bool.
fn whole(value: &Bound<'_, PyAny>) -> Option<i64> {
    let int = value.cast::<PyInt>().ok().filter(|int| !int.is_instance_of::<PyBool>())?;
    int.extract::<i64>().ok().filter(|&int| is_exact(int))
}

/// Whether a float holds it, too.
pub(super) fn is_exact(int: i64) -> bool {
    int.unsigned_abs() < LARGEST_EXACT
}

/// The class of an exception, what it says, and where it came from.
fn tell(error: &Bound<'_, PyAny>) -> [String; 3] {
    let class = error.get_type();
    let name = class.fully_qualified_name().map_or_else(|_| "?".into(), |name| text(&name).into_owned());
    let stack = || -> PyResult<String> {
        let lines = error.py().import("traceback")?.call_method1("format_exception", (error,))?;
        let lines: Vec<Bound<'_, PyString>> = lines.extract()?;
        Ok(lines.iter().map(|line| text(line).into_owned()).collect())
    };
    [name, display(error), stack().unwrap_or_default()]
}
