//! Admin client: conversion, and signals during waits. It returns names and numbers only; `grete.client` builds its
//! classes from them.

mod tuples;

use std::sync::{Arc, Mutex, PoisonError};

use grete_client::{AdminConfig, CallContext, ClientError, ItemResults, ResetTo, SettingPairs, Start};
use grete_proto::admin::{AbortMarker, ConfigAlteration, ConfigResource, NewTopic, OffsetSpec, TransactionFilter};
use grete_proto::ids::TopicPartition;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::convert::timeout_or_forever;
use crate::errors;
use crate::ffi::fork_guarded::ForkGuarded;
use crate::log_event::{self, LogEvent};
use crate::sasl::attach_tokens;
use crate::start_offset_arg::StartOffsetArg;
use tuples::{
    AclFilterTuple, AclTuple, ClusterTuple, ConfigTuple, GroupListingTuple, GroupTuple, LagTuple, ProducerTuple,
    ResetTuple, ShareOffsetTuple, TopicTuple, TransactionListingTuple, TransactionTuple,
};

/// Name, partitions, replication factor, brokers of each partition, settings.
type NewTopicTuple = (String, i32, i16, Vec<Vec<i32>>, Vec<(String, String)>);

/// One admin client with one "grete-admin" thread. Every call takes its timeout in seconds; None: no limit.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct Admin {
    inner: ForkGuarded<grete_client::Admin>,
}

impl Admin {
    /// Runs `work` without the GIL. While it waits, log events are logged and Python's signal handlers run; an
    /// exception of either ends it.
    fn run_blocking<T: Send>(
        &self,
        py: Python<'_>,
        operation: &str,
        timeout: Option<f64>,
        work: impl FnOnce(&grete_client::Admin, &CallContext<'_>) -> Result<T, ClientError> + Send,
    ) -> PyResult<T> {
        let (admin, timeout) = (self.inner.get()?, timeout_or_forever(timeout)?);
        let raised: Mutex<Option<PyErr>> = Mutex::default();
        let result = py.detach(|| {
            let interrupted = || match Python::attach(|py| py.check_signals()) {
                Ok(()) => false,
                Err(error) => {
                    *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    true
                }
            };
            let user = admin.user();
            work(admin, &CallContext::new(operation, timeout, &interrupted).of_client(admin, user.as_deref()))
        });
        log_event::take_raised()?;
        match raised.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => result.map_err(errors::client),
        }
    }

    /// Runs `work` like `run_blocking`. Returns the results of all items, or the first error.
    fn run_each<T: Send>(
        &self,
        py: Python<'_>,
        operation: &str,
        timeout: Option<f64>,
        work: impl FnOnce(&grete_client::Admin, &CallContext<'_>) -> Result<ItemResults<T>, ClientError> + Send,
    ) -> PyResult<Vec<T>> {
        errors::all_or_first_error(py, self.run_blocking(py, operation, timeout, work)?)
    }
}

#[pymethods]
impl Admin {
    /// `config`: Kafka's settings as pairs. `log`: called with a list of log events by threads that wait in a call.
    #[new]
    fn new(py: Python<'_>, config: Vec<(String, String)>, log: Py<PyAny>) -> PyResult<Self> {
        let config = SettingPairs::from(config);
        let mut config = AdminConfig::from_pairs(&config).map_err(errors::config)?;
        attach_tokens(py, &mut config)?;
        let log = Some(log_event::log_callback(log));
        let admin = py.detach(|| grete_client::Admin::start(&config, log)).map_err(errors::client)?;
        Ok(Self { inner: ForkGuarded::new(admin) })
    }

    /// Creates topics. Returns whether each topic was created; False: it existed. `topics`: (name, partitions,
    /// replication factor, brokers of each partition, settings).
    fn create_topics(
        &self,
        py: Python<'_>,
        topics: Vec<NewTopicTuple>,
        if_not_exists: bool,
        validate_only: bool,
        timeout: Option<f64>,
    ) -> PyResult<Vec<bool>> {
        let topic = |(name, partitions, replication_factor, assignment, config): NewTopicTuple| NewTopic {
            name: name.into(),
            partitions,
            replication_factor,
            assignment,
            config,
        };
        let topics = topics.into_iter().map(topic).collect();
        self.run_each(py, "create_topics", timeout, |admin, call| {
            admin.create_topics(call, topics, if_not_exists, validate_only)
        })
    }

