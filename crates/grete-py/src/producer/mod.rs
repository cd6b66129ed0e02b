//! Producer: the native base class of `grete.client.Producer`.
//!
//! Its calls are native methods, because a Python function around `produce` would cost more than the encoding of the
//! record.

mod arguments;
mod arrow;
mod callback_turn;
mod deliveries;
mod delivery;
mod delivery_callbacks;
mod memory_log;
mod produce_args;
mod produce_many;
mod record_sources;
mod staging;
mod topic_id_cache;
mod transaction;
mod typed_topic;

use std::sync::Arc;
use std::time::Duration;

use grete_client::produce::{AppendAction, AppendError, BatchPromise, TopicId};
use grete_client::{
    CloseStatus, CompletionQueue, FlushStatus, JobToken, PartitionsStatus, Producer as ClientProducer, ProducerConfig,
    SettingPairs, WaitOutcome,
};
use grete_wire::records::ProducerRecord;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyInt, PyString};

use crate::convert::{parse_timeout, timeout_or_forever};
use crate::errors;
use crate::ffi::cpython;
use crate::ffi::fork_guarded::ForkGuarded;
use crate::log_event::{self, LogEvent};
use crate::sasl::attach_tokens;
use arguments::{bytes_arg, headers};
use bytes_arg::{BytesArg, RecordRef, parse_partition};
use callback_turn::CallbackTurn;
use delivery_callbacks::DeliveryCallbacks;
use produce_args::{AppendWait, Destination, MetadataWait};
use topic_id_cache::TopicIdCache;

pub(crate) use deliveries::{Deliveries, DeliveriesIterator};
pub(crate) use delivery::Delivery;
pub(crate) use delivery_callbacks::AsyncioDeliveryWatcher;
pub(crate) use memory_log::_TestingLog;
pub(crate) use produce_args::ProduceArgs;

/// Longest sleep of a wait for another thread's callbacks, after which signal handlers get their turn.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Promise, index in the batch, and the action to take next.
type AppendOutcome = (Arc<BatchPromise>, u32, AppendAction);

/// Native part of `grete.client.Producer`: one Kafka producer, one "grete-producer" thread.
#[pyclass(frozen, subclass, module = "grete._native")]
pub(crate) struct Producer {
    client: ForkGuarded<ClientProducer>,
    topics: TopicIdCache,
    partitioner: Option<Py<PyAny>>,
    max_block: Duration,
    callbacks: DeliveryCallbacks,
    callback_turn: CallbackTurn,
    /// Difference of `time.monotonic()` and our clock, in seconds.
    monotonic: f64,
}

impl Producer {
    #[inline]
    pub(crate) fn client(&self) -> PyResult<&ClientProducer> {
        self.client.get()
    }

    /// Converts an instant of our clock to Python's.
    pub(super) fn to_monotonic(&self, nanos: u64) -> f64 {
        nanos as f64 / 1e9 + self.monotonic
    }

    /// Returns a client that takes records. Callbacks and log events that are due come first.
    #[inline]
    fn open_client<'a>(slf: &'a Bound<'_, Self>) -> PyResult<&'a ClientProducer> {
        let client = slf.get().client.get()?;
        client.check().map_err(errors::client)?;
        if client.is_wake_flag_raised() {
            Self::process_completions(slf)?;
        }
        Ok(client)
    }

    /// Runs callbacks that are due and logs events. Returns how many callbacks were run.
    #[cold]
    fn process_completions(slf: &Bound<'_, Self>) -> PyResult<usize> {
        let this = slf.get();
        let client = this.client.get()?;
        let Some(_turn) = this.callback_turn.try_take() else { return Ok(0) };
        Self::run_callbacks(slf, client)
    }

