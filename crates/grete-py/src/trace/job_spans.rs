//! Spans of jobs and of single records, begun and finished by the events around handlers.
//!
//! Both events are emitted in the thread, and in the context, that the handler runs in. So a span that is current
//! between them is also current inside the handler, and in everything that the handler awaits.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use grete_trace::{Format, Link, LocalTrace, Span as Core};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::current;
use super::remote_parents;
use super::span::{Span, to_utf8};
use crate::consumer::message::Message;
use crate::consumer::messages::Messages;
use crate::errors;
use crate::event::Event;

/// Most links of a job's span to spans that sent its records.
const MAX_LINKS: usize = 128;

/// Spans begun by an event and not yet finished, keyed by the address of their `Messages` or `Message`. Two live
/// objects never have the same address.
///
/// A listener that unsubscribes between the two events leaves its span here, until another object has that address.
#[derive(Default)]
pub(super) struct OpenJobSpans {
    open: Mutex<HashMap<usize, OpenSpan>>,
}

struct OpenSpan {
    span: Py<Span>,
    /// Token that restores the previous current span.
    token: Py<PyAny>,
}

impl OpenJobSpans {
    /// Locks the table for a few instructions that call no Python, so no thread waits for the GIL with the lock.
    fn lock(&self) -> MutexGuard<'_, HashMap<usize, OpenSpan>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_span<T>(&self, about: &Bound<'_, T>, span: Span) -> PyResult<()> {
        let span = Bound::new(about.py(), span)?;
        let token = current::set(about.py(), &span)?;
        let before = self.lock().insert(about.as_ptr() as usize, OpenSpan { span: span.unbind(), token });
        drop(before); // may run Python: without the lock
        Ok(())
    }

    /// Begins the span of a job that is about to run.
    pub(super) fn begin_job(&self, tracer: &grete_trace::Tracer, py: Python<'_>, occurred: &Event) -> PyResult<()> {
        let messages = field::<Messages>(py, occurred, intern!(py, "messages"))?;
        let (count, mut parents) =
            (messages.get().range().len(), remote_parents::from_messages(messages.get(), MAX_LINKS));
        tracer.count_broken_headers(parents.invalid_headers);
        // One record continues the trace of its sender. A batch has many senders, so its span joins none of their
        // traces.
        let sender = if count == 1 { parents.contexts.pop() } else { None };
        let (trace, parent_id) = match sender {
            Some(sender) => tracer.continue_trace(None, sender),
            None => tracer.trace(None, None),
        };
        let mut span = start_span(py, tracer, &trace, &JOB, occurred)?;
        let group = field::<PyString>(py, occurred, intern!(py, "group"))?;
        span.set_tag("messaging.consumer.group.name", &to_utf8(&group));
        set_int(&mut span, "messaging.batch.message_count", i64::try_from(count).unwrap_or(i64::MAX));
        set_int(&mut span, "messaging.kafka.first_offset", occurred.field(py, intern!(py, "first_offset"))?.extract()?);
        set_int(&mut span, "messaging.kafka.last_offset", occurred.field(py, intern!(py, "last_offset"))?.extract()?);
        set_int(&mut span, "grete.attempt", occurred.field(py, intern!(py, "attempt"))?.extract()?);
        if parents.omitted > 0 {
            set_int(&mut span, "grete.unlinked", i64::try_from(parents.omitted).unwrap_or(i64::MAX));
        }
        parents.contexts.into_iter().for_each(|sender| span.add_link(Link::from(sender)));
        self.open_span(&messages, Span::new(trace, span, parent_id))
    }

    /// Finishes the span of a job.
    pub(super) fn end_job(&self, py: Python<'_>, occurred: &Event) -> PyResult<()> {
        self.close_span(&field::<Messages>(py, occurred, intern!(py, "messages"))?, occurred)
    }

    /// Begins the span of one record of a job, as a child of the current span.
    pub(super) fn begin_message(&self, tracer: &grete_trace::Tracer, py: Python<'_>, occurred: &Event) -> PyResult<()> {
        let message = field::<Message>(py, occurred, intern!(py, "message"))?;
        let job = current::get::<Span>(py)?;
        let job = job.as_ref().map(|span| span.get());
        let (trace, parent_id) = tracer.trace(None, job.map(|span| (&span.trace, span.span_id)));
        let mut span = start_span(py, tracer, &trace, &RECORD, occurred)?;
        set_int(&mut span, "messaging.kafka.offset", message.get().offset());
        // The job's span has counted the invalid headers.
        let (sender, _) = remote_parents::from_row(message.get().batch.get(), message.get().row());
        if let Some(sender) = sender.filter(|sender| sender.trace_id != trace.id()) {
            span.add_link(Link::from(sender));
        }
        self.open_span(&message, Span::new(trace, span, parent_id))
    }

    /// Finishes the span of one record.
    pub(super) fn end_message(&self, py: Python<'_>, occurred: &Event) -> PyResult<()> {
        self.close_span(&field::<Message>(py, occurred, intern!(py, "message"))?, occurred)
    }

    fn close_span<T>(&self, about: &Bound<'_, T>, occurred: &Event) -> PyResult<()> {
        let py = about.py();
        let open = self.lock().remove(&(about.as_ptr() as usize));
        // A listener that subscribes while a handler runs gets only the event of its end.
        let Some(OpenSpan { span, token }) = open else { return Ok(()) };
        let span = span.bind(py).get();
        let error = occurred.field(py, intern!(py, "error"))?;
        match errors::retry_later_delay(&error) {
            Some(delay) => span.update(|span| span.set_metric("grete.retry_later", delay)),
            None if error.is_none() => {}
            None => span.set_error(Some(&error)),
        }
        span.finish_once();
        current::reset(py, &token)
    }
}

