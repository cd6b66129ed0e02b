//! Records of exactly-once jobs: checked like those of `produce`, and staged in the job.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use grete_client::produce::{AppendError, BatchPromise, StagedRecord};
use grete_client::{ClientError, Deadline, JobToken, Producer as ClientProducer, StageError, WaitOutcome};
use grete_wire::records::ProducerRecord;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use super::Producer;
use super::bytes_arg::{BytesArg, RecordRef};
use super::deliveries::{BatchRuns, Deliveries};
use super::delivery::Delivery;
use super::produce_args::{AppendWait, Destination, MetadataWait, ProduceArgs};
use super::produce_many::SharedArgs;
use super::record_sources::{NO_TIMESTAMP, RecordSource};
use super::typed_topic;
use crate::errors;
use crate::ffi::cpython;
use crate::log_event;

/// Wait of a caller for room for staged records, which a commit makes.
struct RoomWait<'a> {
    client: &'a ClientProducer,
    token: &'a JobToken,
    max_block: Duration,
    /// Set by the first refusal.
    deadline: Option<Deadline>,
    /// Futex word, and the value to sleep on.
    sleep: Option<(&'a AtomicU32, u32)>,
}

impl<'a> RoomWait<'a> {
    fn new(client: &'a ClientProducer, token: &'a JobToken, max_block: Duration) -> Self {
        Self { client, token, max_block, deadline: None, sleep: None }
    }

    /// Registers the caller before a repeated attempt: room that is made after the attempt ends the sleep.
    fn register(&mut self) {
        self.sleep = self.deadline.and_then(|_| self.token.staging_budget()).map(|budget| budget.await_room());
    }

    /// Sleeps after a refused attempt; after the first one, not at all. Raises if no commit makes room in time.
    fn wait(&mut self, refused: StageError, topic: &Bound<'_, PyAny>) -> PyResult<()> {
        let has_ended = match refused {
            StageError::Ended => return Err(errors::no_job()),
            StageError::Full { has_ended } => has_ended,
        };
        let until = *self.deadline.get_or_insert_with(|| self.client.deadline(self.max_block));
        if !has_ended || self.client.now() >= until {
            let limit = self.token.staging_budget().map_or(0, |budget| budget.limit());
            return Err(errors::client(ClientError::StagingFull { topic: topic.to_string(), limit }));
        }
        if let Some((word, seen)) = self.sleep
            && topic.py().detach(|| self.client.wait_for_room(word, seen, until)) == WaitOutcome::Interrupted
        {
            log_event::check_interrupted(topic.py())?;
        }
        Ok(())
    }
}