    /// Runs callbacks that are due, and waits for those that another thread runs at the moment. Returns false if the
    /// deadline passes first. A callback that flushes or closes its producer is not waited for.
    ///
    /// Another thread may take an entry from the ready ones, and then be in the callback when this thread finds nothing
    /// to run. If that callback raises what is no `Exception`, the other thread leaves the rest: hence the loop. Without
    /// a GIL, the other thread may also give its turn back between this thread's two looks, when the flag has been
    /// raised again: hence the third look.
    fn finish_callbacks(slf: &Bound<'_, Self>, deadline: Option<u64>) -> PyResult<bool> {
        let (py, this) = (slf.py(), slf.get());
        let client = this.client()?;
        loop {
            Self::process_completions(slf)?;
            if !this.callback_turn.is_of_another_thread() {
                if client.is_wake_flag_raised() && this.callback_turn.is_free() {
                    continue;
                }
                return Ok(true);
            }
            let left = deadline.map_or(Duration::MAX, |at| Duration::from_nanos(at.saturating_sub(client.now())));
            if left.is_zero() {
                return Ok(false);
            }
            py.detach(|| this.callback_turn.await_another_thread(left.min(SIGNAL_CHECK_INTERVAL)));
            py.check_signals()?;
        }
    }

    fn run_callbacks(slf: &Bound<'_, Self>, client: &ClientProducer) -> PyResult<usize> {
        let (py, this) = (slf.py(), slf.get());
        let mut count = 0;
        while client.is_wake_flag_raised() {
            client.clear_wake_flag();
            if client.log_events().write_pending() {
                log_event::take_raised()?;
            }
            this.callbacks.poll(client.ended_error().is_some())?;
            while let Some(entry) = this.callbacks.pop_ready() {
                count += 1;
                let Err(error) = entry.waiter.call1(py, (&entry.delivery,)) else { continue };
                if !error.is_instance_of::<PyException>(py) {
                    client.raise_wake_flag(); // Ctrl-C, or an exit: the others are called next time
                    return Err(error);
                }
                slf.call_method1("_log_callback", (error.into_value(py), entry.waiter))?;
            }
        }
        Ok(count)
    }

    /// Takes the record, or returns the reason why not now.
    #[inline]
    fn try_append(
        &self,
        client: &ClientProducer,
        going: &Destination<'_, '_>,
        record: &mut ProducerRecord<'_>,
        own_time: bool,
        wait: MetadataWait,
    ) -> PyResult<Result<AppendOutcome, AppendError>> {
        let partition = match self.choose_partition(client, going)? {
            Ok(partition) => partition,
            Err(refused) => return Ok(Err(refused)),
        };
        let stamp = client.read_clock();
        if own_time {
            record.timestamp = stamp.millis;
        }
        let mut accumulator = client.accumulator();
        let appended = match wait {
            MetadataWait::Asleep => accumulator.append(stamp.now, going.id, partition, record),
            MetadataWait::Queued => accumulator.append_or_queue(stamp.now, going.id, partition, record),
        };
        let refused = match appended {
            Ok(appended) => return Ok(Ok((Arc::clone(appended.promise), appended.index, appended.action))),
            Err(refused) => refused,
        };
        if refused == AppendError::NoMetadata {
            // Under the same lock, so that the thread that brings the metadata knows of the waiter. A lack of room is
            // known without this.
            accumulator.await_metadata();
        }
        Ok(Err(refused))
    }

    /// Returns the requested partition, or the choice of the user's function.
    #[inline]
    fn choose_partition(
        &self,
        client: &ClientProducer,
        going: &Destination<'_, '_>,
    ) -> PyResult<Result<Option<i32>, AppendError>> {
        if going.partition.is_some() {
            return Ok(Ok(going.partition));
        }
        self.call_partitioner(client, RecordRef { topic: going.topic, index: None }, going.id, going.key)
    }

