//! Assigned partition that a test feeds by hand.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grete_client::TestLane;
use pyo3::prelude::*;

use crate::dispatch::dispatcher::Dispatcher;
use crate::dispatch::route::Route;
use crate::errors;
use crate::ffi::fork_guarded::ForkGuarded;

/// Assigned partition that a test feeds by hand, for tests and benchmarks of everything behind the network.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct _TestingLane {
    lane: ForkGuarded<Mutex<TestLane>>,
}

#[pymethods]
impl _TestingLane {
    #[new]
    #[pyo3(signature = (dispatcher, route, topic, partition, position=0))]
    fn new(dispatcher: &Dispatcher, route: &Route, topic: &str, partition: i32, position: i64) -> PyResult<Self> {
        let policy = Arc::clone(&route.get().policy);
        let lane = TestLane::new(dispatcher.get()?, policy, topic, partition, position);
        Ok(Self { lane: ForkGuarded::new(Mutex::new(lane)) })
    }

    /// Pushes whole record batches, in the form that a broker sends. Raises GreteError for other data.
    fn push(&self, data: Vec<u8>) -> PyResult<()> {
        let pushed = self.lane()?.push(data);
        pushed.map_err(errors::client) // without the lock: an error is a Python object
    }

    /// Moves the position, as a seek does. What was pushed and not handed out is dropped: push again from there on.
    fn seek(&self, position: i64) -> PyResult<()> {
        self.lane()?.seek(position);
        Ok(())
    }

    /// Returns those of the ascending `offsets` that are done. Empty after the partition is lost or abandoned.
    fn done(&self, offsets: Vec<i64>) -> PyResult<Vec<i64>> {
        Ok(self.lane()?.done_offsets(&offsets))
    }

    /// Revokes the partition; `lost`: another member has it already.
    #[pyo3(signature = (lost=false))]
    fn revoke(&self, lost: bool) -> PyResult<()> {
        self.lane()?.revoke(lost);
        Ok(())
    }

    /// Lets the time to give up the partition run out.
    fn abandon(&self) -> PyResult<()> {
        self.lane()?.abandon();
        Ok(())
    }

    /// Returns the offset that could be committed now; `None`: no change since the last call.
    fn committable(&self) -> PyResult<Option<i64>> {
        Ok(self.lane()?.committable())
    }
}

impl _TestingLane {
    fn lane(&self) -> PyResult<MutexGuard<'_, TestLane>> {
        Ok(self.lane.get()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
