//! Many records at once: all are checked, then they are appended in a few goes under the accumulator's lock.

use grete_client::Producer as ClientProducer;
use grete_client::produce::{Refused, TopicId, Wake};
use grete_columns::Imported;
use grete_wire::records::NewRecord;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::Producer;
use super::arrow;
use super::deliveries::{Deliveries, Runs};
use super::field::{Field, Going, partition, timestamp};
use super::given::Waiting;
use super::sources::{NO_TIME, Read, Rows, Source, Values, check, check_rows, headers_of, snapshot};
use crate::errors;
use crate::messages::Messages;

/// So many records under one lock at most: the network thread wants it, too.
const CHUNK: usize = 1024;
/// So many records without giving other Python threads their turn.
const TURN: usize = 1 << 16;

/// More than the lengths around a record take, and its batch's header; and those around a header.
const RECORD_SPARE: usize = 128;
const HEADER_SPARE: usize = 10;

/// What all records of one call have in common.
pub(super) struct Common<'a, 'py> {
    pub(super) topic: &'a Bound<'py, PyAny>,
    pub(super) id: TopicId,
    pub(super) partition: Option<i32>,
    pub(super) key: Option<&'a [u8]>,
    pub(super) timestamp: Option<i64>,
}

impl Producer {
    pub(super) fn take_many<'py>(
        slf: &Bound<'py, Self>,
        client: &ClientProducer,
        common: &Common<'_, 'py>,
        records: &Bound<'py, PyAny>,
    ) -> PyResult<Deliveries> {
        let mut runs = Runs::default();
        let taken = slf.get().take_any(client, common, records, &mut runs);
        let count = runs.len();
        let deliveries = Deliveries::new(slf.clone().unbind(), runs);
        match taken {
            Ok(()) => Ok(deliveries),
            Err(error) if count == 0 => Err(error),
            // Some are on their way: whoever hears of the error can wait for these.
            Err(error) => {
                let value = error.value(slf.py());
                value.setattr("deliveries", Bound::new(slf.py(), deliveries)?)?;
                Err(error)
            }
        }
    }

    fn take_any<'py>(
        &self,
        client: &ClientProducer,
        common: &Common<'_, 'py>,
        records: &Bound<'py, PyAny>,
        runs: &mut Runs,
    ) -> PyResult<()> {
        let all = Going { topic: common.topic, index: None };
        if let Ok(messages) = records.cast::<Messages>() {
            let source = Read(messages.get());
            self.check_all(client, common, std::slice::from_ref(&source))?;
            return self.take_source(client, common, &source, runs);
        }
        if let Some(arrays) = arrow::arrays(records, all)? {
            let rows = arrays.iter().map(Imported::rows).collect::<Result<Vec<_>, _>>();
            let rows = rows.map_err(|error| arrow::refused(&error, all))?;
            check_rows(&rows, common.topic)?;
            let sources: Vec<_> = rows.into_iter().map(Rows).collect();
            self.check_all(client, common, &sources)?;
            return sources.iter().try_for_each(|source| self.take_source(client, common, source, runs));
        }
        // A snapshot: the caller's list may change while this waits for room.
        let snapshot = snapshot(records, all)?;
        let items = snapshot.as_slice();
        if items.iter().all(|item| item.is_exact_instance_of::<PyBytes>() || item.is_none()) {
            let values = Values(items);
            self.check_all(client, common, std::slice::from_ref(&values))?;
            return self.take_source(client, common, &values, runs);
        }
        let headers = items.iter().enumerate().map(|(index, item)| headers_of(item, common.topic, index));
        let headers = headers.collect::<PyResult<Vec<_>>>()?;
        let checked = items.iter().zip(&headers).enumerate();
        let checked = checked.map(|(index, (item, headers))| check(item, headers.as_ref(), common.topic, index));
        let checked = checked.collect::<PyResult<Vec<_>>>()?;
        self.check_all(client, common, std::slice::from_ref(&checked))?;
        self.take_source(client, common, &checked, runs)
    }

    /// What no request or partition can take is found before anything is appended.
    fn check_all<S: Source>(&self, client: &ClientProducer, common: &Common<'_, '_>, sources: &[S]) -> PyResult<()> {
        let mut highest = None;
        for source in sources {
            highest = highest.max(check_sizes(client, common, source)?);
        }
        let Some(partition) = highest.filter(|_| common.partition.is_none()) else { return Ok(()) };
        let mut waiting = Waiting::new(client, self.max_block);
        loop {
            let known = client.accumulator().partitions(common.id);
            let refused = match known {
                None => Refused::NoMetadata,
                Some(Err(error)) => Refused::Topic(error),
                Some(Ok(count)) if u32::try_from(partition).is_ok_and(|partition| partition < count) => return Ok(()),
                Some(Ok(count)) => Refused::NoPartition { partition, count },
            };
            waiting.pass(common.topic, common.id, refused)?;
        }
    }

    fn take_source<S: Source>(
        &self,
        client: &ClientProducer,
        common: &Common<'_, '_>,
        source: &S,
        runs: &mut Runs,
    ) -> PyResult<()> {
        let py = common.topic.py();
        let chosen = self.choose_all(client, common, source)?;
        let now = client.stamp().millis;
        let mut waiting = Waiting::new(client, self.max_block);
        let (mut next, mut turn) = (0, TURN);
        while next < source.len() {
            let (mut wake, mut refused) = (Wake::No, None);
            let until = source.len().min(next + CHUNK);
            let instant = client.now();
            let mut accumulator = client.accumulator();
            // A full batch ends the chunk: the network thread can send it while the next one fills.
            while next < until && refused.is_none() && wake != Wake::Full {
                source.lend(next, |record, own| {
                    let own_time = Some(record.timestamp).filter(|time| *time != NO_TIME);
                    let timestamp = common.timestamp.or(own_time).unwrap_or(now);
                    let record = NewRecord { timestamp, key: record.key.or(common.key), ..record };
                    let partition = common.partition.or(own).or_else(|| chosen.get(next).copied());
                    match accumulator.append(instant, common.id, partition, &record) {
                        Ok(appended) => {
                            runs.push(appended.receipt, appended.index);
                            if appended.wake != Wake::No {
                                wake = appended.wake;
                            }
                        }
                        Err(error) => refused = Some(error),
                    }
                });
                next += usize::from(refused.is_none());
            }
            drop(accumulator);
            Self::carry_on(py, client, wake);
            if let Some(refused) = refused {
                waiting.pass(common.topic, common.id, refused)?;
            }
            if next >= turn {
                turn = next + TURN;
                py.detach(|| {});
            }
        }
        Ok(())
    }

    /// Asks the user's function for each record that has no partition; empty if there is no such function.
    fn choose_all<S: Source>(
        &self,
        client: &ClientProducer,
        common: &Common<'_, '_>,
        source: &S,
    ) -> PyResult<Vec<i32>> {
        if self.partitioner.is_none() || common.partition.is_some() {
            return Ok(Vec::new());
        }
        let py = common.topic.py();
        let mut waiting = Waiting::new(client, self.max_block);
        let mut chosen = Vec::with_capacity(source.len());
        while chosen.len() < source.len() {
            let index = chosen.len();
            let own = source.lend(index, |record, own| {
                (own, record.key.or(common.key).map(|key| PyBytes::new(py, key).into_any()))
            });
            let (None, key) = own else {
                chosen.push(0); // its own goes first
                continue;
            };
            let going = Going { topic: common.topic, index: Some(index) };
            match self.choose(client, going, common.id, key.as_ref())? {
                Ok(partition) => chosen.push(partition.unwrap_or(0)),
                Err(refused) => waiting.pass(common.topic, common.id, refused)?,
            }
        }
        Ok(chosen)
    }
}