    /// Returns the choice of the user's function; `None` without such a function.
    #[inline]
    fn call_partitioner(
        &self,
        client: &ClientProducer,
        going: RecordRef<'_, '_>,
        id: TopicId,
        key: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Result<Option<i32>, AppendError>> {
        let Some(partitioner) = &self.partitioner else { return Ok(Ok(None)) };
        let count = match client.accumulator().partitions(id) {
            Some(Ok(count)) => count,
            Some(Err(error)) => return Ok(Err(AppendError::Topic(error))),
            None => return Ok(Err(AppendError::NoMetadata)),
        };
        let chosen = partitioner.bind(going.topic.py()).call1((going.topic, key, count))?;
        if !chosen.is_instance_of::<PyInt>() || chosen.is_instance_of::<PyBool>() {
            let is = chosen.get_type().name()?;
            return Err(going.type_error(&format!("the partitioner returned {is}: it returns the partition, an int")));
        }
        match parse_partition(&chosen, going)? {
            partition if partition.cast_unsigned() < count => Ok(Ok(Some(partition))),
            partition => Err(going.type_error(&format!(
                "the partitioner chose partition {partition} of {count}, which are counted from 0"
            ))),
        }
    }

    /// Takes one record, waiting for room and metadata for up to `max.block.ms`.
    #[inline]
    pub(crate) fn append<'py>(
        slf: &Bound<'py, Self>,
        given: &ProduceArgs<'_, 'py>,
    ) -> PyResult<(Bound<'py, Delivery>, AppendAction)> {
        if !given.topic.is_instance_of::<PyString>() {
            return typed_topic::encode(given)?.lend(|given| Self::append(slf, given));
        }
        let (this, client) = (slf.get(), Self::open_client(slf)?);
        let id = this.topics.id(client, given.topic)?;
        let appended = given.with_record(id, |going, record, own_time| {
            let mut waiting = AppendWait::new(client, this.max_block);
            let mut wait = MetadataWait::Asleep;
            loop {
                match this.try_append(client, going, record, own_time, wait)? {
                    Ok(appended) => return Ok(appended),
                    Err(refused) => waiting.wait_or_queue(going.topic, id, refused, &mut wait)?,
                }
            }
        });
        let (receipt, index, wake) = appended?;
        Ok((cpython::new_untracked(slf.py(), Delivery::new(slf.clone().unbind(), receipt, index))?, wake))
    }

