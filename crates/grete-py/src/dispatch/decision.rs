//! Decision of the dispatcher about a failed job.

use std::time::Duration;

use grete_client::Decision as Core;
use pyo3::prelude::*;

/// Decision of the dispatcher about a failed job.
#[pyclass(frozen, module = "grete._native")]
#[derive(Debug, Default)]
pub(crate) struct Decision {
    /// "retry", "bisect", "dead_letter", "later", "halt", "refused" or "skipped".
    #[pyo3(get)]
    kind: &'static str,
    /// Seconds until the records are presented again; 0 unless "retry" or "later".
    #[pyo3(get)]
    wait: f64,
    /// Number of the next run; 0 unless "retry".
    #[pyo3(get)]
    attempt: u32,
    /// Number of records presented again; 0 unless "retry" or "bisect".
    #[pyo3(get)]
    rows: usize,
    /// Offset of the record that goes to the dead letter topic; `None` unless "dead_letter".
    #[pyo3(get)]
    offset: Option<i64>,
}

impl Decision {
    pub(crate) fn new(decision: Core) -> Self {
        let seconds = |nanos: u64| Duration::from_nanos(nanos).as_secs_f64();
        let of = |kind| Self { kind, ..Self::default() };
        match decision {
            Core::Retry { wait, attempt, rows } => Self { wait: seconds(wait), attempt, rows, ..of("retry") },
            Core::Bisect { rows } => Self { rows, ..of("bisect") },
            Core::DeadLetter { offset } => Self { offset: Some(offset), ..of("dead_letter") },
            Core::RetryLater { wait } => Self { wait: seconds(wait), ..of("later") },
            Core::Halt => of("halt"),
            Core::Fenced => of("refused"),
            Core::Skipped => of("skipped"),
        }
    }
}

#[pymethods]
impl Decision {
    fn __repr__(&self) -> String {
        format!("<{self:?}>")
    }
}
