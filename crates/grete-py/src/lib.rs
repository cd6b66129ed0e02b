//! Floor 4: PyO3 classes, conversion and GIL policy, nothing else.
//!
//! The policy: every call that can block runs with the GIL detached; a job crosses the boundary once
//! (`Dispatcher.next` completes the last one and returns the next one); columns become Python objects only when a row
//! is looked at. No Rust lock is held across attaching or detaching.
#![deny(unsafe_code)] // allowed in `buffers`, `calls`, `truth` and `untracked` only

mod admin;
mod buffers;
mod calls;
mod client;
mod columns;
mod decision;
mod dispatcher;
mod errors;
mod event;
mod handle;
mod health;
mod iterator;
mod job;
mod message;
mod messages;
mod notice;
mod producer;
mod route;
mod rows;
mod stop;
mod testing;
mod trace;
mod truth;
mod untracked;

use grete_client::{AdminConfig, ConsumerConfig, ProducerConfig};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Grete's native part. Private: the names that users need are re-exported by `grete`.
#[pymodule(gil_used = true)]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::admin::Admin;
    #[pymodule_export]
    use super::client::Client;
    #[pymodule_export]
    use super::decision::Decision;
    #[pymodule_export]
    use super::dispatcher::{Dispatcher, Worker};
    #[pymodule_export]
    use super::event::{Event, Occurred};
    #[pymodule_export]
    use super::health::{Board, Health, gather_metrics, metrics_catalogue};
    #[pymodule_export]
    use super::iterator::MessagesIterator;
    #[pymodule_export]
    use super::job::Job;
    #[pymodule_export]
    use super::message::Message;
    #[pymodule_export]
    use super::messages::Messages;
    #[pymodule_export]
    use super::notice::Notice;
    #[pymodule_export]
    use super::producer::{Deliveries, DeliveriesIterator, Delivery, LoopWatch, Producer};
    #[pymodule_export]
    use super::route::Route;
    #[pymodule_export]
    use super::stop::{SignalWatch, Stop};
    #[pymodule_export]
    use super::testing::{_TestingLane, _testing_decode};
    #[pymodule_export]
    use super::trace::{Span, SpanContext, Tracer};
    #[pymodule_export]
    use super::{config_entries, die_with_parent, fork_generation, is_subreaper};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::truth::install(module.py());
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

/// How often this process has been forked since the library was loaded, as its children count it.
#[pyfunction]
fn fork_generation() -> u32 {
    grete_client::fork_generation()
}

/// SIGKILL comes to this process when its parent is gone. False where the system has no such thing.
///
/// A parent that was gone before does not count: compare `os.getppid()` afterwards.
#[pyfunction]
fn die_with_parent() -> std::io::Result<bool> {
    grete_client::die_with_parent()
}

/// Whether orphans become children of this process, as they do of PID 1.
#[pyfunction]
fn is_subreaper() -> bool {
    grete_client::is_subreaper()
}

/// Every Kafka setting of a role ("consumer", "producer" or "admin") with its effective value: (name, value, whether it is
/// the default). Raises `ConfigError`.
#[pyfunction]
#[pyo3(signature = (pairs, role="consumer"))]
fn config_entries(pairs: Vec<(String, String)>, role: &str) -> PyResult<Vec<(&'static str, String, bool)>> {
    let entries = match role {
        "consumer" => ConsumerConfig::from_pairs(&pairs).map(|config| config.entries()),
        "producer" => ProducerConfig::from_pairs(&pairs).map(|config| config.entries()),
        "admin" => AdminConfig::from_pairs(&pairs).map(|config| config.entries()),
        _ => return Err(PyValueError::new_err(format!("a role is consumer, producer or admin, not {role:?}"))),
    };
    entries.map_err(errors::config)
}