/// Refuses what is too large for any request. Returns the highest partition that a record names for itself.
fn check_sizes<S: Source>(client: &ClientProducer, common: &Common<'_, '_>, source: &S) -> PyResult<Option<i32>> {
    let common_key = common.key.map_or(0, <[u8]>::len);
    let limit = client.accumulator().longest();
    let mut highest = None;
    for index in 0..source.len() {
        let fits = source.lend(index, |record, own| {
            highest = highest.max(own);
            let length = |field: Option<&[u8]>| field.map_or(0, <[u8]>::len);
            let headers = record.headers.iter().map(|header| header.key.len() + length(header.value) + HEADER_SPARE);
            let key = record.key.map_or(common_key, <[u8]>::len);
            // Most are so much smaller that nobody has to count exactly.
            if key + length(record.value) + headers.sum::<usize>() + RECORD_SPARE <= limit {
                return Ok(());
            }
            client.accumulator().fits(&NewRecord { key: record.key.or(common.key), ..record }).map(drop)
        });
        if let Err(refused) = fits {
            return Err(errors::client(client.refusal(&common.topic.to_string(), refused)));
        }
    }
    Ok(highest)
}

/// What is given for all records of a call.
pub(super) fn common<'a, 'py>(
    client: &ClientProducer,
    this: &Producer,
    topic: &'a Bound<'py, PyAny>,
    key: &'a Field<'_>,
    given_partition: Option<&Bound<'py, PyAny>>,
    given_timestamp: Option<&Bound<'py, PyAny>>,
) -> PyResult<Common<'a, 'py>> {
    let going = Going { topic, index: None };
    Ok(Common {
        topic,
        id: this.topics.id(client, topic)?,
        partition: given_partition.map(|given| partition(given, going)).transpose()?,
        key: key.get(),
        timestamp: given_timestamp.map(|given| timestamp(given, going)).transpose()?,
    })
}
