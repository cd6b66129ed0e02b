//! What the network thread has to say.

use grete_client::Level;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Facts that are whole numbers. All others are text, though they may look like one: a broker's name is no quantity.
const COUNTED: &[&str] =
    &["partition", "slot", "offset", "first_offset", "last_offset", "records", "open", "from", "to", "generation"];

/// Something worth a log line: a broker went away, the group rebalanced.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct Notice {
    notice: grete_client::Notice,
}

impl Notice {
    pub(crate) fn new(notice: grete_client::Notice) -> Self {
        Self { notice }
    }
}

#[pymethods]
impl Notice {
    /// As `logging` counts: 10 debug, 20 info, 30 warning, 40 error.
    #[getter]
    fn level(&self) -> u8 {
        match self.notice.level {
            Level::Debug => 10,
            Level::Info => 20,
            Level::Warning => 30,
            Level::Error => 40,
        }
    }

    /// For machines: "broker.disconnected".
    #[getter]
    fn name(&self) -> &str {
        self.notice.name
    }

    /// For people.
    #[getter]
    fn message(&self) -> &str {
        &self.notice.message
    }

    /// The facts of the message, by name; those that count or place something are numbers.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        for (name, value) in &self.notice.fields {
            match value.parse::<i64>() {
                Ok(number) if COUNTED.contains(name) => fields.set_item(name, number)?,
                _ if *name == "seconds" => fields.set_item(name, value.parse::<f64>().unwrap_or_default())?,
                _ => fields.set_item(name, value)?,
            }
        }
        Ok(fields)
    }

    fn __repr__(&self) -> String {
        format!("<Notice {}: {}>", self.notice.name, self.notice.message)
    }
}
