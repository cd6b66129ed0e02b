//! Stopping, as far as it must work without the GIL.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use grete_client::StopSignals;
use pyo3::prelude::*;

use crate::dispatcher::seconds;
use crate::errors;
use crate::handle::Handle;

/// Longer than any stop, short enough to be added to a clock.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn patience(timeout: f64) -> PyResult<Duration> {
    Ok(seconds(Some(timeout))?.map_or(YEAR, |timeout| timeout.min(YEAR)))
}

/// From its making on, the process has `timeout` seconds. Then `signal` is raised (faulthandler's C handler dumps all
/// stacks; 0: none) and the process exits with 2, whoever holds the GIL. `disarm` before that ends the threat.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct StopGuard {
    guard: Mutex<Option<Handle<grete_client::StopGuard>>>,
}

#[pymethods]
impl StopGuard {
    #[new]
    fn new(timeout: f64, signal: i32) -> PyResult<Self> {
        let guard = grete_client::StopGuard::arm(patience(timeout)?, signal).map_err(errors::client)?;
        Ok(Self { guard: Mutex::new(Some(Handle::new(guard))) })
    }

    /// Calls the deadline off. A second call does nothing.
    fn disarm(&self) {
        drop(self.guard.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Watches for signals with a thread that needs no GIL: the first of `stop` begins the `timeout`, a second `stop[0]`
/// shortens it to a second; at its end `dump` is raised and the process exits with 2.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct SignalWatch {
    watch: Handle<grete_client::SignalWatch>,
}

#[pymethods]
impl SignalWatch {
    #[new]
    fn new(timeout: f64, stop: [i32; 2], dump: i32) -> PyResult<Self> {
        let watch = grete_client::SignalWatch::start(patience(timeout)?, StopSignals { stop, dump });
        Ok(Self { watch: Handle::new(watch.map_err(errors::client)?) })
    }

    /// For `signal.set_wakeup_fd`.
    fn wakeup_fd(&self) -> PyResult<i32> {
        Ok(self.watch.get()?.wakeup_fd())
    }

    /// Readable after a signal or `wake`.
    fn wait_fd(&self) -> PyResult<i32> {
        Ok(self.watch.get()?.wait_fd())
    }

    /// Makes `wait_fd` readable, from any thread.
    fn wake(&self) -> PyResult<()> {
        self.watch.get()?.wake();
        Ok(())
    }

    /// The signals since the last call, in order.
    fn take(&self) -> PyResult<Vec<i32>> {
        Ok(self.watch.get()?.take())
    }
}