    /// Takes a record with a key that is lent, as `append` does, and sends it when it is due.
    pub(crate) fn append_keyed<'py>(
        slf: &Bound<'py, Self>,
        topic: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        key: Option<&[u8]>,
    ) -> PyResult<(Arc<BatchPromise>, u32)> {
        let mut waiting = AppendWait::new(Self::open_client(slf)?, slf.get().max_block);
        let taken = Self::append_keyed_or(slf, topic, value, key, |id, refused| {
            waiting.wait_to_retry(topic, id, refused).map(|()| true)
        })?;
        // The wait ends with room, or with an error.
        taken.ok_or_else(|| errors::client(grete_client::ClientError::Invalid("a record was not taken".into())))
    }

    /// Takes a record as `append_keyed` does. `None`: it would have to wait for room or for a new topic.
    pub(crate) fn try_append_keyed<'py>(
        slf: &Bound<'py, Self>,
        topic: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        key: Option<&[u8]>,
    ) -> PyResult<Option<(Arc<BatchPromise>, u32)>> {
        // What is wrong for good is raised by the call that waits.
        Self::append_keyed_or(slf, topic, value, key, |_, _| Ok(false))
    }

    /// `on_refused`: whether to try again. `None`: it said no.
    fn append_keyed_or<'py>(
        slf: &Bound<'py, Self>,
        topic: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        key: Option<&[u8]>,
        mut on_refused: impl FnMut(TopicId, AppendError) -> PyResult<bool>,
    ) -> PyResult<Option<(Arc<BatchPromise>, u32)>> {
        let (py, this, client) = (slf.py(), slf.get(), Self::open_client(slf)?);
        let id = this.topics.id(client, topic)?;
        let value = BytesArg::from_object(value, "value", RecordRef { topic, index: None })?;
        let own_key = this.partitioner.as_ref().and(key).map(|key| PyBytes::new(py, key).into_any());
        let destination = Destination { topic, id, key: own_key.as_ref(), partition: None };
        let mut record = ProducerRecord { timestamp: -1, key, value: value.get(), headers: &[] };
        let (receipt, index, wake) = loop {
            match this.try_append(client, &destination, &mut record, true, MetadataWait::Asleep)? {
                Ok(appended) => break appended,
                Err(refused) => {
                    if !on_refused(id, refused)? {
                        return Ok(None);
                    }
                }
            }
        };
        Self::finish_append(py, client, wake);
        Ok(Some((receipt, index)))
    }

    /// Takes many records, or stages them in an exactly-once job.
    #[allow(clippy::too_many_arguments)]
    fn produce_or_stage_many<'py>(
        slf: &Bound<'py, Self>,
        job: Option<&JobToken>,
        topic: &Bound<'py, PyAny>,
        records: &Bound<'py, PyAny>,
        key: Option<&Bound<'py, PyAny>>,
        keys: Option<&Bound<'py, PyAny>>,
        partition: Option<&Bound<'py, PyAny>>,
        timestamp: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Deliveries> {
        if !topic.is_instance_of::<PyString>() {
            let many = typed_topic::encode_many(topic, records, key, keys)?;
            let (key, keys) = (many.key.as_ref(), many.keys.as_ref());
            return Self::produce_or_stage_many(slf, job, &many.name, &many.records, key, keys, partition, timestamp);
        }
        let client = Self::open_client(slf)?;
        let key = match key {
            Some(key) => BytesArg::from_object(key, "key", RecordRef { topic, index: None })?,
            None => BytesArg::Null,
        };
        let common = produce_many::shared_args(client, slf.get(), topic, &key, partition, timestamp, job)?;
        Self::append_many(slf, client, &common, records, keys)
    }

    /// Takes a record for an event loop, which must not wait.
    ///
    /// `None`: there is no room or the topic is new. `watch` is then notified when another try may succeed. `since`:
    /// start of the call, on the client's clock. `last`: returns the error of the wait instead of `None`.
    fn try_append_async<'py>(
        slf: &Bound<'py, Self>,
        watch: &CompletionQueue,
        since: u64,
        last: bool,
        given: &ProduceArgs<'_, 'py>,
    ) -> PyResult<Option<Bound<'py, Delivery>>> {
        if !given.topic.is_instance_of::<PyString>() {
            return typed_topic::encode(given)?.lend(|given| Self::try_append_async(slf, watch, since, last, given));
        }
        let (this, client) = (slf.get(), Self::open_client(slf)?);
        let id = this.topics.id(client, given.topic)?;
        let appended = given.with_record(id, |going, record, own_time| {
            let mut appended = this.try_append(client, going, record, own_time, MetadataWait::Asleep)?;
            if matches!(appended, Err(AppendError::BufferFull | AppendError::NoMetadata)) && !last {
                watch.request_space();
                appended = this.try_append(client, going, record, own_time, MetadataWait::Asleep)?;
            }
            Ok(appended)
        })?;
        let refused = match appended {
            Ok((receipt, index, wake)) => {
                Self::finish_append(slf.py(), client, wake);
                return cpython::new_untracked(slf.py(), Delivery::new(slf.clone().unbind(), receipt, index)).map(Some);
            }
            Err(refused) => refused,
        };
        let name = given.topic.extract::<&str>()?;
        let refused = client.check_transient(name, refused).map_err(errors::client)?;
        if refused == AppendError::NoMetadata
            && let Some(error) = client.metadata_error(name, id, since)
        {
            return Err(errors::client(error));
        }
        if last {
            return Err(errors::client(client.append_error(name, refused)));
        }
        client.wake_network_thread();
        Ok(None)
    }

    /// Runs [`ClientProducer::send_or_wake`], with the GIL detached if the action may block.
    #[inline]
    fn finish_append(py: Python<'_>, client: &ClientProducer, wake: AppendAction) {
        if client.may_block(wake) {
            py.detach(|| client.send_or_wake(wake));
        } else {
            client.send_or_wake(wake);
        }
    }
}

