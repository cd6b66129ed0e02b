//! Production of many records at once. All are checked, then they are appended in a few chunks under the accumulator's
//! lock.

use grete_arrow::ImportedArray;
use grete_client::produce::{AppendAction, AppendError, TopicId};
use grete_client::{JobToken, Producer as ClientProducer};
use grete_wire::records::ProducerRecord;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::Producer;
use super::arrow;
use super::bytes_arg::{BytesArg, RecordRef, parse_partition, parse_timestamp};
use super::deliveries::{BatchRuns, Deliveries};
use super::produce_args::AppendWait;
use super::produce_args::MetadataWait;
use super::record_sources::{
    ArrowRows, BytesValues, KafkaRows, NO_TIMESTAMP, RecordSource, check_arrow_rows, check_pair, check_record,
    parse_headers, to_tuple,
};
use crate::consumer::messages::Messages;
use crate::errors;

/// Most records under one lock: the network thread needs the lock, too.
const MAX_RECORDS_PER_LOCK: usize = 1024;
/// Most records before other Python threads get the GIL.
const GIL_YIELD_RECORDS: usize = 1 << 16;

/// Upper bounds in bytes: the lengths around a record with its batch's header, and the lengths around a header.
const RECORD_OVERHEAD: usize = 128;
const HEADER_OVERHEAD: usize = 10;

/// Arguments that all records of one call share.
pub(super) struct SharedArgs<'a, 'py> {
    pub(super) topic: &'a Bound<'py, PyAny>,
    pub(super) id: TopicId,
    pub(super) partition: Option<i32>,
    pub(super) key: Option<&'a [u8]>,
    pub(super) timestamp: Option<i64>,
    /// Exactly-once job that stages the records; `None`: they are appended.
    pub(super) job: Option<&'a JobToken>,
}

impl Producer {
    pub(super) fn append_many<'py>(
        slf: &Bound<'py, Self>,
        client: &ClientProducer,
        common: &SharedArgs<'_, 'py>,
        records: &Bound<'py, PyAny>,
        keys: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Deliveries> {
        let mut runs = BatchRuns::default();
        let result = match keys {
            Some(keys) => slf.get().append_keyed_values(client, common, records, keys, &mut runs),
            None => slf.get().append_any(client, common, records, &mut runs),
        };
        let count = runs.len();
        let deliveries = Deliveries::new(slf.clone().unbind(), runs);
        match result {
            Ok(()) => Ok(deliveries),
            Err(error) if count == 0 => Err(error),
            // Some records are in flight: the error carries their deliveries, so that its handler can wait for these.
            Err(error) => {
                let value = error.value(slf.py());
                value.setattr("deliveries", Bound::new(slf.py(), deliveries)?)?;
                Err(error)
            }
        }
    }

