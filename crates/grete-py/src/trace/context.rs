//! Context of a span of another process, read from headers.

use grete_trace::SpanContext as Core;
use pyo3::prelude::*;

/// Trace and span id of a span of another process.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct SpanContext {
    pub(super) context: Core,
}

#[pymethods]
impl SpanContext {
    #[getter]
    fn trace_id(&self) -> u128 {
        self.context.trace_id
    }

    #[getter]
    fn span_id(&self) -> u64 {
        self.context.span_id
    }

    #[getter]
    fn priority(&self) -> Option<i32> {
        self.context.priority
    }

    #[getter]
    fn origin(&self) -> &str {
        &self.context.origin
    }

    fn __repr__(&self) -> String {
        let Core { trace_id, span_id, .. } = &self.context;
        format!("<SpanContext trace_id={trace_id:032x} span_id={span_id:016x}>")
    }
}
