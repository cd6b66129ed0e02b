//! From Rust's errors to the classes of `grete.errors`, which are imported when the first one is raised.

use grete_client::config::ConfigErrorKind;
use std::time::Duration;

use grete_client::produce::{Outcome, Receipt, Settled};
use grete_client::{ClientError, ConfigError, Subject};
use grete_health::HealthError;
use grete_wire::error_code::ErrorCode;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::producer::outcome_name;

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

/// For health that cannot be told.
pub(crate) fn health(error: &HealthError) -> PyErr {
    make("GreteError", &error.to_string(), |_| Ok(()))
}

/// For a tracer that cannot be made as it is told.
pub(crate) fn tracer(setting: &str, message: &str) -> PyErr {
    make("ConfigError", message, |keywords| keywords.set_item("setting", setting))
}

/// The Python error of a client's error.
pub(crate) fn client(error: ClientError) -> PyErr {
    let message = error.to_string();
    match error {
        ClientError::Config(error) => config(error),
        ClientError::Forked { .. } => make("ForkedClientError", &message, |_| Ok(())),
        ClientError::Closed { .. } => make("ClosedError", &message, |_| Ok(())),
        ClientError::TimedOut { .. } | ClientError::Unfinished { .. } => make("TimeoutError", &message, |_| Ok(())),
        ClientError::Refused { subject, code, .. } => refused(&message, &subject, code),
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
        ClientError::QueueFull { .. } => make("QueueFull", &message, |_| Ok(())),
        ClientError::RecordTooLarge { topic, .. } => {
            make("RecordTooLargeError", &message, |keywords| keywords.set_item("topic", topic))
        }
        ClientError::UnknownTopic { topic, .. } => {
            make("UnknownTopicError", &message, |keywords| keywords.set_item("topic", topic))
        }
        ClientError::Revoked => make("RevokedError", &message, |_| Ok(())),
        ClientError::NoOffset(_) => make("OffsetError", &message, |_| Ok(())),
        ClientError::FencedInstance { group, instance, .. } => make("FencedInstanceError", &message, |keywords| {
            keywords.set_item("group", group)?;
            keywords.set_item("instance", instance)
        }),
        ClientError::Group(_) => make("GroupError", &message, |_| Ok(())),
        _ => make("GreteError", &message, |_| Ok(())),
    }
}

/// A payload is asked for where nothing decodes values.
pub(crate) fn no_payload(topic: &str) -> PyErr {
    let message = format!(
        "records of {topic:?} have no payload: nothing says how to decode their values. Give the route one, like \
         @app.consumer({topic:?}, payload=\"json\"), or use .value"
    );
    make("NoPayloadError", &message, |_| Ok(()))
}

/// Seconds, if a handler has asked for another try after them.
pub(crate) fn retry_later(error: &Bound<'_, PyAny>) -> Option<f64> {
    let class = error.py().import("grete.errors").and_then(|errors| errors.getattr("RetryLater"));
    let asked = !error.is_none() && class.is_ok_and(|class| error.is_instance(&class).unwrap_or(false));
    asked.then(|| error.getattr("delay").and_then(|delay| delay.extract()).unwrap_or(0.0))
}

/// Whether a decoder's exception is the route's to answer as it is: `Reject`, `RetryLater`.
pub(crate) fn is_users_word(py: Python<'_>, error: &PyErr) -> bool {
    let is = |class: &str| {
        let class = py.import("grete.errors").and_then(|errors| errors.getattr(class));
        class.is_ok_and(|class| error.is_instance(py, &class))
    };
    is("Reject") || is("RetryLater")
}

/// The `DecodeError` of a record, raised from what its decoder raised.
pub(crate) fn undecodable(topic: &str, partition: i32, offset: i64, message: Py<PyAny>, cause: PyErr) -> PyErr {
    Python::attach(|py| {
        let reason = cause.value(py);
        let kind = reason.get_type().name().map_or_else(|_| "an error".to_owned(), |name| name.to_string());
        let text = format!("{topic}[{partition}] offset {offset} does not decode: {kind}: {reason}");
        let error = make("DecodeError", &text, |keywords| {
            keywords.set_item("topic", topic)?;
            keywords.set_item("partition", partition)?;
            keywords.set_item("offset", offset)?;
            keywords.set_item("message", message)
        });
        error.set_cause(py, Some(cause));
        error
    })
}

/// For a plain function that returned what has to be awaited: nothing of it has run.
pub(crate) fn not_awaited(function: &Bound<'_, PyAny>, result: &Bound<'_, PyAny>) -> PyErr {
    let name = function.getattr("__qualname__").unwrap_or_else(|_| function.clone());
    let kind = result.get_type().name().map_or_else(|_| "an awaitable".to_owned(), |name| format!("a {name}"));
    // A coroutine that is not closed warns of itself when it goes, at some place that has nothing to do with it.
    let _ = result.call_method0("close");
    let text = format!(
        "{name} is no async def and returned {kind}, that nobody awaits: declare it async def, or let what decorates it be one"
    );
    make("GreteError", &text, |_| Ok(()))
}

