//! Floor 4: PyO3 classes, conversion and GIL policy, nothing else.
//!
//! The policy: every call that can block runs with the GIL detached. A job crosses the boundary once (`Dispatcher.next`
//! completes the last job and returns the next one). Columns become Python objects only when a row is accessed. No Rust
//! lock is held across attaching or detaching.
#![deny(unsafe_code)] // allowed in `ffi` (except `fork_guarded`) and one method of `int64_column` only

mod admin;
mod avro;
mod broker;
mod certificates;
mod client;
mod consumer;
mod convert;
mod dispatch;
mod errors;
mod event;
mod ffi;
mod health;
mod log_event;
mod producer;
mod sasl;
mod shutdown;
mod start_offset_arg;
mod testing;
mod trace;

use std::borrow::Cow;

use grete_client::{AdminConfig, ConsumerConfig, ProducerConfig, SettingPairs};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Grete's native part. Private: the names that users need are re-exported by `grete`.
#[pymodule(gil_used = true)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::admin::Admin;
    #[pymodule_export]
    use super::avro::codec::AvroCodec;
    #[pymodule_export]
    use super::avro::columns::{ArrowColumns, avro_columns};
    #[pymodule_export]
    use super::broker::{EmbeddedBroker, broker_features, dev_certificates};
    #[pymodule_export]
    use super::certificates::{client_certificate_dates, server_certificate_dates};
    #[pymodule_export]
    use super::client::Client;
    #[pymodule_export]
    use super::consumer::message::Message;
    #[pymodule_export]
    use super::consumer::messages::{Messages, MessagesIterator};
    #[pymodule_export]
    use super::consumer::record_batches::{_testing_decode, _testing_encode};
    #[pymodule_export]
    use super::consumer::topic_pattern::TopicPattern;
    #[pymodule_export]
    use super::dispatch::decision::Decision;
    #[pymodule_export]
    use super::dispatch::dispatcher::{Dispatcher, Worker};
    #[pymodule_export]
    use super::dispatch::history::History;
    #[pymodule_export]
    use super::dispatch::job::Job;
    #[pymodule_export]
    use super::dispatch::job_producer::JobProducer;
    #[pymodule_export]
    use super::dispatch::route::{Route, route_defaults};
    #[pymodule_export]
    use super::event::{Event, EventChannel};
    #[pymodule_export]
    use super::health::{Health, HttpProtocol, SharedText, aggregate_metrics, metric_descriptors};
    #[pymodule_export]
    use super::log_event::LogEvent;
    #[pymodule_export]
    use super::producer::{_TestingLog, AsyncioDeliveryWatcher, Deliveries, DeliveriesIterator, Delivery, Producer};
    #[pymodule_export]
    use super::sasl::{PyClientSecret, PyNativeToken, PyTokenStore};
    #[pymodule_export]
    use super::shutdown::{Shutdown, SignalWatch};
    #[pymodule_export]
    use super::testing::lane::_TestingLane;
    #[pymodule_export]
    use super::testing::stepper::_TestingStepper;
    #[pymodule_export]
    use super::trace::{Span, SpanContext, Tracer};
    #[pymodule_export]
    use super::{
        config_entries, die_with_parent, fork_generation, is_subreaper, map_blocks_from, needed_acl, one_line,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::ffi::bool_slot::install_bool_slot(module.py());
        super::health::add_constants(module)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

/// Returns how often this process has been forked since the library was loaded, by the count that its children inherit.
#[pyfunction]
fn fork_generation() -> u32 {
    grete_client::fork_generation()
}

/// Makes the system send SIGKILL to this process when its parent dies. Returns False where the system cannot.
///
/// A parent that died before does not count: compare `os.getppid()` afterwards.
#[pyfunction]
fn die_with_parent() -> std::io::Result<bool> {
    grete_client::set_parent_death_signal()
}

/// Makes malloc return each block of at least `bytes` to the system as soon as it is freed. Returns False where malloc
/// cannot.
#[pyfunction]
fn map_blocks_from(bytes: usize) -> bool {
    grete_sys::malloc::map_blocks_from(bytes)
}

/// Returns whether orphans become children of this process, as they do of PID 1.
#[pyfunction]
fn is_subreaper() -> bool {
    grete_client::is_subreaper()
}

/// Returns a text that others wrote on one line, with control characters escaped, for a line of the log or an error.
#[pyfunction]
fn one_line(text: &str) -> Cow<'_, str> {
    grete_wire::one_line(text)
}

/// Returns which ACL a client needs, with the command that creates it. `kind`: "topic" or "group"; `user`: None if it is
/// unknown.
#[pyfunction]
#[pyo3(signature = (operation, kind, name, user))]
fn needed_acl(operation: &str, kind: &str, name: &str, user: Option<&str>) -> PyResult<String> {
    let (operation, kind) = match (operation, kind) {
        ("Read", "topic") => ("Read", "topic"),
        ("Write", "topic") => ("Write", "topic"),
        ("Read", "group") => ("Read", "group"),
        _ => return Err(pyo3::exceptions::PyValueError::new_err("no client needs this")),
    };
    Ok(grete_wire::access::NeededAcl { operation, kind, name, user }.to_string())
}

/// Returns every Kafka setting of a role ("consumer", "producer" or "admin") with its effective value: (name, value,
/// whether it is the default). Raises `ConfigError`.
#[pyfunction]
#[pyo3(signature = (pairs, role="consumer"))]
fn config_entries(pairs: Vec<(String, String)>, role: &str) -> PyResult<Vec<(&'static str, String, bool)>> {
    let pairs = SettingPairs::from(pairs);
    let entries = match role {
        "consumer" => ConsumerConfig::from_pairs(&pairs).map(|config| config.entries()),
        "producer" => ProducerConfig::from_pairs(&pairs).map(|config| config.entries()),
        "admin" => AdminConfig::from_pairs(&pairs).map(|config| config.entries()),
        _ => return Err(PyValueError::new_err(format!("a role is consumer, producer or admin, not {role:?}"))),
    };
    entries.map_err(errors::config)
}
