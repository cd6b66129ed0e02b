//! Embedded brokers for Python.

mod commands;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use grete_broker::cluster::{Action, Cluster, Release};
use grete_broker::embedded::{self, EmbeddedConfig, EmbeddedError};
use grete_broker::ids::Millis;
use grete_broker::journal::SyncPolicy;
use grete_broker::sasl::Users;
use grete_broker::server::{DevCertificates, TlsConfig};
use grete_sys::random::random;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::timeout_or_forever;
use crate::errors;
use crate::ffi::fork_guarded::ForkGuarded;

/// Kafka brokers in this process, on a thread that needs no GIL. They run from the constructor to `stop`, or to the end
/// of the object.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct EmbeddedBroker {
    broker: ForkGuarded<embedded::EmbeddedBroker>,
}

#[pymethods]
impl EmbeddedBroker {
    #[new]
    #[pyo3(signature = (
        *, ports, topics, host="127.0.0.1", advertised_host=None, allow_anyone=false, data=None, fsync=false,
        max_bytes=None, release=None, auto_create_topics=true, log_to_stderr=false, advertised_ports=vec![],
        settings=vec![], tls=None, users=vec![]
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn new(
        py: Python<'_>,
        ports: Vec<u16>,
        topics: Vec<(String, i32)>,
        host: &str,
        advertised_host: Option<String>,
        allow_anyone: bool,
        data: Option<PathBuf>,
        fsync: bool,
        max_bytes: Option<usize>,
        release: Option<&str>,
        auto_create_topics: bool,
        log_to_stderr: bool,
        advertised_ports: Vec<u16>,
        settings: Vec<(String, String)>,
        tls: Option<(String, String, Option<String>)>,
        users: Vec<(String, String)>,
    ) -> PyResult<Self> {
        let tls = tls.map(|(chain, key, client_ca)| TlsConfig::new(&chain, &key, client_ca.as_deref())).transpose();
        let mut hashed = Users::default();
        users.iter().for_each(|(name, password)| hashed.set(name, password, random()));
        let config = EmbeddedConfig {
            host: host.parse::<IpAddr>().map_err(|_| {
                errors::broker_setting("host", &format!("host is the address of a network interface, not {host:?}"))
            })?,
            advertised_host,
            allow_anyone,
            ports,
            advertised_ports,
            settings,
            topics,
            data,
            sync: if fsync { SyncPolicy::EachStep } else { SyncPolicy::Never },
            max_bytes,
            release: parse_release(release)?,
            auto_create_topics,
            users: hashed,
            log_to_stderr,
            tls: tls.map_err(|message| errors::broker_setting("tls", &message))?,
        };
        let broker = py.detach(|| embedded::start(config)).map_err(|error| match error {
            EmbeddedError::Config(message) => errors::broker_setting("host", &message),
            error => errors::broker(&error.to_string()),
        })?;
        Ok(Self { broker: ForkGuarded::new(broker) })
    }

    /// Returns (id, host, port) of each broker.
    fn addresses(&self) -> PyResult<Vec<(i32, String, u16)>> {
        let addresses = self.broker.get()?.addresses().iter();
        Ok(addresses.map(|(id, address)| (*id, address.ip().to_string(), address.port())).collect())
    }

    /// Stops the brokers and closes all connections. A second call has no effect.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let broker = self.broker.get()?;
        py.detach(|| broker.stop());
        Ok(())
    }

    /// Waits until the brokers have ended. Returns whether they have.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let (broker, timeout) = (self.broker.get()?, timeout_or_forever(timeout)?);
        Ok(py.detach(|| broker.wait(timeout.min(Duration::from_secs(1 << 30)))))
    }

    /// Returns a descriptor that is readable once the brokers have ended.
    fn end_fd(&self) -> PyResult<i32> {
        Ok(self.broker.get()?.end_fd())
    }

    /// Returns why the brokers have ended by themselves; None: they run, or were stopped.
    fn failure(&self) -> PyResult<Option<String>> {
        Ok(self.broker.get()?.failure())
    }

    /// Returns the latest 1,000 lines of the log.
    fn log_lines(&self) -> PyResult<Vec<String>> {
        Ok(self.broker.get()?.log().lines())
    }

    /// Runs a command on the thread of the brokers and returns its result. What the command changed is stored by then.
    /// Raises ValueError for an unknown command, and BrokerError for one that cannot be done. The commands are methods
    /// of `grete.broker.Broker`.
    #[pyo3(signature = (command, **arguments))]
    fn call<'py>(
        &self,
        py: Python<'py>,
        command: &str,
        arguments: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let empty = PyDict::new(py);
        commands::run(self, py, command, arguments.unwrap_or(&empty))
    }
}

impl EmbeddedBroker {
    fn command<R: Send + 'static>(
        &self,
        py: Python<'_>,
        command: impl FnOnce(&mut Cluster, Millis, &mut Vec<Action>) -> Result<R, String> + Send + 'static,
    ) -> PyResult<R> {
        let broker = self.broker.get()?;
        match py.detach(|| broker.call(command)) {
            Ok(result) => result.map_err(|message| errors::broker(&message)),
            Err(error) => Err(errors::broker(&error.to_string())),
        }
    }
}

/// Makes an authority and certificates for development, in PEM. Returns those of the authority, of brokers with these
/// hosts, its key, of a client, and its key. Raises BrokerError for a host that no certificate can have.
#[pyfunction]
pub(crate) fn dev_certificates(hosts: Vec<String>) -> PyResult<(String, String, String, String, String)> {
    let made = DevCertificates::generate(hosts).map_err(|message| errors::broker(&message))?;
    Ok((made.ca, made.broker, made.broker_key, made.client, made.client_key))
}

/// Returns the APIs that embedded brokers answer as a release of Kafka: (name, lowest and highest version, or None).
#[pyfunction]
#[pyo3(signature = (release=None))]
#[expect(clippy::type_complexity, reason = "a tuple for Python")]
pub(crate) fn broker_features(release: Option<&str>) -> PyResult<Vec<(&'static str, Option<(i16, i16)>)>> {
    let features = embedded::features(parse_release(release)?).into_iter();
    Ok(features.map(|feature| (feature.api, feature.versions.map(|range| (*range.start(), *range.end())))).collect())
}

fn parse_release(name: Option<&str>) -> PyResult<Release> {
    let Some(name) = name else { return Ok(Release::LATEST) };
    Release::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = Release::ALL.iter().map(|release| release.name()).collect();
        errors::broker_setting("version", &format!("there is no version {name:?}: choose one of {}", names.join(", ")))
    })
}
