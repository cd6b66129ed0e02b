//! Outcomes of many records.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use grete_client::WaitOutcome;
use grete_client::produce::BatchPromise;
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;

use super::Producer;
use super::delivery::Delivery;
use crate::convert::parse_timeout;
use crate::errors;
use crate::ffi::fork_guarded::ForkGuarded;
use crate::log_event;

/// Map from a record's number to its batch: runs of records that follow each other in one batch.
#[derive(Default)]
pub(crate) struct BatchRuns {
    promises: Vec<Arc<BatchPromise>>,
    /// Index in `promises` by a promise's address, which is unique while the promise is in the list.
    receipt_index: HashMap<usize, u32>,
    runs: Vec<BatchRun>,
    len: usize,
}

#[derive(Clone, Copy)]
struct BatchRun {
    /// Number of the run's first record.
    first: usize,
    /// Index in `promises`.
    promise_index: u32,
    /// Index of the run's first record in its batch.
    index: u32,
}

impl BatchRuns {
    /// Adds the next record: it is the `index`-th of the promise's batch.
    #[inline]
    pub(super) fn push(&mut self, receipt: &Arc<BatchPromise>, index: u32) {
        let number = self.len;
        self.len += 1;
        if let Some(last) = self.runs.last()
            && index as usize == last.index as usize + (number - last.first)
            && self.promises.get(last.promise_index as usize).is_some_and(|known| Arc::ptr_eq(known, receipt))
        {
            return;
        }
        self.start_run(number, receipt, index);
    }

    #[cold]
    fn start_run(&mut self, first: usize, receipt: &Arc<BatchPromise>, index: u32) {
        let next = u32::try_from(self.promises.len()).unwrap_or(u32::MAX);
        let place = *self.receipt_index.entry(Arc::as_ptr(receipt) as usize).or_insert(next);
        if place == next {
            self.promises.push(Arc::clone(receipt));
        }
        self.runs.push(BatchRun { first, promise_index: place, index });
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the promise of each run, the index of its first record in the batch, and its number of records.
    pub(crate) fn iter_runs(&self) -> impl Iterator<Item = (&Arc<BatchPromise>, u32, u32)> {
        let ends = self.runs.iter().skip(1).map(|run| run.first).chain([self.len]);
        self.runs.iter().zip(ends).filter_map(|(run, end)| {
            let receipt = self.promises.get(run.promise_index as usize)?;
            Some((receipt, run.index, u32::try_from(end - run.first).unwrap_or(u32::MAX)))
        })
    }

    /// Returns the numbers of the records of certain batches.
    fn indices_of(&self, wanted: impl Fn(&BatchPromise) -> bool) -> impl Iterator<Item = usize> {
        let wanted: Vec<bool> = self.promises.iter().map(|receipt| wanted(receipt)).collect();
        let ends = self.runs.iter().skip(1).map(|run| run.first).chain([self.len]);
        let runs =
            self.runs.iter().zip(ends).filter(move |(run, _)| wanted.get(run.promise_index as usize) == Some(&true));
        runs.flat_map(|(run, end)| run.first..end)
    }

    fn find(&self, number: usize) -> Option<(&Arc<BatchPromise>, u32)> {
        if number >= self.len {
            return None;
        }
        let run = self.runs.get(self.runs.partition_point(|run| run.first <= number).checked_sub(1)?)?;
        let within = u32::try_from(number - run.first).ok()?;
        Some((self.promises.get(run.promise_index as usize)?, run.index + within))
    }
}

/// Outcomes of many records, in their order: a sequence of `Delivery` objects made on access.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct Deliveries {
    runs: ForkGuarded<BatchRuns>,
    producer: Py<Producer>,
}

impl Deliveries {
    pub(super) fn new(producer: Py<Producer>, runs: BatchRuns) -> Self {
        Self { runs: ForkGuarded::new(runs), producer }
    }

    pub(crate) fn runs(&self) -> PyResult<&BatchRuns> {
        self.runs.get()
    }

    fn get(&self, py: Python<'_>, number: usize) -> PyResult<Option<Delivery>> {
        let found = self.runs.get()?.find(number);
        Ok(found.map(|(receipt, index)| Delivery::new(self.producer.clone_ref(py), Arc::clone(receipt), index)))
    }

