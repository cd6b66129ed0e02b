//! Job: one call of a hook.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use grete_client::produce::BatchPromise;
use grete_client::{AckType, ClientError, Dispatcher as ClientDispatcher, FailureHistory, JobKind, JobToken};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::consumer::message::Message;
use crate::consumer::messages::Messages;
use crate::convert::parse_timeout;
use crate::dispatch::published_rows::Publication;
use crate::errors;
use crate::ffi::cpython;
use crate::ffi::fork_guarded::ForkGuarded;
use crate::producer::{Delivery, ProduceArgs, Producer};

/// Number of rows between two checks for signals and for other threads that wait for the GIL. A Python function makes
/// these checks at each call.
const ROWS_PER_CHECK: usize = 32;

/// One call of a hook, handed out by `Dispatcher.next` or `take_async_jobs`. The caller must give the job back.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct Job {
    token: ForkGuarded<(ClientDispatcher, JobToken)>,
    /// Unique among the jobs of a dispatcher.
    #[pyo3(get)]
    id: u64,
    /// Id of the route.
    #[pyo3(get)]
    route: u32,
    /// Unique per assignment of a partition; with `slot` the key of the consumer instance.
    #[pyo3(get)]
    lane: u64,
    /// Unit of the lane that the job belongs to; 0 for jobs of the whole lane (all but "consume" and "dead_letter").
    #[pyo3(get)]
    slot: u32,
    #[pyo3(get)]
    partition: i32,
    /// Run of the first unmarked record, from 1.
    #[pyo3(get)]
    attempt: u32,
    /// "consume", "dead_letter", "revoked", "shutdown", "eof" or "tick".
    #[pyo3(get)]
    kind: &'static str,
    /// Whether the job calls `consume`: it is a "consume" job that does not come back as failed (`returned`).
    #[pyo3(get)]
    consumes: bool,
    /// True for jobs that call `consume` and whose events had no listeners at hand-out: most jobs. This one field then
    /// replaces the checks of several others.
    #[pyo3(get)]
    unobserved: bool,
    /// Whether a revoked partition already belongs to another member.
    #[pyo3(get)]
    lost: bool,
    /// Whether the handler has already returned and the job comes back as failed: because the handler raised, or
    /// because a record that it produced was not delivered.
    #[pyo3(get)]
    returned: bool,
    topic: Arc<str>,
    trouble: Option<Arc<FailureHistory>>,
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
        has_listeners: bool,
    ) -> PyResult<Self> {
        let messages = job.batch.map(|batch| Py::new(py, Messages::new(py, batch, decoder))).transpose()?;
        let consumes = job.kind == JobKind::Consume && !job.returned;
        Ok(Self {
            id: job.token.id(),
            lane: job.token.lane(),
            token: ForkGuarded::new((dispatcher.clone(), job.token)),
            route: job.route,
            slot: job.slot,
            partition: job.partition,
            attempt: job.attempt,
            kind: job.kind.name(),
            consumes,
            unobserved: consumes && !has_listeners,
            lost: job.kind == JobKind::Revoked { lost: true },
            returned: job.returned,
            topic: job.topic,
            trouble: job.failure_history,
            messages: Mutex::new(messages),
            stopped_at: AtomicI64::new(-1),
        })
    }

    pub(crate) fn token(&self) -> PyResult<&JobToken> {
        Ok(&self.token.get()?.1)
    }

    /// Adds produced records of a batch to the job's outputs. Their source is the record that an iteration over the
    /// job's messages handed out last, if there is one.
    pub(crate) fn add_output(&self, receipt: &Arc<BatchPromise>, first: u32, count: u32) -> PyResult<()> {
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let messages = messages.as_ref().map(|messages| messages.get());
        let row = messages.and_then(|messages| Some((messages, messages.job_batch().cursor.failed_row(None)?)));
        let source = row.map(|(messages, row)| messages.offset_at(row));
        self.token()?.produced(receipt, first, count, source);
        Ok(())
    }

    /// Releases the messages of a job that is given back: their memory must not stay while the worker waits for the
    /// next job.
    pub(crate) fn release_messages(&self) -> PyResult<&JobToken> {
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(messages); // after the lock: a destructor may run anything
        self.token()
    }

    fn live_messages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Messages>> {
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        match &*messages {
            Some(messages) => Ok(messages.bind(py).clone()),
            None => Err(PyValueError::new_err(format!("{} has no messages, or has been given back", self.describe()))),
        }
    }

    /// Calls `call` for each row from the first on, and records the progress after each row.
    ///
    /// Ends with the first exception, or when the partition has been lost meanwhile: later records would be processed
    /// twice. When the partition is being revoked, the finished records count, and the rest is left to its next owner:
    /// no rebalance waits for a long batch.
    ///
    /// Returns the type of the first result that is not `None`.
    #[inline]
    fn run_rows<'py>(
        &self,
        function: &Bound<'py, PyAny>,
        messages: &Bound<'py, Messages>,
        mut call: impl FnMut(u32) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyType>>> {
        let py = function.py();
        let token = self.token()?;
        let cursor = &messages.get().job_batch().cursor;
        let mut returned = None;
        let needs_checks = !cpython::is_python_function(function);
        for (done, row) in messages.get().rows().enumerate() {
            if token.is_fenced() {
                return Err(errors::client(ClientError::Revoked));
            }
            if token.should_yield() {
                break;
            }
            cursor.advance_to(row); // the source of what the call produces
            if needs_checks && done % ROWS_PER_CHECK == ROWS_PER_CHECK - 1 {
                py.check_signals()?;
                py.detach(|| ()); // a moment without the GIL is enough for a thread that waits for it
            }
            let outcome = call(row).and_then(|result| {
                if result.is_none() {
                    return Ok(());
                }
                if cpython::is_awaitable(&result) {
                    return Err(errors::not_awaited(function, &result));
                }
                returned.get_or_insert_with(|| result.get_type());
                Ok(())
            });
            if let Err(error) = outcome {
                self.stopped_at.store(messages.get().offset_at(row as usize), Ordering::Relaxed);
                return Err(error);
            }
            token.progress(done + 1);
        }
        cursor.clear();
        Ok(returned)
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

    /// Records to consume; `None` for hooks without records, and once the job has been given back.
    #[getter]
    fn messages(&self, py: Python<'_>) -> Option<Py<Messages>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|messages| messages.clone_ref(py))
    }

    /// Failures of the record of a "dead_letter" job: (attempts, error class, error message, first and last failure in
    /// ms since 1970). `None` for other jobs.
    #[getter]
    fn failure_history(&self) -> Option<(u32, &str, &str, i64, i64)> {
        let trouble = self.trouble.as_ref()?;
        Some((trouble.attempts, &trouble.class, &trouble.message, trouble.first_at_ms, trouble.last_at_ms))
    }

    /// Calls `function(message)` for each message in order, and marks each whose call returns. Ends with the first
    /// exception, with `RevokedError` when the partition has been lost meanwhile, and between two records when the job
    /// is `leaving`. Returns the type of the first result that is not `None`; `None`: there is none.
    fn each<'py>(&self, function: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyType>>> {
        let py = function.py();
        let messages = self.live_messages(py)?;
        let mut last: Option<Bound<'_, Message>> = None;
        self.run_rows(function, &messages, |row| {
            let message = match &last {
                Some(last) => Message::reuse_or_new(last, row)?,
                None => Message::new(&messages, row)?,
            };
            let result = cpython::call_one_arg(function, message.as_any());
            last = Some(message);
            result
        })
    }

    /// Calls `function(payload)` for each message in order, and marks each whose call returns. Ends with the first
    /// exception (`DecodeError` if a record does not decode), with `RevokedError` when the partition has been lost
    /// meanwhile, and between two records when the job is `leaving`. Returns what `each` returns.
    fn each_payload<'py>(&self, function: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyType>>> {
        let py = function.py();
        let messages = self.live_messages(py)?;
        let rows = messages.get().job_batch();
        let decoder = rows.decoder(py)?;
        self.run_rows(function, &messages, |row| {
            let payload = rows.decode(decoder, row as usize).map_err(|cause| {
                let message = || Message::new(&messages, row).map(|message| message.into_any().unbind());
                rows.decode_error(py, row as usize, cause, message)
            })?;
            cpython::call_one_arg(function, &payload)
        })
    }

    /// Same as `each_payload`; a result of the class `class` is encoded and written to `topic` with the key of its
    /// record, and the job's offsets wait for it. `otherwise(result, message)` gets other results, except None, and
    /// those that `encode` does not take.
    #[pyo3(signature = (function, producer, topic, class, encode, otherwise, /))]
    #[allow(clippy::too_many_arguments)]
    fn each_published<'py>(
        &self,
        function: &Bound<'py, PyAny>,
        producer: &Bound<'py, Producer>,
        topic: &Bound<'py, PyAny>,
        class: &Bound<'py, PyType>,
        encode: &Bound<'py, PyAny>,
        otherwise: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyType>>> {
        let py = function.py();
        let messages = self.live_messages(py)?;
        let rows = messages.get().job_batch();
        let decoder = rows.decoder(py)?;
        let results =
            Publication { token: self.token()?, messages: &messages, producer, topic, class, encode, otherwise };
        self.run_rows(function, &messages, |row| {
            let payload = rows.decode(decoder, row as usize).map_err(|cause| {
                let message = || Message::new(&messages, row).map(|message| message.into_any().unbind());
                rows.decode_error(py, row as usize, cause, message)
            })?;
            results.publish(row, cpython::call_one_arg(function, &payload)?)
        })
    }

    /// Declares the first `rows` records of the job done: if the job fails, they are not presented again. Raises
    /// `RevokedError`.
    fn progress(&self, rows: usize) -> PyResult<()> {
        let token = self.token()?;
        if token.is_fenced() {
            return Err(errors::client(ClientError::Revoked));
        }
        token.progress(rows);
        Ok(())
    }

    /// Whether the partition is being revoked or the App is stopping: records not begun are better left to the next
    /// owner. Never with offsets "at_most_once".
    #[getter]
    fn leaving(&self) -> PyResult<bool> {
        Ok(self.token()?.is_revoking())
    }

    /// Returns whether the caller should stop between two records, because the job is `leaving`. After True, the end of
    /// the job completes only the records reported by `progress`.
    fn should_yield(&self) -> PyResult<bool> {
        Ok(self.token()?.should_yield())
    }

    /// Returns the offset of the record at which the handler failed with `error`, if known.
    ///
    /// That is the record at which `each` stopped, the last record from an unfinished iteration over the messages (or a
    /// slice of them), or the only record.
    #[pyo3(signature = (error=None))]
    fn failed_offset(&self, py: Python<'_>, error: Option<&Bound<'_, PyAny>>) -> PyResult<Option<i64>> {
        if self.returned
            && let Some(undelivered) = self.token()?.undelivered()
            && undelivered.source.is_some()
        {
            return Ok(undelivered.source);
        }
        let failed_at = self.stopped_at.load(Ordering::Relaxed);
        if failed_at >= 0 {
            return Ok(Some(failed_at));
        }
        // A hook of the whole partition has no records.
        let Ok(messages) = self.live_messages(py) else { return Ok(None) };
        let messages = messages.get();
        if let Some(row) = messages.job_batch().cursor.failed_row(error) {
            return Ok(Some(messages.offset_at(row)));
        }
        let rows = messages.range();
        Ok((rows.len() == 1).then(|| messages.offset_at(rows.start)))
    }

    /// Waits until all records that the job has produced are settled, without lingering, at most `timeout` seconds.
    /// Raises `TimeoutError`.
    fn await_outputs(&self, py: Python<'_>, producer: &Producer, timeout: f64) -> PyResult<()> {
        producer.await_batches(py, &self.token()?.unsettled_batches(), parse_timeout(Some(timeout))?)
    }

    /// Whether the job is exactly once: what it produces is staged until its end.
    #[getter]
    fn exactly_once(&self) -> PyResult<bool> {
        Ok(self.token()?.is_exactly_once())
    }

    /// Stages a record in an exactly-once job, for code that runs the job and is no handler. Returns its delivery.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (producer, topic, value, *, key=None, headers=None, timestamp=None))]
    fn stage<'py>(
        &self,
        producer: &Bound<'py, Producer>,
        topic: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        key: Option<&Bound<'py, PyAny>>,
        headers: Option<&Bound<'py, PyAny>>,
        timestamp: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Delivery>> {
        let given = ProduceArgs { topic, value, key, headers, partition: None, timestamp };
        Producer::stage(producer, self.token()?, &given)
    }

    /// Number of produced records that were not settled when the dispatcher last checked.
    #[getter]
    fn pending_outputs(&self) -> PyResult<u64> {
        Ok(self.token()?.unsettled_outputs())
    }

    /// Returns the `DeliveryError` of the first produced record that was not written; `None` if all were.
    fn delivery_error(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let Some(undelivered) = self.token()?.undelivered() else { return Ok(None) };
        let error = match undelivered.promise.result(undelivered.index) {
            Some(settled) => errors::delivery(&undelivered.promise, &settled),
            None => Some(errors::outcome_unknown(&undelivered.promise, &ClientError::Closed { what: "producer" })),
        };
        Ok(error.map(|error| error.into_value(py).into_any()))
    }

    /// Marks `x` (a message, or messages) of this job as processed; with `through` also all records before it. Returns
    /// how many records were not marked before. Raises `RevokedError` when the partition no longer belongs to this job.
    #[pyo3(signature = (x, through=false))]
    fn mark(&self, x: &Bound<'_, PyAny>, through: bool) -> PyResult<u64> {
        let Some((first, last)) = self.own_offsets(x, "mark", "mark what self.messages holds")? else { return Ok(0) };
        if through {
            return self.mark_range(0, last);
        }
        let (dispatcher, token) = self.token.get()?;
        let marked = match x.cast::<Messages>() {
            Ok(messages) => dispatcher.mark_rows(token, &messages.get().row_offsets()),
            Err(_) => dispatcher.mark_rows(token, &[first]),
        };
        marked.map_err(|error| self.mark_error(error))
    }

    /// Acknowledges `x` (a message, or messages) of a share group: "accept", "release" or "reject". Returns how many
    /// records were not acknowledged before. Raises `RevokedError` when the lane is gone.
    fn acknowledge(&self, x: &Bound<'_, PyAny>, kind: &str) -> PyResult<u64> {
        let kind = match kind {
            "accept" => AckType::Accept,
            "release" => AckType::Release,
            "reject" => AckType::Reject,
            other => {
                return Err(PyValueError::new_err(format!(
                    "a record is acknowledged with \"accept\", \"release\" or \"reject\", not {other:?}"
                )));
            }
        };
        let own = self.own_offsets(x, "acknowledge", "acknowledge what the last poll returned")?;
        let Some((first, _)) = own else { return Ok(0) };
        let offsets = match x.cast::<Messages>() {
            Ok(messages) => messages.get().row_offsets(),
            Err(_) => vec![first],
        };
        let (dispatcher, token) = self.token.get()?;
        dispatcher.acknowledge(token, &offsets, kind).map_err(errors::client)
    }

    /// Returns how often the record of a share group was delivered, this delivery included; None: it is acknowledged.
    fn deliveries(&self, x: &Bound<'_, Message>) -> PyResult<Option<u32>> {
        let own = self.own_offsets(x, "delivery_count", "ask for what the last poll returned")?;
        Ok(own.and_then(|(offset, _)| self.token().ok()?.deliveries(offset)))
    }

    /// Marks all records of this job as processed. Returns how many were not marked before.
    fn mark_all(&self) -> PyResult<u64> {
        self.mark_range(0, i64::MAX)
    }

    fn __repr__(&self) -> String {
        self.describe()
    }
}

