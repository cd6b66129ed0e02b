//! The producer. Its calls are native methods, and `grete.client.Producer` derives from them: a Python function around
//! `produce` would cost more than the encoding of the record.

mod arrow;
mod book;
mod deliveries;
mod delivery;
mod field;
mod given;
mod headers;
mod many;
mod sources;
mod topics;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use grete_client::produce::{Receipt, Refused, TopicId, Wake};
use grete_client::{Asked, Closing, Flushing, Producer as ClientProducer, ProducerConfig, Slept, Watch};
use grete_wire::records::NewRecord;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::dispatcher::seconds;
use crate::errors;
use crate::handle::Handle;
use crate::notice::Notice;
use crate::untracked;
use book::Book;
use field::{Field, Going, partition};
use given::{Destination, Given, Waiting};
use topics::Topics;

pub(crate) use book::LoopWatch;
pub(crate) use deliveries::{Deliveries, DeliveriesIterator};
pub(crate) use delivery::{Delivery, outcome_name};

/// Receipt, place in the batch, and what to do next.
type Taken = (Arc<Receipt>, u32, Wake);

/// One Kafka producer, with one "grete-producer" thread.
#[pyclass(frozen, subclass, module = "grete._core")]
pub(crate) struct Producer {
    client: Handle<ClientProducer>,
    topics: Topics,
    partitioner: Option<Py<PyAny>>,
    max_block: Duration,
    callbacks: Book,
    /// Callbacks are being run: those that become due meanwhile are run by who runs them already.
    calling: AtomicBool,
    /// What `time.monotonic()` says more than our clock, in seconds.
    monotonic: f64,
}

impl Producer {
    #[inline]
    pub(crate) fn client(&self) -> PyResult<&ClientProducer> {
        self.client.get()
    }

    /// An instant of our clock on Python's.
    pub(super) fn monotonic(&self, nanos: u64) -> f64 {
        nanos as f64 / 1e9 + self.monotonic
    }

    /// A client that takes records; callbacks and notices that are due come first.
    #[inline]
    fn open<'a>(slf: &'a Bound<'_, Self>) -> PyResult<&'a ClientProducer> {
        let client = slf.get().client.get()?;
        client.check().map_err(errors::client)?;
        if client.wants_attention() {
            Self::attend(slf)?;
        }
        Ok(client)
    }

    /// Runs callbacks that are due and logs notices; how many callbacks were run.
    #[cold]
    fn attend(slf: &Bound<'_, Self>) -> PyResult<usize> {
        let this = slf.get();
        let client = this.client.get()?;
        if this.calling.swap(true, Ordering::Relaxed) {
            return Ok(0);
        }
        let called = Self::call_back(slf, client);
        this.calling.store(false, Ordering::Relaxed);
        called
    }

    fn call_back(slf: &Bound<'_, Self>, client: &ClientProducer) -> PyResult<usize> {
        let (py, this) = (slf.py(), slf.get());
        let mut count = 0;
        while client.wants_attention() {
            client.attend();
            let notices = client.take_notices();
            if !notices.is_empty() {
                let notices = notices.into_iter().map(Notice::new).collect::<Vec<_>>();
                slf.call_method1("_log_notices", (notices,))?;
            }
            this.callbacks.look(client.has_ended().is_some())?;
            while let Some(entry) = this.callbacks.next() {
                count += 1;
                let Err(error) = entry.token.call1(py, (&entry.delivery,)) else { continue };
                if !error.is_instance_of::<PyException>(py) {
                    client.want_attention(); // Ctrl-C, or an exit: the others are called next time
                    return Err(error);
                }
                slf.call_method1("_log_callback", (error.into_value(py), entry.token))?;
            }
        }
        Ok(count)
    }

    /// Takes the record, or says why not now.
    #[inline]
    fn try_append(
        &self,
        client: &ClientProducer,
        going: &Destination<'_, '_>,
        record: &mut NewRecord<'_>,
        own_time: bool,
    ) -> PyResult<Result<Taken, Refused>> {
        let partition = match self.place(client, going)? {
            Ok(partition) => partition,
            Err(refused) => return Ok(Err(refused)),
        };
        let stamp = client.stamp();
        if own_time {
            record.timestamp = stamp.millis;
        }
        let mut accumulator = client.accumulator();
        let refused = match accumulator.append(stamp.now, going.id, partition, record) {
            Ok(appended) => return Ok(Ok((Arc::clone(appended.receipt), appended.index, appended.wake))),
            Err(refused) => refused,
        };
        if refused == Refused::NoMetadata {
            // Under the same lock, so that whoever brings it knows that somebody waits. Of room that is known already.
            accumulator.await_topic();
        }
        Ok(Err(refused))
    }

