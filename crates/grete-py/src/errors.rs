//! Conversion of Rust's errors to the classes of `grete.errors`, which are imported when the first one is raised.

use grete_client::config::ConfigErrorKind;
use std::time::Duration;

use grete_client::produce::{BatchPromise, Outcome, ProduceError, RecordResult};
use grete_client::{ClientError, ConfigError, Subject};
use grete_health::HealthError;
use grete_wire::error_code::ErrorCode;
use grete_wire::{counted, one_line, plural};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::convert::outcome_name;

/// Makes an instance of `grete.errors.<class>(message, **attributes)`.
fn new_error(class: &str, message: &str, attributes: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>) -> PyErr {
    Python::attach(|py| {
        let instance = (|| {
            let class = py.import("grete.errors")?.getattr(class)?;
            let keywords = PyDict::new(py);
            attributes(&keywords)?;
            class.call(PyTuple::new(py, [message])?, Some(&keywords))
        })();
        match instance {
            Ok(error) => PyErr::from_value(error),
            Err(error) => error,
        }
    })
}

/// Makes an instance of `grete.errors.<class>(message, **attributes)` from variables that have the attributes' names, or
/// from `name = value`.
macro_rules! new_error {
    ($class:expr, $message:expr $(, $name:ident $(= $value:expr)?)*) => {
        new_error($class, $message, |_keywords| {
            $(_keywords.set_item(stringify!($name), new_error!(@value $name $($value)?))?;)*
            Ok(())
        })
    };
    (@value $name:ident) => { $name };
    (@value $name:ident $value:expr) => { $value };
}

/// Makes the error of a handle that is used in a child of the process that made it.
pub(crate) fn forked() -> PyErr {
    client(ClientError::Forked { what: "handle" })
}

/// Makes the error of a handle that has been closed.
pub(crate) fn closed(what: &'static str) -> PyErr {
    client(ClientError::Closed { what })
}

/// Makes a `ConfigError`, or `NotSupportedError` for a Kafka setting that Grete does not have yet.
pub(crate) fn config(error: ConfigError) -> PyErr {
    let class = match error.kind {
        ConfigErrorKind::NotSupported => "NotSupportedError",
        _ => "ConfigError",
    };
    new_error!(class, &error.to_string(), setting = &error.setting)
}

/// Makes the error of a `Health` that cannot report.
pub(crate) fn health(error: &HealthError) -> PyErr {
    new_error!("GreteError", &error.to_string())
}

/// Makes the error of embedded brokers that do not start, or cannot do a command.
pub(crate) fn broker(message: &str) -> PyErr {
    new_error("BrokerError", message, |_| Ok(()))
}

/// Makes the error of embedded brokers with an invalid setting.
pub(crate) fn broker_setting(setting: &str, message: &str) -> PyErr {
    new_error("ConfigError", message, |keywords| keywords.set_item("setting", setting))
}

/// Makes the error of a tracer with invalid settings.
pub(crate) fn tracer(setting: &str, message: &str) -> PyErr {
    new_error!("ConfigError", message, setting)
}

