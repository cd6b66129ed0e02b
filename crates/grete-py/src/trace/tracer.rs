//! Tracer: begins spans and reads and writes trace headers.

use std::sync::Arc;
use std::time::Duration;

use grete_trace::{AgentEndpoint, Config, Format, HEADERS, LocalTrace, Span as Core};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyEllipsis, PyList, PyString, PyTuple};

use super::context::SpanContext;
use super::current;
use super::job_spans::OpenJobSpans;
use super::span::{self, Span, to_utf8};
use crate::errors;
use crate::event::Event;

/// Longest wait in seconds: one day.
const MAX_WAIT: f64 = 86_400.0;
/// Ports of URLs without one, by the defaults of each protocol.
const DATADOG_AGENT_PORT: u16 = 8126;
const OTLP_COLLECTOR_PORT: u16 = 80;

/// Begins spans, and has a thread that sends them to a Datadog agent or to an OpenTelemetry collector.
#[pyclass(subclass, frozen, module = "grete._native")]
pub(crate) struct Tracer {
    tracer: Arc<grete_trace::Tracer>,
    handling: OpenJobSpans,
}

/// Parent of a new span.
enum Parent<'py> {
    Current,
    None,
    Explicit(Bound<'py, PyAny>),
}

impl<'py> FromPyObject<'_, 'py> for Parent<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if object.is_none() {
            return Ok(Self::None);
        }
        if object.is_instance_of::<PyEllipsis>() {
            return Ok(Self::Current);
        }
        Ok(Self::Explicit(object.to_owned()))
    }
}

#[pymethods]
impl Tracer {
    #[new]
    #[pyo3(signature = (
        service, env, version, agent, path, headers, resource, language, max_spans, max_bytes, interval, timeout
    ))]
    #[expect(clippy::too_many_arguments, reason = "one place calls it, by keywords")]
    fn new(
        service: &str,
        env: &str,
        version: &str,
        agent: &str,
        path: Option<&str>,
        headers: Vec<(String, String)>,
        resource: Option<Vec<(String, String)>>,
        language: (String, String),
        max_spans: usize,
        max_bytes: usize,
        interval: f64,
        timeout: f64,
    ) -> PyResult<Self> {
        let port = if resource.is_some() { OTLP_COLLECTOR_PORT } else { DATADOG_AGENT_PORT };
        let agent =
            AgentEndpoint::from_url(agent, port).map_err(|error| errors::tracer("agent", &error.to_string()))?;
        let mut config = Config::new(service, agent);
        if let Some(resource) = resource {
            config.format = Format::Otlp { resource: to_boxed_pairs(resource) };
        }
        if let Some(path) = path {
            config.path = path.into();
        }
        config.headers = to_boxed_pairs(headers);
        config.env = env.into();
        config.version = version.into();
        config.language = (language.0.into(), language.1.into());
        config.max_spans = max_spans;
        config.max_bytes = max_bytes;
        config.interval = parse_interval("interval", interval)?;
        config.timeout = parse_interval("timeout", timeout)?;
        Ok(Self { tracer: Arc::new(grete_trace::Tracer::new(config)), handling: OpenJobSpans::default() })
    }

    #[pyo3(signature = (name, *, resource=None, service=None, span_type=None, parent=Parent::Current))]
    fn start(
        &self,
        py: Python<'_>,
        name: &Bound<'_, PyString>,
        resource: Option<&Bound<'_, PyString>>,
        service: Option<&Bound<'_, PyString>>,
        span_type: Option<&Bound<'_, PyString>>,
        parent: Parent<'_>,
    ) -> PyResult<Span> {
        let service = service.map(to_utf8);
        let service = service.as_deref().filter(|service| !service.is_empty());
        let (trace, parent_id) = self.start_or_join_trace(py, service, parent)?;
        let (resource, kind) = (resource.map(to_utf8), span_type.map(to_utf8));
        let own = Arc::clone(trace.service());
        let mut span = Core::new(own, &to_utf8(name), resource.as_deref(), kind.as_deref().unwrap_or_default());
        if let Some(service) = service {
            span.set_service(service);
        }
        Ok(Span::new(trace, span, parent_id))
    }

    #[staticmethod]
    fn current(py: Python<'_>) -> PyResult<Option<Bound<'_, Span>>> {
        current::get(py)
    }

    fn extract(&self, headers: &Bound<'_, PyAny>) -> PyResult<Option<SpanContext>> {
        let items = match headers.hasattr("items")? {
            true => headers.call_method0("items")?,
            false => headers.clone(),
        };
        let mut values: [Option<Bound<'_, PyAny>>; HEADERS.len()] = Default::default();
        for item in items.try_iter()? {
            let item = item?;
            let Ok(pair) = item.cast::<PyTuple>() else { continue };
            let (Ok(key), Ok(value)) = (pair.get_item(0), pair.get_item(1)) else { continue };
            let Ok(key) = key.cast::<PyString>() else { continue };
            let index =
                key.to_str().ok().and_then(|key| HEADERS.iter().position(|name| name.eq_ignore_ascii_case(key)));
            // The last value of a repeated header counts, because producers append theirs.
            if let Some(place) = index.and_then(|index| values.get_mut(index)).filter(|_| !value.is_none()) {
                *place = Some(value);
            }
        }
        let bytes = values.each_ref().map(|value| value.as_ref().map(header_bytes));
        let found = grete_trace::extract(bytes);
        self.tracer.count_broken_headers(found.broken);
        Ok(found.context.map(|context| SpanContext { context }))
    }

    #[pyo3(signature = (span=None))]
    fn headers<'py>(&self, py: Python<'py>, span: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyList>> {
        let context = match span {
            Some(span) => Some(span::extract_context(span)?),
            None => current::get::<Span>(py)?.map(|span| span.get().to_context()),
        };
        let headers = context.as_ref().map(grete_trace::inject).unwrap_or_default();
        PyList::new(py, headers.into_iter().map(|(name, value)| (name, PyBytes::new(py, value.as_bytes()))))
    }

    fn on_job_started(&self, py: Python<'_>, occurred: &Bound<'_, Event>) -> PyResult<()> {
        self.handling.begin_job(&self.tracer, py, occurred.get())
    }

    fn on_job_finished(&self, py: Python<'_>, occurred: &Bound<'_, Event>) -> PyResult<()> {
        self.handling.end_job(py, occurred.get())
    }

    fn _begin_message(&self, py: Python<'_>, occurred: &Bound<'_, Event>) -> PyResult<()> {
        self.handling.begin_message(&self.tracer, py, occurred.get())
    }

    fn _end_message(&self, py: Python<'_>, occurred: &Bound<'_, Event>) -> PyResult<()> {
        self.handling.end_message(py, occurred.get())
    }

    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = py.detach(|| self.tracer.statistics());
        let dropped = PyDict::new(py);
        for (reason, count) in counters.dropped {
            dropped.set_item(reason.name(), count)?;
        }
        let statistics = PyDict::new(py);
        statistics.set_item("started", counters.started)?;
        statistics.set_item("finished", counters.finished)?;
        statistics.set_item("abandoned", counters.abandoned)?;
        statistics.set_item("cut", counters.truncated)?;
        statistics.set_item("sent", counters.sent)?;
        statistics.set_item("payloads", counters.payloads)?;
        statistics.set_item("bytes", counters.bytes)?;
        statistics.set_item("retried", counters.retried)?;
        statistics.set_item("dropped", dropped)?;
        statistics.set_item("broken_headers", counters.broken_headers)?;
        statistics.set_item("waiting", counters.pending_spans)?;
        statistics.set_item("waiting_bytes", counters.pending_bytes)?;
        Ok(statistics)
    }

    #[pyo3(signature = (timeout=5.0))]
    fn flush(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        let timeout = parse_timeout(timeout)?;
        Ok(py.detach(|| self.tracer.flush(timeout)))
    }

    #[pyo3(signature = (timeout=5.0))]
    fn close(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        let timeout = parse_timeout(timeout)?;
        Ok(py.detach(|| self.tracer.close(timeout)))
    }
}