    /// The partition that was asked for, or that the user's function chooses.
    #[inline]
    fn place(&self, client: &ClientProducer, going: &Destination<'_, '_>) -> PyResult<Result<Option<i32>, Refused>> {
        if going.partition.is_some() {
            return Ok(Ok(going.partition));
        }
        self.choose(client, Going { topic: going.topic, index: None }, going.id, going.key)
    }

    /// What the user's function chooses; `None` without such a function.
    #[inline]
    fn choose(
        &self,
        client: &ClientProducer,
        going: Going<'_, '_>,
        id: TopicId,
        key: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Result<Option<i32>, Refused>> {
        let Some(partitioner) = &self.partitioner else { return Ok(Ok(None)) };
        let count = match client.accumulator().partitions(id) {
            Some(Ok(count)) => count,
            Some(Err(error)) => return Ok(Err(Refused::Topic(error))),
            None => return Ok(Err(Refused::NoMetadata)),
        };
        let chosen = partitioner.bind(going.topic.py()).call1((going.topic, key, count))?;
        match partition(&chosen, going)? {
            partition if partition.cast_unsigned() < count => Ok(Ok(Some(partition))),
            partition => Err(going.type_error(&format!(
                "the partitioner chose partition {partition} of {count}, which are counted from 0"
            ))),
        }
    }

    /// Takes one record, waiting for room and metadata as long as `max_block` allows.
    #[inline]
    fn take<'py>(slf: &Bound<'py, Self>, given: &Given<'_, 'py>) -> PyResult<(Bound<'py, Delivery>, Wake)> {
        let (this, client) = (slf.get(), Self::open(slf)?);
        let id = this.topics.id(client, given.topic)?;
        let appended = given.with_record(id, |going, record, own_time| {
            let mut waiting = Waiting::new(client, this.max_block);
            loop {
                match this.try_append(client, going, record, own_time)? {
                    Ok(appended) => return Ok(appended),
                    Err(refused) => waiting.pass(going.topic, id, refused)?,
                }
            }
        });
        let (receipt, index, wake) = appended?;
        Ok((untracked::new(slf.py(), Delivery::new(slf.clone().unbind(), receipt, index))?, wake))
    }

    /// Takes a record for an event loop, which must not wait: `None` when there is no room or the topic is new. `watch` is
    /// then called when another try may be worth it. `last`: an error instead that says what the waiting has come to.
    fn offer<'py>(
        slf: &Bound<'py, Self>,
        watch: &Watch,
        last: bool,
        given: &Given<'_, 'py>,
    ) -> PyResult<Option<Bound<'py, Delivery>>> {
        let (this, client) = (slf.get(), Self::open(slf)?);
        let id = this.topics.id(client, given.topic)?;
        let appended = given.with_record(id, |going, record, own_time| {
            let mut appended = this.try_append(client, going, record, own_time)?;
            if matches!(appended, Err(Refused::Full | Refused::NoMetadata)) && !last {
                watch.hunger();
                appended = this.try_append(client, going, record, own_time)?;
            }
            Ok(appended)
        })?;
        let refused = match appended {
            Ok((receipt, index, wake)) => {
                Self::carry_on(slf.py(), client, wake);
                return untracked::new(slf.py(), Delivery::new(slf.clone().unbind(), receipt, index)).map(Some);
            }
            Err(refused) => refused,
        };
        let name = given.topic.extract::<&str>()?;
        let refused = client.passing(name, refused).map_err(errors::client)?;
        if last {
            return Err(errors::client(client.refusal(name, refused)));
        }
        client.nudge();
        Ok(None)
    }

    /// What [`ClientProducer::carry_on`] asks for, with the GIL detached if that can take a while.
    #[inline]
    fn carry_on(py: Python<'_>, client: &ClientProducer, wake: Wake) {
        if client.is_slow(wake) {
            py.detach(|| client.carry_on(wake));
        } else {
            client.carry_on(wake);
        }
    }
}

#[pymethods]
impl Producer {
    /// `config`: Kafka's settings as pairs. `partitioner`: chooses by topic, key and partition count.
    #[new]
    #[pyo3(signature = (config, partitioner=None))]
    fn new(py: Python<'_>, config: Vec<(String, String)>, partitioner: Option<Py<PyAny>>) -> PyResult<Self> {
        let config = ProducerConfig::from_pairs(&config).map_err(errors::config)?;
        let client = py.detach(|| ClientProducer::start(&config)).map_err(errors::client)?;
        let monotonic = py.import("time")?.call_method0("monotonic")?.extract::<f64>()? - client.now() as f64 / 1e9;
        Ok(Self {
            max_block: client.max_block(),
            callbacks: Book::new(client.watch()),
            client: Handle::new(client),
            topics: Topics::new(),
            partitioner,
            calling: AtomicBool::new(false),
            monotonic,
        })
    }

