//! Where workers take their jobs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use grete_client::{Failure, JobKind, Next, Outcome, Verdict, Wait};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::decision::Decision;
use crate::errors;
use crate::event::Event;
use crate::handle::Handle;
use crate::job::Job;
use crate::notice::Notice;

/// `None` is for ever. Refuses what is no duration.
pub(crate) fn seconds(timeout: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(timeout) = timeout else { return Ok(None) };
    if timeout.is_infinite() && timeout > 0.0 {
        return Ok(None);
    }
    Duration::try_from_secs_f64(timeout)
        .map(Some)
        .map_err(|_| PyValueError::new_err(format!("a timeout is a number of seconds from 0 up, not {timeout}")))
}

/// Knows which lanes are ready and hands jobs to workers. Shared by all clients of one App, or private to one consumer.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct Dispatcher {
    inner: Handle<grete_client::Dispatcher>,
    /// What makes payloads, by route and topic.
    decoders: Mutex<HashMap<(u32, String), Py<PyAny>>>,
    /// How many listen to what is told of jobs that hand out records.
    listening: Vec<Arc<AtomicUsize>>,
}

impl Dispatcher {
    pub(crate) fn get(&self) -> PyResult<&grete_client::Dispatcher> {
        self.inner.get()
    }

    /// One crossing: completes `done`, waits with the GIL detached.
    fn step(
        &self,
        py: Python<'_>,
        worker: &Worker,
        done: Option<&Job>,
        timeout: Option<Duration>,
        max_messages: Option<usize>,
    ) -> PyResult<Next> {
        let dispatcher = self.get()?;
        let worker = worker.inner.get()?;
        let done = done.map(Job::ended).transpose()?;
        py.detach(|| {
            let mut worker = match worker.try_lock() {
                Ok(worker) => worker,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return Err(Busy),
            };
            if max_messages.is_some() {
                worker.set_max_messages(max_messages);
            }
            Ok(dispatcher.next(&mut worker, done, timeout))
        })
        .map_err(|Busy| PyRuntimeError::new_err("two threads poll at once: one thread polls, others may do the rest"))?
        .map_err(errors::client)
    }

    fn job(&self, py: Python<'_>, job: grete_client::Job) -> PyResult<Job> {
        let decoders = self.decoders.lock().unwrap_or_else(PoisonError::into_inner);
        let decoder = match decoders.is_empty() {
            true => None,
            false => decoders.get(&(job.route, job.topic.to_string())).map(|decoder| decoder.clone_ref(py)),
        };
        drop(decoders);
        let heard = self.listening.iter().any(|count| count.load(Ordering::Relaxed) != 0);
        Job::new(py, self.get()?, job, decoder, heard)
    }
}

/// The worker is in another thread's hands.
struct Busy;

#[pymethods]
impl Dispatcher {
    /// `interruptible`: waits can be interrupted by signals, as a main thread needs it; otherwise each worker has its own
    /// sleep. `events`: those of jobs that hand out records, for `Job.plain`.
    #[new]
    #[pyo3(signature = (*, interruptible=false, events=Vec::new()))]
    fn new(interruptible: bool, events: Vec<Bound<'_, Event>>) -> PyResult<Self> {
        let wait = if interruptible { Wait::Interruptible } else { Wait::Parked };
        let inner = Handle::new(grete_client::Dispatcher::new(wait).map_err(errors::client)?);
        let listening = events.iter().map(|event| event.get().count()).collect();
        Ok(Self { inner, decoders: Mutex::default(), listening })
    }

    /// Gives `done` back, waits for the next job. `None`: the worker is to end, because all is over or there are to be fewer
    /// workers.
    #[pyo3(signature = (worker, done=None))]
    fn next(&self, py: Python<'_>, worker: &Worker, mut done: Option<&Job>) -> PyResult<Option<Job>> {
        loop {
            match self.step(py, worker, done.take(), None, None)? {
                Next::Job(job) => return self.job(py, job).map(Some),
                Next::Stopped => return Ok(None),
                Next::TimedOut | Next::Interrupted => py.check_signals()?,
            }
        }
    }

