//! One Kafka client: one group, one network thread.

use std::time::Duration;

use grete_client::{Consumer, ConsumerConfig, Start};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::dispatcher::{Dispatcher, seconds};
use crate::errors;
use crate::handle::Handle;
use crate::job::Job;
use crate::route::Route;

/// Where to start: None = committed, an offset, "earliest", "latest", or a datetime (naive ones are local time).
pub(crate) struct StartAt(pub(crate) Start);

impl<'py> FromPyObject<'_, 'py> for StartAt {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if object.is_none() {
            return Ok(Self(Start::Committed));
        }
        if let Ok(name) = object.cast::<PyString>() {
            return match name.to_str()? {
                "earliest" => Ok(Self(Start::Earliest)),
                "latest" => Ok(Self(Start::Latest)),
                other => Err(PyValueError::new_err(format!(
                    "an offset is an int, \"earliest\", \"latest\", a datetime, or None for the committed one, not {other:?}"
                ))),
            };
        }
        if let Ok(offset) = object.extract::<i64>() {
            if offset < 0 {
                return Err(PyValueError::new_err(format!("offset {offset} is negative: offsets start at 0")));
            }
            return Ok(Self(Start::Offset(offset)));
        }
        if let Ok(timestamp) = object.call_method0("timestamp") {
            let milliseconds = (timestamp.extract::<f64>()? * 1000.0).ceil();
            return Ok(Self(Start::Timestamp(milliseconds as i64)));
        }
        Err(PyTypeError::new_err(format!(
            "an offset is an int, \"earliest\", \"latest\", a datetime, or None for the committed one, not {}",
            object.get_type().name()?
        )))
    }
}

/// "For ever", in a number that deadlines can still be added to.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

pub(crate) fn limit(timeout: Option<f64>) -> PyResult<Duration> {
    Ok(seconds(timeout)?.map_or(YEAR, |timeout| timeout.min(YEAR)))
}

/// One Kafka client: one consumer group, one "grete-net" thread.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct Client {
    inner: Handle<Consumer>,
}

impl Client {
    pub(crate) fn get(&self) -> PyResult<&Consumer> {
        self.inner.get()
    }
}

#[pymethods]
impl Client {
    /// `config`: Kafka's settings as pairs. `routes`: (id, topics, max_messages).
    #[new]
    fn new(
        py: Python<'_>,
        config: Vec<(String, String)>,
        dispatcher: &Dispatcher,
        routes: Vec<PyRef<'_, Route>>,
    ) -> PyResult<Self> {
        let config = ConsumerConfig::from_pairs(&config).map_err(errors::config)?;
        let routes = routes.iter().map(|route| route.get().clone()).collect::<Vec<_>>();
        let dispatcher = dispatcher.get()?;
        let consumer = py.detach(|| Consumer::start(config, dispatcher, routes)).map_err(errors::client)?;
        Ok(Self { inner: Handle::new(consumer) })
    }

    fn subscribe(&self, py: Python<'_>, topics: Vec<String>) -> PyResult<()> {
        let consumer = self.inner.get()?;
        py.detach(|| consumer.subscribe(topics)).map_err(errors::client)
    }

    /// Replaces the assignment: (topic, partition, where to start).
    fn assign(&self, py: Python<'_>, partitions: Vec<(String, i32, StartAt)>) -> PyResult<()> {
        let consumer = self.inner.get()?;
        let partitions = partitions.into_iter().map(|(topic, partition, start)| (topic, partition, start.0)).collect();
        py.detach(|| consumer.assign(partitions)).map_err(errors::client)
    }

    /// Commits and waits for the answer. `offsets`: (topic, partition, next offset to read); None: all completed.
    #[pyo3(signature = (offsets, timeout))]
    fn commit(&self, py: Python<'_>, offsets: Option<Vec<(String, i32, i64)>>, timeout: Option<f64>) -> PyResult<()> {
        let (consumer, timeout) = (self.inner.get()?, limit(timeout)?);
        py.detach(|| consumer.commit(offsets, timeout)).map_err(errors::client)
    }