impl Job {
    /// Returns the first and the last offset of a message or of messages; `None`: there are no messages.
    fn own_offsets(&self, x: &Bound<'_, PyAny>, method: &str, cure: &str) -> PyResult<Option<(i64, i64)>> {
        let (topic, partition, span) = if let Ok(message) = x.cast::<Message>() {
            let message = message.get();
            let (batch, offset) = (message.batch.get(), message.offset());
            (batch.topic_object(x.py()), batch.job_batch().partition, Some((offset, offset)))
        } else if let Ok(messages) = x.cast::<Messages>() {
            let messages = messages.get();
            let offsets = messages.offset_bounds().map(|(first, last, _)| (first, last));
            (messages.topic_object(x.py()), messages.job_batch().partition, offsets)
        } else {
            return Err(PyTypeError::new_err(format!(
                "{method} takes a grete.Message or grete.Messages, not {}",
                x.get_type().name()?
            )));
        };
        if let Some((first, _)) = span
            && (topic.to_str()? != &*self.topic || partition != self.partition)
        {
            return Err(PyValueError::new_err(format!(
                "{topic}[{partition}] offset {first} is not of this consumer's {}[{}]: {cure}",
                self.topic, self.partition
            )));
        }
        Ok(span)
    }

    fn mark_range(&self, first: i64, last: i64) -> PyResult<u64> {
        let (dispatcher, token) = self.token.get()?;
        dispatcher.mark(token, first, last).map_err(|error| self.mark_error(error))
    }

    /// Makes the error of a mark. After a record that was not written, the error names that record.
    fn mark_error(&self, error: ClientError) -> PyErr {
        let undelivered = match error {
            ClientError::Undelivered => self.token().ok().and_then(JobToken::undelivered),
            _ => None,
        };
        let settled = undelivered.and_then(|output| Some((output.promise.result(output.index)?, output.promise)));
        settled.map_or_else(|| errors::client(error), |(settled, promise)| errors::mark_after(&promise, &settled))
    }
}
