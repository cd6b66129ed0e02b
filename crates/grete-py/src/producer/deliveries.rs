//! What became of many records.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use grete_client::Slept;
use grete_client::produce::Receipt;
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;

use super::Producer;
use super::delivery::Delivery;
use crate::dispatcher::seconds;
use crate::errors;
use crate::handle::Handle;

/// Which receipt knows of which record: runs of records that follow each other in one batch.
#[derive(Default)]
pub(super) struct Runs {
    receipts: Vec<Arc<Receipt>>,
    /// By the receipt's address, which is its own as long as it is in the list.
    places: HashMap<usize, u32>,
    runs: Vec<Run>,
    len: usize,
}

#[derive(Clone, Copy)]
struct Run {
    /// The first record's number.
    first: usize,
    /// Place among the receipts.
    receipt: u32,
    /// The first record's place in the batch.
    index: u32,
}

impl Runs {
    /// The next record is the receipt's `index`-th.
    #[inline]
    pub(super) fn push(&mut self, receipt: &Arc<Receipt>, index: u32) {
        let number = self.len;
        self.len += 1;
        if let Some(last) = self.runs.last()
            && index as usize == last.index as usize + (number - last.first)
            && self.receipts.get(last.receipt as usize).is_some_and(|known| Arc::ptr_eq(known, receipt))
        {
            return;
        }
        self.begin(number, receipt, index);
    }

    #[cold]
    fn begin(&mut self, first: usize, receipt: &Arc<Receipt>, index: u32) {
        let next = u32::try_from(self.receipts.len()).unwrap_or(u32::MAX);
        let place = *self.places.entry(Arc::as_ptr(receipt) as usize).or_insert(next);
        if place == next {
            self.receipts.push(Arc::clone(receipt));
        }
        self.runs.push(Run { first, receipt: place, index });
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The numbers of the records of certain batches.
    fn numbers_of(&self, wanted: impl Fn(&Receipt) -> bool) -> impl Iterator<Item = usize> {
        let wanted: Vec<bool> = self.receipts.iter().map(|receipt| wanted(receipt)).collect();
        let ends = self.runs.iter().skip(1).map(|run| run.first).chain([self.len]);
        let runs = self.runs.iter().zip(ends).filter(move |(run, _)| wanted.get(run.receipt as usize) == Some(&true));
        runs.flat_map(|(run, end)| run.first..end)
    }

    fn find(&self, number: usize) -> Option<(&Arc<Receipt>, u32)> {
        if number >= self.len {
            return None;
        }
        let run = self.runs.get(self.runs.partition_point(|run| run.first <= number).checked_sub(1)?)?;
        let within = u32::try_from(number - run.first).ok()?;
        Some((self.receipts.get(run.receipt as usize)?, run.index + within))
    }
}

/// What became of many records, in their order.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct Deliveries {
    runs: Handle<Runs>,
    producer: Py<Producer>,
}

impl Deliveries {
    pub(super) fn new(producer: Py<Producer>, runs: Runs) -> Self {
        Self { runs: Handle::new(runs), producer }
    }

    fn at(&self, py: Python<'_>, number: usize) -> PyResult<Option<Delivery>> {
        let found = self.runs.get()?.find(number);
        Ok(found.map(|(receipt, index)| Delivery::new(self.producer.clone_ref(py), Arc::clone(receipt), index)))
    }

    /// Every failure that is known by now. Batches without one, nearly all, are passed over as a whole.
    fn failures(&self, py: Python<'_>) -> PyResult<Vec<(usize, PyErr)>> {
        let ended = self.producer.get().client()?.has_ended().is_some();
        let failed = |receipt: &Receipt| receipt.has_failures() || (ended && !receipt.is_settled());
        let mut failures = Vec::new();
        for number in self.runs.get()?.numbers_of(failed) {
            if let Some(error) = self.at(py, number)?.map(|delivery| delivery.failure()).transpose()?.flatten() {
                failures.push((number, error));
            }
        }
        Ok(failures)
    }

    fn await_all(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<()> {
        let runs = self.runs.get()?;
        let client = self.producer.get().client()?;
        let deadline = timeout.map(|timeout| client.deadline(timeout));
        py.detach(|| client.hurry(&runs.receipts));
        for receipt in &runs.receipts {
            while !receipt.is_settled() {
                match py.detach(|| client.await_batch(receipt, deadline)) {
                    Slept::Woken => {}
                    Slept::Interrupted => py.check_signals()?,
                    Slept::Ended => break,
                    Slept::TimedOut if receipt.is_settled() => {}
                    Slept::TimedOut => return Err(errors::unanswered(receipt, timeout)),
                }
            }
        }
        Ok(())
    }
}

#[pymethods]
impl Deliveries {
    /// Waits until all outcomes are known, at most `timeout` seconds (None: for ever), and returns itself. The batches are
    /// sent at once. Raises `DeliveryError` (of the first record that failed; `errors` has all), or `TimeoutError`.
    #[pyo3(signature = (timeout=None))]
    fn wait<'py>(slf: &Bound<'py, Self>, timeout: Option<f64>) -> PyResult<Bound<'py, Self>> {
        let this = slf.get();
        this.await_all(slf.py(), seconds(timeout)?)?;
        let failures = this.failures(slf.py())?;
        let count = failures.len();
        match failures.into_iter().next() {
            Some((number, error)) => Err(errors::first_of(slf.py(), &error, number, count, this.runs.get()?.len())),
            None => Ok(slf.clone()),
        }
    }

    /// Whether all outcomes are known.
    #[getter]
    fn done(&self) -> PyResult<bool> {
        let ended = self.producer.get().client()?.has_ended().is_some();
        Ok(ended || self.runs.get()?.receipts.iter().all(|receipt| receipt.is_settled()))
    }

    /// What failed so far: (index, `DeliveryError`).
    #[getter]
    fn errors(&self, py: Python<'_>) -> PyResult<Vec<(usize, Py<PyAny>)>> {
        let failures = self.failures(py)?;
        Ok(failures.into_iter().map(|(number, error)| (number, error.into_value(py).into_any())).collect())
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.runs.get()?.len())
    }

    fn __getitem__(&self, py: Python<'_>, index: &Bound<'_, PyAny>) -> PyResult<Delivery> {
        let Ok(number) = index.extract::<isize>() else {
            return Err(PyTypeError::new_err("Deliveries are indexed by int"));
        };
        let len = self.runs.get()?.len();
        let place = if number < 0 { number.saturating_add_unsigned(len) } else { number };
        let found = match usize::try_from(place) {
            Ok(place) => self.at(py, place)?,
            Err(_) => None,
        };
        found
            .ok_or_else(|| PyIndexError::new_err(format!("index {number} is out of range: there are {len} deliveries")))
    }

    fn __iter__(slf: Py<Self>) -> DeliveriesIterator {
        DeliveriesIterator { deliveries: slf, next: AtomicUsize::new(0) }
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("<Deliveries of {} records>", self.runs.get()?.len()))
    }
}

/// Iterates over `Deliveries`.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct DeliveriesIterator {
    deliveries: Py<Deliveries>,
    next: AtomicUsize,
}

#[pymethods]
impl DeliveriesIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Delivery>> {
        // The GIL orders the accesses; an atomic only because a frozen class is shared.
        let number = self.next.load(Ordering::Relaxed);
        let delivery = self.deliveries.get().at(py, number)?;
        self.next.store(number + usize::from(delivery.is_some()), Ordering::Relaxed);
        Ok(delivery)
    }
}
