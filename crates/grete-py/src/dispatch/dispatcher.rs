//! Dispatcher from which workers and event loops take their jobs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use grete_client::{Failure, FailureKind, JobKind, NextJob, Outcome, WaitMode, WaitReport};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::{nanos, parse_timeout};
use crate::dispatch::decision::Decision;
use crate::dispatch::decoders::Decoders;
use crate::dispatch::history::History;
use crate::dispatch::job::Job;
use crate::errors;
use crate::event::EventChannel;
use crate::ffi::fork_guarded::ForkGuarded;
use crate::log_event::{self, LogEvent};
use crate::producer::Producer;

/// Keeps the ready lanes and hands jobs to workers. Serves all clients of one App, or one consumer.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct Dispatcher {
    inner: ForkGuarded<grete_client::Dispatcher>,
    /// Decoders of payloads, by route and topic.
    decoders: Mutex<Decoders>,
    /// Listener counts of the events of jobs that hand out records.
    listening: Vec<Arc<AtomicUsize>>,
}

impl Dispatcher {
    /// `events`: channels of the events of jobs that hand out records.
    pub(crate) fn from_inner(inner: grete_client::Dispatcher, events: &[Bound<'_, EventChannel>]) -> Self {
        let listener_counts = events.iter().map(|event| event.get().listener_count()).collect();
        Self { inner: ForkGuarded::new(inner), decoders: Mutex::default(), listening: listener_counts }
    }

    pub(crate) fn get(&self) -> PyResult<&grete_client::Dispatcher> {
        self.inner.get()
    }

    /// Completes `done` and waits with the GIL detached, in one crossing of the boundary.
    pub(crate) fn complete_and_take(
        &self,
        py: Python<'_>,
        worker: &Worker,
        done: Option<&Job>,
        timeout: Option<Duration>,
        max_messages: Option<usize>,
    ) -> PyResult<NextJob> {
        let dispatcher = self.get()?;
        let worker = worker.inner.get()?;
        let done = done.map(Job::release_messages).transpose()?;
        py.detach(|| {
            let mut worker = match worker.try_lock() {
                Ok(worker) => worker,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return Err(WorkerBusy),
            };
            if max_messages.is_some() {
                worker.set_max_messages(max_messages);
            }
            Ok(dispatcher.next(&mut worker, done, timeout))
        })
        .map_err(|WorkerBusy| {
            PyRuntimeError::new_err("two threads poll at once: one thread polls, others may do the rest")
        })?
        .map_err(errors::client)
    }

    pub(crate) fn job(&self, py: Python<'_>, job: grete_client::Job) -> PyResult<Job> {
        let mut decoders = self.decoders.lock().unwrap_or_else(PoisonError::into_inner);
        let decoder = match decoders.is_empty() {
            true => None,
            false => decoders.get(py, job.route, &job.topic).map(|decoder| decoder.clone_ref(py)),
        };
        drop(decoders);
        let has_listeners = self.listening.iter().any(|count| count.load(Ordering::Relaxed) != 0);
        Job::new(py, self.get()?, job, decoder, has_listeners)
    }
}

/// Error: another thread uses the worker.
struct WorkerBusy;

#[pymethods]
impl Dispatcher {
    /// `log`: called with a list of log events by threads that wait in a call; None: another thread watches `event_fd`.
    /// `interruptible`: signals can interrupt waits, which a main thread needs; otherwise each worker sleeps on its
    /// own. `events`: channels of the events of jobs that hand out records, for `Job.unobserved`.
    #[new]
    #[pyo3(signature = (*, interruptible=false, events=Vec::new(), log=None))]
    fn new(interruptible: bool, events: Vec<Bound<'_, EventChannel>>, log: Option<Py<PyAny>>) -> PyResult<Self> {
        let wait = if interruptible { WaitMode::Interruptible } else { WaitMode::Parked };
        let inner = grete_client::Dispatcher::with_log(wait, log.map(log_event::log_callback));
        Ok(Self::from_inner(inner.map_err(errors::client)?, &events))
    }

    /// Completes `done` and waits for the next job. `None`: the worker must end, because the dispatcher has stopped or
    /// the number of workers was reduced.
    #[pyo3(signature = (worker, done=None))]
    fn next(&self, py: Python<'_>, worker: &Worker, mut done: Option<&Job>) -> PyResult<Option<Job>> {
        loop {
            match self.complete_and_take(py, worker, done.take(), None, None)? {
                NextJob::Job(job) => return self.job(py, job).map(Some),
                NextJob::Stopped => return Ok(None),
                NextJob::TimedOut | NextJob::Interrupted => py.check_signals()?,
            }
        }
    }

