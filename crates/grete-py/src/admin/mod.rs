//! The admin client: conversion, and signals during waits. Names and numbers only; `grete.client` makes classes of them.

mod told;

use std::sync::{Arc, Mutex, PoisonError};

use grete_client::{AdminConfig, Call, ClientError, ResetTo, Start};
use grete_core::admin::{Alteration, NewTopic, Resource, When};
use grete_core::ids::TopicPartition;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::client::{StartAt, limit};
use crate::errors;
use crate::handle::Handle;
use crate::notice::Notice;
use told::{ClusterTold, ConfigTold, GroupTold, LagTold, ListingTold, ResetTold, TopicTold};

/// Name, partitions, replication factor, brokers of each partition, settings.
type TopicGiven = (String, i32, i16, Vec<Vec<i32>>, Vec<(String, String)>);

/// One admin client, one "grete-admin" thread. Every call takes its time-out in seconds; None: for ever.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct Admin {
    inner: Handle<grete_client::Admin>,
}

impl Admin {
    /// Runs `work` without the GIL; between sleeps, Python's signal handlers run, and what they raise ends it.
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        operation: &str,
        timeout: Option<f64>,
        work: impl FnOnce(&grete_client::Admin, &Call<'_>) -> Result<T, ClientError> + Send,
    ) -> PyResult<T> {
        let (admin, timeout) = (self.inner.get()?, limit(timeout)?);
        let raised: Mutex<Option<PyErr>> = Mutex::default();
        let result = py.detach(|| {
            let interrupted = || match Python::attach(|py| py.check_signals()) {
                Ok(()) => false,
                Err(error) => {
                    *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    true
                }
            };
            work(admin, &Call::new(operation, timeout, &interrupted))
        });
        match raised.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => result.map_err(errors::client),
        }
    }
}

#[pymethods]
impl Admin {
    /// `config`: Kafka's settings as pairs.
    #[new]
    fn new(py: Python<'_>, config: Vec<(String, String)>) -> PyResult<Self> {
        let config = AdminConfig::from_pairs(&config).map_err(errors::config)?;
        let admin = py.detach(|| grete_client::Admin::start(&config)).map_err(errors::client)?;
        Ok(Self { inner: Handle::new(admin) })
    }

    /// Whether each topic was created; False: it was there. `topics`: (name, partitions, replication factor, brokers of
    /// each partition, settings).
    #[pyo3(signature = (topics, if_not_exists, validate_only, timeout))]
    fn create_topics(
        &self,
        py: Python<'_>,
        topics: Vec<TopicGiven>,
        if_not_exists: bool,
        validate_only: bool,
        timeout: Option<f64>,
    ) -> PyResult<Vec<bool>> {
        let topic = |(name, partitions, replication_factor, assignment, config): TopicGiven| NewTopic {
            name: name.into(),
            partitions,
            replication_factor,
            assignment,
            config,
        };
        let topics = topics.into_iter().map(topic).collect();
        errors::each(
            py,
            self.call(py, "create_topics", timeout, |admin, call| {
                admin.create_topics(call, topics, if_not_exists, validate_only)
            })?,
        )
    }

    #[pyo3(signature = (names, timeout))]
    fn delete_topics(&self, py: Python<'_>, names: Vec<String>, timeout: Option<f64>) -> PyResult<()> {
        let names = shared(names);
        let done = self.call(py, "delete_topics", timeout, |admin, call| admin.delete_topics(call, names))?;
        errors::each(py, done).map(drop)
    }

    /// `totals`: (name, how many in all).
    #[pyo3(signature = (totals, validate_only, timeout))]
    fn create_partitions(
        &self,
        py: Python<'_>,
        totals: Vec<(String, i32)>,
        validate_only: bool,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let totals = totals.into_iter().map(|(name, total)| (name.into(), total)).collect();
        let done = self.call(py, "create_partitions", timeout, |admin, call| {
            admin.create_partitions(call, totals, validate_only)
        })?;
        errors::each(py, done).map(drop)
    }

