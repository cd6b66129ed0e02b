//! Pattern of topic names.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Pattern of topic names: a regular expression that begins with `^` and matches whole names.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct TopicPattern(grete_client::TopicPattern);

#[pymethods]
impl TopicPattern {
    /// Raises `ValueError` with the reason if the text is no pattern.
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        grete_client::TopicPattern::parse(text).map(Self).map_err(PyValueError::new_err)
    }

    /// Returns whether the pattern matches the whole name.
    fn matches(&self, topic: &str) -> bool {
        self.0.matches(topic)
    }
}
