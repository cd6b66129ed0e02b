//! Floor 4: PyO3 classes, conversion and GIL policy, nothing else.
//!
//! The policy: every call that can block runs with the GIL detached; a job crosses the boundary once
//! (`Dispatcher.next` completes the last one and returns the next one); columns become Python objects only when a row
//! is looked at. No Rust lock is held across attaching or detaching.
#![deny(unsafe_code)] // allowed in `buffers` only

mod buffers;
mod client;
mod columns;
mod dispatcher;
mod errors;
mod handle;
mod job;
mod message;
mod messages;
mod notice;
mod stop;
mod testing;

use pyo3::prelude::*;

/// Grete's native part. Private: the names that users need are re-exported by `grete`.
#[pymodule(gil_used = true)]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::client::Client;
    #[pymodule_export]
    use super::dispatcher::{Dispatcher, Worker};
    #[pymodule_export]
    use super::job::Job;
    #[pymodule_export]
    use super::message::Message;
    #[pymodule_export]
    use super::messages::{Messages, MessagesIterator};
    #[pymodule_export]
    use super::notice::Notice;
    #[pymodule_export]
    use super::stop::{SignalWatch, StopGuard};
    #[pymodule_export]
    use super::testing::_testing_decode;
    #[pymodule_export]
    use super::{config_entries, fork_generation};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

/// How often this process has been forked since the library was loaded, as its children count it.
#[pyfunction]
fn fork_generation() -> u32 {
    grete_client::fork_generation()
}

/// Every Kafka setting with its effective value: (name, value, whether it is the default). Raises `ConfigError`.
#[pyfunction]
fn config_entries(pairs: Vec<(String, String)>) -> PyResult<Vec<(String, String, bool)>> {
    let config = grete_client::ConsumerConfig::from_pairs(&pairs).map_err(errors::config)?;
    Ok(config
        .entries()
        .into_iter()
        .map(|(name, value, default)| (name.to_string(), value.to_string(), default))
        .collect())
}
