//! Deliveries that somebody wants to be called about: an `on_delivery` callback, or a future of an event loop.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grete_client::Watch;
use pyo3::prelude::*;

use super::delivery::Delivery;
use super::{Given, Producer};
use crate::errors;
use crate::handle::Handle;

/// Entries by their receipt.
pub(super) struct Book {
    watch: Handle<Watch>,
    entries: Mutex<Entries>,
    /// Entries whose outcome is known, in that order.
    known: Mutex<VecDeque<Entry>>,
}

type Entries = HashMap<usize, Vec<Entry>, BuildHasherDefault<Address>>;

/// Spreads addresses: a look-up per record feels what a hash against attackers costs.
#[derive(Default)]
struct Address(u64);

impl Hasher for Address {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("an address is one usize");
    }

    fn write_usize(&mut self, address: usize) {
        // The map looks at the highest bits and at the lowest ones.
        let spread = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }
}

pub(super) struct Entry {
    pub(super) delivery: Py<Delivery>,
    pub(super) token: Py<PyAny>,
}

impl Book {
    pub(super) fn new(watch: Watch) -> Self {
        Self { watch: Handle::new(watch), entries: Mutex::default(), known: Mutex::default() }
    }

    pub(super) fn watch(&self) -> PyResult<&Watch> {
        self.watch.get()
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes it down; the token comes back if the outcome is known already.
    ///
    /// The entry is there before the watch is asked, so that [`Book::look`] on another thread finds it. The look at the
    /// outcome comes last: a part of the batch may have been settled before anybody watched.
    ///
    /// Where others wait for the same receipt, it is watched, and a look that finds all of them is still to come.
    pub(super) fn add(&self, delivery: &Bound<'_, Delivery>, token: Py<PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let receipt = delivery.get().receipt.get()?;
        let key = Arc::as_ptr(receipt) as usize;
        let entry = Entry { delivery: delivery.clone().unbind(), token };
        let mut entries = self.entries();
        let waiting = entries.entry(key).or_default();
        let first = waiting.is_empty();
        waiting.push(entry);
        drop(entries);
        let watched = !first || self.watch.get()?.add(receipt);
        if watched && delivery.get().word()?.is_none() {
            return Ok(None);
        }
        // Another thread may have taken it by now: then the token is in its hands.
        let mut entries = self.entries();
        let Some(waiting) = entries.get_mut(&key) else { return Ok(None) };
        let place = waiting.iter().rposition(|entry| entry.delivery.as_ptr() == delivery.as_ptr());
        let entry = place.map(|place| waiting.swap_remove(place));
        if waiting.is_empty() {
            entries.remove(&key);
        }
        drop(entries);
        Ok(entry.map(|entry| entry.token))
    }

    /// Notes an outcome that is known already.
    pub(super) fn due(&self, delivery: &Bound<'_, Delivery>, token: Py<PyAny>) {
        self.known().push_back(Entry { delivery: delivery.clone().unbind(), token });
    }

    /// Looks for outcomes that have become known; `ended`: there will be no others.
    pub(super) fn look(&self, ended: bool) -> PyResult<()> {
        let receipts = self.watch.get()?.take();
        let mut entries = self.entries();
        let mut known = self.known();
        if ended {
            known.extend(entries.drain().flat_map(|(_, waiting)| waiting));
            return Ok(());
        }
        for receipt in receipts {
            let key = Arc::as_ptr(&receipt) as usize;
            let Some(waiting) = entries.get_mut(&key) else { continue };
            let done = |entry: &mut Entry| receipt.result(entry.delivery.get().index).is_some();
            known.extend(waiting.extract_if(.., done));
            if waiting.is_empty() {
                entries.remove(&key);
            }
        }
        Ok(())
    }

    /// The next entry whose outcome is known, as of the last look.
    pub(super) fn next(&self) -> Option<Entry> {
        self.known().pop_front()
    }

    fn known(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one asyncio event loop waits for: a descriptor for its selector, and the futures to set.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct LoopWatch {
    book: Book,
}

#[pymethods]
impl LoopWatch {
    #[new]
    fn new(producer: &Producer) -> PyResult<Self> {
        let watch = producer.client()?.watch_with_descriptor().map_err(errors::client)?;
        Ok(Self { book: Book::new(watch) })
    }

    /// Readable while `take` has something to give, or something may go on.
    fn fd(&self) -> PyResult<i32> {
        Ok(self.book.watch()?.descriptor().unwrap_or(-1))
    }

    /// Notes that `future` waits for the delivery. False: its outcome is known already.
    fn add(&self, delivery: &Bound<'_, Delivery>, future: Py<PyAny>) -> PyResult<bool> {
        Ok(self.book.add(delivery, future)?.is_none())
    }

    /// Takes a record without waiting: None when there is no room or the topic is new; `fd` becomes readable when another
    /// try may be worth it. `last`: raises instead what the waiting has come to.
    #[pyo3(signature = (producer, last, topic, value, key, headers, partition, timestamp))]
    #[allow(clippy::too_many_arguments)]
    fn offer<'py>(
        &self,
        producer: &Bound<'py, Producer>,
        last: bool,
        topic: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        key: Option<&Bound<'py, PyAny>>,
        headers: Option<&Bound<'py, PyAny>>,
        partition: Option<&Bound<'py, PyAny>>,
        timestamp: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, Delivery>>> {
        let given = Given { topic, value, key, headers, partition, timestamp };
        Producer::offer(producer, self.book.watch()?, last, &given)
    }

    /// The futures whose deliveries have an outcome since the last call.
    fn take(&self, producer: &Producer) -> PyResult<Vec<Py<PyAny>>> {
        let ended = producer.client()?.has_ended().is_some();
        self.book.look(ended)?;
        Ok(std::iter::from_fn(|| self.book.next()).map(|entry| entry.token).collect())
    }
}