/// Makes the Python error of a client's error.
pub(crate) fn client(error: ClientError) -> PyErr {
    // Texts of brokers are part of it.
    let message = one_line(&error.to_string()).into_owned();
    match error {
        ClientError::Config(error) => config(error),
        ClientError::Forked { .. } => new_error!("ForkedClientError", &message),
        ClientError::Closed { .. } => new_error!("ClosedError", &message),
        ClientError::TimedOut { .. } | ClientError::Incomplete { .. } => new_error!("TimeoutError", &message),
        ClientError::Refused { subject, code, .. } => broker_error(&message, &subject, code),
        ClientError::Kafka { code, name, .. } => new_error!("KafkaError", &message, code, name),
        ClientError::Tls { reason, .. } => new_error!("TlsError", &message, reason),
        ClientError::NotKafka(_) => new_error!("NotKafkaError", &message),
        ClientError::Authentication(_) => new_error!("AuthenticationError", &message),
        ClientError::Authorization(_) => new_error!("AuthorizationError", &message),
        ClientError::CorruptBatch { topic, partition, offset, .. } => {
            new_error!("CorruptBatchError", &message, topic, partition, offset)
        }
        ClientError::PartitionFailed { topic, partition, reason, .. } => {
            new_error!("PartitionFailedError", &message, topic, partition, reason)
        }
        ClientError::NotAssigned { topic, partition, .. } => {
            new_error!("NotAssignedError", &message, topic, partition)
        }
        ClientError::BufferFull { .. } | ClientError::StagingFull { .. } => new_error!("BufferFullError", &message),
        ClientError::RecordTooLarge { topic, .. } => new_error!("RecordTooLargeError", &message, topic),
        ClientError::UnknownTopic { topic, partition, .. } => {
            new_error!("UnknownTopicError", &message, topic, partition)
        }
        ClientError::Revoked => new_error!("RevokedError", &message),
        // A mark knows the record: see `mark_after`.
        ClientError::Undelivered => new_error!("DeliveryError", &message, topic = ""),
        ClientError::NoOffset(_) => new_error!("OffsetError", &message),
        ClientError::FencedInstance { group, instance, .. } => {
            new_error!("FencedInstanceError", &message, group, instance)
        }
        ClientError::Group(_) => new_error!("GroupError", &message),
        ClientError::TransactionAborted { code, .. } => transaction("TransactionAbortedError", &message, code),
        ClientError::Fenced { code, .. } => transaction("FencedError", &message, code),
        ClientError::CommitUnknown { code, .. } => transaction("CommitUnknownError", &message, code),
        ClientError::TransactionFailed { code, .. } => transaction("TransactionError", &message, code),
        ClientError::TransactionState(_) => transaction("TransactionStateError", &message, None),
        _ => new_error!("GreteError", &message),
    }
}

fn transaction(class: &str, message: &str, code: Option<ErrorCode>) -> PyErr {
    let name = code.map(|code| code.name());
    new_error!(class, message, code = code.map(|code| code.0), name)
}

/// Makes the error of a payload access on a route without a decoder.
pub(crate) fn no_payload(topic: &str) -> PyErr {
    let message = format!(
        "records of {topic:?} have no payload: nothing says how to decode their values. Give the route one, like \
         @app.consumer({topic:?}, payload=\"json\"), or use .value"
    );
    new_error!("NoPayloadError", &message)
}

/// Returns the delay in seconds if the handler's error is a `RetryLater`.
pub(crate) fn retry_later_delay(error: &Bound<'_, PyAny>) -> Option<f64> {
    let class = error.py().import("grete.errors").and_then(|errors| errors.getattr("RetryLater"));
    let is_retry_later = !error.is_none() && class.is_ok_and(|class| error.is_instance(&class).unwrap_or(false));
    is_retry_later.then(|| error.getattr("delay").and_then(|delay| delay.extract()).unwrap_or(0.0))
}

/// Returns whether the route handles a decoder's exception unchanged: `Reject`, `RetryLater`.
pub(crate) fn is_reject_or_retry_later(py: Python<'_>, error: &PyErr) -> bool {
    let is = |class: &str| {
        let class = py.import("grete.errors").and_then(|errors| errors.getattr(class));
        class.is_ok_and(|class| error.is_instance(py, &class))
    };
    is("Reject") || is("RetryLater")
}

/// Makes the `DecodeError` of a record, raised from the decoder's exception.
pub(crate) fn decode_error(topic: &str, partition: i32, offset: i64, message: Py<PyAny>, cause: PyErr) -> PyErr {
    Python::attach(|py| {
        let reason = cause.value(py);
        let kind = reason.get_type().name().map_or_else(|_| "an error".to_owned(), |name| name.to_string());
        let text = format!("{topic}[{partition}] offset {offset} does not decode: {kind}: {reason}");
        let error = new_error!("DecodeError", &text, topic, partition, offset, message);
        error.set_cause(py, Some(cause));
        error
    })
}

