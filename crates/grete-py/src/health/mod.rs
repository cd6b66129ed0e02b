//! Health that is told without the GIL.

mod source;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use grete_client::fork_generation;
use grete_health::{Canary, Pipe, Reporter};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCFunction;

use crate::client::Client;
use crate::dispatcher::Dispatcher;
use crate::errors;
use crate::handle::Handle;
use source::ProcessSource;

/// Longer, and nobody learns anything.
const LONGEST_INTERVAL: f64 = 3600.0;

/// Reports of this process's health, written to a pipe by a thread that needs no GIL.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct Health {
    threads: Handle<Arc<Threads>>,
    source: Handle<Arc<ProcessSource>>,
    /// What `atexit` has been told to call.
    at_exit: Mutex<Option<Py<PyAny>>>,
}

struct Threads {
    reporter: Reporter,
    canary: Option<Canary>,
}

impl Threads {
    /// The canary may wait for the GIL: whoever calls this must not have it.
    fn close(&self) {
        self.reporter.close();
        if let Some(canary) = &self.canary {
            canary.close();
        }
    }
}

#[pymethods]
impl Health {
    /// `fd`: the write end of a pipe. `interval`: seconds between two reports. `canary`: measure how long the GIL is waited
    /// for.
    #[new]
    #[pyo3(signature = (fd, interval, dispatcher, canary=true))]
    fn new(py: Python<'_>, fd: i32, interval: f64, dispatcher: &Dispatcher, canary: bool) -> PyResult<Self> {
        let time = Duration::try_from_secs_f64(interval).ok();
        let time = time.filter(|time| !time.is_zero() && interval <= LONGEST_INTERVAL).ok_or_else(|| {
            PyValueError::new_err(format!("an interval is above 0 and at most {LONGEST_INTERVAL} s, not {interval}"))
        })?;
        let source = Arc::new(ProcessSource::new(dispatcher.get()?.clone()));
        let wrong = |error| errors::health(&error);
        let pipe = Pipe::new(fd).map_err(wrong)?;
        // It asks the interpreter for nothing but its lock.
        let canary =
            canary.then(|| Canary::start(|| Python::try_attach(|_| ()).is_some())).transpose().map_err(wrong)?;
        let watch = canary.as_ref().map(Canary::watch);
        let reporter = match Reporter::start(pipe, time, Arc::clone(&source) as _, watch, grete_health::leave_orphaned)
        {
            Ok(reporter) => reporter,
            Err(error) => {
                py.detach(|| canary.iter().for_each(Canary::close));
                return Err(wrong(error));
            }
        };
        let threads = Arc::new(Threads { reporter, canary });
        let health =
            Self { threads: Handle::new(Arc::clone(&threads)), source: Handle::new(source), at_exit: Mutex::default() };
        let at_exit = close_at_exit(py, &threads)?; // on failure the drop of `health` ends the threads
        *health.at_exit.lock().unwrap_or_else(PoisonError::into_inner) = Some(at_exit);
        Ok(health)
    }

    /// From now on reports tell of its membership, too.
    fn add_client(&self, client: &Client) -> PyResult<()> {
        self.source.get()?.add(client.get()?.clone());
        Ok(())
    }

    /// Ends both threads. A second call does nothing.
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

impl Drop for Health {
    fn drop(&mut self) {
        // In a forked child there is no thread to end. The interpreter may be at its end: then `close_at_exit` has been here.
        if let Ok(threads) = self.threads.get() {
            Python::try_attach(|py| py.detach(|| threads.close()));
        }
    }
}

/// Has the threads end before the interpreter does. A canary that waits for the GIL when it is finalised is torn down by
/// Python 3.11 to 3.13, through Rust frames: that aborts the process; later versions let it hang, which harms nobody.
///
/// `atexit` runs what it was told before finalisation begins, and it may let go of the GIL: the canary gets it, or sees that
/// it is to stop. What is forked off meanwhile has the same `atexit`, and none of the threads.
fn close_at_exit(py: Python<'_>, threads: &Arc<Threads>) -> PyResult<Py<PyAny>> {
    let (threads, generation) = (Arc::downgrade(threads), fork_generation());
    let close = PyCFunction::new_closure(py, Some(c"close_health"), None, move |arguments, _keywords| {
        if let Some(threads) = threads.upgrade().filter(|_| generation == fork_generation()) {
            arguments.py().detach(|| threads.close());
        }
    })?;
    py.import("atexit")?.call_method1("register", (&close,))?;
    Ok(close.into_any().unbind())
}