    /// Takes a record and returns at once; it is sent when its batch is full or has lingered (`linger.ms`).
    ///
    /// `value`: bytes-like, or None (a tombstone). `timestamp`: milliseconds since 1970 UTC or a datetime (a naive one is
    /// local time); without it, now. `on_delivery(delivery)` runs in a thread that calls produce, poll, flush or close.
    ///
    /// Waits, up to `max_block`, only while `buffer.memory` is full or the topic is new. Raises QueueFull,
    /// UnknownTopicError, RecordTypeError, RecordTooLargeError, ClosedError.
    #[pyo3(signature = (topic, value, *, key=None, headers=None, partition=None, timestamp=None, on_delivery=None))]
    #[allow(clippy::too_many_arguments)]
    fn produce<'py>(
        slf: &Bound<'py, Self>,
        topic: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        key: Option<&Bound<'py, PyAny>>,
        headers: Option<&Bound<'py, PyAny>>,
        partition: Option<&Bound<'py, PyAny>>,
        timestamp: Option<&Bound<'py, PyAny>>,
        on_delivery: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Delivery>> {
        if let Some(callback) = on_delivery.filter(|callback| !callback.is_callable()) {
            let is = callback.get_type().name()?;
            return Err(Going { topic, index: None }.type_error(&format!("its on_delivery is a callable, not {is}")));
        }
        let (delivery, wake) = Self::take(slf, &Given { topic, value, key, headers, partition, timestamp })?;
        if let Some(callback) = on_delivery {
            let this = slf.get();
            if let Some(callback) = this.callbacks.add(&delivery, callback.clone().unbind())? {
                this.callbacks.due(&delivery, callback);
                this.client()?.want_attention();
            }
        }
        Self::carry_on(slf.py(), slf.get().client()?, wake);
        Ok(delivery)
    }