/// Makes the error of a plain function that returned an awaitable, of which no step has run.
pub(crate) fn not_awaited(function: &Bound<'_, PyAny>, result: &Bound<'_, PyAny>) -> PyErr {
    let name = function.getattr("__qualname__").unwrap_or_else(|_| function.clone());
    let kind = result.get_type().name().map_or_else(|_| "an awaitable".to_owned(), |name| format!("a {name}"));
    // A coroutine that is not closed warns when it is collected, at some unrelated place.
    let _ = result.call_method0("close");
    let text = format!(
        "{name} is no async def and returned {kind}, which was not awaited: declare it async def, \
         and its decorator's wrapper, too"
    );
    new_error!("GreteError", &text)
}

/// Makes the error of a value that cannot be sent because of its type. `index`: of the record among several.
pub(crate) fn record_type(message: &str, topic: &str, index: Option<usize>) -> PyErr {
    new_error!("RecordTypeError", message, topic, index)
}

/// Makes the `DeliveryError` of a settled record; `None` if the record was written.
pub(crate) fn delivery(receipt: &BatchPromise, settled: &RecordResult) -> Option<PyErr> {
    let error = settled.error.as_ref()?;
    Some(delivery_with(&one_line(&error.to_string()), receipt, settled))
}

/// Makes the `DeliveryError` of a mark after a record that was not written.
pub(crate) fn mark_after(receipt: &BatchPromise, settled: &RecordResult) -> PyErr {
    let cause = settled.error.as_ref().map_or_else(String::new, |error| format!(" ({})", one_line(&error.to_string())));
    delivery_with(&format!("{}{cause}", ClientError::Undelivered), receipt, settled)
}

fn delivery_with(message: &str, receipt: &BatchPromise, settled: &RecordResult) -> PyErr {
    let code = settled.error.as_ref().and_then(|error| error.code());
    // A record that was queued until its topic is known gets the error that a caller without an event loop would get.
    let unknown =
        matches!(settled.error.as_deref(), Some(ProduceError::MissingTopic { .. } | ProduceError::UnknownTopic { .. }));
    let class = match settled.outcome {
        _ if unknown => "UnknownTopicDeliveryError",
        Outcome::Aborted => "AbortedDeliveryError",
        _ => "DeliveryError",
    };
    new_error!(
        class,
        message,
        topic = &**receipt.topic(),
        partition = receipt.partition(),
        outcome = outcome_name(settled.outcome),
        code = code.map(|code| code.0),
        name = code.map(|code| code.name())
    )
}

/// Makes the `DeliveryError` of a record whose producer has ended without an outcome for it.
pub(crate) fn outcome_unknown(receipt: &BatchPromise, end: &ClientError) -> PyErr {
    let (topic, partition, outcome) = (&**receipt.topic(), receipt.partition(), outcome_name(Outcome::Unknown));
    new_error!("DeliveryError", &end.to_string(), topic, partition, outcome)
}

/// Makes a copy of an error that says that it is one of several.
pub(crate) fn first_of_several(py: Python<'_>, error: &PyErr, number: usize, count: usize, all: usize) -> PyErr {
    let value = error.value(py);
    let were = plural(count, "was", "were");
    let records = counted(all, "record");
    let message = format!("{count} of {records} {were} not delivered; the first of them, record {number}: {value}");
    new_error("DeliveryError", &message, |keywords| {
        for name in ["topic", "partition", "outcome", "code", "name"] {
            keywords.set_item(name, value.getattr(name)?)?;
        }
        Ok(())
    })
}

/// Makes the `TimeoutError` of a wait for a record.
pub(crate) fn delivery_wait_timeout(receipt: &BatchPromise, timeout: Option<Duration>) -> PyErr {
    let (topic, partition) = (receipt.topic(), receipt.partition());
    let seconds = timeout.unwrap_or_default().as_secs_f64();
    let message = match partition {
        -1 => {
            format!("no broker has named the partitions of {topic:?} within {seconds} s; its record waits: wait again")
        }
        _ => format!(
            "no answer for a record of {topic}[{partition}] within {seconds} s; it is still in flight: wait again"
        ),
    };
    new_error!("TimeoutError", &message)
}