    fn delete_topics(&self, py: Python<'_>, names: Vec<String>, timeout: Option<f64>) -> PyResult<()> {
        let names = to_arc_strs(names);
        self.run_each(py, "delete_topics", timeout, |admin, call| admin.delete_topics(call, names)).map(drop)
    }

    /// Returns the ACLs that a filter finds.
    fn describe_acls(&self, py: Python<'_>, filter: AclFilterTuple, timeout: Option<f64>) -> PyResult<Vec<AclTuple>> {
        let filter = tuples::acl_filter_from(filter);
        let found = self.run_blocking(py, "describe_acls", timeout, |admin, call| admin.describe_acls(call, filter))?;
        Ok(found.into_iter().map(tuples::acl).collect())
    }

    fn create_acls(&self, py: Python<'_>, acls: Vec<AclTuple>, timeout: Option<f64>) -> PyResult<()> {
        let acls = acls.into_iter().map(tuples::acl_from).collect();
        self.run_each(py, "create_acls", timeout, |admin, call| admin.create_acls(call, acls)).map(drop)
    }

    /// Removes the ACLs that filters find. Returns those of each filter.
    fn delete_acls(
        &self,
        py: Python<'_>,
        filters: Vec<AclFilterTuple>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<Vec<AclTuple>>> {
        let filters = filters.into_iter().map(tuples::acl_filter_from).collect();
        let found = self.run_each(py, "delete_acls", timeout, |admin, call| admin.delete_acls(call, filters))?;
        Ok(found.into_iter().map(|acls| acls.into_iter().map(tuples::acl).collect()).collect())
    }

    /// Adds partitions to topics. `totals`: (name, number of partitions in all).
    fn create_partitions(
        &self,
        py: Python<'_>,
        totals: Vec<(String, i32)>,
        validate_only: bool,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let totals = totals.into_iter().map(|(name, total)| (name.into(), total)).collect();
        self.run_each(py, "create_partitions", timeout, |admin, call| {
            admin.create_partitions(call, totals, validate_only)
        })
        .map(drop)
    }

    /// Returns all topics.
    fn topics(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Vec<TopicTuple>> {
        let topics = self.run_blocking(py, "topics", timeout, |admin, call| admin.all_topics(call))?;
        Ok(topics.into_iter().map(tuples::topic).collect())
    }

    fn describe_topics(&self, py: Python<'_>, names: Vec<String>, timeout: Option<f64>) -> PyResult<Vec<TopicTuple>> {
        let names = to_arc_strs(names);
        let found = self.run_each(py, "describe_topics", timeout, |admin, call| admin.describe_topics(call, names))?;
        Ok(found.into_iter().map(tuples::topic).collect())
    }

    fn cluster(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<ClusterTuple> {
        self.run_blocking(py, "cluster", timeout, |admin, call| admin.describe_cluster(call)).map(tuples::cluster)
    }

    /// Returns all settings of a "topic", or of a "broker" by its number ("": of all brokers).
    fn config(&self, py: Python<'_>, kind: &str, name: &str, timeout: Option<f64>) -> PyResult<Vec<ConfigTuple>> {
        let resource = resource(kind, name)?;
        let entries = self.run_blocking(py, "config", timeout, |admin, call| admin.describe_config(call, resource))?;
        Ok(entries.into_iter().map(tuples::config).collect())
    }

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
        let alteration = ConfigAlteration { resource: resource(kind, name)?, set: values, delete };
        self.run_blocking(py, "alter_config", timeout, |admin, call| {
            admin.alter_config(call, alteration, validate_only)
        })
    }

    /// Returns all groups in these states (none: in any), and the error that keeps the groups of some brokers out of
    /// the list.
    fn groups(
        &self,
        py: Python<'_>,
        states: Vec<String>,
        timeout: Option<f64>,
    ) -> PyResult<(Vec<GroupListingTuple>, Option<Py<PyAny>>)> {
        let list = self.run_blocking(py, "groups", timeout, |admin, call| admin.list_groups(call, &states))?;
        let missing = list.missing.map(|error| errors::client(error).into_value(py).into_any());
        Ok((list.groups.into_iter().map(tuples::listing).collect(), missing))
    }

    fn describe_groups(&self, py: Python<'_>, groups: Vec<String>, timeout: Option<f64>) -> PyResult<Vec<GroupTuple>> {
        let groups = to_arc_strs(groups);
        let found = self.run_each(py, "describe_groups", timeout, |admin, call| admin.describe_groups(call, groups))?;
        Ok(found.into_iter().map(tuples::group).collect())
    }

    fn delete_groups(&self, py: Python<'_>, groups: Vec<String>, timeout: Option<f64>) -> PyResult<()> {
        let groups = to_arc_strs(groups);
        self.run_each(py, "delete_groups", timeout, |admin, call| admin.delete_groups(call, groups)).map(drop)
    }

    /// Removes static members from a group, by their `group.instance.id`s.
    fn remove_members(
        &self,
        py: Python<'_>,
        group: String,
        instances: Vec<String>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let (group, instances) = (Arc::from(group), to_arc_strs(instances));
        self.run_each(py, "remove_members", timeout, |admin, call| admin.remove_members(call, &group, instances))
            .map(drop)
    }

    /// Returns all transactional ids in these states (none: in any) and with these producer ids (none: any), and the
    /// error that keeps the ids of some brokers out of the list.
    fn transactions(
        &self,
        py: Python<'_>,
        states: Vec<String>,
        producer_ids: Vec<i64>,
        timeout: Option<f64>,
    ) -> PyResult<(Vec<TransactionListingTuple>, Option<Py<PyAny>>)> {
        let filter = TransactionFilter { states, producer_ids };
        let list =
            self.run_blocking(py, "transactions", timeout, |admin, call| admin.list_transactions(call, &filter))?;
        let missing = list.missing.map(|error| errors::client(error).into_value(py).into_any());
        Ok((list.transactions.into_iter().map(tuples::transaction_listing).collect(), missing))
    }

    fn describe_transactions(
        &self,
        py: Python<'_>,
        ids: Vec<String>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<TransactionTuple>> {
        let ids = to_arc_strs(ids);
        let found =
            self.run_each(py, "describe_transactions", timeout, |admin, call| admin.describe_transactions(call, ids))?;
        Ok(found.into_iter().map(tuples::transaction).collect())
    }

    /// Returns the producers of each of these partitions.
    fn describe_producers(
        &self,
        py: Python<'_>,
        partitions: Vec<(String, i32)>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<Vec<ProducerTuple>>> {
        let partitions = partitions.into_iter().map(|(topic, index)| TopicPartition::new(topic, index)).collect();
        let found =
            self.run_each(py, "describe_producers", timeout, |admin, call| admin.describe_producers(call, partitions))?;
        Ok(found.into_iter().map(|producers| producers.into_iter().map(tuples::producer).collect()).collect())
    }

    fn fence_producers(&self, py: Python<'_>, ids: Vec<String>, timeout: Option<f64>) -> PyResult<()> {
        let ids = to_arc_strs(ids);
        self.run_each(py, "fence_producers", timeout, |admin, call| admin.fence_producers(call, ids)).map(drop)
    }

    /// Writes an abort marker of a producer, given by id, epoch, and the epoch of its coordinator, to a partition.
    fn abort_transaction(
        &self,
        py: Python<'_>,
        partition: (String, i32),
        producer: (i64, i16, i32),
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let partition = TopicPartition::new(partition.0, partition.1);
        let (producer_id, producer_epoch, coordinator_epoch) = producer;
        let marker = AbortMarker { producer_id, producer_epoch, coordinator_epoch };
        self.run_blocking(py, "abort_transaction", timeout, |admin, call| {
            admin.abort_transaction(call, partition, marker)
        })
    }

    /// Returns all offsets that the group has committed: (topic, partition, offset).
    fn committed(&self, py: Python<'_>, group: String, timeout: Option<f64>) -> PyResult<Vec<(String, i32, i64)>> {
        let group = Arc::from(group);
        let found = self.run_blocking(py, "committed", timeout, |admin, call| admin.committed(call, &group, None))?;
        Ok(found.into_iter().map(|(tp, offset)| (tp.topic.to_string(), tp.partition, offset)).collect())
    }

    /// Returns (topic, partition, committed offset, end of the partition).
    fn lag(&self, py: Python<'_>, group: String, timeout: Option<f64>) -> PyResult<Vec<LagTuple>> {
        let group = Arc::from(group);
        let lags = self.run_blocking(py, "lag", timeout, |admin, call| admin.lag(call, &group))?;
        Ok(lags.into_iter().map(tuples::lag).collect())
    }

    /// Returns the offsets of a share group: (topic, partition, start offset, records that are not done).
    fn share_offsets(&self, py: Python<'_>, group: String, timeout: Option<f64>) -> PyResult<Vec<ShareOffsetTuple>> {
        let group = Arc::from(group);
        let found = self.run_blocking(py, "lag", timeout, |admin, call| admin.share_offsets(call, &group))?;
        Ok(found.into_iter().map(tuples::share_offset).collect())
    }

    /// Returns the offset of each of these positions.
    fn offsets(
        &self,
        py: Python<'_>,
        places: Vec<(String, i32, StartOffsetArg)>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<i64>> {
        let place = |(topic, partition, start): (String, i32, StartOffsetArg)| {
            Ok((TopicPartition::new(topic, partition), to_offset_spec(start.0)?))
        };
        let places = places.into_iter().map(place).collect::<PyResult<_>>()?;
        self.run_each(py, "offsets", timeout, |admin, call| admin.list_offsets(call, places))
    }

    /// Sets committed offsets. Returns (topic, partition, offset before, offset after).
    fn reset_offsets(
        &self,
        py: Python<'_>,
        group: String,
        to: Vec<(String, i32, StartOffsetArg)>,
        dry_run: bool,
        timeout: Option<f64>,
    ) -> PyResult<Vec<ResetTuple>> {
        let group = Arc::from(group);
        let to = to.into_iter().map(|(topic, partition, start)| {
            let to = match start.0 {
                Start::Offset(offset) => ResetTo::Offset(offset),
                other => ResetTo::Spec(to_offset_spec(other)?),
            };
            Ok((TopicPartition::new(topic, partition), to))
        });
        let to = to.collect::<PyResult<_>>()?;
        let done = self
            .run_blocking(py, "reset_offsets", timeout, |admin, call| admin.reset_offsets(call, &group, to, dry_run))?;
        Ok(done.into_iter().map(tuples::reset).collect())
    }

    fn delete_offsets(
        &self,
        py: Python<'_>,
        group: String,
        partitions: Vec<(String, i32)>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let group = Arc::from(group);
        let topic_partitions =
            partitions.into_iter().map(|(topic, partition)| TopicPartition::new(topic, partition)).collect();
        self.run_each(py, "delete_offsets", timeout, |admin, call| admin.delete_offsets(call, &group, topic_partitions))
            .map(drop)
    }

    /// Deletes records. Returns the first offset that remains in each partition. `before`: (topic, partition, offset);
    /// -1: all records.
    fn delete_records(
        &self,
        py: Python<'_>,
        before: Vec<(String, i32, i64)>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<i64>> {
        let before =
            before.into_iter().map(|(topic, partition, offset)| (TopicPartition::new(topic, partition), offset));
        let before = before.collect();
        self.run_each(py, "delete_records", timeout, |admin, call| admin.delete_records(call, before))
    }

    /// Returns the user as brokers name it, without `User:`; None: it is unknown. A token names one once it is there.
    fn user(&self) -> PyResult<Option<String>> {
        Ok(self.inner.get()?.user().map(|user| user.to_string()))
    }

    /// Returns the log events since the last call.
    fn drain_log_events(&self) -> PyResult<Vec<LogEvent>> {
        Ok(self.inner.get()?.log_events().drain().into_iter().map(LogEvent::new).collect())
    }

    /// Ends the thread and the calls under way. A second call does nothing.
    fn close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let (admin, timeout) = (self.inner.get()?, timeout_or_forever(timeout)?);
        let closed = py.detach(|| admin.close(timeout));
        log_event::take_raised()?;
        closed.map_err(errors::client)
    }
}

fn to_arc_strs(names: Vec<String>) -> Vec<Arc<str>> {
    names.into_iter().map(Arc::from).collect()
}

fn resource(kind: &str, name: &str) -> PyResult<ConfigResource> {
    match (kind, name) {
        ("topic", name) => Ok(ConfigResource::Topic(name.into())),
        ("broker", "") => Ok(ConfigResource::AllBrokers),
        ("broker", name) => match name.parse() {
            Ok(node) => Ok(ConfigResource::Broker(node)),
            Err(_) => Err(PyValueError::new_err(format!("a broker is named by its number, not {name:?}"))),
        },
        ("group", name) => Ok(ConfigResource::Group(name.into())),
        _ => Err(PyValueError::new_err(format!(
            "settings belong to a \"topic\", a \"broker\" or a \"group\", not to a {kind:?}"
        ))),
    }
}

fn to_offset_spec(start: Start) -> PyResult<OffsetSpec> {
    match start {
        Start::Earliest => Ok(OffsetSpec::Earliest),
        Start::Latest => Ok(OffsetSpec::Latest),
        Start::Timestamp(ms) => Ok(OffsetSpec::Timestamp(ms)),
        Start::Offset(_) | Start::Committed => Err(PyTypeError::new_err(
            "a place in the log is \"earliest\", \"latest\" or a datetime, not an offset or None",
        )),
    }
}
