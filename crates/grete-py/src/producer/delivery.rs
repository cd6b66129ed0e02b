//! Outcome of one record.

use std::sync::Arc;
use std::time::Duration;

use grete_client::WaitOutcome;
use grete_client::produce::{BatchPromise, Outcome, RecordResult};
use pyo3::intern;
use pyo3::prelude::*;

use super::Producer;
use crate::convert::{outcome_name, parse_timeout};
use crate::errors;
use crate::ffi::fork_guarded::ForkGuarded;
use crate::log_event;

/// Outcome of one record. In a forked child every use raises `ForkedClientError`.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct Delivery {
    pub(crate) receipt: ForkGuarded<Arc<BatchPromise>>,
    pub(crate) index: u32,
    pub(super) producer: Py<Producer>,
}

/// Final state of a record.
pub(super) enum DeliveryState {
    Settled(RecordResult),
    /// The producer has ended without an outcome for this record.
    ProducerEnded(PyErr),
}

impl Delivery {
    #[inline]
    pub(super) fn new(producer: Py<Producer>, receipt: Arc<BatchPromise>, index: u32) -> Self {
        Self { receipt: ForkGuarded::new(receipt), index, producer }
    }

    pub(super) fn state(&self) -> PyResult<Option<DeliveryState>> {
        let receipt = self.receipt.get()?;
        if let Some(settled) = receipt.result(self.index) {
            return Ok(Some(DeliveryState::Settled(settled)));
        }
        let Some(end) = self.producer.get().client()?.ended_error() else { return Ok(None) };
        // The producer may have ended after the settlement.
        Ok(Some(match receipt.result(self.index) {
            Some(settled) => DeliveryState::Settled(settled),
            None => DeliveryState::ProducerEnded(errors::outcome_unknown(receipt, &end)),
        }))
    }

    fn result(&self) -> PyResult<Option<RecordResult>> {
        Ok(match self.state()? {
            Some(DeliveryState::Settled(settled)) => Some(settled),
            _ => None,
        })
    }

    /// Returns the error if the record has failed.
    pub(super) fn failure(&self) -> PyResult<Option<PyErr>> {
        Ok(match self.state()? {
            Some(DeliveryState::Settled(settled)) => errors::delivery(self.receipt.get()?, &settled),
            Some(DeliveryState::ProducerEnded(error)) => Some(error),
            None => None,
        })
    }

    /// Waits for the final state with the GIL detached, without lingering. Raises unless the record is written, or was
    /// sent without a response (`acks=0`).
    pub(crate) fn wait_settled(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<()> {
        let receipt = self.receipt.get()?;
        errors::check_waitable(receipt)?;
        let client = self.producer.get().client()?;
        let deadline = timeout.map(|timeout| client.deadline(timeout));
        let mut expedited = false;
        while receipt.result(self.index).is_none() {
            let outcome = py.detach(|| {
                if !expedited {
                    client.send_now(std::slice::from_ref(receipt));
                }
                client.await_record(receipt, self.index, deadline)
            });
            expedited = true;
            match outcome {
                WaitOutcome::Woken => {}
                WaitOutcome::Interrupted => log_event::check_interrupted(py)?,
                WaitOutcome::Ended => break,
                WaitOutcome::TimedOut if receipt.result(self.index).is_some() => break,
                WaitOutcome::TimedOut => return Err(errors::delivery_wait_timeout(receipt, timeout)),
            }
        }
        match self.failure()? {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

#[pymethods]
impl Delivery {
    /// Waits until the outcome is known, at most `timeout` seconds (None: no limit), and returns the delivery itself.
    ///
    /// The batch is sent at once. Raises `DeliveryError`, or `TimeoutError` when the time is up: the record is still in
    /// flight then, and the caller may wait again.
    #[pyo3(signature = (timeout=None))]
    fn wait<'py>(slf: &Bound<'py, Self>, timeout: Option<f64>) -> PyResult<Bound<'py, Self>> {
        slf.get().wait_settled(slf.py(), parse_timeout(timeout)?)?;
        Ok(slf.clone())
    }

    /// Waits in an event loop until the outcome is known, and returns the delivery itself. The batch lingers. Raises
    /// `DeliveryError`.
    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        errors::check_waitable(slf.get().receipt.get()?)?;
        let producer = slf.get().producer.bind(slf.py());
        producer
            .call_method1(intern!(slf.py(), "_await_delivery"), (slf,))?
            .call_method0(intern!(slf.py(), "__await__"))
    }

    /// Whether the outcome is known.
    #[getter]
    fn done(&self) -> PyResult<bool> {
        Ok(self.state()?.is_some())
    }

    /// Topic of the record.
    #[getter]
    fn topic(&self) -> PyResult<&str> {
        Ok(self.receipt.get()?.topic())
    }

    /// Partition of the record; -1 while the record waits for the metadata of its topic, and if it never had one.
    #[getter]
    fn partition(&self) -> PyResult<i32> {
        Ok(self.receipt.get()?.partition())
    }

    /// Offset of the record; `None` until it is known, and where no broker reports it (`acks=0`).
    #[getter]
    fn offset(&self) -> PyResult<Option<i64>> {
        Ok(self.result()?.and_then(|settled| settled.offset))
    }

    /// Milliseconds since 1970 at which the broker appended the record, if the topic keeps that time
    /// (`message.timestamp.type=LogAppendTime`); `None`: the topic keeps the record's own timestamp.
    #[getter]
    fn timestamp(&self) -> PyResult<Option<i64>> {
        Ok(self.result()?.and_then(|settled| settled.timestamp))
    }

    /// Outcome of the record: "written", "not_written" or "unknown"; `None` until it is known. With `acks=0` all
    /// records that were sent are "unknown".
    #[getter]
    fn outcome(&self) -> PyResult<Option<&'static str>> {
        Ok(self.state()?.map(|word| match word {
            DeliveryState::Settled(settled) => outcome_name(settled.outcome),
            DeliveryState::ProducerEnded(_) => outcome_name(Outcome::Unknown),
        }))
    }

    /// `DeliveryError` of a record that was not written, or whose outcome is unknown; `None` otherwise.
    #[getter]
    fn error(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.failure()?.map(|error| error.into_value(py).into_any()))
    }

    /// Time at which the outcome became known, in seconds of `time.monotonic()`; `None` until then.
    #[getter]
    fn acknowledged_at(&self) -> PyResult<Option<f64>> {
        let Some(settled) = self.result()? else { return Ok(None) };
        Ok(Some(self.producer.get().to_monotonic(settled.at)))
    }

    fn __repr__(&self) -> PyResult<String> {
        let receipt = self.receipt.get()?;
        let (topic, state) = (receipt.topic(), self.state()?);
        let place = match receipt.partition() {
            -1 if state.is_none() && !receipt.is_staged() => {
                return Ok(format!("<Delivery {topic}, waits for metadata>"));
            }
            -1 => topic.to_string(),
            partition => format!("{topic}[{partition}]"),
        };
        Ok(match state {
            None if receipt.is_staged() => format!("<Delivery {place}, staged>"),
            None => format!("<Delivery {place}, on its way>"),
            Some(DeliveryState::ProducerEnded(_)) => format!("<Delivery {place}, unknown>"),
            Some(DeliveryState::Settled(settled)) => match settled.offset {
                Some(offset) => format!("<Delivery {place} offset {offset}>"),
                None => format!("<Delivery {place}, {}>", outcome_name(settled.outcome)),
            },
        })
    }
}
