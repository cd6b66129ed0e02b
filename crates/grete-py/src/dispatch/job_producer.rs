//! Producer for the handlers of one consumer instance. The offsets of the running job wait for the records that it
//! takes.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};

use crate::consumer::message::Message;
use crate::convert::parse_timeout;
use crate::dispatch::job::Job;
use crate::errors::{no_job, wait_refused};
use crate::producer::{Deliveries, Delivery, ProduceArgs, Producer};

/// Producer that adds its records to the outputs of the running job, by `grete_proto::dispatch::JobState::on_produced`.
#[pyclass(frozen, subclass, module = "grete._native")]
pub(crate) struct JobProducer {
    producer: Py<Producer>,
    /// Consumer instance with the running job in `_job`. Weak, because the instance keeps this object.
    consumer: Py<PyWeakrefReference>,
    /// Whether the records are staged in the job.
    exactly_once: bool,
}

impl JobProducer {
    /// Returns the job that the instance runs, or may still mark for; `None` between two jobs.
    fn job<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, Job>>> {
        let Some(consumer) = self.consumer.bind(py).upgrade() else { return Ok(None) };
        let job = consumer.getattr(intern!(py, "_job"))?;
        Ok(job.cast_into::<Job>().ok())
    }

    /// Returns the job that stages records. Raises `TransactionStateError` if no job runs.
    fn staging_job<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Job>> {
        self.job(py)?.ok_or_else(no_job)
    }

    fn add_output(&self, py: Python<'_>, delivery: &Delivery) -> PyResult<()> {
        match self.job(py)? {
            Some(job) => job.get().add_output(delivery.receipt.get()?, delivery.index, 1),
            None => Ok(()),
        }
    }

    fn add_outputs(&self, py: Python<'_>, deliveries: &Deliveries) -> PyResult<()> {
        let Some(job) = self.job(py)? else { return Ok(()) };
        deliveries
            .runs()?
            .iter_runs()
            .try_for_each(|(receipt, first, count)| job.get().add_output(receipt, first, count))
    }
}

#[pymethods]
impl JobProducer {
    /// `consumer`: the instance whose `_job` is the running job. `exactly_once`: whether its jobs are.
    #[new]
    #[pyo3(signature = (producer, consumer, exactly_once=false))]
    fn new(producer: &Bound<'_, Producer>, consumer: &Bound<'_, PyAny>, exactly_once: bool) -> PyResult<Self> {
        let consumer = PyWeakrefReference::new(consumer)?.unbind();
        Ok(Self { producer: producer.clone().unbind(), consumer, exactly_once })
    }

    /// Whether the records of a job are staged, and committed with its offsets.
    #[getter]
    fn _exactly_once(&self) -> bool {
        self.exactly_once
    }

    /// Stages a record in the running job.
    #[pyo3(signature = (topic, value, key, headers, partition, timestamp))]
    #[allow(clippy::too_many_arguments)]
    fn _stage<'py>(
        &self,
        topic: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        key: Option<&Bound<'py, PyAny>>,
        headers: Option<&Bound<'py, PyAny>>,
        partition: Option<&Bound<'py, PyAny>>,
        timestamp: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Delivery>> {
        let py = topic.py();
        let args = ProduceArgs { topic, value, key, headers, partition, timestamp };
        Producer::stage(self.producer.bind(py), self.staging_job(py)?.get().token()?, &args)
    }

    /// Same as `Producer.produce`; the job's offsets wait for the record.
    #[pyo3(signature = (topic, value, *, key=None, headers=None, partition=None, timestamp=None, on_delivery=None))]
    #[allow(clippy::too_many_arguments)]
    fn produce<'py>(
        &self,
        topic: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        key: Option<&Bound<'py, PyAny>>,
        headers: Option<&Bound<'py, PyAny>>,
        partition: Option<&Bound<'py, PyAny>>,
        timestamp: Option<&Bound<'py, PyAny>>,
        on_delivery: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Delivery>> {
        let py = topic.py();
        if self.exactly_once {
            if on_delivery.is_some() {
                return Err(wait_refused());
            }
            return self._stage(topic, value, key, headers, partition, timestamp);
        }
        let producer = self.producer.bind(py);
        let delivery = Producer::produce(producer, topic, value, key, headers, partition, timestamp, on_delivery)?;
        self.add_output(py, delivery.get())?;
        Ok(delivery)
    }

