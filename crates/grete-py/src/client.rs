//! Kafka client: one consumer group, one network thread.

use std::time::{Duration, Instant};

use grete_client::{
    ClientError, Consumer, ConsumerConfig, MemberIds, ProducerConfig, SettingPairs, Settling, TopicPartition,
    Transactional, WaitReport,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::timeout_or_forever;
use crate::dispatch::dispatcher::Dispatcher;
use crate::dispatch::job::Job;
use crate::dispatch::route::Route;
use crate::errors;
use crate::ffi::fork_guarded::ForkGuarded;
use crate::log_event;
use crate::sasl::attach_tokens;
use crate::start_offset_arg::StartOffsetArg;

/// Runs a call that waits, without the GIL. Log events are logged meanwhile, and an exception of the log ends the wait.
fn call_blocking<T: Send>(py: Python<'_>, call: impl FnOnce() -> Result<T, ClientError> + Send) -> PyResult<T> {
    let result = py.detach(call);
    log_event::take_raised()?;
    result.map_err(errors::client)
}

/// Waits without the GIL until the call returns, and lets signal handlers run. Returns false after `timeout` seconds.
fn wait_interruptibly(
    py: Python<'_>,
    timeout: f64,
    wait: impl Fn(Option<Duration>) -> Result<Settling, ClientError> + Sync,
) -> PyResult<bool> {
    let deadline = Instant::now().checked_add(timeout_or_forever(Some(timeout))?);
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match call_blocking(py, || wait(left))? {
            Settling::Settled => return Ok(true),
            Settling::TimedOut => return Ok(false),
            Settling::Interrupted => py.check_signals()?,
        }
    }
}

/// One Kafka client: one consumer group, one "grete-net" thread.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct Client {
    inner: ForkGuarded<Consumer>,
}

impl Client {
    pub(crate) fn get(&self) -> PyResult<&Consumer> {
        self.inner.get()
    }
}

