//! Where workers take their jobs.

use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant};

use grete_client::{Failure, JobKind, Next, Outcome, Verdict, Wait};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
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
        done: Option<(&Job, Outcome)>,
        timeout: Option<Duration>,
        max_messages: Option<usize>,
    ) -> PyResult<Next> {
        let dispatcher = self.get()?;
        let worker = worker.inner.get()?;
        let done = match done {
            Some((job, outcome)) => {
                job.release();
                Some((job.token.get()?.1.clone(), outcome))
            }
            None => None,
        };
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
}

/// The worker is in another thread's hands.
struct Busy;

#[pymethods]
impl Dispatcher {
    /// `interruptible`: waits can be interrupted by signals, as a main thread needs it; otherwise on a condition variable.
    #[new]
    #[pyo3(signature = (*, interruptible=false))]
    fn new(interruptible: bool) -> PyResult<Self> {
        let wait = if interruptible { Wait::Interruptible } else { Wait::Condvar };
        Ok(Self { inner: Handle::new(grete_client::Dispatcher::new(wait).map_err(errors::client)?) })
    }

    /// Gives `done` back, waits for the next job. `None`: stopped, the worker is to end.
    #[pyo3(signature = (worker, done=None, failed=false))]
    fn next(&self, py: Python<'_>, worker: &Worker, done: Option<&Job>, failed: bool) -> PyResult<Option<Job>> {
        let mut done = done.map(|job| (job, outcome(failed)));
        loop {
            match self.step(py, worker, done.take(), None, None)? {
                Next::Job(job) => return Job::new(py, self.get()?, job).map(Some),
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
        done: Option<&Job>,
        timeout: Option<f64>,
        max_messages: usize,
    ) -> PyResult<Option<Job>> {
        let timeout = seconds(timeout)?;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut done = done.map(|job| (job, Outcome::Done));
        let mut hook: Option<Job>;
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            match self.step(py, worker, done.take(), left, Some(max_messages))? {
                Next::Job(job) => {
                    let consume = matches!(job.kind, JobKind::Consume);
                    let job = Job::new(py, self.get()?, job)?;
                    if consume {
                        return Ok(Some(job));
                    }
                    hook = Some(job);
                    done = hook.as_ref().map(|job| (job, Outcome::Done));
                }
                Next::TimedOut => return Ok(None),
                Next::Stopped => return Err(errors::closed("consumer")),
                Next::Interrupted => py.check_signals()?,
            }
        }
    }

    /// Gives a job back without taking another.
    #[pyo3(signature = (done, failed=false))]
    fn complete(&self, py: Python<'_>, done: &Job, failed: bool) -> PyResult<()> {
        done.release();
        let (dispatcher, token) = (self.get()?, &done.token.get()?.1);
        py.detach(|| dispatcher.complete(token, outcome(failed))).map_err(errors::client).map(drop)
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

    /// The jobs in workers' hands: a list of dicts (topic, partition, route, kind, worker, seconds).
    fn running<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let running = self.get()?.running();
        running
            .into_iter()
            .map(|job| {
                let fields = PyDict::new(py);
                fields.set_item("topic", &*job.topic)?;
                fields.set_item("partition", job.partition)?;
                fields.set_item("route", job.route)?;
                fields.set_item("kind", job.kind.name())?;
                fields.set_item("worker", &*job.worker)?;
                fields.set_item("seconds", job.seconds)?;
                Ok(fields)
            })
            .collect()
    }

    /// The lanes: a list of dicts (topic, partition, route, state, position, committable, high_watermark, queued_bytes,
    /// lag).
    fn lanes<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let lanes = self.get()?.lanes();
        lanes
            .into_iter()
            .map(|lane| {
                let fields = PyDict::new(py);
                fields.set_item("topic", &*lane.topic)?;
                fields.set_item("partition", lane.partition)?;
                fields.set_item("route", lane.route)?;
                fields.set_item("state", lane.state)?;
                fields.set_item("position", lane.position)?;
                fields.set_item("committable", lane.committable)?;
                fields.set_item("high_watermark", lane.high_watermark)?;
                fields.set_item("queued_bytes", lane.queued_bytes)?;
                fields.set_item("lag", lane.lag)?;
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

fn outcome(failed: bool) -> Outcome {
    if failed { Outcome::Failed(Failure::new(Verdict::Retry, "", "")) } else { Outcome::Done }
}

/// What one thread needs to take jobs: decoder contexts and buffers. One thread at a time.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct Worker {
    inner: Handle<Mutex<grete_client::Worker>>,
}

#[pymethods]
impl Worker {
    #[new]
    fn new(name: &str, dispatcher: &Dispatcher) -> PyResult<Self> {
        Ok(Self { inner: Handle::new(Mutex::new(grete_client::Worker::new(name, dispatcher.get()?))) })
    }
}