#[pymethods]
impl Producer {
    /// `config`: Kafka's settings as pairs. `log`: called with a list of log events by threads that are in a call.
    /// `partitioner`: chooses a partition by topic, key and partition count. `memory`: the log of a test, to which all
    /// records are written instead of brokers.
    #[new]
    #[pyo3(signature = (config, log, partitioner=None, memory=None))]
    fn new(
        py: Python<'_>,
        config: Vec<(String, String)>,
        log: Py<PyAny>,
        partitioner: Option<Py<PyAny>>,
        memory: Option<&_TestingLog>,
    ) -> PyResult<Self> {
        let config = SettingPairs::from(config);
        let mut config = ProducerConfig::from_pairs(&config).map_err(errors::config)?;
        if memory.is_none() {
            attach_tokens(py, &mut config)?;
        }
        let log = Some(log_event::log_callback(log));
        let memory = memory.map(|memory| Arc::clone(&memory.log));
        let client = py.detach(|| match memory {
            None => ClientProducer::start(&config, log),
            Some(memory) => ClientProducer::in_memory(&config, log, memory),
        });
        let client = client.map_err(errors::client)?;
        let monotonic = py.import("time")?.call_method0("monotonic")?.extract::<f64>()? - client.now() as f64 / 1e9;
        Ok(Self {
            max_block: client.max_block(),
            callbacks: DeliveryCallbacks::new(client.completion_queue()),
            client: ForkGuarded::new(client),
            topics: TopicIdCache::new(),
            partitioner,
            callback_turn: CallbackTurn::default(),
            monotonic,
        })
    }

