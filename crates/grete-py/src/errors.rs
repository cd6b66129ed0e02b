//! From Rust's errors to the classes of `grete.errors`, which are imported when the first one is raised.

use grete_client::config::ConfigErrorKind;
use grete_client::{ClientError, ConfigError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// An instance of `grete.errors.<class>(message, **attributes)`.
fn make(class: &str, message: &str, attributes: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>) -> PyErr {
    Python::attach(|py| {
        let made = (|| {
            let class = py.import("grete.errors")?.getattr(class)?;
            let keywords = PyDict::new(py);
            attributes(&keywords)?;
            class.call(PyTuple::new(py, [message])?, Some(&keywords))
        })();
        match made {
            Ok(error) => PyErr::from_value(error),
            Err(error) => error,
        }
    })
}

/// For a handle that is used in a child of the process that made it.
pub(crate) fn forked() -> PyErr {
    client(ClientError::Forked { what: "handle" })
}

/// For a handle that has been closed.
pub(crate) fn closed(what: &'static str) -> PyErr {
    client(ClientError::Closed { what })
}

/// `ConfigError`, or `NotBuiltError` for a setting that Kafka has and Grete does not have yet.
pub(crate) fn config(error: ConfigError) -> PyErr {
    let class = match error.kind {
        ConfigErrorKind::NotBuilt => "NotBuiltError",
        _ => "ConfigError",
    };
    make(class, &error.to_string(), |keywords| keywords.set_item("setting", &error.setting))
}

/// The Python error of a client's error.
pub(crate) fn client(error: ClientError) -> PyErr {
    let message = error.to_string();
    match error {
        ClientError::Config(error) => config(error),
        ClientError::Forked { .. } => make("ForkedClientError", &message, |_| Ok(())),
        ClientError::Closed { .. } => make("ClosedError", &message, |_| Ok(())),
        ClientError::TimedOut { .. } => make("TimeoutError", &message, |_| Ok(())),
        ClientError::Kafka { code, name, .. } => make("KafkaError", &message, |keywords| {
            keywords.set_item("code", code)?;
            keywords.set_item("name", name)
        }),
        ClientError::NotKafka(_) => make("NotKafkaError", &message, |_| Ok(())),
        ClientError::Authorization(_) => make("AuthorizationError", &message, |_| Ok(())),
        ClientError::CorruptBatch { topic, partition, offset, .. } => make("CorruptBatchError", &message, |keywords| {
            keywords.set_item("topic", &*topic)?;
            keywords.set_item("partition", partition)?;
            keywords.set_item("offset", offset)
        }),
        ClientError::NoOffset(_) => make("OffsetError", &message, |_| Ok(())),
        ClientError::Group(_) => make("GroupError", &message, |_| Ok(())),
        _ => make("GreteError", &message, |_| Ok(())),
    }
}
