//! The stop deadline, kept without the GIL.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;

use crate::dispatcher::seconds;
use crate::errors;
use crate::handle::Handle;

/// From its making on, the process has `timeout` seconds. Then `signal` is raised (faulthandler's C handler dumps all
/// stacks) and the process exits with 2, whoever holds the GIL. `disarm` before that ends the threat.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct StopGuard {
    guard: Mutex<Option<Handle<grete_client::StopGuard>>>,
}

#[pymethods]
impl StopGuard {
    #[new]
    fn new(timeout: f64, signal: i32) -> PyResult<Self> {
        let timeout = seconds(Some(timeout))?.unwrap_or(Duration::ZERO);
        let guard = grete_client::StopGuard::arm(timeout, signal).map_err(errors::client)?;
        Ok(Self { guard: Mutex::new(Some(Handle::new(guard))) })
    }

    /// Calls the deadline off. A second call does nothing.
    fn disarm(&self) {
        drop(self.guard.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