    /// Gives `done` back as done, waits at most `timeout` seconds (None: for ever) for messages. `None`: none came.
    /// Hooks other than consume are answered at once: a low-level consumer has none.
    #[pyo3(signature = (worker, done, timeout, max_messages))]
    fn poll(
        &self,
        py: Python<'_>,
        worker: &Worker,
        mut done: Option<&Job>,
        timeout: Option<f64>,
        max_messages: usize,
    ) -> PyResult<Option<Job>> {
        let timeout = seconds(timeout)?;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            match self.step(py, worker, done.take(), left, Some(max_messages))? {
                Next::Job(job) => {
                    let consume = matches!(job.kind, JobKind::Consume);
                    let job = self.job(py, job)?;
                    if consume {
                        return Ok(Some(job));
                    }
                    self.complete(py, &job)?;
                }
                Next::TimedOut => return Ok(None),
                Next::Stopped => return Err(errors::closed("consumer")),
                Next::Interrupted => py.check_signals()?,
            }
        }
    }

    /// Gives a job back without taking another: it returned.
    fn complete(&self, py: Python<'_>, job: &Job) -> PyResult<()> {
        let (dispatcher, token) = (self.get()?, job.ended()?);
        py.detach(|| dispatcher.complete(token, Outcome::Done)).map_err(errors::client).map(drop)
    }

    /// Gives a job back that raised. `verdict`: "retry", "give_up" (not an exception that the route retries), "reject",
    /// "later" (run again after `delay` seconds) or "fatal". `offset`: of the record that failed, if known.
    #[pyo3(signature = (job, verdict, error_class, error, *, offset=None, delay=0.0))]
    #[allow(clippy::too_many_arguments)]
    fn fail(
        &self,
        py: Python<'_>,
        job: &Job,
        verdict: &str,
        error_class: &str,
        error: &str,
        offset: Option<i64>,
        delay: f64,
    ) -> PyResult<Decision> {
        let verdict = match verdict {
            "retry" => Verdict::Retry,
            "give_up" => Verdict::GiveUp,
            "reject" => Verdict::Reject,
            "later" => Verdict::Later(seconds(Some(delay))?.map_or(u64::MAX, nanos)),
            "fatal" => Verdict::Fatal,
            other => {
                return Err(PyValueError::new_err(format!(
                    "a verdict is retry, give_up, reject, later or fatal, not {other:?}"
                )));
            }
        };
        let failure = Failure { culprit: offset, at_ms: wall_ms(), ..Failure::new(verdict, error_class, error) };
        let (dispatcher, token) = (self.get()?, job.ended()?);
        py.detach(|| dispatcher.fail_job(token, failure)).map_err(errors::client).map(Decision::new)
    }

    /// What makes the payloads of a route's topic: called with a value's bytes.
    fn set_payload(&self, py: Python<'_>, route: u32, topic: String, decoder: Py<PyAny>) -> PyResult<()> {
        if !decoder.bind(py).is_callable() {
            return Err(PyTypeError::new_err(format!("a decoder is called with bytes, {decoder} cannot be called")));
        }
        let old = self.decoders.lock().unwrap_or_else(PoisonError::into_inner).insert((route, topic), decoder);
        drop(old); // after the lock: a destructor may run anything
        Ok(())
    }

    /// From now on there are `count` workers: those with a higher number end when they come for a job.
    fn set_workers(&self, count: u32) -> PyResult<()> {
        self.get()?.set_workers(count);
        Ok(())
    }

    /// Starts the thread that decodes for an event loop. Returns a descriptor that is readable while `take_loop` has
    /// something to say.
    fn start_loop(&self) -> PyResult<i32> {
        self.get()?.start_loop().map_err(errors::client)
    }

    /// The jobs to start, and the ids of running ones to cancel because their partition has gone.
    fn take_loop(&self, py: Python<'_>) -> PyResult<(Vec<Job>, Vec<u64>)> {
        let started = self.get()?.take_loop().map_err(errors::client)?;
        let jobs = started.jobs.into_iter().map(|job| self.job(py, job)).collect::<PyResult<_>>()?;
        Ok((jobs, started.cancelled))
    }

    /// Whether no job comes for the event loop any more.
    fn loop_stopped(&self) -> PyResult<bool> {
        Ok(self.get()?.loop_stopped())
    }

    /// Hands out nothing more of the job's partition for `seconds` (None: until `resume`).
    fn pause(&self, py: Python<'_>, job: &Job, seconds: Option<f64>) -> PyResult<()> {
        let wait = crate::dispatcher::seconds(seconds)?;
        let (dispatcher, token) = (self.get()?, job.token()?);
        py.detach(|| dispatcher.pause(token, wait)).map_err(errors::client)
    }

    /// Ends a pause of the job's partition.
    fn resume(&self, py: Python<'_>, job: &Job) -> PyResult<()> {
        let (dispatcher, token) = (self.get()?, job.token()?);
        py.detach(|| dispatcher.resume(token)).map_err(errors::client)
    }

    /// Running totals: jobs, records, failures, dead_letters, expired, stalled.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = self.get()?.counts();
        let fields = PyDict::new(py);
        fields.set_item("jobs", counts.jobs)?;
        fields.set_item("records", counts.records)?;
        fields.set_item("failures", counts.failures)?;
        fields.set_item("dead_letters", counts.dead_letters)?;
        fields.set_item("expired", counts.expired)?;
        fields.set_item("stalled", counts.stalled)?;
        Ok(fields)
    }

    /// Hands out no more consume jobs.
    fn quiet(&self) -> PyResult<()> {
        self.get()?.quiet();
        Ok(())
    }

    /// Quiet, then one shutdown job for each lane that has run, then `next` answers None.
    fn stop(&self) -> PyResult<()> {
        self.get()?.stop();
        Ok(())
    }

    /// `next` answers None at once, whatever is left to do.
    fn release_workers(&self) -> PyResult<()> {
        self.get()?.release_workers();
        Ok(())
    }

    /// The jobs in workers' hands: a list of dicts (topic, partition, slot, route, handler, kind, worker, seconds).
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
                fields.set_item("seconds", job.seconds)?;
                Ok(fields)
            })
            .collect()
    }

    /// The lanes: a list of dicts (topic, partition, route, handler, state, position, committable, high_watermark,
    /// queued_bytes, lag, lag_seconds, last_progress, running_for, stalled, attempt, in_flight, unmarked, paused_for).
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
                fields.set_item("queued_bytes", lane.queued_bytes)?;
                fields.set_item("lag", lane.lag)?;
                fields.set_item("lag_seconds", lane.lag_seconds)?;
                fields.set_item("last_progress", lane.last_progress)?;
                fields.set_item("running_for", lane.running_for)?;
                fields.set_item("stalled", lane.stalled)?;
                fields.set_item("attempt", lane.attempt)?;
                fields.set_item("in_flight", lane.in_flight)?;
                fields.set_item("unmarked", lane.unmarked)?;
                fields.set_item("paused_for", lane.paused_for)?;
                Ok(fields)
            })
            .collect()
    }

    /// Readable while notices wait or a client has failed.
    fn event_fd(&self) -> PyResult<i32> {
        Ok(self.get()?.event_fd())
    }

    /// The notices since the last call.
    fn take_notices(&self) -> PyResult<Vec<Notice>> {
        Ok(self.get()?.take_notices().into_iter().map(Notice::new).collect())
    }

    /// Raises what made a client fail for good, if one has.
    fn check(&self) -> PyResult<()> {
        match self.get()?.fatal() {
            Some(error) => Err(errors::client(error)),
            None => Ok(()),
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn wall_ms() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
}

/// What one thread needs to take jobs: decoder contexts and buffers. One thread at a time.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct Worker {
    inner: Handle<Mutex<grete_client::Worker>>,
}

#[pymethods]
impl Worker {
    /// `number`: from 1; the worker ends when there are to be fewer. 0: it is not one of those that are counted.
    #[new]
    #[pyo3(signature = (name, dispatcher, number=0))]
    fn new(name: &str, dispatcher: &Dispatcher, number: u32) -> PyResult<Self> {
        Ok(Self { inner: Handle::new(Mutex::new(grete_client::Worker::new(name, dispatcher.get()?, number))) })
    }
}
