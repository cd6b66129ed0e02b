//! One call of a hook.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use grete_client::{ClientError, Dispatcher as ClientDispatcher, JobKind, JobToken, Trouble};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::calls;
use crate::errors;
use crate::handle::Handle;
use crate::message::Message;
use crate::messages::Messages;

/// Between two looks at what a Python function would look at before each call: signals, other threads' wish for the GIL.
const ROWS_PER_LOOK: usize = 32;

/// One call of a hook, handed out by `Dispatcher.next` or `take_loop` and to be given back.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct Job {
    token: Handle<(ClientDispatcher, JobToken)>,
    /// Never the same for two jobs of a dispatcher.
    #[pyo3(get)]
    id: u64,
    /// The route's id.
    #[pyo3(get)]
    route: u32,
    /// Unique per assignment of a partition; with `slot` the key of the consumer instance.
    #[pyo3(get)]
    lane: u64,
    /// Which of the lane's units; 0 for jobs of the whole lane.
    #[pyo3(get)]
    slot: u32,
    #[pyo3(get)]
    partition: i32,
    /// From 1; counts the runs of the first unmarked record.
    #[pyo3(get)]
    attempt: u32,
    /// "consume", "dead_letter", "revoked", "shutdown", "eof" or "tick".
    #[pyo3(get)]
    kind: &'static str,
    /// Its records are to be consumed, and when it was handed out nobody listened to that: most jobs. One look at it says
    /// that there is nothing else to look at.
    #[pyo3(get)]
    plain: bool,
    /// Whether a revoked partition is already somebody else's.
    #[pyo3(get)]
    lost: bool,
    topic: Arc<str>,
    trouble: Option<Arc<Trouble>>,
    messages: Mutex<Option<Py<Messages>>>,
    /// Offset of the record at which `each` stopped; -1: none.
    stopped_at: AtomicI64,
}

impl Job {
    pub(crate) fn new(
        py: Python<'_>,
        dispatcher: &ClientDispatcher,
        job: grete_client::Job,
        decoder: Option<Py<PyAny>>,
        heard: bool,
    ) -> PyResult<Self> {
        let messages = job.batch.map(|batch| Py::new(py, Messages::new(py, batch, decoder))).transpose()?;
        Ok(Self {
            id: job.token.id(),
            lane: job.token.lane(),
            token: Handle::new((dispatcher.clone(), job.token)),
            route: job.route,
            slot: job.slot,
            partition: job.partition,
            attempt: job.attempt,
            kind: job.kind.name(),
            plain: job.kind == JobKind::Consume && !heard,
            lost: job.kind == JobKind::Revoked { lost: true },
            topic: job.topic,
            trouble: job.trouble,
            messages: Mutex::new(messages),
            stopped_at: AtomicI64::new(-1),
        })
    }

    pub(crate) fn token(&self) -> PyResult<&JobToken> {
        Ok(&self.token.get()?.1)
    }

    /// The job is given back: it lets go of its messages, whose memory must not stay while its worker waits for the next
    /// one.
    pub(crate) fn ended(&self) -> PyResult<&JobToken> {
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(messages); // after the lock: a destructor may run anything
        self.token()
    }

    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Messages>> {
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        match &*messages {
            Some(messages) => Ok(messages.bind(py).clone()),
            None => Err(PyValueError::new_err(format!("{} has no messages, or has been given back", self.describe()))),
        }
    }

    /// Calls `call` for each row from the first on, and notes after each how far it came. Ends with the first exception, or
    /// when the partition has gone meanwhile: what is done from then on would be done twice. One that is about to go gets what
    /// is done, and the rest is left to its next owner: nobody waits for a long batch.
    #[inline]
    fn run<'py>(
        &self,
        function: &Bound<'py, PyAny>,
        messages: &Bound<'py, Messages>,
        mut call: impl FnMut(u32) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let py = function.py();
        let token = self.token()?;
        let looks = !calls::runs_python(function);
        for (done, row) in messages.get().rows().enumerate() {
            if token.is_fenced() {
                return Err(errors::client(ClientError::Revoked));
            }
            if token.cut_short() {
                return Ok(());
            }
            if looks && done % ROWS_PER_LOOK == ROWS_PER_LOOK - 1 {
                py.check_signals()?;
                py.detach(|| ()); // a moment without the GIL is enough for whoever waits for it
            }
            let outcome = call(row).and_then(|result| match calls::is_awaitable(&result) {
                true => Err(errors::not_awaited(function, &result)),
                false => Ok(()),
            });
            if let Err(error) = outcome {
                self.stopped_at.store(messages.get().offset_at(row as usize), Ordering::Relaxed);
                return Err(error);
            }
            token.progress(done + 1);
        }
        Ok(())
    }

    fn describe(&self) -> String {
        format!("<Job {} {}[{}] attempt {}>", self.kind, self.topic, self.partition, self.attempt)
    }
}