    /// Completes `done` and waits at most `timeout` seconds (None: no limit) for messages. `None`: none arrived. Jobs
    /// of other hooks are completed at once: a low-level consumer has none.
    fn poll(
        &self,
        py: Python<'_>,
        worker: &Worker,
        mut done: Option<&Job>,
        timeout: Option<f64>,
        max_messages: usize,
    ) -> PyResult<Option<Job>> {
        let (dispatcher, timeout) = (self.get()?, parse_timeout(timeout)?);
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let remaining = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            match self.complete_and_take(py, worker, done.take(), remaining, Some(max_messages))? {
                NextJob::Job(job) => {
                    let consume = matches!(job.kind, JobKind::Consume);
                    let job = self.job(py, job)?;
                    if consume {
                        return Ok(Some(job));
                    }
                    self.complete(py, &job)?;
                }
                NextJob::TimedOut => return Ok(None),
                NextJob::Stopped => return Err(errors::closed("consumer")),
                NextJob::Interrupted => {
                    py.detach(|| dispatcher.log_events().write_pending());
                    log_event::check_interrupted(py)?;
                }
            }
        }
    }

    /// Arms and returns a descriptor that becomes readable when `poll` may find messages, a log event waits, or a client
    /// has failed. Arm it before a `poll` with timeout 0, and wait for it only if that finds nothing.
    fn arm_poll_fd(&self) -> PyResult<i32> {
        self.get()?.arm_poll_fd().map_err(errors::client)
    }

    /// Gives back a job whose handler returned, without taking another.
    fn complete(&self, py: Python<'_>, job: &Job) -> PyResult<()> {
        let (dispatcher, token) = (self.get()?, job.release_messages()?);
        py.detach(|| dispatcher.complete(token, Outcome::Done)).map_err(errors::client).map(drop)
    }

    /// Gives back a job whose handler raised. `failure_kind`: "retry", "give_up" (the route does not retry the
    /// exception), "give_up_all" (no record is more at fault than another one), "reject", "later" (run again after `delay` seconds) or "fatal". `offset`: of the record that failed,
    /// if known.
    #[pyo3(signature = (job, failure_kind, error_class, error, *, offset=None, delay=0.0))]
    #[allow(clippy::too_many_arguments)]
    fn fail(
        &self,
        py: Python<'_>,
        job: &Job,
        failure_kind: &str,
        error_class: &str,
        error: &str,
        offset: Option<i64>,
        delay: f64,
    ) -> PyResult<Decision> {
        let failure_kind = match failure_kind {
            "retry" => FailureKind::Retriable,
            "give_up" => FailureKind::NonRetriable,
            "give_up_all" => FailureKind::NonRetriableBatch,
            "reject" => FailureKind::Rejected,
            "later" => FailureKind::RetryLater(parse_timeout(Some(delay))?.map_or(u64::MAX, nanos)),
            "fatal" => FailureKind::Fatal,
            other => {
                return Err(PyValueError::new_err(format!(
                    "failure_kind is retry, give_up, give_up_all, reject, later or fatal, not {other:?}"
                )));
            }
        };
        let (dispatcher, token) = (self.get()?, job.release_messages()?);
        let at_ms = dispatcher.wall_clock_ms();
        let failure = Failure { failed_offset: offset, at_ms, ..Failure::new(failure_kind, error_class, error) };
        py.detach(|| dispatcher.fail_job(token, failure)).map_err(errors::client).map(Decision::new)
    }

    /// Returns whether records that a raising job has produced are in flight. If so, the job comes back as `returned`
    /// when they are settled, and must be failed then.
    fn await_outputs(&self, py: Python<'_>, job: &Job) -> PyResult<bool> {
        let (dispatcher, token) = (self.get()?, job.release_messages()?);
        py.detach(|| dispatcher.await_outputs(token)).map_err(errors::client)
    }

    /// Sets the only producer of the handlers. Offsets wait for the records that handlers produce with it.
    fn set_producer(&self, producer: &Producer) -> PyResult<()> {
        self.get()?.set_producer(producer.client()?);
        Ok(())
    }

    /// Sets the decoder of payloads for a route's topic, or for a pattern. The decoder is called with a value's bytes.
    fn set_decoder(&self, py: Python<'_>, route: u32, topic: String, decoder: Py<PyAny>) -> PyResult<()> {
        if !decoder.bind(py).is_callable() {
            return Err(PyTypeError::new_err(format!("a decoder is called with bytes, {decoder} cannot be called")));
        }
        let old = self.decoders.lock().unwrap_or_else(PoisonError::into_inner).insert(route, topic, decoder);
        drop(old); // after the lock: a destructor may run anything
        Ok(())
    }