/// Something given for a record is not of a type that can be sent.
pub(crate) fn record_type(message: &str, topic: &str) -> PyErr {
    make("RecordTypeError", message, |keywords| keywords.set_item("topic", topic))
}

/// The `DeliveryError` of a settled record, if it has one.
pub(crate) fn delivery(receipt: &Receipt, settled: &Settled) -> Option<PyErr> {
    let error = settled.error.as_ref()?;
    Some(make("DeliveryError", &error.to_string(), |keywords| {
        keywords.set_item("topic", &**receipt.topic())?;
        keywords.set_item("partition", receipt.partition())?;
        keywords.set_item("outcome", outcome_name(settled.outcome))?;
        keywords.set_item("code", error.code().map(|code| code.0))?;
        keywords.set_item("name", error.code().map(|code| code.name()))
    }))
}

/// The `DeliveryError` of a record whose producer has ended without a word about it.
pub(crate) fn lost(receipt: &Receipt, end: &ClientError) -> PyErr {
    make("DeliveryError", &end.to_string(), |keywords| {
        keywords.set_item("topic", &**receipt.topic())?;
        keywords.set_item("partition", receipt.partition())?;
        keywords.set_item("outcome", outcome_name(Outcome::Unknown))
    })
}

/// The same error, which says that it is one of several.
pub(crate) fn first_of(py: Python<'_>, error: &PyErr, number: usize, count: usize, all: usize) -> PyErr {
    let value = error.value(py);
    let message = format!("{count} of {all} records were not delivered; the first of them, record {number}: {value}");
    make("DeliveryError", &message, |keywords| {
        for name in ["topic", "partition", "outcome", "code", "name"] {
            keywords.set_item(name, value.getattr(name)?)?;
        }
        Ok(())
    })
}

/// The `TimeoutError` of a wait for a record.
pub(crate) fn unanswered(receipt: &Receipt, timeout: Option<Duration>) -> PyErr {
    let (topic, partition) = (receipt.topic(), receipt.partition());
    let seconds = timeout.unwrap_or_default().as_secs_f64();
    let message = format!(
        "no answer for a record of {topic}[{partition}] within {seconds} s; it is on its way still, and may be waited for again"
    );
    make("TimeoutError", &message, |_| Ok(()))
}

/// The `TimeoutError` of a flush.
pub(crate) fn unflushed(pending: u64, timeout: Option<Duration>) -> PyErr {
    let seconds = timeout.unwrap_or_default().as_secs_f64();
    let message = format!("flush: {pending} records are still on their way after {seconds} s");
    make("TimeoutError", &message, |_| Ok(()))
}

/// `KafkaError`, or the class of its own that a code has which programs want to tell from others.
fn refused(message: &str, subject: &Subject, code: ErrorCode) -> PyErr {
    let about = match subject {
        Subject::Topic(name) | Subject::Partition(name, _) => Some(("topic", name)),
        Subject::Group(name) => Some(("group", name)),
        Subject::Member(..) | Subject::Other(_) => None,
    };
    let class = match (code, about) {
        (
            ErrorCode::TOPIC_AUTHORIZATION_FAILED
            | ErrorCode::GROUP_AUTHORIZATION_FAILED
            | ErrorCode::CLUSTER_AUTHORIZATION_FAILED,
            _,
        ) => return make("AuthorizationError", message, |_| Ok(())),
        (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, Some(("topic", _))) => "UnknownTopicError",
        (ErrorCode::TOPIC_ALREADY_EXISTS, Some(("topic", _))) => "TopicExistsError",
        (ErrorCode::GROUP_ID_NOT_FOUND, Some(("group", _))) => "UnknownGroupError",
        (ErrorCode::NON_EMPTY_GROUP | ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC, Some(("group", _))) => "GroupNotEmptyError",
        _ => "KafkaError",
    };
    make(class, message, |keywords| {
        keywords.set_item("code", code.0)?;
        keywords.set_item("name", code.name())?;
        match about {
            Some((what, name)) if class != "KafkaError" => keywords.set_item(what, name),
            _ => Ok(()),
        }
    })
}

/// All values, or the first error; what else went wrong is noted on it.
pub(crate) fn each<T>(py: Python<'_>, results: Vec<Result<T, ClientError>>) -> PyResult<Vec<T>> {
    let mut values = Vec::with_capacity(results.len());
    let mut first: Option<PyErr> = None;
    for result in results {
        match (result, &first) {
            (Ok(value), _) => values.push(value),
            (Err(error), None) => first = Some(client(error)),
            (Err(error), Some(first)) => {
                first.value(py).call_method1("add_note", (format!("also: {error}"),))?;
            }
        }
    }
    first.map_or(Ok(values), Err)
}
