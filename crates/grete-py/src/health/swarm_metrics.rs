//! Shared texts and aggregated metrics for the supervisor of a swarm.

use std::sync::Arc;
use std::time::Duration;

use grete_health::metrics::descriptors::{self, MetricDescriptor};
use grete_health::{MetricsAggregator, PublishInfo};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;

/// Text in memory that this process shares with the process that it forks next.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct SharedText {
    board: Arc<grete_health::SharedText>,
}

impl SharedText {
    pub(super) fn to_arc(&self) -> Arc<grete_health::SharedText> {
        Arc::clone(&self.board)
    }
}

#[pymethods]
impl SharedText {
    #[new]
    fn new() -> PyResult<Self> {
        let board = grete_health::SharedText::new().map_err(|error| errors::health(&error))?;
        Ok(Self { board: Arc::new(board) })
    }

    /// Hides the text from children that this process forks from now on.
    fn exclude_from_later_forks(&self) {
        self.board.exclude_from_later_forks();
    }

    /// Replaces the text. Returns `False` if this process does not share the text.
    fn publish(&self, text: &[u8]) -> bool {
        self.board.publish(text)
    }

    /// Returns the text, its age in seconds, and whether its end is missing; `None`: no text was published, or it is
    /// broken.
    fn read<'py>(&self, py: Python<'py>) -> Option<(Bound<'py, PyBytes>, f64, bool)> {
        let mut text = Vec::new();
        let PublishInfo { age, truncated } = self.board.read(&mut text).ok()?;
        Some((PyBytes::new(py, &text), age.as_secs_f64(), truncated))
    }
}

/// Returns the metrics of all nodes and the supervisor's own as one text.
///
/// `nodes`: number of each node, and its shared text if it has one. Texts older than `oldest` seconds are left out, and
/// so are texts that Grete cannot have written. `own`: name of a metric, values of its labels, value. Raises
/// `ValueError` for a metric that does not exist.
#[pyfunction]
pub(crate) fn aggregate_metrics<'py>(
    py: Python<'py>,
    nodes: Vec<(u64, Option<PyRef<'py, SharedText>>)>,
    own: Vec<(String, Vec<String>, f64)>,
    oldest: f64,
) -> PyResult<Bound<'py, PyBytes>> {
    let oldest = Duration::try_from_secs_f64(oldest).unwrap_or(Duration::MAX);
    let mut aggregator = MetricsAggregator::new();
    let mut text = Vec::new();
    for (node, board) in nodes {
        let read = board.and_then(|board| board.board.read(&mut text).ok()).filter(|posted| posted.age <= oldest);
        let complete = read.is_some_and(|posted| aggregator.add(node, &text).is_ok() && !posted.truncated);
        aggregator.add_own_sample(descriptors::SWARM_COMPLETE, &[&node.to_string()], f64::from(u8::from(complete)));
    }
    for (name, labels, value) in own {
        let entry = find_descriptor(&name).filter(|entry| entry.labels.len() == labels.len());
        let entry = entry.ok_or_else(|| PyValueError::new_err(format!("no metric {name} with {labels:?}")))?;
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        aggregator.add_own_sample(entry, &labels, value);
    }
    Ok(PyBytes::new(py, aggregator.finish().as_bytes()))
}

/// Returns all metrics: name, kind ("counter", "gauge", "histogram"), help, names of labels. The supervisor puts `node`
/// before the labels of its nodes' metrics.
#[pyfunction]
pub(crate) fn metric_descriptors() -> Vec<(&'static str, &'static str, &'static str, Vec<&'static str>)> {
    let all = descriptors::ALL.iter();
    all.map(|entry| (entry.name, entry.kind.name(), entry.help, entry.labels.to_vec())).collect()
}

fn find_descriptor(name: &str) -> Option<&'static MetricDescriptor> {
    descriptors::ALL.iter().copied().find(|entry| entry.name == name)
}