    /// All topics.
    #[pyo3(signature = (timeout))]
    fn topics(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Vec<TopicTold>> {
        let topics = self.call(py, "topics", timeout, |admin, call| admin.all_topics(call))?;
        Ok(topics.into_iter().map(told::topic).collect())
    }

    #[pyo3(signature = (names, timeout))]
    fn describe_topics(&self, py: Python<'_>, names: Vec<String>, timeout: Option<f64>) -> PyResult<Vec<TopicTold>> {
        let names = shared(names);
        let found = self.call(py, "describe_topics", timeout, |admin, call| admin.describe_topics(call, names))?;
        Ok(errors::each(py, found)?.into_iter().map(told::topic).collect())
    }

    #[pyo3(signature = (timeout))]
    fn cluster(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<ClusterTold> {
        self.call(py, "cluster", timeout, |admin, call| admin.describe_cluster(call)).map(told::cluster)
    }

    /// All settings of a "topic", or of a "broker" by its number ("": of all brokers).
    #[pyo3(signature = (kind, name, timeout))]
    fn config(&self, py: Python<'_>, kind: &str, name: &str, timeout: Option<f64>) -> PyResult<Vec<ConfigTold>> {
        let resource = resource(kind, name)?;
        let entries = self.call(py, "config", timeout, |admin, call| admin.describe_config(call, resource))?;
        Ok(entries.into_iter().map(told::config).collect())
    }

    #[pyo3(signature = (kind, name, values, delete, validate_only, timeout))]
    #[allow(clippy::too_many_arguments)]
    fn alter_config(
        &self,
        py: Python<'_>,
        kind: &str,
        name: &str,
        values: Vec<(String, String)>,
        delete: Vec<String>,
        validate_only: bool,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let alteration = Alteration { resource: resource(kind, name)?, set: values, delete };
        self.call(py, "alter_config", timeout, |admin, call| admin.alter_config(call, alteration, validate_only))
    }

    /// All groups in these states (none: in any), and the error that keeps some brokers' groups from being among them.
    #[pyo3(signature = (states, timeout))]
    fn groups(
        &self,
        py: Python<'_>,
        states: Vec<String>,
        timeout: Option<f64>,
    ) -> PyResult<(Vec<ListingTold>, Option<Py<PyAny>>)> {
        let list = self.call(py, "groups", timeout, |admin, call| admin.list_groups(call, &states))?;
        let missing = list.missing.map(|error| errors::client(error).into_value(py).into_any());
        Ok((list.groups.into_iter().map(told::listing).collect(), missing))
    }

    #[pyo3(signature = (groups, timeout))]
    fn describe_groups(&self, py: Python<'_>, groups: Vec<String>, timeout: Option<f64>) -> PyResult<Vec<GroupTold>> {
        let groups = shared(groups);
        let found = self.call(py, "describe_groups", timeout, |admin, call| admin.describe_groups(call, groups))?;
        Ok(errors::each(py, found)?.into_iter().map(told::group).collect())
    }

    #[pyo3(signature = (groups, timeout))]
    fn delete_groups(&self, py: Python<'_>, groups: Vec<String>, timeout: Option<f64>) -> PyResult<()> {
        let groups = shared(groups);
        let done = self.call(py, "delete_groups", timeout, |admin, call| admin.delete_groups(call, groups))?;
        errors::each(py, done).map(drop)
    }

    /// Puts static members out, by their `group.instance.id`s.
    #[pyo3(signature = (group, instances, timeout))]
    fn remove_members(
        &self,
        py: Python<'_>,
        group: String,
        instances: Vec<String>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let (group, instances) = (Arc::from(group), shared(instances));
        let done =
            self.call(py, "remove_members", timeout, |admin, call| admin.remove_members(call, &group, instances))?;
        errors::each(py, done).map(drop)
    }

    /// All offsets that the group has committed.
    #[pyo3(signature = (group, timeout))]
    fn committed(&self, py: Python<'_>, group: String, timeout: Option<f64>) -> PyResult<Vec<(String, i32, i64)>> {
        let group = Arc::from(group);
        let found = self.call(py, "committed", timeout, |admin, call| admin.committed(call, &group, None))?;
        Ok(found.into_iter().map(|(tp, offset)| (tp.topic.to_string(), tp.partition, offset)).collect())
    }

    /// (topic, partition, committed offset, end of the partition).
    #[pyo3(signature = (group, timeout))]
    fn lag(&self, py: Python<'_>, group: String, timeout: Option<f64>) -> PyResult<Vec<LagTold>> {
        let group = Arc::from(group);
        let lags = self.call(py, "lag", timeout, |admin, call| admin.lag(call, &group))?;
        Ok(lags.into_iter().map(told::lag).collect())
    }

    /// The offsets that these places come to.
    #[pyo3(signature = (places, timeout))]
    fn offsets(&self, py: Python<'_>, places: Vec<(String, i32, StartAt)>, timeout: Option<f64>) -> PyResult<Vec<i64>> {
        let place = |(topic, partition, start): (String, i32, StartAt)| {
            Ok((TopicPartition::new(topic, partition), place_of(start.0)?))
        };
        let places = places.into_iter().map(place).collect::<PyResult<_>>()?;
        errors::each(py, self.call(py, "offsets", timeout, |admin, call| admin.list_offsets(call, places))?)
    }

    /// (topic, partition, committed before, committed then).
    #[pyo3(signature = (group, to, dry_run, timeout))]
    fn reset_offsets(
        &self,
        py: Python<'_>,
        group: String,
        to: Vec<(String, i32, StartAt)>,
        dry_run: bool,
        timeout: Option<f64>,
    ) -> PyResult<Vec<ResetTold>> {
        let group = Arc::from(group);
        let to = to.into_iter().map(|(topic, partition, start)| {
            let to = match start.0 {
                Start::Offset(offset) => ResetTo::Offset(offset),
                other => ResetTo::Place(place_of(other)?),
            };
            Ok((TopicPartition::new(topic, partition), to))
        });
        let to = to.collect::<PyResult<_>>()?;
        let done =
            self.call(py, "reset_offsets", timeout, |admin, call| admin.reset_offsets(call, &group, to, dry_run))?;
        Ok(done.into_iter().map(told::reset).collect())
    }

    #[pyo3(signature = (group, partitions, timeout))]
    fn delete_offsets(
        &self,
        py: Python<'_>,
        group: String,
        partitions: Vec<(String, i32)>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let group = Arc::from(group);
        let tps = partitions.into_iter().map(|(topic, partition)| TopicPartition::new(topic, partition)).collect();
        let done = self.call(py, "delete_offsets", timeout, |admin, call| admin.delete_offsets(call, &group, tps))?;
        errors::each(py, done).map(drop)
    }

    /// The first offsets still there. `before`: (topic, partition, offset); -1: all records.
    #[pyo3(signature = (before, timeout))]
    fn delete_records(
        &self,
        py: Python<'_>,
        before: Vec<(String, i32, i64)>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<i64>> {
        let before =
            before.into_iter().map(|(topic, partition, offset)| (TopicPartition::new(topic, partition), offset));
        let before = before.collect();
        errors::each(py, self.call(py, "delete_records", timeout, |admin, call| admin.delete_records(call, before))?)
    }

    /// What is worth a log line since the last call.
    fn take_notices(&self) -> PyResult<Vec<Notice>> {
        Ok(self.inner.get()?.take_notices().into_iter().map(Notice::new).collect())
    }

    /// Ends the thread; calls under way end, too. A second call does nothing.
    #[pyo3(signature = (timeout))]
    fn close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let (admin, timeout) = (self.inner.get()?, limit(timeout)?);
        py.detach(|| admin.close(timeout)).map_err(errors::client)
    }
}

fn shared(names: Vec<String>) -> Vec<Arc<str>> {
    names.into_iter().map(Arc::from).collect()
}

fn resource(kind: &str, name: &str) -> PyResult<Resource> {
    match (kind, name) {
        ("topic", name) => Ok(Resource::Topic(name.into())),
        ("broker", "") => Ok(Resource::AllBrokers),
        ("broker", name) => match name.parse() {
            Ok(node) => Ok(Resource::Broker(node)),
            Err(_) => Err(PyValueError::new_err(format!("a broker is named by its number, not {name:?}"))),
        },
        _ => Err(PyValueError::new_err(format!("settings belong to a \"topic\" or a \"broker\", not to a {kind:?}"))),
    }
}

fn place_of(start: Start) -> PyResult<When> {
    match start {
        Start::Earliest => Ok(When::Earliest),
        Start::Latest => Ok(When::Latest),
        Start::Timestamp(ms) => Ok(When::Timestamp(ms)),
        Start::Offset(_) | Start::Committed => {
            Err(PyTypeError::new_err("a place in the log is \"earliest\", \"latest\" or a datetime"))
        }
    }
}