    /// Returns every failure known so far. Batches without failures, nearly all, are skipped as a whole.
    fn failures(&self, py: Python<'_>) -> PyResult<Vec<(usize, PyErr)>> {
        let ended = self.producer.get().client()?.ended_error().is_some();
        let failed = |receipt: &BatchPromise| receipt.has_failures() || (ended && !receipt.is_complete());
        let mut failures = Vec::new();
        for number in self.runs.get()?.indices_of(failed) {
            if let Some(error) = self.get(py, number)?.map(|delivery| delivery.failure()).transpose()?.flatten() {
                failures.push((number, error));
            }
        }
        Ok(failures)
    }

    fn wait_all(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<()> {
        self.producer.get().await_batches(py, &self.runs.get()?.promises, timeout)
    }
}

impl Producer {
    /// Sends these batches, without lingering, and waits until all their records are settled.
    pub(crate) fn await_batches(
        &self,
        py: Python<'_>,
        batches: &[Arc<BatchPromise>],
        timeout: Option<Duration>,
    ) -> PyResult<()> {
        batches.iter().try_for_each(|promise| errors::check_waitable(promise))?;
        let client = self.client()?;
        let deadline = timeout.map(|timeout| client.deadline(timeout));
        py.detach(|| client.send_now(batches));
        for receipt in batches {
            while !receipt.is_complete() {
                match py.detach(|| client.await_batch(receipt, deadline)) {
                    WaitOutcome::Woken => {}
                    WaitOutcome::Interrupted => log_event::check_interrupted(py)?,
                    WaitOutcome::Ended => break,
                    WaitOutcome::TimedOut if receipt.is_complete() => {}
                    WaitOutcome::TimedOut => return Err(errors::delivery_wait_timeout(receipt, timeout)),
                }
            }
        }
        Ok(())
    }
}

#[pymethods]
impl Deliveries {
    /// Waits until all outcomes are known, at most `timeout` seconds (None: no limit), and returns itself. The batches
    /// are sent at once. Raises `DeliveryError` for the first record that failed (`errors` has all of them), or
    /// `TimeoutError`.
    #[pyo3(signature = (timeout=None))]
    fn wait<'py>(slf: &Bound<'py, Self>, timeout: Option<f64>) -> PyResult<Bound<'py, Self>> {
        let this = slf.get();
        this.wait_all(slf.py(), parse_timeout(timeout)?)?;
        let failures = this.failures(slf.py())?;
        let count = failures.len();
        match failures.into_iter().next() {
            Some((number, error)) => {
                Err(errors::first_of_several(slf.py(), &error, number, count, this.runs.get()?.len()))
            }
            None => Ok(slf.clone()),
        }
    }

    /// Whether all outcomes are known.
    #[getter]
    fn done(&self) -> PyResult<bool> {
        let ended = self.producer.get().client()?.ended_error().is_some();
        Ok(ended || self.runs.get()?.promises.iter().all(|receipt| receipt.is_complete()))
    }

    /// Waits in an event loop until all outcomes are known, and returns itself. The batches linger. Raises the errors of
    /// `wait`.
    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().runs.get()?.promises.iter().try_for_each(|promise| errors::check_waitable(promise))?;
        let producer = slf.get().producer.bind(slf.py());
        producer
            .call_method1(intern!(slf.py(), "_await_deliveries"), (slf,))?
            .call_method0(intern!(slf.py(), "__await__"))
    }

    /// First delivery whose outcome is not known; `None`: all outcomes are known.
    fn _pending(&self, py: Python<'_>) -> PyResult<Option<Delivery>> {
        for number in self.runs.get()?.indices_of(|receipt| !receipt.is_complete()) {
            let found = self.get(py, number)?;
            if let Some(delivery) = found
                && delivery.state()?.is_none()
            {
                return Ok(Some(delivery));
            }
        }
        Ok(None)
    }

    /// Partitions of the records, in order. Records that wait for the metadata of their topic have none yet.
    #[getter]
    fn partitions(&self) -> PyResult<Vec<i32>> {
        let partitions: BTreeSet<i32> = self.runs.get()?.promises.iter().map(|receipt| receipt.partition()).collect();
        Ok(partitions.into_iter().filter(|partition| *partition >= 0).collect())
    }

    /// Failures so far: (index, `DeliveryError`).
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
            Ok(place) => self.get(py, place)?,
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
#[pyclass(frozen, module = "grete._native")]
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
        let deliveries = self.deliveries.get();
        let len = deliveries.runs()?.len();
        let step = |next: usize| (next < len).then_some(next + 1);
        // Threads that share the iterator get each delivery once.
        match self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step) {
            Ok(number) => deliveries.get(py, number),
            Err(_) => Ok(None),
        }
    }
}
