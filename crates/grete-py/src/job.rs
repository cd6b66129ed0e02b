//! One call of a hook.

use std::sync::{Arc, Mutex, PoisonError};

use grete_client::{Dispatcher as ClientDispatcher, JobKind, JobToken};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::errors;
use crate::handle::Handle;
use crate::message::Message;
use crate::messages::Messages;

/// One call of a hook, handed out by `Dispatcher.next` and to be given back to it.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct Job {
    pub(crate) token: Handle<(ClientDispatcher, JobToken)>,
    /// The route's id, as given to `Client`.
    #[pyo3(get)]
    route: u32,
    /// Unique per assignment of a partition: the key of the consumer instance.
    #[pyo3(get)]
    lane: u64,
    #[pyo3(get)]
    partition: i32,
    /// From 1; counts the runs of the first unmarked record.
    #[pyo3(get)]
    attempt: u32,
    /// "consume", "revoked" or "shutdown".
    #[pyo3(get)]
    kind: &'static str,
    /// Whether a revoked partition is already somebody else's.
    #[pyo3(get)]
    lost: bool,
    topic: Arc<str>,
    messages: Mutex<Option<Py<Messages>>>,
}

impl Job {
    pub(crate) fn new(py: Python<'_>, dispatcher: &ClientDispatcher, job: grete_client::Job) -> PyResult<Self> {
        let lost = job.kind == JobKind::Revoked { lost: true };
        let messages = job.batch.map(|batch| Py::new(py, Messages::new(py, batch, None))).transpose()?;
        Ok(Self {
            token: Handle::new((dispatcher.clone(), job.token)),
            route: job.route,
            lane: job.lane,
            partition: job.partition,
            attempt: job.attempt,
            kind: job.kind.name(),
            lost,
            topic: job.topic,
            messages: Mutex::new(messages),
        })
    }

    /// Lets go of the messages: a finished job must not keep their memory while its worker waits for the next one.
    pub(crate) fn release(&self) {
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(messages); // after the lock: a destructor may run anything
    }
}

#[pymethods]
impl Job {
    #[getter]
    fn topic(&self) -> &str {
        &self.topic
    }

    /// What to consume; `None` for the other hooks, and once the job has been given back.
    #[getter]
    fn messages(&self, py: Python<'_>) -> Option<Py<Messages>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|messages| messages.clone_ref(py))
    }

    /// Declares `x` (a message, or messages) of this job processed; with `through` also all before it. Returns how many
    /// records were newly marked.
    #[pyo3(signature = (x, through=false))]
    fn mark(&self, x: &Bound<'_, PyAny>, through: bool) -> PyResult<u64> {
        let (topic, partition, span) = if let Ok(message) = x.cast::<Message>() {
            let message = message.get();
            let (batch, offset) = (message.batch.get(), message.offset());
            (batch.topic_object(x.py()), batch.shared().partition, Some((offset, offset)))
        } else if let Ok(messages) = x.cast::<Messages>() {
            let messages = messages.get();
            let span = messages.span().map(|(first, last, _)| (first, last));
            (messages.topic_object(x.py()), messages.shared().partition, span)
        } else {
            return Err(PyTypeError::new_err(format!(
                "mark takes a grete.Message or grete.Messages, not {}",
                x.get_type().name()?
            )));
        };
        let Some((first, last)) = span else { return Ok(0) };
        if topic.to_str()? != &*self.topic || partition != self.partition {
            return Err(PyValueError::new_err(format!(
                "{topic}[{partition}] offset {first} is not of this consumer's {}[{}]: mark what self.messages holds",
                self.topic, self.partition
            )));
        }
        let first = if through { 0 } else { first };
        let (dispatcher, token) = self.token.get()?;
        dispatcher.mark(token, first, last).map_err(errors::client)
    }

    fn __repr__(&self) -> String {
        format!("<Job {} {}[{}] attempt {}>", self.kind, self.topic, self.partition, self.attempt)
    }
}
