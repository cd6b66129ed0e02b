//! Health that is told without the GIL.

mod families;
mod source;
mod swarm;
mod threads;

use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use grete_health::probes::Server;
use grete_health::{Examiner, Limits, Pipe, Posting, Reporter, Watch, exposition};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::client::Client;
use crate::dispatcher::Dispatcher;
use crate::errors;
use crate::handle::Handle;
use crate::producer::Producer;
use families::Families;
use source::ProcessSource;
use threads::Threads;

pub(crate) use swarm::{Board, gather_metrics, metrics_catalogue};

/// Longer, and nobody learns anything.
const LONGEST_INTERVAL: f64 = 3600.0;

/// How this process does, told to whoever asks, by threads that need no GIL.
#[pyclass(frozen, weakref, module = "grete._core")]
pub(crate) struct Health {
    threads: Handle<Arc<Threads>>,
    source: Handle<Arc<ProcessSource>>,
    examiner: Handle<Arc<Examiner>>,
    /// What `atexit` has been told to call, once there is a thread.
    at_exit: Mutex<Option<Py<PyAny>>>,
}

#[pymethods]
impl Health {
    /// `app`: its name. The timeouts are seconds; `None` or infinite: no limit.
    #[new]
    #[pyo3(signature = (dispatcher, app="", gil_timeout=None, unsteady_timeout=None))]
    fn new(
        dispatcher: &Dispatcher,
        app: &str,
        gil_timeout: Option<f64>,
        unsteady_timeout: Option<f64>,
    ) -> PyResult<Self> {
        let source = Arc::new(ProcessSource::new(dispatcher.get()?.clone()));
        let limit = |seconds: Option<f64>| seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let limits = Limits { gil_timeout: limit(gil_timeout), unsteady_timeout: limit(unsteady_timeout) };
        let examiner = Arc::new(Examiner::new(app.into(), limits, Arc::clone(&source) as _));
        Ok(Self {
            threads: Handle::new(Arc::default()),
            source: Handle::new(source),
            examiner: Handle::new(examiner),
            at_exit: Mutex::default(),
        })
    }

    /// From now on its membership and what it does is told, too; at once when it has become steady, or is it no more.
    fn add_client(&self, client: &Client) -> PyResult<()> {
        let client = client.get()?;
        let threads = Arc::downgrade(self.threads.get()?);
        client.when_steadiness_turns(move || {
            if let Some(threads) = threads.upgrade()
                && let Some(reporter) = threads.reporter.get()
            {
                reporter.nudge();
            }
        });
        self.source.get()?.add(client.clone());
        Ok(())
    }

    /// From now on what it does is told, too, even after its end.
    fn add_producer(&self, producer: &Producer) -> PyResult<()> {
        self.source.get()?.add_producer(producer.client()?.clone());
        Ok(())
    }

    /// Starts a thread that writes reports. `fd`: the write end of a pipe. `interval`: seconds between two reports. `canary`:
    /// measure how long the GIL is waited for. `board`: metrics are posted there with each report.
    #[pyo3(signature = (fd, interval, canary=true, board=None))]
    fn report(&self, py: Python<'_>, fd: i32, interval: f64, canary: bool, board: Option<&Board>) -> PyResult<()> {
        let time = Duration::try_from_secs_f64(interval).ok();
        let time = time.filter(|time| !time.is_zero() && interval <= LONGEST_INTERVAL).ok_or_else(|| {
            PyValueError::new_err(format!("an interval is above 0 and at most {LONGEST_INTERVAL} s, not {interval}"))
        })?;
        let (threads, source, examiner) = (self.threads.get()?, self.source.get()?, self.examiner.get()?);
        if threads.reporter.get().is_some() {
            return Err(PyRuntimeError::new_err("it reports already"));
        }
        let wrong = |error| errors::health(&error);
        let pipe = Pipe::new(fd).map_err(wrong)?;
        self.before_threads(py, threads)?;
        let watch = canary.then(|| self.watch(threads)).transpose()?;
        let posting = board.map(|board| Posting { board: board.share(), examiner: Arc::clone(examiner) });
        let source = Arc::clone(source) as _;
        let reporter = Reporter::start(pipe, time, source, watch, posting, grete_health::leave_orphaned);
        if let Err(second) = threads.reporter.set(reporter.map_err(wrong)?) {
            second.close();
        }
        Ok(())
    }

    /// Starts a thread that answers probes. `listeners`: descriptors of listening sockets; it has duplicates of its own.
    fn serve(&self, py: Python<'_>, listeners: Vec<RawFd>) -> PyResult<()> {
        let threads = self.threads.get()?;
        if threads.server.get().is_some() {
            return Err(PyRuntimeError::new_err("it serves already"));
        }
        self.before_threads(py, threads)?;
        self.watch(threads)?;
        let server = Server::start(&listeners, Arc::clone(self.examiner.get()?) as _);
        if let Err(second) = threads.server.set(server.map_err(|error| errors::health(&error))?) {
            second.close();
        }
        Ok(())
    }

    /// In a forked child: closes its copies of the probes' sockets.
    fn leave_to_parent(&self) {
        // Plain memory and system calls: the parent's threads are not here, and nothing of theirs is waited for.
        if let Some(server) = self.threads.memory().server.get().filter(|_| self.threads.get().is_err()) {
            server.abandon();
        }
    }

    /// Everything that is measured, in Prometheus' text format.
    fn metrics(&self, py: Python<'_>) -> PyResult<String> {
        let examiner = self.examiner.get()?;
        let text = py.detach(|| exposition::write(examiner.metrics(), Vec::new()));
        Ok(String::from_utf8(text)?)
    }

    /// The same as objects.
    fn families<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let examiner = self.examiner.get()?;
        let metrics = py.detach(|| examiner.metrics());
        let mut families = Families::new(py);
        metrics.tell(&mut families);
        families.into_list()
    }

    /// Ends all threads. A second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let threads = self.threads.get()?;
        py.detach(|| threads.close());
        let at_exit = self.at_exit.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(at_exit) = at_exit {
            py.import("atexit")?.call_method1("unregister", (at_exit,))?;
        }
        Ok(())
    }
}

impl Health {
    fn watch(&self, threads: &Threads) -> PyResult<Watch> {
        let watch = threads.watch().map_err(|error| errors::health(&error))?;
        self.examiner.get()?.watch(watch.clone());
        Ok(watch)
    }

    /// The interpreter is told to end them, once.
    fn before_threads(&self, py: Python<'_>, threads: &Arc<Threads>) -> PyResult<()> {
        let known = |at_exit: &Mutex<Option<_>>| at_exit.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if !known(&self.at_exit) {
            // Without the lock: this runs Python, and whoever waits for the lock may hold the GIL.
            let at_exit = threads::close_at_exit(py, threads)?;
            *self.at_exit.lock().unwrap_or_else(PoisonError::into_inner) = Some(at_exit);
        }
        Ok(())
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        // In a forked child there is no thread to end. The interpreter may be at its end: then `close_at_exit` has been here.
        if let Ok(threads) = self.threads.get() {
            Python::try_attach(|py| py.detach(|| threads.close()));
        }
    }
}