    fn append_any<'py>(
        &self,
        client: &ClientProducer,
        common: &SharedArgs<'_, 'py>,
        records: &Bound<'py, PyAny>,
        runs: &mut BatchRuns,
    ) -> PyResult<()> {
        let all = RecordRef { topic: common.topic, index: None };
        if let Ok(messages) = records.cast::<Messages>() {
            let source = KafkaRows(messages.get());
            self.check_sources(client, common, std::slice::from_ref(&source))?;
            return self.append_source(client, common, &source, runs);
        }
        if let Some(arrays) = arrow::import_arrays(records, all)? {
            let rows = arrays.iter().map(ImportedArray::records).collect::<Result<Vec<_>, _>>();
            let rows = rows.map_err(|error| arrow::invalid_arrow(&error, all))?;
            check_arrow_rows(&rows, common.topic)?;
            let sources: Vec<_> = rows.into_iter().map(ArrowRows).collect();
            self.check_sources(client, common, &sources)?;
            return sources.iter().try_for_each(|source| self.append_source(client, common, source, runs));
        }
        // A snapshot: the caller's list may change while this call waits for room.
        let snapshot = to_tuple(records, all)?;
        let items = snapshot.as_slice();
        if items.iter().all(|item| item.is_exact_instance_of::<PyBytes>() || item.is_none()) {
            let values = BytesValues(items);
            self.check_sources(client, common, std::slice::from_ref(&values))?;
            return self.append_source(client, common, &values, runs);
        }
        let headers = items.iter().enumerate().map(|(index, item)| parse_headers(item, common.topic, index));
        let headers = headers.collect::<PyResult<Vec<_>>>()?;
        let checked = items.iter().zip(&headers).enumerate();
        let checked = checked.map(|(index, (item, headers))| check_record(item, headers.as_ref(), common.topic, index));
        let checked = checked.collect::<PyResult<Vec<_>>>()?;
        self.check_sources(client, common, std::slice::from_ref(&checked))?;
        self.append_source(client, common, &checked, runs)
    }

    /// Appends values with a list of their keys.
    fn append_keyed_values<'py>(
        &self,
        client: &ClientProducer,
        common: &SharedArgs<'_, 'py>,
        values: &Bound<'py, PyAny>,
        keys: &Bound<'py, PyAny>,
        runs: &mut BatchRuns,
    ) -> PyResult<()> {
        let all = RecordRef { topic: common.topic, index: None };
        if common.key.is_some() {
            return Err(all.type_error("key= is for records without one, and keys= gives each its own: leave one out"));
        }
        let (values, keys) = (to_tuple(values, all)?, to_tuple(keys, all)?);
        let (values, keys) = (values.as_slice(), keys.as_slice());
        if values.len() != keys.len() {
            return Err(all.type_error(&format!(
                "{} values and {} keys are given: give one key for each value, None for no key",
                values.len(),
                keys.len()
            )));
        }
        let pairs = values.iter().zip(keys).enumerate();
        let checked =
            pairs.map(|(index, (value, key))| check_pair(value, key, RecordRef { index: Some(index), ..all }));
        let checked = checked.collect::<PyResult<Vec<_>>>()?;
        self.check_sources(client, common, std::slice::from_ref(&checked))?;
        self.append_source(client, common, &checked, runs)
    }

    /// Refuses records that no request or partition can take, before any record is appended.
    fn check_sources<S: RecordSource>(
        &self,
        client: &ClientProducer,
        common: &SharedArgs<'_, '_>,
        sources: &[S],
    ) -> PyResult<()> {
        let mut highest = None;
        for source in sources {
            highest = highest.max(check_sizes(client, common, source)?);
        }
        let Some(partition) = highest.filter(|_| common.partition.is_none()) else { return Ok(()) };
        let mut waiting = AppendWait::new(client, self.max_block);
        let mut wait = MetadataWait::Asleep;
        loop {
            let known = client.accumulator().partitions(common.id);
            let refused = match known {
                None => AppendError::NoMetadata,
                Some(Err(error)) => AppendError::Topic(error),
                Some(Ok(count)) if u32::try_from(partition).is_ok_and(|partition| partition < count) => return Ok(()),
                Some(Ok(count)) => AppendError::UnknownPartition { partition, count },
            };
            waiting.wait_or_queue(common.topic, common.id, refused, &mut wait)?;
            if wait == MetadataWait::Queued {
                return Ok(()); // a partition that is not there fails its record's delivery
            }
        }
    }

    fn append_source<S: RecordSource>(
        &self,
        client: &ClientProducer,
        common: &SharedArgs<'_, '_>,
        source: &S,
        runs: &mut BatchRuns,
    ) -> PyResult<()> {
        let py = common.topic.py();
        let chosen = self.partition_all(client, common, source)?;
        if let Some(job) = common.job {
            return self.stage_source(client, job, common, source, &chosen, runs);
        }
        let now = client.read_clock().millis;
        let mut waiting = AppendWait::new(client, self.max_block);
        let mut wait = MetadataWait::Asleep;
        let (mut next, mut turn) = (0, GIL_YIELD_RECORDS);
        while next < source.len() {
            let (mut wake, mut refused) = (AppendAction::Nothing, None);
            let until = source.len().min(next + MAX_RECORDS_PER_LOCK);
            let instant = client.now();
            let mut accumulator = client.accumulator();
            // A full batch ends the chunk: the network thread can send it while the next one fills.
            while next < until && refused.is_none() && wake != AppendAction::Drain {
                source.with_record(next, |record, own| {
                    let own_time = Some(record.timestamp).filter(|time| *time != NO_TIMESTAMP);
                    let timestamp = common.timestamp.or(own_time).unwrap_or(now);
                    let record = ProducerRecord { timestamp, key: record.key.or(common.key), ..record };
                    let partition = common.partition.or(own).or_else(|| chosen.get(next).copied());
                    let appended = match wait {
                        MetadataWait::Asleep => accumulator.append(instant, common.id, partition, &record),
                        MetadataWait::Queued => accumulator.append_or_queue(instant, common.id, partition, &record),
                    };
                    match appended {
                        Ok(appended) => {
                            runs.push(appended.promise, appended.index);
                            if appended.action != AppendAction::Nothing {
                                wake = appended.action;
                            }
                        }
                        Err(error) => refused = Some(error),
                    }
                });
                next += usize::from(refused.is_none());
            }
            drop(accumulator);
            Self::finish_append(py, client, wake);
            if let Some(refused) = refused {
                waiting.wait_or_queue(common.topic, common.id, refused, &mut wait)?;
            }
            if next >= turn {
                turn = next + GIL_YIELD_RECORDS;
                py.detach(|| {});
            }
        }
        Ok(())
    }

    /// Calls the user's function for each record that has no partition. Empty if there is no such function.
    fn partition_all<S: RecordSource>(
        &self,
        client: &ClientProducer,
        common: &SharedArgs<'_, '_>,
        source: &S,
    ) -> PyResult<Vec<i32>> {
        if self.partitioner.is_none() || common.partition.is_some() {
            return Ok(Vec::new());
        }
        let py = common.topic.py();
        let mut waiting = AppendWait::new(client, self.max_block);
        let mut chosen = Vec::with_capacity(source.len());
        while chosen.len() < source.len() {
            let index = chosen.len();
            let own = source.with_record(index, |record, own| {
                (own, record.key.or(common.key).map(|key| PyBytes::new(py, key).into_any()))
            });
            let (None, key) = own else {
                chosen.push(0); // the record's own partition has precedence
                continue;
            };
            let going = RecordRef { topic: common.topic, index: Some(index) };
            match self.call_partitioner(client, going, common.id, key.as_ref())? {
                Ok(partition) => chosen.push(partition.unwrap_or(0)),
                Err(refused) => waiting.wait_to_retry(common.topic, common.id, refused)?,
            }
        }
        Ok(chosen)
    }
}

