//! Choice of how a call waits for the metadata of a new topic: asleep, or by queueing its records.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// How the records of one call wait for the metadata of their topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetadataWait {
    /// The call sleeps, and raises the error of the wait.
    Asleep,
    /// The records are queued, and their deliveries get the error of the wait.
    Queued,
}

impl MetadataWait {
    /// Chooses for a call on this thread, which found no metadata. A thread that runs an event loop must not sleep.
    /// `max_block`: of the producer; zero: no record may wait.
    #[cold]
    pub(super) fn for_this_thread(py: Python<'_>, max_block: Duration) -> Self {
        if !max_block.is_zero() && is_in_event_loop(py).unwrap_or(false) { Self::Queued } else { Self::Asleep }
    }
}

/// Returns whether this thread runs an asyncio event loop. A process with such a loop has imported asyncio.
fn is_in_event_loop(py: Python<'_>) -> PyResult<bool> {
    let modules = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?;
    let Some(asyncio) = modules.get_item("asyncio")? else { return Ok(false) };
    Ok(!asyncio.call_method0("_get_running_loop")?.is_none())
}