/// Makes the `TimeoutError` of a flush.
pub(crate) fn flush_timeout(pending: u64, timeout: Option<Duration>) -> PyErr {
    let seconds = timeout.unwrap_or_default().as_secs_f64();
    let (records, are) = (counted(pending, "record"), plural(pending, "is", "are"));
    let message = match pending {
        0 => format!("flush: callbacks of on_delivery still run in another thread after {seconds} s"),
        _ => format!("flush: {records} {are} still in flight after {seconds} s"),
    };
    new_error!("TimeoutError", &message)
}

/// Makes the `TimeoutError` of a call about transactions.
pub(crate) fn transaction_timeout(call: &str, timeout: Option<Duration>) -> PyErr {
    let seconds = timeout.unwrap_or_default().as_secs_f64();
    let cure = match call {
        "commit_transaction" => {
            "it may still succeed: call commit_transaction() again for its outcome, it cannot be aborted any more"
        }
        "abort_transaction" => "it continues: call abort_transaction() again to wait for it",
        "send_offsets" => "the transaction can only be aborted now; check that the coordinators can be reached",
        _ => "check that a broker of bootstrap.servers can be reached; the coordinator may still be loading its state",
    };
    new_error!("TimeoutError", &format!("{call} had no answer within {seconds} s; {cure}"))
}

/// Makes a `KafkaError`, or its own class for a code that programs want to distinguish.
fn broker_error(message: &str, subject: &Subject, code: ErrorCode) -> PyErr {
    let resource = match subject {
        Subject::Topic(name) | Subject::Partition(name, _) => Some(("topic", name)),
        Subject::Group(name) => Some(("group", name)),
        Subject::Member(..) | Subject::TransactionalId(_) | Subject::Acls | Subject::Acl(_) | Subject::Other(_) => None,
    };
    let class = match (code, resource) {
        (
            ErrorCode::TOPIC_AUTHORIZATION_FAILED
            | ErrorCode::GROUP_AUTHORIZATION_FAILED
            | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
            | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            _,
        ) => return new_error!("AuthorizationError", message),
        (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, Some(("topic", _))) => "UnknownTopicError",
        (ErrorCode::TOPIC_ALREADY_EXISTS, Some(("topic", _))) => "TopicExistsError",
        (ErrorCode::GROUP_ID_NOT_FOUND, Some(("group", _))) => "UnknownGroupError",
        (ErrorCode::NON_EMPTY_GROUP | ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC, Some(("group", _))) => "GroupNotEmptyError",
        _ => "KafkaError",
    };
    new_error(class, message, |keywords| {
        keywords.set_item("code", code.0)?;
        keywords.set_item("name", code.name())?;
        match resource {
            Some((what, name)) if class != "KafkaError" => keywords.set_item(what, name)?,
            _ => {}
        }
        match subject {
            Subject::Partition(_, partition) if class == "UnknownTopicError" => {
                keywords.set_item("partition", partition)
            }
            _ => Ok(()),
        }
    })
}

/// Returns all values, or the first error, with the other errors as notes.
pub(crate) fn all_or_first_error<T>(py: Python<'_>, results: Vec<Result<T, ClientError>>) -> PyResult<Vec<T>> {
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

/// Why a wait for a staged record is refused.
const NO_WAIT: &str = "the records of an exactly-once job are sent when the job has ended, so a wait for one inside of the \
     job would never end: do not wait, or produce with a grete.client.Producer of your own";

/// Returns the error of a wait for a staged record.
pub(crate) fn wait_refused() -> PyErr {
    client(ClientError::TransactionState(NO_WAIT.to_owned()))
}

/// Returns the error of a record that belongs to no running job.
pub(crate) fn no_job() -> PyErr {
    client(ClientError::TransactionState(
        "the producer of an exactly-once route works while a job of its consumer runs: produce in the handler, or with \
         app.producer, whose records outside of jobs are in no transaction"
            .to_owned(),
    ))
}

/// Raises if the promise's records are staged and have no outcome yet.
pub(crate) fn check_waitable(promise: &BatchPromise) -> PyResult<()> {
    if promise.is_staged() && !promise.is_complete() { Err(wait_refused()) } else { Ok(()) }
}
