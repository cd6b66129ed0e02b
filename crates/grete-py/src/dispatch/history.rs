//! Records before a committed offset, whose ids deduplication needs.

use pyo3::prelude::*;

use crate::consumer::messages::Messages;

/// Records to read before the first job of a partition.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct History {
    inner: grete_client::History,
}

impl History {
    pub(crate) fn new(inner: grete_client::History) -> Self {
        Self { inner }
    }
}

#[pymethods]
impl History {
    #[getter]
    fn topic(&self) -> &str {
        &self.inner.request().tp.topic
    }

    #[getter]
    fn partition(&self) -> i32 {
        self.inner.request().tp.partition
    }

    /// Offset behind the last record to read.
    #[getter]
    fn before(&self) -> i64 {
        self.inner.request().before
    }

    /// Number of records that fit into the memory.
    #[getter]
    fn records(&self) -> usize {
        self.inner.request().records
    }

    /// Age in seconds, as seen from the last record, beyond which records are not needed.
    #[getter]
    fn window(&self) -> f64 {
        self.inner.request().window_ms as f64 / 1e3
    }

    /// Whether the partition still waits. If not, its position has moved, or it is gone.
    #[getter]
    fn awaited(&self) -> bool {
        self.inner.is_awaited()
    }

    /// Learns the ids of records, in the order of their offsets.
    fn learn(&self, py: Python<'_>, messages: &Messages) {
        py.detach(|| self.inner.learn(messages.columns(), messages.range()));
    }

    /// Ends the wait: all records are learned.
    fn end(&self, py: Python<'_>) {
        py.detach(|| self.inner.end());
    }

    /// Records why the records cannot be read now.
    fn fail(&self, py: Python<'_>, error: &str) {
        py.detach(|| self.inner.fail(error));
    }
}