    /// `produce(...).wait(timeout)`: sends at once and waits for the answer, at most `timeout` seconds (None: for ever).
    /// Raises what both raise.
    #[pyo3(signature = (topic, value, *, key=None, headers=None, partition=None, timestamp=None, timeout=None))]
    #[allow(clippy::too_many_arguments)]
    fn produce_sync<'py>(
        slf: &Bound<'py, Self>,
        topic: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        key: Option<&Bound<'py, PyAny>>,
        headers: Option<&Bound<'py, PyAny>>,
        partition: Option<&Bound<'py, PyAny>>,
        timestamp: Option<&Bound<'py, PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, Delivery>> {
        let timeout = seconds(timeout)?;
        // Whatever the append asks for, the wait does at once.
        let (delivery, _) = Self::take(slf, &Given { topic, value, key, headers, partition, timestamp })?;
        delivery.get().await_word(slf.py(), timeout)?;
        Ok(delivery)
    }

    /// Takes many records in one call; all are checked before the first one is taken.
    ///
    /// `records`: values (bytes-like or None), or tuples (key, value), (key, value, headers) or (key, value, headers,
    /// timestamp); or `grete.Messages` (keys, values, headers and timestamps are kept, partitions chosen anew); or anything
    /// that exports Arrow: a column of values, or columns value, key, timestamp, partition and headers, of which only value
    /// is needed. `key` is for records without one, `partition` and `timestamp` are for all.
    ///
    /// Raises what `produce` raises. When some records have been taken by then, the error's `deliveries` has these.
    #[pyo3(signature = (topic, records, *, key=None, partition=None, timestamp=None))]
    fn produce_many<'py>(
        slf: &Bound<'py, Self>,
        topic: &Bound<'py, PyAny>,
        records: &Bound<'py, PyAny>,
        key: Option<&Bound<'py, PyAny>>,
        partition: Option<&Bound<'py, PyAny>>,
        timestamp: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Deliveries> {
        let client = Self::open(slf)?;
        let key = match key {
            Some(key) => Field::of(key, "key", Going { topic, index: None })?,
            None => Field::Null,
        };
        let common = many::common(client, slf.get(), topic, &key, partition, timestamp)?;
        Self::take_many(slf, client, &common, records)
    }

    /// Runs callbacks that are due, waiting for the first of them at most `timeout` seconds. How many were run.
    #[pyo3(signature = (timeout=0.0))]
    fn poll(slf: &Bound<'_, Self>, timeout: Option<f64>) -> PyResult<usize> {
        let py = slf.py();
        let timeout = seconds(timeout)?;
        let client = slf.get().client()?;
        let deadline = timeout.map(|timeout| client.deadline(timeout));
        loop {
            let count = Self::attend(slf)?;
            if count > 0 || timeout.is_some_and(|timeout| timeout.is_zero()) {
                return Ok(count);
            }
            match py.detach(|| client.await_attention(deadline)) {
                Slept::Woken => {}
                Slept::Interrupted => py.check_signals()?,
                Slept::TimedOut | Slept::Ended => return Self::attend(slf),
            }
        }
    }

    /// Sends everything, without lingering, and waits until every outcome is known, at most `timeout` seconds (None: for
    /// ever). Raises `TimeoutError` that says how many records are pending.
    #[pyo3(signature = (timeout=None))]
    fn flush(slf: &Bound<'_, Self>, timeout: Option<f64>) -> PyResult<()> {
        let py = slf.py();
        let timeout = seconds(timeout)?;
        let client = Self::open(slf)?;
        let deadline = timeout.map(|timeout| client.deadline(timeout));
        let flush = py.detach(|| client.flush()).map_err(errors::client)?;
        loop {
            let looked = py.detach(|| client.await_flush(&flush, deadline));
            Self::attend(slf)?;
            match looked {
                Flushing::Done => return Ok(()),
                Flushing::Again => {}
                Flushing::Interrupted => py.check_signals()?,
                Flushing::Ended => return Err(errors::client(client.end())),
                Flushing::TimedOut { pending } => return Err(errors::unflushed(pending, timeout)),
            }
        }
    }

    /// Begins to close, once, and waits for the end. (whether it is over, records by topic that were given up, how many of
    /// them no broker has, how many nobody knows of).
    fn _close<'py>(slf: &Bound<'py, Self>, timeout: f64) -> PyResult<(bool, Bound<'py, PyDict>, u64, u64)> {
        let py = slf.py();
        let client = slf.get().client()?;
        let timeout = seconds(Some(timeout))?.unwrap_or_default();
        let deadline = py.detach(|| client.close(timeout)).map_err(errors::client)?;
        let (over, undelivered) = loop {
            match py.detach(|| client.await_close(deadline)) {
                Closing::Done(undelivered) => break (true, undelivered),
                Closing::TimedOut(undelivered) => break (false, undelivered),
                Closing::Interrupted => py.check_signals()?,
            }
        };
        Self::attend(slf)?;
        let by_topic = PyDict::new(py);
        for (topic, count) in undelivered.by_topic {
            by_topic.set_item(topic, count)?;
        }
        Ok((over, by_topic, undelivered.not_written, undelivered.unknown))
    }

    /// How many partitions the topic has. Raises `UnknownTopicError`, or `TimeoutError` when no broker answers.
    #[pyo3(signature = (topic, timeout=30.0))]
    fn partitions(slf: &Bound<'_, Self>, topic: &str, timeout: Option<f64>) -> PyResult<u32> {
        let py = slf.py();
        let client = Self::open(slf)?;
        let timeout = seconds(timeout)?.unwrap_or(YEAR);
        let deadline = client.deadline(timeout);
        loop {
            match py.detach(|| client.partitions(topic, timeout, deadline)).map_err(errors::client)? {
                Asked::Answer(count) => return Ok(count),
                Asked::Again => {}
                Asked::Interrupted => py.check_signals()?,
            }
        }
    }

    /// Counters by name.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let statistics = self.client()?.statistics();
        let produce = statistics.produce;
        let fields = PyDict::new(py);
        for (name, value) in [
            ("requests", produce.requests),
            ("batches", produce.batches),
            ("bytes_sent", produce.bytes),
            ("retries", produce.retries),
            ("splits", produce.splits),
            ("written", produce.written),
            ("not_written", produce.not_written),
            ("unknown", produce.unknown),
            ("reconnects", statistics.reconnects),
            ("pending_records", statistics.pending_records),
            ("buffered_bytes", statistics.buffered_bytes as u64),
        ] {
            fields.set_item(name, value)?;
        }
        Ok(fields)
    }

    /// How long calls wait for room and for metadata, in seconds.
    #[getter]
    fn max_block(&self) -> f64 {
        self.max_block.as_secs_f64()
    }

    /// Why the producer cannot go on, if that is so.
    fn _failure(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.client()?.fatal().map(|error| errors::client(error).into_value(py).into_any()))
    }

    /// Readable while notices wait.
    fn _event_fd(&self) -> PyResult<i32> {
        Ok(self.client()?.event_fd())
    }

    /// The notices since the last call.
    fn _take_notices(&self) -> PyResult<Vec<Notice>> {
        Ok(self.client()?.take_notices().into_iter().map(Notice::new).collect())
    }
}

/// "For ever", in a number that deadlines can still be added to.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
