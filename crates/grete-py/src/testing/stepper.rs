//! Stepper: takes the jobs of a dispatcher on a virtual clock, without waiting.

use std::time::Duration;

use grete_client::{NextJob, Pool};
use pyo3::prelude::*;

use crate::convert::timeout_or_forever;
use crate::dispatch::dispatcher::{Dispatcher, Worker};
use crate::dispatch::job::Job;
use crate::errors;
use crate::event::EventChannel;

/// Takes jobs of one pool from a dispatcher on a virtual clock, and advances that clock. For one thread.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct _TestingStepper {
    dispatcher: Py<Dispatcher>,
    worker: Py<Worker>,
}

#[pymethods]
impl _TestingStepper {
    /// `events`: see `Dispatcher`. `event_loop`: takes jobs of asynchronous handlers, else those of worker threads.
    #[new]
    #[pyo3(signature = (*, events=Vec::new(), event_loop=false))]
    fn new(py: Python<'_>, events: Vec<Bound<'_, EventChannel>>, event_loop: bool) -> PyResult<Self> {
        let inner = grete_client::Dispatcher::with_virtual_time().map_err(errors::client)?;
        let pool = if event_loop { Pool::EventLoop } else { Pool::Threads };
        let worker = Worker::from_context(inner.pool_context("test", pool));
        let dispatcher = Dispatcher::from_inner(inner, &events);
        Ok(Self { dispatcher: Py::new(py, dispatcher)?, worker: Py::new(py, worker)? })
    }

    /// Dispatcher whose jobs this object takes.
    #[getter]
    fn dispatcher(&self, py: Python<'_>) -> Py<Dispatcher> {
        self.dispatcher.clone_ref(py)
    }

    /// Completes `done` and returns the next job; `None`: no job is ready now.
    #[pyo3(signature = (done=None))]
    fn take(&self, py: Python<'_>, done: Option<&Job>) -> PyResult<Option<Job>> {
        let (dispatcher, worker) = (self.dispatcher.get(), self.worker.get());
        match dispatcher.complete_and_take(py, worker, done, Some(Duration::ZERO), None)? {
            NextJob::Job(job) => dispatcher.job(py, job).map(Some),
            NextJob::Stopped | NextJob::TimedOut | NextJob::Interrupted => Ok(None),
        }
    }

    /// Seconds of virtual time since the start.
    #[getter]
    fn time(&self) -> PyResult<f64> {
        Ok(self.dispatcher.get().get()?.virtual_time().as_secs_f64())
    }

    /// Milliseconds since 1970 on the wall clock, which advances with the virtual time.
    #[getter]
    fn wall_clock_ms(&self) -> PyResult<i64> {
        Ok(self.dispatcher.get().get()?.wall_clock_ms())
    }

    /// Advances the clock to `time` in seconds since the start, and makes all jobs ready that are due by then.
    fn advance(&self, time: f64) -> PyResult<()> {
        self.dispatcher.get().get()?.advance_virtual_time(timeout_or_forever(Some(time))?);
        Ok(())
    }

    /// Returns the timers that are set: the time of the next one (`None`: there is none), how many units wait for the
    /// backoff after a failure, and how many other timers lead to records (delays, pauses, rate limits). Ticks are in
    /// neither number.
    fn timers(&self) -> PyResult<(Option<f64>, usize, usize)> {
        let timers = self.dispatcher.get().get()?.pending_timers();
        Ok((timers.next.map(|at| Duration::from_nanos(at).as_secs_f64()), timers.backoffs, timers.others))
    }
}