    /// Takes a record and returns at once. The record is sent when its batch is full or has lingered (`linger.ms`).
    ///
    /// `value`: bytes-like, or None (a tombstone). `timestamp`: milliseconds since 1970 UTC or a datetime (a naive one
    /// is local time); the default is now. `on_delivery(delivery)` runs in a thread that calls produce, poll, flush or
    /// close.
    ///
    /// Waits, up to `max.block.ms`, only while `buffer.memory` is full or the topic is new. In an event loop a record of
    /// a new topic waits in the producer's memory instead, as long at most. Its delivery then has the error: code
    /// UNKNOWN_TOPIC_OR_PARTITION if there is no such topic. Raises BufferFullError, UnknownTopicError,
    /// RecordTypeError, RecordTooLargeError, ClosedError.
    #[pyo3(signature = (topic, value, *, key=None, headers=None, partition=None, timestamp=None, on_delivery=None))]
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn produce<'py>(
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
            return Err(
                RecordRef { topic, index: None }.type_error(&format!("its on_delivery is a callable, not {is}"))
            );
        }
        let (delivery, wake) = Self::append(slf, &ProduceArgs { topic, value, key, headers, partition, timestamp })?;
        if let Some(callback) = on_delivery {
            let this = slf.get();
            if let Some(callback) = this.callbacks.add(&delivery, callback.clone().unbind())? {
                this.callbacks.push_ready(&delivery, callback);
                this.client()?.raise_wake_flag();
            }
        }
        Self::finish_append(slf.py(), slf.get().client()?, wake);
        Ok(delivery)
    }

    /// Same as `produce(...).wait(timeout)`: sends at once and waits for the outcome, at most `timeout` seconds (None:
    /// no limit). Raises the errors of both.
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
        let timeout = parse_timeout(timeout)?;
        // The wait sends at once, so the append's action is not needed.
        let (delivery, _) = Self::append(slf, &ProduceArgs { topic, value, key, headers, partition, timestamp })?;
        delivery.get().wait_settled(slf.py(), timeout)?;
        Ok(delivery)
    }

    /// Takes many records in one call; all are checked before the first one is taken.
    ///
    /// `records`: values (bytes-like or None), or tuples (key, value), (key, value, headers) or (key, value, headers,
    /// timestamp). Or `grete.Messages`: keys, values, headers and timestamps are kept, and partitions are chosen anew.
    /// Or any object that exports Arrow: a column of values, or columns value, key, timestamp, partition and headers,
    /// of which only value is required. `key` is for records without one, `partition` and `timestamp` are for all.
    /// `keys`: one key for each value of `records`.
    ///
    /// Raises the errors of `produce`. When some records have been taken by then, the error's `deliveries` has these.
    #[pyo3(signature = (topic, records, *, key=None, keys=None, partition=None, timestamp=None))]
    pub(crate) fn produce_many<'py>(
        slf: &Bound<'py, Self>,
        topic: &Bound<'py, PyAny>,
        records: &Bound<'py, PyAny>,
        key: Option<&Bound<'py, PyAny>>,
        keys: Option<&Bound<'py, PyAny>>,
        partition: Option<&Bound<'py, PyAny>>,
        timestamp: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Deliveries> {
        Self::produce_or_stage_many(slf, None, topic, records, key, keys, partition, timestamp)
    }

    /// Runs callbacks that are due, waiting for the first of them at most `timeout` seconds (None: no limit). Returns
    /// how many were run.
    #[pyo3(signature = (timeout=0.0))]
    fn poll(slf: &Bound<'_, Self>, timeout: Option<f64>) -> PyResult<usize> {
        let py = slf.py();
        let timeout = parse_timeout(timeout)?;
        let client = slf.get().client()?;
        let deadline = timeout.map(|timeout| client.deadline(timeout));
        loop {
            let count = Self::process_completions(slf)?;
            if count > 0 || timeout.is_some_and(|timeout| timeout.is_zero()) {
                return Ok(count);
            }
            match py.detach(|| client.wait_wake_flag(deadline)) {
                WaitOutcome::Woken => {}
                WaitOutcome::Interrupted => log_event::check_interrupted(py)?,
                WaitOutcome::TimedOut | WaitOutcome::Ended => return Self::process_completions(slf),
            }
        }
    }

    /// Sends all records without lingering and waits until every outcome is known and its callbacks have run, at most
    /// `timeout` seconds (None: no limit). Raises `TimeoutError` with the number of pending records.
    #[pyo3(signature = (timeout=None))]
    fn flush(slf: &Bound<'_, Self>, timeout: Option<f64>) -> PyResult<()> {
        let py = slf.py();
        let timeout = parse_timeout(timeout)?;
        let client = Self::open_client(slf)?;
        let deadline = timeout.map(|timeout| client.deadline(timeout));
        let flush = py.detach(|| client.flush()).map_err(errors::client)?;
        loop {
            let status = py.detach(|| client.await_flush(&flush, deadline));
            Self::process_completions(slf)?;
            match status {
                FlushStatus::Done if Self::finish_callbacks(slf, deadline)? => return Ok(()),
                FlushStatus::Done => return Err(errors::flush_timeout(0, timeout)),
                FlushStatus::Pending => {}
                FlushStatus::Interrupted => log_event::check_interrupted(py)?,
                FlushStatus::Ended => return Err(errors::client(client.closed_error())),
                FlushStatus::TimedOut { pending } => return Err(errors::flush_timeout(pending, timeout)),
            }
        }
    }

    /// Makes the call of this name about transactions, and waits for its result. `group`: group id, member id, generation
    /// and instance id; `offsets`: topic, partition and position, both for `send_offsets`.
    #[pyo3(signature = (name, timeout, group=None, offsets=Vec::new()))]
    fn _transaction_call(
        slf: &Bound<'_, Self>,
        name: &str,
        timeout: Option<f64>,
        group: Option<(String, String, i32, Option<String>)>,
        offsets: Vec<(String, i32, i64)>,
    ) -> PyResult<()> {
        transaction::run(slf, name, timeout, group, offsets)
    }

    /// Returns whether the producer has a `transactional.id`.
    fn _is_transactional(&self) -> PyResult<bool> {
        Ok(self.client()?.is_transactional())
    }

    /// Begins to close, once, and waits for the end. Returns whether the producer has ended, the numbers of undelivered
    /// records by topic, how many of them are not written, and how many have an unknown outcome.
    fn _close<'py>(slf: &Bound<'py, Self>, timeout: f64) -> PyResult<(bool, Bound<'py, PyDict>, u64, u64)> {
        let py = slf.py();
        let client = slf.get().client()?;
        let timeout = parse_timeout(Some(timeout))?.unwrap_or_default();
        let deadline = py.detach(|| client.close(timeout)).map_err(errors::client)?;
        let (finished, undelivered) = loop {
            match py.detach(|| client.await_close(deadline, || client.log_events().write_pending())) {
                CloseStatus::Done(undelivered) => break (true, undelivered),
                CloseStatus::TimedOut(undelivered) => break (false, undelivered),
                CloseStatus::Interrupted => log_event::check_interrupted(py)?,
            }
        };
        Self::finish_callbacks(slf, Some(deadline))?;
        let by_topic = PyDict::new(py);
        for (topic, count) in undelivered.by_topic {
            by_topic.set_item(topic, count)?;
        }
        Ok((finished, by_topic, undelivered.not_written, undelivered.unknown))
    }

    /// Returns the number of partitions of the topic. Raises `UnknownTopicError`, or `TimeoutError` when no broker
    /// answers.
    #[pyo3(signature = (topic, timeout=30.0))]
    fn partitions(slf: &Bound<'_, Self>, topic: &str, timeout: Option<f64>) -> PyResult<u32> {
        let py = slf.py();
        let client = Self::open_client(slf)?;
        let timeout = timeout_or_forever(timeout)?;
        let deadline = client.deadline(timeout);
        loop {
            match py.detach(|| client.partitions(topic, timeout, deadline)).map_err(errors::client)? {
                PartitionsStatus::Known(count) => return Ok(count),
                PartitionsStatus::Pending => {}
                PartitionsStatus::Interrupted => log_event::check_interrupted(py)?,
            }
        }
    }

    /// Returns counters by name.
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
            ("aborted", produce.aborted),
            ("reconnects", statistics.reconnects),
            ("pending_records", statistics.pending_records),
            ("unassigned_records", statistics.unassigned_records),
            ("buffered_bytes", statistics.buffered_bytes as u64),
        ] {
            fields.set_item(name, value)?;
        }
        fields.set_item("login_failure", self.client()?.login_failure().as_deref())?;
        Ok(fields)
    }

    /// Longest wait of a call for room and for metadata, in seconds.
    #[getter]
    fn max_block(&self) -> f64 {
        self.max_block.as_secs_f64()
    }

    /// Returns the client's clock, in nanoseconds.
    fn _now(&self) -> PyResult<u64> {
        Ok(self.client()?.now())
    }

    /// Returns the error that ended the producer for good; `None` if there is none.
    fn _fatal_error(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.client()?.fatal().map(|error| errors::client(error).into_value(py).into_any()))
    }

    /// Returns a descriptor that is readable while log events wait.
    fn _event_fd(&self) -> PyResult<i32> {
        Ok(self.client()?.log_events().event_fd())
    }

    /// Returns the log events since the last call.
    fn _drain_log_events(&self) -> PyResult<Vec<LogEvent>> {
        Ok(self.client()?.log_events().drain().into_iter().map(LogEvent::new).collect())
    }
}
