//! Arguments of a call that takes one record, checked and lent in the wire's terms; and the wait for room.

use std::time::Duration;

use grete_client::produce::{AppendError, TopicId};
use grete_client::{Deadline, Producer as ClientProducer, WaitOutcome};
use grete_wire::records::ProducerRecord;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::bytes_arg::{BytesArg, RecordRef, parse_partition, parse_timestamp};
use super::headers::Headers;
use crate::errors;
use crate::log_event;

/// Destination of a record: topic, and the key and partition that the user gave.
pub(super) struct Destination<'a, 'py> {
    pub(super) topic: &'a Bound<'py, PyAny>,
    pub(super) id: TopicId,
    pub(super) key: Option<&'a Bound<'py, PyAny>>,
    pub(super) partition: Option<i32>,
}

/// Unchecked arguments of `produce`.
pub(crate) struct ProduceArgs<'a, 'py> {
    pub(crate) topic: &'a Bound<'py, PyAny>,
    pub(crate) value: &'a Bound<'py, PyAny>,
    pub(crate) key: Option<&'a Bound<'py, PyAny>>,
    pub(crate) headers: Option<&'a Bound<'py, PyAny>>,
    pub(crate) partition: Option<&'a Bound<'py, PyAny>>,
    pub(crate) timestamp: Option<&'a Bound<'py, PyAny>>,
}

impl<'py> ProduceArgs<'_, 'py> {
    /// Checks all arguments, then lends them in the wire's terms: the record, and whether its timestamp is now.
    #[inline]
    pub(super) fn with_record<R>(
        &self,
        id: TopicId,
        then: impl FnOnce(&Destination<'_, 'py>, &mut ProducerRecord<'_>, bool) -> PyResult<R>,
    ) -> PyResult<R> {
        let going = RecordRef { topic: self.topic, index: None };
        let value = BytesArg::from_object(self.value, "value", going)?;
        let key = match self.key {
            Some(key) => BytesArg::from_object(key, "key", going)?,
            None => BytesArg::Null,
        };
        let partition = self.partition.map(|given| parse_partition(given, going)).transpose()?;
        let timestamp = self.timestamp.map(|given| parse_timestamp(given, going)).transpose()?;
        let destination = Destination { topic: self.topic, id, key: self.key, partition };
        let mut record =
            ProducerRecord { timestamp: timestamp.unwrap_or(-1), key: key.get(), value: value.get(), headers: &[] };
        let Some(headers) = self.headers else { return then(&destination, &mut record, timestamp.is_none()) };
        let headers = Headers::from_object(headers, going)?;
        let fields = headers.fields(going)?;
        let wire = fields.as_wire();
        then(&destination, &mut ProducerRecord { headers: &wire, ..record }, timestamp.is_none())
    }
}

/// Waits for transient obstacles (no room, no metadata), up to one deadline.
pub(super) struct AppendWait<'a> {
    client: &'a ClientProducer,
    max_block: Duration,
    /// Start of the first wait in the client's nanoseconds, and the deadline.
    started: Option<(u64, Deadline)>,
}

impl<'a> AppendWait<'a> {
    pub(super) fn new(client: &'a ClientProducer, max_block: Duration) -> Self {
        Self { client, max_block, started: None }
    }

    /// Waits until another try may succeed. In an event loop the next try queues its record instead of a wait for
    /// metadata.
    #[cold]
    pub(super) fn wait_or_queue(
        &mut self,
        topic: &Bound<'_, PyAny>,
        id: TopicId,
        refused: AppendError,
        wait: &mut MetadataWait,
    ) -> PyResult<()> {
        // A record that was refused in spite of its queue waits for its partitioner, which needs the metadata.
        if refused == AppendError::NoMetadata && *wait == MetadataWait::Asleep {
            *wait = MetadataWait::for_this_thread(topic.py(), self.max_block);
            if *wait == MetadataWait::Queued {
                return Ok(());
            }
        }
        self.wait_to_retry(topic, id, refused)
    }

    /// Waits until another try may succeed.
    #[cold]
    pub(super) fn wait_to_retry(
        &mut self,
        topic: &Bound<'_, PyAny>,
        id: TopicId,
        refused: AppendError,
    ) -> PyResult<()> {
        let py = topic.py();
        let name = topic.extract::<&str>()?;
        let refused = self.client.check_transient(name, refused).map_err(errors::client)?;
        let span = || (self.client.now(), self.client.deadline(self.max_block));
        let (since, deadline) = *self.started.get_or_insert_with(span);
        let slept = py.detach(|| self.client.await_transient((name, id), &refused, since, deadline));
        if slept.map_err(errors::client)? == WaitOutcome::Interrupted {
            log_event::check_interrupted(py)?;
        }
        Ok(())
    }
}

/// How the records of one call wait for the metadata of their topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetadataWait {
    /// The call sleeps, and raises the error of the wait.
    Asleep,
    /// The records are queued, and their deliveries get the error of the wait.
    Queued,
}

impl MetadataWait {
    /// Chooses for a call on this thread, which found no metadata. A thread that runs an event loop must not sleep.
    /// `max_block`: of the producer; zero: no record may wait.
    #[cold]
    pub(super) fn for_this_thread(py: Python<'_>, max_block: Duration) -> Self {
        if !max_block.is_zero() && is_in_event_loop(py).unwrap_or(false) { Self::Queued } else { Self::Asleep }
    }
}

/// Returns whether this thread runs an asyncio event loop. A process with such a loop has imported asyncio.
fn is_in_event_loop(py: Python<'_>) -> PyResult<bool> {
    let modules = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?;
    let Some(asyncio) = modules.get_item("asyncio")? else { return Ok(false) };
    Ok(!asyncio.call_method0("_get_running_loop")?.is_none())
}