    /// Same as `Producer.produce_sync`. If it raises, the job fails, too, even if the handler goes on.
    #[pyo3(signature = (topic, value, *, key=None, headers=None, partition=None, timestamp=None, timeout=None))]
    #[allow(clippy::too_many_arguments)]
    fn produce_sync<'py>(
        &self,
        topic: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        key: Option<&Bound<'py, PyAny>>,
        headers: Option<&Bound<'py, PyAny>>,
        partition: Option<&Bound<'py, PyAny>>,
        timestamp: Option<&Bound<'py, PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, Delivery>> {
        let (py, timeout) = (topic.py(), parse_timeout(timeout)?);
        if self.exactly_once {
            return Err(wait_refused());
        }
        let args = ProduceArgs { topic, value, key, headers, partition, timestamp };
        let (delivery, _) = Producer::append(self.producer.bind(py), &args)?;
        self.add_output(py, delivery.get())?;
        delivery.get().wait_settled(py, timeout)?;
        Ok(delivery)
    }

    /// Same as `Producer.produce_many`; the job's offsets wait for all records.
    #[pyo3(signature = (topic, records, *, key=None, keys=None, partition=None, timestamp=None))]
    #[allow(clippy::too_many_arguments)]
    fn produce_many<'py>(
        &self,
        topic: &Bound<'py, PyAny>,
        records: &Bound<'py, PyAny>,
        key: Option<&Bound<'py, PyAny>>,
        keys: Option<&Bound<'py, PyAny>>,
        partition: Option<&Bound<'py, PyAny>>,
        timestamp: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Deliveries> {
        let py = topic.py();
        if self.exactly_once {
            let job = self.staging_job(py)?;
            let (producer, token) = (self.producer.bind(py), job.get().token()?);
            return Producer::stage_many(producer, token, topic, records, key, keys, partition, timestamp);
        }
        match Producer::produce_many(self.producer.bind(py), topic, records, key, keys, partition, timestamp) {
            Ok(deliveries) => {
                self.add_outputs(py, &deliveries)?;
                Ok(deliveries)
            }
            Err(error) => {
                // Some records are in flight all the same.
                if let Ok(taken) = error.value(py).getattr(intern!(py, "deliveries"))
                    && let Ok(taken) = taken.cast::<Deliveries>()
                {
                    self.add_outputs(py, taken.get())?;
                }
                Err(error)
            }
        }
    }

    /// Takes a record with the key of `message`; the job's offsets wait for it. For the results of handlers: it makes
    /// no `Delivery`.
    fn _publish(&self, topic: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>, message: &Message) -> PyResult<()> {
        let py = topic.py();
        if self.exactly_once {
            let job = self.staging_job(py)?;
            let (producer, token) = (self.producer.bind(py), job.get().token()?);
            return Producer::stage_keyed(producer, token, topic, value, message.key_bytes());
        }
        let (receipt, index) = Producer::append_keyed(self.producer.bind(py), topic, value, message.key_bytes())?;
        match self.job(py)? {
            Some(job) => job.get().add_output(&receipt, index, 1),
            None => Ok(()),
        }
    }

    /// Takes a record like `_publish`, for an event loop, which must not wait. False: it would have to wait.
    fn _try_publish(&self, topic: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>, message: &Message) -> PyResult<bool> {
        let py = topic.py();
        if self.exactly_once {
            return self._publish(topic, value, message).map(|()| true);
        }
        let Some((receipt, index)) =
            Producer::try_append_keyed(self.producer.bind(py), topic, value, message.key_bytes())?
        else {
            return Ok(false);
        };
        if let Some(job) = self.job(py)? {
            job.get().add_output(&receipt, index, 1)?;
        }
        Ok(true)
    }

    /// Producer of the process.
    #[getter]
    fn _producer(&self, py: Python<'_>) -> Py<Producer> {
        self.producer.clone_ref(py)
    }

    /// Makes the job's offsets wait for a record that the producer has taken.
    fn _add_output(&self, py: Python<'_>, delivery: &Bound<'_, Delivery>) -> PyResult<()> {
        self.add_output(py, delivery.get())
    }
}