#[pymethods]
impl Job {
    #[getter]
    fn topic(&self) -> &str {
        &self.topic
    }

    /// What to consume; `None` for hooks without records, and once the job has been given back.
    #[getter]
    fn messages(&self, py: Python<'_>) -> Option<Py<Messages>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|messages| messages.clone_ref(py))
    }

    /// What the record of a "dead_letter" job has been through: (attempts, error class, error message, first and last
    /// failure in ms since 1970); `None` for other jobs.
    #[getter]
    fn trouble(&self) -> Option<(u32, &str, &str, i64, i64)> {
        let trouble = self.trouble.as_ref()?;
        Some((trouble.attempts, &trouble.class, &trouble.message, trouble.first_at_ms, trouble.last_at_ms))
    }

    /// `function(message)` for each message in order; each that returns is marked. Ends with the first exception, and
    /// between two records when the job is `leaving`.
    fn each(&self, function: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = function.py();
        let messages = self.rows(py)?;
        let mut last: Option<Bound<'_, Message>> = None;
        self.run(function, &messages, |row| {
            let message = match &last {
                Some(last) => Message::next(last, row)?,
                None => Message::new(&messages, row)?,
            };
            let result = calls::one(function, message.as_any());
            last = Some(message);
            result
        })
    }

    /// `function(payload)` for each message in order; each that returns is marked. Ends with the first exception, which
    /// is a `DecodeError` if there was no payload, and between two records when the job is `leaving`.
    fn each_payload(&self, function: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = function.py();
        let messages = self.rows(py)?;
        let rows = messages.get().shared();
        let decoder = rows.decoder(py)?;
        self.run(function, &messages, |row| {
            let payload = rows.decode(decoder, row as usize).map_err(|cause| {
                let message = || Message::new(&messages, row).map(|message| message.into_any().unbind());
                rows.undecodable(py, row as usize, cause, message)
            })?;
            calls::one(function, &payload)
        })
    }

    /// The first `rows` records of the job are done: if it fails, they are not presented again.
    fn progress(&self, rows: usize) -> PyResult<()> {
        let token = self.token()?;
        if token.is_fenced() {
            return Err(errors::client(ClientError::Revoked));
        }
        token.progress(rows);
        Ok(())
    }

    /// Whether the partition is about to go, or the App to stop, so that records not begun are better left to the next owner.
    /// Never with offsets "at_most_once".
    #[getter]
    fn leaving(&self) -> PyResult<bool> {
        Ok(self.token()?.is_leaving())
    }

    /// To be asked between two records: whether to stop here, because the job is `leaving`. After True its end means that
    /// what was told by `progress` is done, and nothing else.
    fn cut_short(&self) -> PyResult<bool> {
        Ok(self.token()?.cut_short())
    }

    /// Offset of the record at which the handler failed with `error`, if known: the one at which `each` stopped; the one
    /// that an unfinished iteration over the messages (or a slice of them) handed out last; the only one.
    #[pyo3(signature = (error=None))]
    fn culprit(&self, py: Python<'_>, error: Option<&Bound<'_, PyAny>>) -> PyResult<Option<i64>> {
        let stopped_at = self.stopped_at.load(Ordering::Relaxed);
        if stopped_at >= 0 {
            return Ok(Some(stopped_at));
        }
        let messages = self.rows(py)?;
        let messages = messages.get();
        if let Some(row) = messages.shared().cursor.culprit(error) {
            return Ok(Some(messages.offset_at(row)));
        }
        let rows = messages.range();
        Ok((rows.len() == 1).then(|| messages.offset_at(rows.start)))
    }

    /// Declares `x` (a message, or messages) of this job processed; with `through` also all before it. Returns how many
    /// records were newly marked. Raises `RevokedError` when the partition is not this job's any more.
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
        if through {
            return self.mark_span(0, last);
        }
        let (dispatcher, token) = self.token.get()?;
        let marked = match x.cast::<Messages>() {
            Ok(messages) => dispatcher.mark_rows(token, &messages.get().row_offsets()),
            Err(_) => dispatcher.mark_rows(token, &[first]),
        };
        marked.map_err(errors::client)
    }

    /// Declares all records of this job processed. Returns how many were newly marked.
    fn mark_all(&self) -> PyResult<u64> {
        self.mark_span(0, i64::MAX)
    }

    fn __repr__(&self) -> String {
        self.describe()
    }
}

impl Job {
    fn mark_span(&self, first: i64, last: i64) -> PyResult<u64> {
        let (dispatcher, token) = self.token.get()?;
        dispatcher.mark(token, first, last).map_err(errors::client)
    }
}