#[pymethods]
impl Client {
    /// `config`: Kafka's settings as pairs. `routes` empty: a low-level consumer, without hooks.
    /// `stop_on_failed_partition`: an unreadable partition of a route is an error of the dispatcher. `transactional`: jobs
    /// are exactly once; settings of the producer, and the interval of transactions in seconds. `member_ids`: id of this
    /// member, and that of a dead process whose place it takes over, for groups with the consumer protocol. `queue`: the
    /// group is a share group, of which this member processes so many records at once; `None`: it is none.
    #[new]
    #[pyo3(signature = (config, dispatcher, routes, *, stop_on_failed_partition=false, transactional=None, member_ids=None, queue=None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        config: Vec<(String, String)>,
        dispatcher: &Dispatcher,
        routes: Vec<PyRef<'_, Route>>,
        stop_on_failed_partition: bool,
        transactional: Option<(Vec<(String, String)>, f64)>,
        member_ids: Option<(String, Option<String>)>,
        queue: Option<usize>,
    ) -> PyResult<Self> {
        let config = SettingPairs::from(config);
        let member_ids =
            member_ids.map(|(own, before)| MemberIds { member_id: own.into(), predecessor: before.map(Into::into) });
        let mut config = ConsumerConfig::from_pairs(&config).map_err(errors::config)?.with_member_ids(member_ids);
        attach_tokens(py, &mut config)?;
        let transactional = match transactional {
            None => None,
            Some((pairs, interval)) => {
                let pairs = SettingPairs::from(pairs);
                let mut producer = ProducerConfig::from_pairs(&pairs).map_err(errors::config)?;
                attach_tokens(py, &mut producer)?;
                Some(Transactional { producer, interval: timeout_or_forever(Some(interval))? })
            }
        };
        let routes = routes.iter().map(|route| route.get().clone()).collect::<Vec<_>>();
        let dispatcher = dispatcher.get()?;
        let consumer = py
            .detach(|| Consumer::start_app(config, dispatcher, routes, stop_on_failed_partition, transactional, queue))
            .map_err(errors::client)?;
        Ok(Self { inner: ForkGuarded::new(consumer) })
    }

    /// Waits until the leaders have answered all acknowledgements of a share group.
    fn flush_acks(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let (consumer, timeout) = (self.inner.get()?, timeout_or_forever(timeout)?);
        call_blocking(py, || consumer.flush_acks(timeout))
    }

    /// Sets how many records of a share group this member processes at once.
    fn set_concurrency(&self, records: usize) -> PyResult<()> {
        self.inner.get()?.set_concurrency(records).map_err(errors::client)
    }

    fn subscribe(&self, py: Python<'_>, topics: Vec<String>) -> PyResult<()> {
        let consumer = self.inner.get()?;
        py.detach(|| consumer.subscribe(topics)).map_err(errors::client)
    }

    /// Replaces the assignment: (topic, partition, start offset).
    fn assign(&self, py: Python<'_>, partitions: Vec<(String, i32, StartOffsetArg)>) -> PyResult<()> {
        let consumer = self.inner.get()?;
        let partitions = partitions.into_iter().map(|(topic, partition, start)| (topic, partition, start.0)).collect();
        call_blocking(py, || consumer.assign(partitions))
    }

    /// Commits and waits for the response. `offsets`: (topic, partition, next offset to read); None: all completed.
    fn commit(&self, py: Python<'_>, offsets: Option<Vec<(String, i32, i64)>>, timeout: Option<f64>) -> PyResult<()> {
        let (consumer, timeout) = (self.inner.get()?, timeout_or_forever(timeout)?);
        call_blocking(py, || consumer.commit(offsets, timeout))
    }

    /// Returns the group's committed offsets; None for a partition without one.
    fn committed(
        &self,
        py: Python<'_>,
        partitions: Vec<(String, i32)>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<Option<i64>>> {
        let (consumer, timeout) = (self.inner.get()?, timeout_or_forever(timeout)?);
        call_blocking(py, || consumer.committed(partitions, timeout))
    }

    /// Moves the position in an assigned partition.
    fn seek(&self, py: Python<'_>, topic: &str, partition: i32, to: StartOffsetArg) -> PyResult<()> {
        let consumer = self.inner.get()?;
        py.detach(|| consumer.seek(topic, partition, to.0)).map_err(errors::client)
    }

    fn pause(&self, py: Python<'_>, partitions: Vec<(String, i32)>) -> PyResult<()> {
        let consumer = self.inner.get()?;
        py.detach(|| consumer.pause(partitions)).map_err(errors::client)
    }

    fn resume(&self, py: Python<'_>, partitions: Vec<(String, i32)>) -> PyResult<()> {
        let consumer = self.inner.get()?;
        py.detach(|| consumer.resume(partitions)).map_err(errors::client)
    }

    fn assignment(&self) -> PyResult<Vec<(String, i32)>> {
        Ok(self.inner.get()?.assignment())
    }

    /// Returns the next offset to hand out; None if not (yet) known.
    fn position(&self, topic: &str, partition: i32) -> PyResult<Option<i64>> {
        Ok(self.inner.get()?.position(topic, partition))
    }

    /// Returns (low, high) of the last fetch; None if not (yet) known.
    fn watermarks(&self, topic: &str, partition: i32) -> PyResult<Option<(i64, i64)>> {
        Ok(self.inner.get()?.watermarks(topic, partition))
    }

    /// Looks up the offsets of these start positions at the brokers.
    fn list_offsets(
        &self,
        py: Python<'_>,
        partitions: Vec<(String, i32, StartOffsetArg)>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<i64>> {
        let (consumer, timeout) = (self.inner.get()?, timeout_or_forever(timeout)?);
        let partitions = partitions.into_iter().map(|(topic, partition, start)| (topic, partition, start.0)).collect();
        call_blocking(py, || consumer.list_offsets(partitions, timeout))
    }

    /// Looks up the partitions of a topic at the brokers.
    fn partitions(&self, py: Python<'_>, topic: &str, timeout: Option<f64>) -> PyResult<Vec<i32>> {
        let (consumer, timeout) = (self.inner.get()?, timeout_or_forever(timeout)?);
        call_blocking(py, || consumer.partitions(topic, timeout))
    }

    /// Commits the marked records of the job's partition. The commit is stored when this returns. Raises `RevokedError`
    /// when the partition no longer belongs to the job.
    fn commit_marks(&self, py: Python<'_>, job: &Job, timeout: f64) -> PyResult<()> {
        let (consumer, token, timeout) = (self.inner.get()?, job.token()?, timeout_or_forever(Some(timeout))?);
        call_blocking(py, || consumer.commit_marks(token, timeout))
    }

    /// Waits until this client has its assignment and has processed it: each partition is read up to its end in `ends`
    /// (topic, partition, offset), and no record waits for a job, a backoff, a delay or the end of a pause. Returns
    /// False after `timeout` seconds. `end_backoffs`: backoffs end at once.
    fn wait_until_settled(
        &self,
        py: Python<'_>,
        ends: Vec<(String, i32, i64)>,
        timeout: f64,
        end_backoffs: bool,
    ) -> PyResult<bool> {
        let ends =
            ends.into_iter().map(|(topic, partition, end)| (TopicPartition::new(topic, partition), end)).collect();
        let consumer = self.inner.get()?;
        wait_interruptibly(py, timeout, |left| consumer.wait_until_settled(&ends, left, end_backoffs))
    }

    /// Waits until this client has its assignment, and the position of each of its partitions. Returns False after
    /// `timeout` seconds.
    fn wait_until_assigned(&self, py: Python<'_>, timeout: f64) -> PyResult<bool> {
        let consumer = self.inner.get()?;
        wait_interruptibly(py, timeout, |left| consumer.wait_until_assigned(left))
    }

    /// Makes a static member leave its group on close, so that other members get its partitions at once. Otherwise the
    /// coordinator keeps its partitions for `session.timeout.ms`.
    fn leave_group_on_close(&self) -> PyResult<()> {
        self.inner.get()?.leave_group_on_close();
        Ok(())
    }

    /// Commits what is committable, leaves the group, ends the thread. A second call does nothing.
    fn close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let (consumer, timeout) = (self.inner.get()?, timeout_or_forever(timeout)?);
        call_blocking(py, || consumer.close(timeout))
    }

    /// Returns the client's membership in its group, by name; `since` in seconds.
    fn membership<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let membership = self.inner.get()?.membership();
        let fields = PyDict::new(py);
        fields.set_item("group", membership.group)?;
        fields.set_item("state", membership.state)?;
        fields.set_item("since", membership.since.elapsed().as_secs_f64())?;
        fields.set_item("ready", membership.ready)?;
        fields.set_item("generation", membership.generation)?;
        fields.set_item("partitions", membership.partitions)?;
        fields.set_item("instance", membership.instance)?;
        Ok(fields)
    }

    /// Returns group id, member id, generation and instance id.
    fn group_member(&self) -> PyResult<(String, String, i32, Option<String>)> {
        let member = self.inner.get()?.group_member();
        Ok((member.group, member.member_id.to_string(), member.generation, member.instance))
    }

    /// Returns the user as brokers name it, without `User:`; None: it is unknown.
    fn user(&self) -> PyResult<Option<String>> {
        Ok(self.inner.get()?.user().map(|user| user.to_string()))
    }

    /// Returns the state of the client's transactions by name; times in seconds; `None`: its jobs are at least once.
    fn transactions<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(report) = self.inner.get()?.transactions() else { return Ok(None) };
        let fields = PyDict::new(py);
        fields.set_item("transactional_id", &*report.transactional_id)?;
        fields.set_item("state", report.state)?;
        fields.set_item("committing_for", report.committing_since.map(|since| since.elapsed().as_secs_f64()))?;
        fields.set_item("committed", report.committed)?;
        fields.set_item("aborted", report.aborted)?;
        fields.set_item("records", report.records)?;
        fields.set_item("staged_bytes", report.staged_bytes)?;
        fields.set_item("last_error", report.last_error.as_deref())?;
        Ok(Some(fields))
    }

    /// Returns the counters of a share group by name; `None`: the group is none.
    fn queue<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(counts) = self.inner.get()?.net_stats().share else { return Ok(None) };
        let fields = PyDict::new(py);
        for (name, count) in [
            ("held", counts.held),
            ("acquired", counts.acquired),
            ("redelivered", counts.redelivered),
            ("accepted", counts.accepted),
            ("released", counts.released),
            ("rejected", counts.rejected),
            ("renewed", counts.renewed),
            ("locks_lost", counts.locks_lost),
        ] {
            fields.set_item(name, count)?;
        }
        Ok(Some(fields))
    }

    /// Returns counters by name.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let statistics = self.inner.get()?.statistics();
        let fields = PyDict::new(py);
        fields.set_item("bytes_received", statistics.bytes_received)?;
        fields.set_item("fetches", statistics.fetches)?;
        fields.set_item("reconnects", statistics.reconnects)?;
        fields.set_item("queued_bytes", statistics.queued_bytes)?;
        fields.set_item("pinned_bytes", statistics.pinned_bytes)?;
        let partitions = self.inner.get()?.partition_reports().into_iter().map(|lane| {
            let fields = PyDict::new(py);
            fields.set_item("topic", &*lane.topic)?;
            fields.set_item("partition", lane.partition)?;
            fields.set_item("position", lane.position)?;
            fields.set_item("high_watermark", lane.high_watermark)?;
            fields.set_item("source", lane.source)?;
            fields.set_item("lag", lane.lag)?;
            fields.set_item("waits_for", lane.wait.as_ref().map(WaitReport::name))?;
            fields.set_item("wait", lane.wait.as_ref().map(WaitReport::text))?;
            fields.set_item("last_progress_seconds", lane.unmoved_for)?;
            Ok(fields)
        });
        fields.set_item("partitions", partitions.collect::<PyResult<Vec<_>>>()?)?;
        fields.set_item("login_failure", self.inner.get()?.login_failure().as_deref())?;
        fields.set_item("authorization_failure", self.inner.get()?.authorization_failure().as_deref())?;
        Ok(fields)
    }
}
