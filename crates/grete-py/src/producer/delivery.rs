//! What became of one record.

use std::sync::Arc;
use std::time::Duration;

use grete_client::Slept;
use grete_client::produce::{Outcome, Receipt, Settled};
use pyo3::prelude::*;

use super::Producer;
use crate::dispatcher::seconds;
use crate::errors;
use crate::handle::Handle;

/// What became of one record.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct Delivery {
    pub(super) receipt: Handle<Arc<Receipt>>,
    pub(super) index: u32,
    pub(super) producer: Py<Producer>,
}

/// The final word, or that there will be none.
pub(super) enum Word {
    Settled(Settled),
    /// The producer has ended without a word about this record.
    Lost(PyErr),
}

impl Delivery {
    #[inline]
    pub(super) fn new(producer: Py<Producer>, receipt: Arc<Receipt>, index: u32) -> Self {
        Self { receipt: Handle::new(receipt), index, producer }
    }

    pub(super) fn word(&self) -> PyResult<Option<Word>> {
        let receipt = self.receipt.get()?;
        if let Some(settled) = receipt.result(self.index) {
            return Ok(Some(Word::Settled(settled)));
        }
        let Some(end) = self.producer.get().client()?.has_ended() else { return Ok(None) };
        // Its end may have come after the settlement.
        Ok(Some(match receipt.result(self.index) {
            Some(settled) => Word::Settled(settled),
            None => Word::Lost(errors::lost(receipt, &end)),
        }))
    }

    fn settled(&self) -> PyResult<Option<Settled>> {
        Ok(match self.word()? {
            Some(Word::Settled(settled)) => Some(settled),
            _ => None,
        })
    }

    /// The error, if that is what became of it.
    pub(super) fn failure(&self) -> PyResult<Option<PyErr>> {
        Ok(match self.word()? {
            Some(Word::Settled(settled)) => errors::delivery(self.receipt.get()?, &settled),
            Some(Word::Lost(error)) => Some(error),
            None => None,
        })
    }

    /// Waits for the final word with the GIL detached, lingering no longer; raises unless the record is written, or sent
    /// where nobody answers.
    pub(super) fn await_word(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<()> {
        let receipt = self.receipt.get()?;
        let client = self.producer.get().client()?;
        let deadline = timeout.map(|timeout| client.deadline(timeout));
        let mut hurried = false;
        while receipt.result(self.index).is_none() {
            let slept = py.detach(|| {
                if !hurried {
                    client.hurry(std::slice::from_ref(receipt));
                }
                client.await_record(receipt, self.index, deadline)
            });
            hurried = true;
            match slept {
                Slept::Woken => {}
                Slept::Interrupted => py.check_signals()?,
                Slept::Ended => break,
                Slept::TimedOut if receipt.result(self.index).is_some() => break,
                Slept::TimedOut => return Err(errors::unanswered(receipt, timeout)),
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
    /// Waits until the outcome is known, at most `timeout` seconds (None: for ever), and returns the delivery itself. The
    /// batch is sent at once. Raises `DeliveryError`, or `TimeoutError` when the time is up: the record is still on its way
    /// then, and can be waited for again.
    #[pyo3(signature = (timeout=None))]
    fn wait<'py>(slf: &Bound<'py, Self>, timeout: Option<f64>) -> PyResult<Bound<'py, Self>> {
        slf.get().await_word(slf.py(), seconds(timeout)?)?;
        Ok(slf.clone())
    }

    /// Whether the outcome is known.
    #[getter]
    fn done(&self) -> PyResult<bool> {
        Ok(self.word()?.is_some())
    }

    /// Where the record goes.
    #[getter]
    fn topic(&self) -> PyResult<&str> {
        Ok(self.receipt.get()?.topic())
    }

    /// Where the record goes.
    #[getter]
    fn partition(&self) -> PyResult<i32> {
        Ok(self.receipt.get()?.partition())
    }

    /// The record's offset; `None` until it is known, and where no broker has told (`acks=0`).
    #[getter]
    fn offset(&self) -> PyResult<Option<i64>> {
        Ok(self.settled()?.and_then(|settled| settled.offset))
    }

    /// Milliseconds since 1970 at which the broker appended the record, if the topic keeps that time
    /// (`message.timestamp.type=LogAppendTime`); `None`: it keeps the record's own.
    #[getter]
    fn timestamp(&self) -> PyResult<Option<i64>> {
        Ok(self.settled()?.and_then(|settled| settled.timestamp))
    }

    /// "written", "not_written", "unknown", or `None` as long as nobody knows.
    #[getter]
    fn outcome(&self) -> PyResult<Option<&'static str>> {
        Ok(self.word()?.map(|word| match word {
            Word::Settled(settled) => outcome_name(settled.outcome),
            Word::Lost(_) => outcome_name(Outcome::Unknown),
        }))
    }

    /// A `DeliveryError` if the record was not written, or nobody knows; else `None`.
    #[getter]
    fn error(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.failure()?.map(|error| error.into_value(py).into_any()))
    }

    /// When the outcome became known, in seconds of `time.monotonic()`; `None` until then.
    #[getter]
    fn answered_at(&self) -> PyResult<Option<f64>> {
        let Some(settled) = self.settled()? else { return Ok(None) };
        Ok(Some(self.producer.get().monotonic(settled.at)))
    }

    fn __repr__(&self) -> PyResult<String> {
        let receipt = self.receipt.get()?;
        let (topic, partition) = (receipt.topic(), receipt.partition());
        Ok(match self.word()? {
            None => format!("<Delivery {topic}[{partition}], on its way>"),
            Some(Word::Lost(_)) => format!("<Delivery {topic}[{partition}], unknown>"),
            Some(Word::Settled(settled)) => match settled.offset {
                Some(offset) => format!("<Delivery {topic}[{partition}] offset {offset}>"),
                None => format!("<Delivery {topic}[{partition}], {}>", outcome_name(settled.outcome)),
            },
        })
    }
}

pub(crate) fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Written => "written",
        Outcome::NotWritten => "not_written",
        Outcome::Unknown => "unknown",
    }
}
