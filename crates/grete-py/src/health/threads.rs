//! The threads that tell of health, and their end.

use std::sync::{Arc, OnceLock};

use grete_client::fork_generation;
use grete_health::probes::Server;
use grete_health::{Canary, HealthError, Reporter, Watch};
use pyo3::prelude::*;
use pyo3::types::PyCFunction;

/// Each is there once it has been started.
#[derive(Default)]
pub(super) struct Threads {
    pub(super) reporter: OnceLock<Reporter>,
    pub(super) server: OnceLock<Server>,
    canary: OnceLock<Canary>,
}

impl Threads {
    /// Starts the canary, unless it is there.
    pub(super) fn watch(&self) -> Result<Watch, HealthError> {
        if let Some(canary) = self.canary.get() {
            return Ok(canary.watch());
        }
        // It asks the interpreter for nothing but its lock.
        let canary = Canary::start(|| Python::try_attach(|_| ()).is_some())?;
        Ok(self.canary.get_or_init(|| canary).watch())
    }

    /// The canary may wait for the GIL: whoever calls this must not have it.
    pub(super) fn close(&self) {
        if let Some(reporter) = self.reporter.get() {
            reporter.close();
        }
        if let Some(server) = self.server.get() {
            server.close();
        }
        if let Some(canary) = self.canary.get() {
            canary.close();
        }
    }
}

/// Has the threads end before the interpreter does. A canary that waits for the GIL when it is finalised is torn down by
/// Python 3.11 to 3.13, through Rust frames: that aborts the process; later versions let it hang, which harms nobody.
///
/// `atexit` runs what it was told before finalisation begins, and it may let go of the GIL: the canary gets it, or sees that
/// it is to stop. What is forked off meanwhile has the same `atexit`, and none of the threads.
pub(super) fn close_at_exit(py: Python<'_>, threads: &Arc<Threads>) -> PyResult<Py<PyAny>> {
    let (threads, generation) = (Arc::downgrade(threads), fork_generation());
    let close = PyCFunction::new_closure(py, Some(c"close_health"), None, move |arguments, _keywords| {
        if let Some(threads) = threads.upgrade().filter(|_| generation == fork_generation()) {
            arguments.py().detach(|| threads.close());
        }
    })?;
    py.import("atexit")?.call_method1("register", (&close,))?;
    Ok(close.into_any().unbind())
}
