//! What a failure leads to.

use std::time::Duration;

use grete_client::Decision as Core;
use pyo3::prelude::*;

/// What `Dispatcher.fail` decided.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct Decision {
    decision: Core,
}

impl Decision {
    pub(crate) fn new(decision: Core) -> Self {
        Self { decision }
    }
}

#[pymethods]
impl Decision {
    /// "retry", "halve", "dead_letter", "later", "hold", "refused" or "skipped".
    #[getter]
    fn kind(&self) -> &'static str {
        match self.decision {
            Core::Retry { .. } => "retry",
            Core::Halve { .. } => "halve",
            Core::DeadLetter { .. } => "dead_letter",
            Core::Later { .. } => "later",
            Core::Hold => "hold",
            Core::Refused => "refused",
            Core::Skipped => "skipped",
        }
    }

    /// Seconds until the rows come again; 0 unless "retry" or "later".
    #[getter]
    fn wait(&self) -> f64 {
        match self.decision {
            Core::Retry { wait, .. } | Core::Later { wait } => Duration::from_nanos(wait).as_secs_f64(),
            _ => 0.0,
        }
    }

    /// The coming run's number; 0 unless "retry".
    #[getter]
    fn attempt(&self) -> u32 {
        match self.decision {
            Core::Retry { attempt, .. } => attempt,
            _ => 0,
        }
    }

    /// How many rows come again; 0 unless "retry" or "halve".
    #[getter]
    fn rows(&self) -> usize {
        match self.decision {
            Core::Retry { rows, .. } | Core::Halve { rows } => rows,
            _ => 0,
        }
    }

    /// The offset of the record that goes to the dead letter topic; `None` unless "dead_letter".
    #[getter]
    fn offset(&self) -> Option<i64> {
        match self.decision {
            Core::DeadLetter { offset } => Some(offset),
            _ => None,
        }
    }

    fn __repr__(&self) -> String {
        format!("<Decision {:?}>", self.decision)
    }
}
