//! The spans of jobs and of single records: begun and ended by the events around handlers.
//!
//! Both events come in the thread, and in the context, that the handler runs in: what is current from one to the other is so
//! inside of the handler, and in whatever it awaits.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use grete_trace::{Format, Link, Span as Core, Trace};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::current;
use super::parents;
use super::span::Span;
use super::text::text;
use crate::errors;
use crate::event::Occurred;
use crate::message::Message;
use crate::messages::Messages;

/// Of a job's span, to spans that sent its records.
const MOST_LINKS: usize = 128;

/// Spans that were begun by an event and wait for the one that ends them, by the address of what they are about: two at a
/// time never have the same.
///
/// Whoever unsubscribes in between leaves one behind, until something else is at that address.
#[derive(Default)]
pub(super) struct Handling {
    open: Mutex<HashMap<usize, Open>>,
}

struct Open {
    span: Py<Span>,
    /// What makes the one before it the current one again.
    token: Py<PyAny>,
}

impl Handling {
    /// Held for a few instructions that call no Python, so that nobody waits for the GIL with it.
    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin<T>(&self, about: &Bound<'_, T>, span: Span) -> PyResult<()> {
        let span = Bound::new(about.py(), span)?;
        let token = current::set(about.py(), &span)?;
        let before = self.lock().insert(about.as_ptr() as usize, Open { span: span.unbind(), token });
        drop(before); // may run Python: without the lock
        Ok(())
    }

    /// A job is about to run: its span begins.
    pub(super) fn begin_job(&self, tracer: &grete_trace::Tracer, py: Python<'_>, occurred: &Occurred) -> PyResult<()> {
        let messages = field::<Messages>(py, occurred, intern!(py, "messages"))?;
        let (count, mut parents) = (messages.get().range().len(), parents::of(messages.get(), MOST_LINKS));
        tracer.count_broken_headers(parents.broken);
        // One record's sender waits for nobody else. A batch has many senders, and is part of no trace of theirs.
        let sender = if count == 1 { parents.found.pop() } else { None };
        let (trace, parent_id) = match sender {
            Some(sender) => tracer.continued(None, sender),
            None => tracer.trace(None, None),
        };
        let mut span = begun(py, tracer, &trace, &JOB, occurred)?;
        let group = field::<PyString>(py, occurred, intern!(py, "group"))?;
        span.set_tag("messaging.consumer.group.name", &text(&group));
        number(&mut span, "messaging.batch.message_count", i64::try_from(count).unwrap_or(i64::MAX));
        number(&mut span, "messaging.kafka.first_offset", occurred.field(py, intern!(py, "first_offset"))?.extract()?);
        number(&mut span, "messaging.kafka.last_offset", occurred.field(py, intern!(py, "last_offset"))?.extract()?);
        number(&mut span, "grete.attempt", occurred.field(py, intern!(py, "attempt"))?.extract()?);
        if parents.beyond > 0 {
            number(&mut span, "grete.unlinked", i64::try_from(parents.beyond).unwrap_or(i64::MAX));
        }
        parents.found.into_iter().for_each(|sender| span.add_link(Link::from(sender)));
        self.begin(&messages, Span::new(trace, span, parent_id))
    }

    /// It has ended.
    pub(super) fn end_job(&self, py: Python<'_>, occurred: &Occurred) -> PyResult<()> {
        self.end(&field::<Messages>(py, occurred, intern!(py, "messages"))?, occurred)
    }

    /// One record of a job is about to be handled: its span begins, as a part of the current one.
    pub(super) fn begin_message(
        &self,
        tracer: &grete_trace::Tracer,
        py: Python<'_>,
        occurred: &Occurred,
    ) -> PyResult<()> {
        let message = field::<Message>(py, occurred, intern!(py, "message"))?;
        let job = current::get(py)?;
        let job = job.as_ref().map(|span| span.get());
        let (trace, parent_id) = tracer.trace(None, job.map(|span| (&span.trace, span.span_id)));
        let mut span = begun(py, tracer, &trace, &RECORD, occurred)?;
        number(&mut span, "messaging.kafka.offset", message.get().offset());
        // The job's span has counted what is broken.
        let (sender, _) = parents::of_row(message.get().batch.get(), message.get().row());
        if let Some(sender) = sender.filter(|sender| sender.trace_id != trace.id()) {
            span.add_link(Link::from(sender));
        }
        self.begin(&message, Span::new(trace, span, parent_id))
    }

    /// It has been.
    pub(super) fn end_message(&self, py: Python<'_>, occurred: &Occurred) -> PyResult<()> {
        self.end(&field::<Message>(py, occurred, intern!(py, "message"))?, occurred)
    }

    fn end<T>(&self, about: &Bound<'_, T>, occurred: &Occurred) -> PyResult<()> {
        let py = about.py();
        let open = self.lock().remove(&(about.as_ptr() as usize));
        // Whoever subscribes while a handler runs hears its end only.
        let Some(Open { span, token }) = open else { return Ok(()) };
        let span = span.bind(py).get();
        let error = occurred.field(py, intern!(py, "error"))?;
        match errors::retry_later(&error) {
            Some(delay) => span.change(|span| span.set_metric("grete.retry_later", delay)),
            None if error.is_none() => {}
            None => span.set_error(Some(&error)),
        }
        span.end();
        current::reset(py, &token)
    }
}

/// What a span is called.
struct Named {
    datadog: &'static str,
    /// By OpenTelemetry's conventions for messaging, with the topic behind it.
    operation: &'static str,
}

const JOB: Named = Named { datadog: "kafka.consume", operation: "process" };
const RECORD: Named = Named { datadog: "kafka.process", operation: "handle" };

/// What all of these spans say.
fn begun(
    py: Python<'_>,
    tracer: &grete_trace::Tracer,
    trace: &Trace,
    named: &Named,
    occurred: &Occurred,
) -> PyResult<Core> {
    let handler = field::<PyString>(py, occurred, intern!(py, "handler"))?;
    let topic = field::<PyString>(py, occurred, intern!(py, "topic"))?;
    let partition: i32 = occurred.field(py, intern!(py, "partition"))?.extract()?;
    let conventional = tracer.config().format != Format::Datadog;
    let name = match conventional {
        true => Cow::Owned(format!("{} {}", named.operation, text(&topic))),
        false => Cow::Borrowed(named.datadog),
    };
    let mut span = Core::new(trace.service().clone(), &name, Some(&text(&handler)), "worker");
    // What is set here and by `begin_job`, with names that are not long.
    match conventional {
        true => span.reserve(8, 4, 420),
        false => span.reserve(6, 4, 320),
    }
    if conventional {
        span.set_tag("messaging.operation.name", named.operation);
        span.set_tag("messaging.operation.type", "process");
    }
    span.set_tag("component", "grete");
    span.set_tag("span.kind", "consumer");
    span.set_tag("messaging.system", "kafka");
    span.set_tag("messaging.destination.name", &text(&topic));
    span.set_tag("messaging.destination.partition.id", &partition.to_string());
    Ok(span)
}

/// As a metric, unless a float does not hold it exactly.
fn number(span: &mut Core, key: &str, number: i64) {
    match super::span::is_exact(number) {
        true => span.set_whole(key, number),
        false => span.set_tag(key, &number.to_string()),
    }
}

fn field<'py, T>(py: Python<'py>, occurred: &Occurred, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, T>>
where
    T: pyo3::PyTypeCheck,
{
    Ok(occurred.field(py, name)?.cast_into::<T>()?)
}
