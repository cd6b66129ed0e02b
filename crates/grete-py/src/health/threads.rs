//! Threads that report health, and their end.

use std::sync::{Arc, OnceLock};

use grete_client::fork_generation;
use grete_health::probes::Server;
use grete_health::{GilProbe, GilProbeHandle, HealthError, ProcessReporter, Reporter};
use pyo3::prelude::*;
use pyo3::types::PyCFunction;

/// Threads of one `Health`, each set once it has been started.
#[derive(Default)]
pub(super) struct HealthThreads {
    pub(super) reporter: OnceLock<Reporter>,
    pub(super) server: OnceLock<Server>,
    pub(super) process_reporter: OnceLock<ProcessReporter>,
    gil_probe: OnceLock<GilProbe>,
}

impl HealthThreads {
    /// Starts the GIL probe unless it runs.
    pub(super) fn start_gil_probe(&self) -> Result<GilProbeHandle, HealthError> {
        if let Some(probe) = self.gil_probe.get() {
            return Ok(probe.handle());
        }
        // The probe uses nothing of the interpreter but its lock.
        let probe = GilProbe::start(|| Python::try_attach(|_| ()).is_some())?;
        let handle = probe.handle();
        match self.gil_probe.set(probe) {
            Ok(()) => Ok(handle),
            Err(second) => {
                second.close(); // another thread has started one meanwhile
                self.start_gil_probe()
            }
        }
    }

    /// Closes a forked child's copies of the threads' descriptors.
    pub(super) fn close_in_child(&self) {
        if let Some(reporter) = self.reporter.get() {
            reporter.close_in_child();
        }
        if let Some(server) = self.server.get() {
            server.close_in_child();
        }
    }

    /// Ends all threads. The caller must not hold the GIL, because the GIL probe may wait for it.
    pub(super) fn close(&self) {
        // First: its last report still has the measurements of the others.
        if let Some(reporter) = self.process_reporter.get() {
            reporter.close();
        }
        if let Some(reporter) = self.reporter.get() {
            reporter.close();
        }
        if let Some(server) = self.server.get() {
            server.close();
        }
        if let Some(probe) = self.gil_probe.get() {
            probe.close();
        }
    }
}

/// Registers an `atexit` callback that ends the threads before the interpreter finalizes.
///
/// Python 3.11 to 3.13 tear down a GIL probe that waits for the GIL during finalization, through Rust frames: that
/// aborts the process. Later versions let the probe hang, which is harmless.
///
/// `atexit` runs its callbacks before finalization begins, and may release the GIL: the probe gets the GIL, or sees
/// that it should stop. A child that is forked meanwhile has the same `atexit`, and none of the threads.
pub(super) fn register_close_at_exit(py: Python<'_>, threads: &Arc<HealthThreads>) -> PyResult<Py<PyAny>> {
    let (threads, generation) = (Arc::downgrade(threads), fork_generation());
    let close = PyCFunction::new_closure(py, Some(c"close_health"), None, move |arguments, _keywords| {
        if let Some(threads) = threads.upgrade().filter(|_| generation == fork_generation()) {
            arguments.py().detach(|| threads.close());
        }
    })?;
    py.import("atexit")?.call_method1("register", (&close,))?;
    Ok(close.into_any().unbind())
}