    /// Sets the number of workers. Workers with a higher number end when they ask for a job.
    fn set_workers(&self, count: u32) -> PyResult<()> {
        self.get()?.set_workers(count);
        Ok(())
    }

    /// Starts the thread that decodes for an event loop, called `name` in reports. Returns a descriptor that is
    /// readable while `take_async_jobs` has jobs or cancellations.
    fn start_async(&self, name: &str) -> PyResult<i32> {
        self.get()?.start_async(name).map_err(errors::client)
    }

    /// Starts the job's clock: the event loop runs the first step of this job.
    fn begin(&self, job: &Job) -> PyResult<()> {
        self.get()?.job_started(job.token()?).map_err(errors::client)
    }

    /// Returns for how many seconds a callback has waited for the event loop; `None`: none waits, or there is no loop.
    /// `job`: the job that occupies the loop's thread; the probes name its handler until the loop turns.
    #[pyo3(signature = (job=None))]
    fn loop_wait(&self, job: Option<&Job>) -> PyResult<Option<f64>> {
        let token = job.map(Job::token).transpose()?;
        Ok(self.get()?.set_blocking_job(token))
    }

    /// Returns the jobs to start, and the ids of running jobs to cancel because their partition has been revoked.
    fn take_async_jobs(&self, py: Python<'_>) -> PyResult<(Vec<Job>, Vec<u64>)> {
        let started = self.get()?.take_async_jobs().map_err(errors::client)?;
        let jobs = started.jobs.into_iter().map(|job| self.job(py, job)).collect::<PyResult<_>>()?;
        Ok((jobs, started.cancelled))
    }

    /// Returns whether the event loop gets no more jobs.
    fn async_stopped(&self) -> PyResult<bool> {
        Ok(self.get()?.async_stopped())
    }

    /// Stops handing out records of the job's partition for `seconds` (None: until `resume`).
    fn pause(&self, py: Python<'_>, job: &Job, seconds: Option<f64>) -> PyResult<()> {
        let wait = parse_timeout(seconds)?;
        let (dispatcher, token) = (self.get()?, job.token()?);
        py.detach(|| dispatcher.pause(token, wait)).map_err(errors::client)
    }

    /// Ends a pause of the job's partition.
    fn resume(&self, py: Python<'_>, job: &Job) -> PyResult<()> {
        let (dispatcher, token) = (self.get()?, job.token()?);
        py.detach(|| dispatcher.resume(token)).map_err(errors::client)
    }