    /// The group's committed offsets; None where there is none.
    #[pyo3(signature = (partitions, timeout))]
    fn committed(
        &self,
        py: Python<'_>,
        partitions: Vec<(String, i32)>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<Option<i64>>> {
        let (consumer, timeout) = (self.inner.get()?, limit(timeout)?);
        py.detach(|| consumer.committed(partitions, timeout)).map_err(errors::client)
    }

    /// Goes on elsewhere in an assigned partition.
    fn seek(&self, py: Python<'_>, topic: &str, partition: i32, to: StartAt) -> PyResult<()> {
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

    /// The next offset to hand out; None if not (yet) known.
    fn position(&self, topic: &str, partition: i32) -> PyResult<Option<i64>> {
        Ok(self.inner.get()?.position(topic, partition))
    }

    /// (low, high) as last fetched; None if not (yet) known.
    fn watermarks(&self, topic: &str, partition: i32) -> PyResult<Option<(i64, i64)>> {
        Ok(self.inner.get()?.watermarks(topic, partition))
    }

    /// Asks the brokers which offsets these starts mean.
    #[pyo3(signature = (partitions, timeout))]
    fn list_offsets(
        &self,
        py: Python<'_>,
        partitions: Vec<(String, i32, StartAt)>,
        timeout: Option<f64>,
    ) -> PyResult<Vec<i64>> {
        let (consumer, timeout) = (self.inner.get()?, limit(timeout)?);
        let partitions = partitions.into_iter().map(|(topic, partition, start)| (topic, partition, start.0)).collect();
        py.detach(|| consumer.list_offsets(partitions, timeout)).map_err(errors::client)
    }

    /// Asks the brokers for a topic's partitions.
    #[pyo3(signature = (topic, timeout))]
    fn partitions(&self, py: Python<'_>, topic: &str, timeout: Option<f64>) -> PyResult<Vec<i32>> {
        let (consumer, timeout) = (self.inner.get()?, limit(timeout)?);
        py.detach(|| consumer.partitions(topic, timeout)).map_err(errors::client)
    }

    /// Commits what is marked of the job's partition; it is stored when this returns. Raises `RevokedError` when the
    /// partition is not the job's any more.
    fn commit_marks(&self, py: Python<'_>, job: &Job, timeout: f64) -> PyResult<()> {
        let (consumer, token, timeout) = (self.inner.get()?, job.token()?, limit(Some(timeout))?);
        py.detach(|| consumer.commit_marks(token, timeout)).map_err(errors::client)
    }

    /// Commits what is committable, leaves the group, ends the thread. A second call does nothing.
    #[pyo3(signature = (timeout))]
    fn close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let (consumer, timeout) = (self.inner.get()?, limit(timeout)?);
        py.detach(|| consumer.close(timeout)).map_err(errors::client)
    }

    /// What the client is to its group, by name; `since` in seconds.
    fn membership<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let membership = self.inner.get()?.membership();
        let fields = PyDict::new(py);
        fields.set_item("group", membership.group)?;
        fields.set_item("state", membership.state)?;
        fields.set_item("since", membership.since.elapsed().as_secs_f64())?;
        fields.set_item("steady", membership.steady)?;
        fields.set_item("generation", membership.generation)?;
        fields.set_item("partitions", membership.partitions)?;
        fields.set_item("instance", membership.instance)?;
        Ok(fields)
    }

    /// Counters by name.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let statistics = self.inner.get()?.statistics();
        let fields = PyDict::new(py);
        fields.set_item("bytes_received", statistics.bytes_received)?;
        fields.set_item("fetches", statistics.fetches)?;
        fields.set_item("reconnects", statistics.reconnects)?;
        fields.set_item("queued_bytes", statistics.queued_bytes)?;
        fields.set_item("pinned_bytes", statistics.pinned_bytes)?;
        Ok(fields)
    }
}