/// Names of one kind of span.
struct SpanNaming {
    datadog: &'static str,
    /// Operation by OpenTelemetry's messaging conventions; the span's name appends the topic.
    operation: &'static str,
}

const JOB: SpanNaming = SpanNaming { datadog: "kafka.consume", operation: "process" };
const RECORD: SpanNaming = SpanNaming { datadog: "kafka.process", operation: "handle" };

/// Starts a span with the tags that spans of jobs and of records share.
fn start_span(
    py: Python<'_>,
    tracer: &grete_trace::Tracer,
    trace: &LocalTrace,
    named: &SpanNaming,
    occurred: &Event,
) -> PyResult<Core> {
    let handler = field::<PyString>(py, occurred, intern!(py, "handler"))?;
    let topic = field::<PyString>(py, occurred, intern!(py, "topic"))?;
    let partition: i32 = occurred.field(py, intern!(py, "partition"))?.extract()?;
    let uses_otel_names = tracer.config().format != Format::Datadog;
    let name = match uses_otel_names {
        true => Cow::Owned(format!("{} {}", named.operation, to_utf8(&topic))),
        false => Cow::Borrowed(named.datadog),
    };
    let mut span = Core::new(trace.service().clone(), &name, Some(&to_utf8(&handler)), "worker");
    // Room for the tags set here and by `begin_job`, with names of usual length.
    match uses_otel_names {
        true => span.reserve(8, 4, 420),
        false => span.reserve(6, 4, 320),
    }
    if uses_otel_names {
        span.set_tag("messaging.operation.name", named.operation);
        span.set_tag("messaging.operation.type", "process");
    }
    span.set_tag("component", "grete");
    span.set_tag("span.kind", "consumer");
    span.set_tag("messaging.system", "kafka");
    span.set_tag("messaging.destination.name", &to_utf8(&topic));
    span.set_tag("messaging.destination.partition.id", &partition.to_string());
    Ok(span)
}

/// Sets a number as a metric, or as a tag if a float does not hold it exactly.
fn set_int(span: &mut Core, key: &str, number: i64) {
    match super::span::is_exact(number) {
        true => span.set_i64(key, number),
        false => span.set_tag(key, &number.to_string()),
    }
}

fn field<'py, T>(py: Python<'py>, occurred: &Event, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, T>>
where
    T: pyo3::PyTypeCheck,
{
    Ok(occurred.field(py, name)?.cast_into::<T>()?)
}