    /// Returns running totals: jobs, records, failures, dead_letters, expired, duplicates, stalled.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = self.get()?.counts();
        let fields = PyDict::new(py);
        fields.set_item("jobs", counts.jobs)?;
        fields.set_item("records", counts.records)?;
        fields.set_item("failures", counts.failures)?;
        fields.set_item("dead_letters", counts.dead_letters)?;
        fields.set_item("expired", counts.expired)?;
        fields.set_item("duplicates", counts.duplicates)?;
        fields.set_item("stalled", counts.stalled)?;
        Ok(fields)
    }

    /// Waits for records before committed offsets that deduplication has to read again, for `timeout` seconds (None: no
    /// limit), and takes them; None: `close_histories` was called.
    #[pyo3(signature = (timeout=None))]
    fn next_histories(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Vec<History>>> {
        let (dispatcher, timeout) = (self.get()?, parse_timeout(timeout)?);
        let found = py.detach(|| dispatcher.next_histories(timeout));
        Ok(found.map(|found| found.into_iter().map(History::new).collect()))
    }

    /// Ends `next_histories`.
    fn close_histories(&self) -> PyResult<()> {
        self.get()?.close_histories();
        Ok(())
    }

    /// Stops handing out consume jobs.
    fn quiet(&self) -> PyResult<()> {
        self.get()?.quiet();
        Ok(())
    }

    /// Stops handing out consume jobs, then hands out one shutdown job for each lane that has run. After that `next`
    /// returns None.
    fn stop(&self) -> PyResult<()> {
        self.get()?.stop();
        Ok(())
    }

    /// Makes `next` return None at once, even if jobs remain.
    fn release_workers(&self) -> PyResult<()> {
        self.get()?.release_workers();
        Ok(())
    }

    /// Returns the jobs under way: a list of dicts (topic, partition, slot, route, handler, kind, worker, begun,
    /// seconds, undelivered). `undelivered` is the number of produced records that a job waits for after its handler
    /// has returned; None: the handler runs.
    fn running<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let running = self.get()?.running();
        running
            .into_iter()
            .map(|job| {
                let fields = PyDict::new(py);
                fields.set_item("topic", &*job.topic)?;
                fields.set_item("partition", job.partition)?;
                fields.set_item("slot", job.slot)?;
                fields.set_item("route", job.route)?;
                fields.set_item("handler", &*job.handler)?;
                fields.set_item("kind", job.kind.name())?;
                fields.set_item("worker", &*job.worker)?;
                fields.set_item("begun", job.started)?;
                fields.set_item("seconds", job.seconds)?;
                fields.set_item("undelivered", job.undelivered)?;
                Ok(fields)
            })
            .collect()
    }

    /// Returns the lanes: a list of dicts (topic, partition, route, handler, state, position, committable,
    /// high_watermark, source, queued_bytes, lag, lag_seconds, last_progress, running, running_for, stalled, attempt,
    /// in_flight, unmarked, done_ahead, paused_for, reason, error, failed_since, waits_for, wait,
    /// last_progress_seconds, unmoved).
    fn lanes<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let lanes = self.get()?.lanes();
        lanes
            .into_iter()
            .map(|lane| {
                let fields = PyDict::new(py);
                fields.set_item("topic", &*lane.topic)?;
                fields.set_item("partition", lane.partition)?;
                fields.set_item("route", lane.route)?;
                fields.set_item("handler", &*lane.handler)?;
                fields.set_item("state", lane.state)?;
                fields.set_item("position", lane.position)?;
                fields.set_item("committable", lane.committable)?;
                fields.set_item("high_watermark", lane.high_watermark)?;
                fields.set_item("source", lane.source)?;
                fields.set_item("queued_bytes", lane.queued_bytes)?;
                fields.set_item("lag", lane.lag)?;
                fields.set_item("lag_seconds", lane.lag_seconds)?;
                fields.set_item("last_progress", lane.last_progress)?;
                fields.set_item("running", lane.running)?;
                fields.set_item("running_for", lane.running_for)?;
                fields.set_item("stalled", lane.stalled)?;
                fields.set_item("attempt", lane.attempt)?;
                fields.set_item("in_flight", lane.in_flight)?;
                fields.set_item("unmarked", lane.unmarked)?;
                fields.set_item("done_ahead", lane.done_ahead)?;
                fields.set_item("paused_for", lane.paused_for)?;
                fields.set_item("reason", lane.failure.as_ref().map(|failure| failure.reason))?;
                fields.set_item("error", lane.failure.as_ref().map(|failure| &*failure.error))?;
                fields.set_item("failed_since", lane.failure.as_ref().map(|failure| failure.since))?;
                fields.set_item("waits_for", lane.wait.as_ref().map(WaitReport::name))?;
                fields.set_item("wait", lane.wait.as_ref().map(WaitReport::text))?;
                fields.set_item("last_progress_seconds", lane.unmoved_for)?;
                fields.set_item("unmoved", lane.is_unmoved)?;
                Ok(fields)
            })
            .collect()
    }

    /// Returns a descriptor that is readable while log events wait or a client has failed.
    fn event_fd(&self) -> PyResult<i32> {
        Ok(self.get()?.log_events().event_fd())
    }

    /// Returns the log events since the last call.
    fn drain_log_events(&self) -> PyResult<Vec<LogEvent>> {
        Ok(self.get()?.log_events().drain().into_iter().map(LogEvent::new).collect())
    }

    /// Raises the error that made a client fail for good, if there is one.
    fn check(&self) -> PyResult<()> {
        match self.get()?.fatal() {
            Some(error) => Err(errors::client(error)),
            None => Ok(()),
        }
    }
}

/// Decoder contexts and buffers with which one thread takes jobs. Only one thread at a time may use a worker.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct Worker {
    inner: ForkGuarded<Mutex<grete_client::WorkerContext>>,
}

impl Worker {
    pub(crate) fn from_context(context: grete_client::WorkerContext) -> Self {
        Self { inner: ForkGuarded::new(Mutex::new(context)) }
    }
}

#[pymethods]
impl Worker {
    /// `number`, from 1: the worker ends when the number of workers falls below it. 0: the worker is not counted.
    #[new]
    #[pyo3(signature = (name, dispatcher, number=0))]
    fn new(name: &str, dispatcher: &Dispatcher, number: u32) -> PyResult<Self> {
        Ok(Self::from_context(dispatcher.get()?.worker_context(name, number)))
    }
}
