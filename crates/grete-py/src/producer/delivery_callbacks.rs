//! Deliveries with a waiter: an `on_delivery` callback, or a future of an event loop.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grete_client::CompletionQueue;
use grete_sys::IdHasher;
use pyo3::prelude::*;

use super::delivery::Delivery;
use super::{ProduceArgs, Producer};
use crate::errors;
use crate::ffi::fork_guarded::ForkGuarded;

/// Pending deliveries by their batch.
pub(super) struct DeliveryCallbacks {
    completions: ForkGuarded<CompletionQueue>,
    entries: Mutex<EntriesByBatch>,
    /// Entries whose outcome is known, in the order of the outcomes.
    ready: Mutex<VecDeque<PendingDelivery>>,
}

type EntriesByBatch = HashMap<usize, Vec<PendingDelivery>, BuildHasherDefault<IdHasher>>;

pub(super) struct PendingDelivery {
    pub(super) delivery: Py<Delivery>,
    pub(super) waiter: Py<PyAny>,
}

impl DeliveryCallbacks {
    pub(super) fn new(watch: CompletionQueue) -> Self {
        Self { completions: ForkGuarded::new(watch), entries: Mutex::default(), ready: Mutex::default() }
    }

    pub(super) fn completions(&self) -> PyResult<&CompletionQueue> {
        self.completions.get()
    }

    fn entries(&self) -> MutexGuard<'_, EntriesByBatch> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a delivery with its token. Returns the token if the outcome is known already.
    ///
    /// The entry is added before the batch is registered, so that [`DeliveryCallbacks::poll`] on another thread finds
    /// it. The outcome is checked last: a part of the batch may have been settled before the batch was registered.
    ///
    /// If other entries wait for the same batch, it is registered already, and a poll that finds all of them is still
    /// to follow. This holds without a GIL, too, because the first entry and the registration are one step under the
    /// lock. A batch that was complete before its registration has only this entry, which is taken out again.
    pub(super) fn add(&self, delivery: &Bound<'_, Delivery>, token: Py<PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let receipt = delivery.get().receipt.get()?;
        let key = Arc::as_ptr(receipt) as usize;
        let entry = PendingDelivery { delivery: delivery.clone().unbind(), waiter: token };
        let mut entries = self.entries();
        let waiting = entries.entry(key).or_default();
        let first = waiting.is_empty();
        waiting.push(entry);
        let watched = !first || self.completions.get()?.register(receipt);
        if !watched {
            let entry = entries.remove(&key).and_then(|mut waiting| waiting.pop());
            drop(entries);
            return Ok(entry.map(|entry| entry.waiter));
        }
        drop(entries);
        if delivery.get().state()?.is_none() {
            return Ok(None);
        }
        // Another thread may have taken the entry by now: then that thread has the token.
        let mut entries = self.entries();
        let Some(waiting) = entries.get_mut(&key) else { return Ok(None) };
        let place = waiting.iter().rposition(|entry| entry.delivery.as_ptr() == delivery.as_ptr());
        let entry = place.map(|place| waiting.swap_remove(place));
        if waiting.is_empty() {
            entries.remove(&key);
        }
        drop(entries);
        Ok(entry.map(|entry| entry.waiter))
    }

    /// Adds a delivery whose outcome is known already.
    pub(super) fn push_ready(&self, delivery: &Bound<'_, Delivery>, token: Py<PyAny>) {
        self.ready().push_back(PendingDelivery { delivery: delivery.clone().unbind(), waiter: token });
    }

    /// Moves entries whose outcome has become known to the ready ones; `ended`: all entries, because no outcomes will
    /// follow.
    pub(super) fn poll(&self, ended: bool) -> PyResult<()> {
        let receipts = self.completions.get()?.drain();
        let mut entries = self.entries();
        let mut known = self.ready();
        if ended {
            known.extend(entries.drain().flat_map(|(_, waiting)| waiting));
            return Ok(());
        }
        for receipt in receipts {
            let key = Arc::as_ptr(&receipt) as usize;
            let Some(waiting) = entries.get_mut(&key) else { continue };
            let done = |entry: &mut PendingDelivery| receipt.result(entry.delivery.get().index).is_some();
            known.extend(waiting.extract_if(.., done));
            if waiting.is_empty() {
                entries.remove(&key);
            }
        }
        Ok(())
    }

    /// Returns the next entry whose outcome was known at the last poll.
    pub(super) fn pop_ready(&self) -> Option<PendingDelivery> {
        self.ready().pop_front()
    }

    fn ready(&self) -> MutexGuard<'_, VecDeque<PendingDelivery>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Completions for one asyncio event loop: a descriptor for its selector, and the futures to set.
#[pyclass(frozen, module = "grete._native")]
pub(crate) struct AsyncioDeliveryWatcher {
    book: DeliveryCallbacks,
}

#[pymethods]
impl AsyncioDeliveryWatcher {
    #[new]
    fn new(producer: &Producer) -> PyResult<Self> {
        let watch = producer.client()?.completion_queue_with_fd().map_err(errors::client)?;
        Ok(Self { book: DeliveryCallbacks::new(watch) })
    }

    /// Returns a descriptor that is readable while `take_completed` has futures, or another `try_append` may succeed.
    fn fd(&self) -> PyResult<i32> {
        Ok(self.book.completions()?.fd().unwrap_or(-1))
    }

    /// Registers `future` for the delivery. False: its outcome is known already.
    fn add(&self, delivery: &Bound<'_, Delivery>, future: Py<PyAny>) -> PyResult<bool> {
        Ok(self.book.add(delivery, future)?.is_none())
    }

    /// Takes a record without waiting. None: there is no room or the topic is new; `fd` becomes readable when another
    /// try may succeed. `since`: `Producer._now` at the start of the call. `last`: raises the error of the wait
    /// instead.
    #[allow(clippy::too_many_arguments)]
    fn try_append<'py>(
        &self,
        producer: &Bound<'py, Producer>,
        since: u64,
        last: bool,
        topic: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        key: Option<&Bound<'py, PyAny>>,
        headers: Option<&Bound<'py, PyAny>>,
        partition: Option<&Bound<'py, PyAny>>,
        timestamp: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, Delivery>>> {
        let given = ProduceArgs { topic, value, key, headers, partition, timestamp };
        Producer::try_append_async(producer, self.book.completions()?, since, last, &given)
    }

    /// Returns the futures whose deliveries got an outcome since the last call.
    fn take_completed(&self, producer: &Producer) -> PyResult<Vec<Py<PyAny>>> {
        let ended = producer.client()?.ended_error().is_some();
        self.book.poll(ended)?;
        Ok(std::iter::from_fn(|| self.book.pop_ready()).map(|entry| entry.waiter).collect())
    }
}