impl Tracer {
    fn start_or_join_trace(
        &self,
        py: Python<'_>,
        service: Option<&str>,
        parent: Parent<'_>,
    ) -> PyResult<(Arc<LocalTrace>, u64)> {
        let join_trace = |span: &Span| self.tracer.trace(service, Some((&span.trace, span.span_id)));
        Ok(match parent {
            Parent::None => self.tracer.trace(service, None),
            Parent::Current => match current::get::<Span>(py)? {
                Some(span) => join_trace(span.get()),
                None => self.tracer.trace(service, None),
            },
            Parent::Explicit(parent) => match parent.cast::<Span>() {
                Ok(span) => join_trace(span.get()),
                Err(_) => self.tracer.continue_trace(service, span::extract_context(&parent)?),
            },
        })
    }
}

/// Returns the bytes of a header's value. A value that is not text becomes invalid bytes, and is counted as a header
/// that could not be parsed.
fn header_bytes<'a>(value: &'a Bound<'_, PyAny>) -> &'a [u8] {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return bytes.as_bytes();
    }
    value.cast::<PyString>().ok().and_then(|text| text.to_str().ok()).map_or(b"\xff", str::as_bytes)
}

fn to_boxed_pairs(pairs: Vec<(String, String)>) -> Box<[(Box<str>, Box<str>)]> {
    pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
}

fn parse_interval(setting: &str, value: f64) -> PyResult<Duration> {
    if (0.01..=60.0).contains(&value) {
        return Ok(Duration::from_secs_f64(value));
    }
    Err(errors::tracer(setting, &format!("{setting}={value} is out of range: give seconds from 0.01 to 60")))
}

fn parse_timeout(timeout: f64) -> PyResult<Duration> {
    if timeout.is_nan() || timeout < 0.0 {
        return Err(PyValueError::new_err(format!("timeout is a number of seconds from 0 on, not {timeout}")));
    }
    Ok(Duration::from_secs_f64(timeout.min(MAX_WAIT)))
}
