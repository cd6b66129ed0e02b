//! What the supervisor of a swarm needs so that it can tell the metrics of its nodes.

use std::sync::Arc;
use std::time::Duration;

use grete_health::metrics::catalogue::{self, Entry};
use grete_health::{Gathering, Posted};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;

/// A place for a text in memory that is shared with the process that is forked next.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct Board {
    board: Arc<grete_health::Board>,
}

impl Board {
    /// For the thread that posts.
    pub(super) fn share(&self) -> Arc<grete_health::Board> {
        Arc::clone(&self.board)
    }
}

#[pymethods]
impl Board {
    #[new]
    fn new() -> PyResult<Self> {
        let board = grete_health::Board::new().map_err(|error| errors::health(&error))?;
        Ok(Self { board: Arc::new(board) })
    }

    /// Children that this process forks from now on do not have it.
    fn keep(&self) {
        self.board.keep();
    }

    /// The text takes the place of the last one. False: this process has no part in it.
    fn post(&self, text: &[u8]) -> bool {
        self.board.post(text)
    }

    /// The last text, its age in seconds, and whether its end is missing; `None`: there is none, or it is broken.
    fn read<'py>(&self, py: Python<'py>) -> Option<(Bound<'py, PyBytes>, f64, bool)> {
        let mut text = Vec::new();
        let Posted { age, cut } = self.board.read(&mut text).ok()?;
        Some((PyBytes::new(py, &text), age.as_secs_f64(), cut))
    }
}

/// The metrics of all nodes and the supervisor's own as one text.
///
/// `nodes`: each number and its board, if there is one. What is older than `oldest` seconds is left out, and so is what no Grete
/// has written. `own`: a metric's name, the values of its labels, its value. ValueError: there is no such metric.
#[pyfunction]
pub(crate) fn gather_metrics<'py>(
    py: Python<'py>,
    nodes: Vec<(u64, Option<PyRef<'py, Board>>)>,
    own: Vec<(String, Vec<String>, f64)>,
    oldest: f64,
) -> PyResult<Bound<'py, PyBytes>> {
    let oldest = Duration::try_from_secs_f64(oldest).unwrap_or(Duration::MAX);
    let mut gathering = Gathering::new();
    let mut text = Vec::new();
    for (node, board) in nodes {
        let read = board.and_then(|board| board.board.read(&mut text).ok()).filter(|posted| posted.age <= oldest);
        let complete = read.is_some_and(|posted| gathering.add(node, &text).is_ok() && !posted.cut);
        gathering.tell(catalogue::SWARM_COMPLETE, &[&node.to_string()], f64::from(u8::from(complete)));
    }
    for (name, labels, value) in own {
        let entry = entry(&name).filter(|entry| entry.labels.len() == labels.len());
        let entry = entry.ok_or_else(|| PyValueError::new_err(format!("no metric {name} with {labels:?}")))?;
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        gathering.tell(entry, &labels, value);
    }
    Ok(PyBytes::new(py, gathering.finish().as_bytes()))
}

/// All metrics there are: name, kind ("counter", "gauge", "histogram"), help, names of labels. A node's get `node` before them.
#[pyfunction]
pub(crate) fn metrics_catalogue() -> Vec<(&'static str, &'static str, &'static str, Vec<&'static str>)> {
    let all = catalogue::ALL.iter();
    all.map(|entry| (entry.name, entry.kind.name(), entry.help, entry.labels.to_vec())).collect()
}

fn entry(name: &str) -> Option<&'static Entry> {
    catalogue::ALL.iter().copied().find(|entry| entry.name == name)
}