impl Producer {
    /// Stages a record in the job, and returns its delivery.
    pub(crate) fn stage<'py>(
        slf: &Bound<'py, Self>,
        token: &JobToken,
        given: &ProduceArgs<'_, 'py>,
    ) -> PyResult<Bound<'py, Delivery>> {
        if !given.topic.is_instance_of::<PyString>() {
            return typed_topic::encode(given)?.lend(|given| Self::stage(slf, token, given));
        }
        let (this, client) = (slf.get(), Self::open_client(slf)?);
        let id = this.topics.id(client, given.topic)?;
        let staged = given.with_record(id, |going, record, own_time| {
            this.stage_record(client, token, going, record, own_time, true)
        })?;
        let (promise, index) = staged.ok_or_else(errors::no_job)?;
        cpython::new_untracked(slf.py(), Delivery::new(slf.clone().unbind(), promise, index))
    }

    /// Stages a record with a key that is lent, and makes no delivery.
    pub(crate) fn stage_keyed<'py>(
        slf: &Bound<'py, Self>,
        token: &JobToken,
        topic: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        key: Option<&[u8]>,
    ) -> PyResult<()> {
        let (py, this, client) = (slf.py(), slf.get(), Self::open_client(slf)?);
        let id = this.topics.id(client, topic)?;
        let value = BytesArg::from_object(value, "value", RecordRef { topic, index: None })?;
        let own_key = this.partitioner.as_ref().and(key).map(|key| PyBytes::new(py, key).into_any());
        let destination = Destination { topic, id, key: own_key.as_ref(), partition: None };
        let mut record = ProducerRecord { timestamp: -1, key, value: value.get(), headers: &[] };
        this.stage_record(client, token, &destination, &mut record, true, false).map(drop)
    }

    /// Stages a record, waiting for metadata and room for up to `max.block.ms`.
    fn stage_record(
        &self,
        client: &ClientProducer,
        token: &JobToken,
        going: &Destination<'_, '_>,
        record: &mut ProducerRecord<'_>,
        own_time: bool,
        promised: bool,
    ) -> PyResult<Option<(Arc<BatchPromise>, u32)>> {
        if token.is_fenced() {
            return Err(errors::client(ClientError::Revoked));
        }
        let mut waiting = AppendWait::new(client, self.max_block);
        let mut wait = MetadataWait::Asleep;
        let partition = loop {
            match self.choose_partition(client, going)? {
                Ok(partition) => break partition,
                Err(refused) => waiting.wait_or_queue(going.topic, going.id, refused, &mut wait)?,
            }
        };
        if own_time {
            record.timestamp = client.read_clock().millis;
        }
        let (name, encoded) = loop {
            let accumulator = client.accumulator();
            let known = accumulator.partitions(going.id);
            let refused = match (known, partition) {
                (Some(Ok(count)), Some(chosen)) if !u32::try_from(chosen).is_ok_and(|chosen| chosen < count) => {
                    AppendError::UnknownPartition { partition: chosen, count }
                }
                (Some(Err(error)), _) => AppendError::Topic(error),
                // In an event loop, the commit waits for the metadata.
                (None, _) if wait == MetadataWait::Asleep => AppendError::NoMetadata,
                _ => match (accumulator.check_record_size(record), accumulator.topic_name(going.id)) {
                    (Ok(bytes), Some(name)) => break (Arc::clone(name), bytes),
                    (Ok(_), None) => AppendError::NoMetadata,
                    (Err(refused), _) => refused,
                },
            };
            drop(accumulator);
            waiting.wait_or_queue(going.topic, going.id, refused, &mut wait)?;
        };
        let mut room = RoomWait::new(client, token, self.max_block);
        loop {
            room.register();
            match token.stage(&StagedRecord { topic: &name, partition, record, encoded }, promised) {
                Ok(found) => return Ok(found),
                Err(refused) => room.wait(refused, going.topic)?,
            }
        }
    }

    /// Stages many records that were checked.
    pub(super) fn stage_source<S: RecordSource>(
        &self,
        client: &ClientProducer,
        token: &JobToken,
        common: &SharedArgs<'_, '_>,
        source: &S,
        chosen: &[i32],
        runs: &mut BatchRuns,
    ) -> PyResult<()> {
        let now = client.read_clock().millis;
        let name = client.accumulator().topic_name(common.id).map(Arc::clone);
        let name = name
            .ok_or_else(|| errors::client(client.append_error(&common.topic.to_string(), AppendError::NoMetadata)))?;
        for index in 0..source.len() {
            let mut room = RoomWait::new(client, token, self.max_block);
            loop {
                room.register();
                let staged = source.with_record(index, |record, own| {
                    let own_time = Some(record.timestamp).filter(|time| *time != NO_TIMESTAMP);
                    let timestamp = common.timestamp.or(own_time).unwrap_or(now);
                    let record = ProducerRecord { timestamp, key: record.key.or(common.key), ..record };
                    let partition = common.partition.or(own).or_else(|| chosen.get(index).copied());
                    let encoded = client.accumulator().check_record_size(&record)?;
                    Ok(token.stage(&StagedRecord { topic: &name, partition, record: &record, encoded }, true))
                });
                let staged = staged
                    .map_err(|refused| errors::client(client.append_error(&common.topic.to_string(), refused)))?;
                match staged {
                    Ok(found) => {
                        found.into_iter().for_each(|(promise, index)| runs.push(&promise, index));
                        break;
                    }
                    Err(refused) => room.wait(refused, common.topic)?,
                }
            }
        }
        Ok(())
    }

    /// Stages many records, like `produce_many`.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn stage_many<'py>(
        slf: &Bound<'py, Self>,
        token: &JobToken,
        topic: &Bound<'py, PyAny>,
        records: &Bound<'py, PyAny>,
        key: Option<&Bound<'py, PyAny>>,
        keys: Option<&Bound<'py, PyAny>>,
        partition: Option<&Bound<'py, PyAny>>,
        timestamp: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Deliveries> {
        if token.is_fenced() {
            return Err(errors::client(ClientError::Revoked));
        }
        Self::produce_or_stage_many(slf, Some(token), topic, records, key, keys, partition, timestamp)
    }
}