/// Refuses records that are too large for any request. Returns the highest partition that a record sets for itself.
fn check_sizes<S: RecordSource>(
    client: &ClientProducer,
    common: &SharedArgs<'_, '_>,
    source: &S,
) -> PyResult<Option<i32>> {
    let common_key = common.key.map_or(0, <[u8]>::len);
    let limit = client.accumulator().max_batch_bytes();
    let mut highest = None;
    for index in 0..source.len() {
        let fits = source.with_record(index, |record, own| {
            highest = highest.max(own);
            let length = |field: Option<&[u8]>| field.map_or(0, <[u8]>::len);
            let headers = record.headers.iter().map(|header| header.key.len() + length(header.value) + HEADER_OVERHEAD);
            let key = record.key.map_or(common_key, <[u8]>::len);
            // Most records are so much smaller that an exact count is not needed.
            if key + length(record.value) + headers.sum::<usize>() + RECORD_OVERHEAD <= limit {
                return Ok(());
            }
            client
                .accumulator()
                .check_record_size(&ProducerRecord { key: record.key.or(common.key), ..record })
                .map(drop)
        });
        if let Err(refused) = fits {
            let error = errors::client(client.append_error(&common.topic.to_string(), refused));
            error.value(common.topic.py()).setattr("index", index)?;
            return Err(error);
        }
    }
    Ok(highest)
}

/// Checks the arguments that all records of a call share.
#[allow(clippy::too_many_arguments)]
pub(super) fn shared_args<'a, 'py>(
    client: &ClientProducer,
    this: &Producer,
    topic: &'a Bound<'py, PyAny>,
    key: &'a BytesArg<'_>,
    given_partition: Option<&Bound<'py, PyAny>>,
    given_timestamp: Option<&Bound<'py, PyAny>>,
    job: Option<&'a JobToken>,
) -> PyResult<SharedArgs<'a, 'py>> {
    let going = RecordRef { topic, index: None };
    Ok(SharedArgs {
        topic,
        id: this.topics.id(client, topic)?,
        partition: given_partition.map(|given| parse_partition(given, going)).transpose()?,
        key: key.get(),
        timestamp: given_timestamp.map(|given| parse_timestamp(given, going)).transpose()?,
        job,
    })
}
