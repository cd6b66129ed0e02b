//! Log events of the network threads.

use std::cell::RefCell;
use std::time::UNIX_EPOCH;

use grete_client::{Level, LogSink, TimestampedLogEvent};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Fields that are integers. All others are text, even if they look like numbers: a broker's name is no quantity.
const INTEGER_FIELDS: &[&str] = &[
    "lag",
    "others",
    "partition",
    "slot",
    "offset",
    "first_offset",
    "last_offset",
    "records",
    "open",
    "undelivered",
    "marks",
    "pauses",
    "from",
    "to",
    "generation",
];

/// Event for the log: a broker was lost, the group rebalanced.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct LogEvent {
    /// Level by the numbers of `logging`: 10 debug, 20 info, 30 warning, 40 error.
    #[pyo3(get)]
    level: u8,
    /// Name for machines: "broker.disconnected".
    #[pyo3(get)]
    name: &'static str,
    /// Time of the event, in seconds since 1970.
    #[pyo3(get)]
    time: f64,
    /// Text for people.
    #[pyo3(get)]
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl LogEvent {
    pub(crate) fn new(dated: TimestampedLogEvent) -> Self {
        let time = dated.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let grete_client::LogEvent { level, name, message, fields } = dated.event;
        let level = match level {
            Level::Debug => 10,
            Level::Info => 20,
            Level::Warning => 30,
            Level::Error => 40,
        };
        Self { level, name, time, message, fields }
    }
}

thread_local! {
    /// Exception that the log raised in this thread during a wait: a signal handler's exception, say.
    static PENDING_EXCEPTION: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Returns a sink that gives log events to a Python callable, in a thread that waits for something else. An exception
/// of the callable ends the wait: [`take_raised`] raises it there.
pub(crate) fn log_callback(callable: Py<PyAny>) -> LogSink {
    Box::new(move |notices| {
        Python::attach(|py| {
            let events: Vec<LogEvent> = notices.into_iter().map(LogEvent::new).collect();
            let Err(error) = callable.call1(py, (events,)) else { return false };
            PENDING_EXCEPTION.set(Some(error));
            true
        })
    })
}

/// Raises the log's exception after an interrupted wait, or lets signal handlers run.
pub(crate) fn check_interrupted(py: Python<'_>) -> PyResult<()> {
    take_raised()?;
    py.check_signals()
}

/// Raises the exception that the log has raised in this thread.
pub(crate) fn take_raised() -> PyResult<()> {
    PENDING_EXCEPTION.take().map_or(Ok(()), Err)
}

/// Parses "orders[0], orders[1]" to pairs of topic and partition. Other text ("no partition") has none.
fn parse_partitions(text: &str) -> Vec<(&str, i32)> {
    let parse = |part: &'_ str| -> Option<(usize, i32)> {
        let open = part.rfind('[')?;
        Some((open, part.get(open + 1..)?.strip_suffix(']')?.parse().ok()?))
    };
    text.split(", ").filter_map(|part| parse(part).map(|(end, partition)| (&part[..end], partition))).collect()
}

#[pymethods]
impl LogEvent {
    /// Facts of the message by name: text, numbers for counts, partitions and offsets, and lists of (topic, partition).
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        for (name, value) in &self.fields {
            match value.parse::<i64>() {
                Ok(number) if INTEGER_FIELDS.contains(name) => fields.set_item(name, number)?,
                _ if *name == "partitions" && self.name.starts_with("group.") => {
                    fields.set_item(name, parse_partitions(value))?
                }
                _ if *name == "seconds" => fields.set_item(name, value.parse::<f64>().unwrap_or_default())?,
                _ => fields.set_item(name, value)?,
            }
        }
        Ok(fields)
    }

    fn __repr__(&self) -> String {
        format!("<LogEvent {}: {}>", self.name, self.message)
    }
}
