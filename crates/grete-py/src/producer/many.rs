//! Many records at once: all are checked, then they are appended in a few goes under the accumulator's lock.

use grete_client::Producer as ClientProducer;
use grete_client::produce::{TopicId, Wake};
use grete_columns::{Imported, NewRows};
use grete_wire::records::{NewHeader, NewRecord};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use super::arrow;
use super::deliveries::{Deliveries, Runs};
use super::field::{Field, Going, partition, timestamp};
use super::headers::{HeaderFields, Headers};
use super::{Producer, Waiting};
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

/// Checked records.
trait Source {
    fn len(&self) -> usize;

    /// Lends a record, its own partition, and whether it has a time of its own.
    fn lend<R>(&self, index: usize, then: impl FnOnce(NewRecord<'_>, Option<i32>) -> R) -> R;
}

/// A timestamp that is not there.
const NO_TIME: i64 = -1;

/// Exact bytes objects and None.
struct Values<'a, 'py>(&'a [Bound<'py, PyAny>]);

impl Source for Values<'_, '_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn lend<R>(&self, index: usize, then: impl FnOnce(NewRecord<'_>, Option<i32>) -> R) -> R {
        let value =
            self.0.get(index).and_then(|value| value.cast_exact::<PyBytes>().ok()).map(|value| value.as_bytes());
        then(NewRecord { timestamp: NO_TIME, key: None, value, headers: &[] }, None)
    }
}

/// Anything else that Python gives.
struct Checked<'a> {
    value: Field<'a>,
    key: Field<'a>,
    headers: Option<HeaderFields<'a>>,
    timestamp: i64,
    partition: Option<i32>,
}

impl Source for Vec<Checked<'_>> {
    fn len(&self) -> usize {
        self.as_slice().len()
    }

    fn lend<R>(&self, index: usize, then: impl FnOnce(NewRecord<'_>, Option<i32>) -> R) -> R {
        let Some(checked) = self.get(index) else { return then(NewRecord::default(), None) };
        let headers = checked.headers.as_ref().map(HeaderFields::as_wire).unwrap_or_default();
        let (key, value) = (checked.key.get(), checked.value.get());
        then(NewRecord { timestamp: checked.timestamp, key, value, headers: &headers }, checked.partition)
    }
}

/// Rows that were read from Kafka.
struct Read<'a>(&'a Messages);

impl Source for Read<'_> {
    fn len(&self) -> usize {
        self.0.range().len()
    }

    fn lend<R>(&self, index: usize, then: impl FnOnce(NewRecord<'_>, Option<i32>) -> R) -> R {
        let (columns, row) = (self.0.columns(), self.0.range().start + index);
        let pairs = columns.headers(row).filter_map(Result::ok);
        let headers: Vec<NewHeader<'_>> = pairs
            .filter_map(|(key, value)| std::str::from_utf8(key).ok().map(|key| NewHeader { key, value }))
            .collect();
        let timestamp = columns.timestamps.get(row).copied().unwrap_or(NO_TIME);
        let (key, value) = (columns.key(row), columns.value(row));
        then(NewRecord { timestamp, key, value, headers: &headers }, None)
    }
}

/// Rows of an Arrow array.
struct Rows<'a>(NewRows<'a>);

impl Source for Rows<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn lend<R>(&self, index: usize, then: impl FnOnce(NewRecord<'_>, Option<i32>) -> R) -> R {
        let rows = &self.0;
        let mut headers = Vec::new();
        if let Some(column) = &rows.headers {
            let text = |name: Option<_>| name.and_then(|name| std::str::from_utf8(name).ok());
            headers
                .extend(column.get(index).filter_map(|(name, value)| text(name).map(|key| NewHeader { key, value })));
        }
        let timestamp = rows.timestamp.as_ref().and_then(|column| column.get(index)).unwrap_or(NO_TIME);
        let partition = rows.partition.as_ref().and_then(|column| column.get(index));
        let partition = partition.map(|partition| i32::try_from(partition).unwrap_or(-1));
        let (key, value) = (rows.key.as_ref().and_then(|column| column.get(index)), rows.value.get(index));
        then(NewRecord { timestamp, key, value, headers: &headers }, partition)
    }
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
            check_sizes(client, common, &source)?;
            return self.take_source(client, common, &source, runs);
        }
        if let Some(arrays) = arrow::arrays(records, all)? {
            let rows = arrays.iter().map(Imported::rows).collect::<Result<Vec<_>, _>>();
            let rows = rows.map_err(|error| arrow::refused(&error, all))?;
            check_rows(&rows, common)?;
            let sources: Vec<_> = rows.into_iter().map(Rows).collect();
            sources.iter().try_for_each(|source| check_sizes(client, common, source))?;
            return sources.iter().try_for_each(|source| self.take_source(client, common, source, runs));
        }
        // A snapshot: the caller's list may change while this waits for room.
        let snapshot = snapshot(records, all)?;
        let items = snapshot.as_slice();
        if items.iter().all(|item| item.is_exact_instance_of::<PyBytes>() || item.is_none()) {
            check_sizes(client, common, &Values(items))?;
            return self.take_source(client, common, &Values(items), runs);
        }
        let headers = items.iter().enumerate().map(|(index, item)| headers_of(item, common.topic, index));
        let headers = headers.collect::<PyResult<Vec<_>>>()?;
        let checked = items.iter().zip(&headers).enumerate();
        let checked = checked.map(|(index, (item, headers))| check(item, headers.as_ref(), common.topic, index));
        let checked = checked.collect::<PyResult<Vec<_>>>()?;
        check_sizes(client, common, &checked)?;
        self.take_source(client, common, &checked, runs)
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

fn snapshot<'py>(records: &Bound<'py, PyAny>, going: Going<'_, 'py>) -> PyResult<Bound<'py, PyTuple>> {
    if let Ok(list) = records.cast::<PyList>() {
        return Ok(list.to_tuple());
    }
    if let Ok(tuple) = records.cast::<PyTuple>() {
        return Ok(tuple.clone());
    }
    let one = records.is_instance_of::<PyString>() || records.is_instance_of::<PyDict>();
    if one || crate::buffers::Contiguous::of(records)?.is_some() {
        let is = records.get_type().name()?;
        return Err(going.type_error(&format!("produce_many takes a sequence of records, not one {is}: give [value]")));
    }
    match records.try_iter() {
        Ok(records) => PyTuple::new(going.topic.py(), records.collect::<PyResult<Vec<_>>>()?),
        Err(_) => {
            let is = records.get_type().name()?;
            Err(going.type_error(&format!(
                "produce_many takes a sequence of values or tuples, grete.Messages, or an Arrow table, not {is}"
            )))
        }
    }
}

/// The headers of a tuple that has some.
fn headers_of<'py>(
    item: &Bound<'py, PyAny>,
    topic: &Bound<'py, PyAny>,
    index: usize,
) -> PyResult<Option<Headers<'py>>> {
    let Ok(tuple) = item.cast::<PyTuple>() else { return Ok(None) };
    match tuple.as_slice() {
        [_, _, headers] | [_, _, headers, _] if !headers.is_none() => {
            Headers::of(headers, Going { topic, index: Some(index) }).map(Some)
        }
        _ => Ok(None),
    }
}

fn check<'a>(
    item: &'a Bound<'_, PyAny>,
    headers: Option<&'a Headers<'_>>,
    topic: &Bound<'_, PyAny>,
    index: usize,
) -> PyResult<Checked<'a>> {
    let going = Going { topic, index: Some(index) };
    let headers = headers.map(|headers| headers.fields(going)).transpose()?;
    let plain = |key, value| Checked { value, key, headers: None, timestamp: NO_TIME, partition: None };
    let Ok(tuple) = item.cast::<PyTuple>() else {
        return Ok(plain(Field::Null, Field::of(item, "value", going)?));
    };
    let (key, value, time) = match tuple.as_slice() {
        [key, value] | [key, value, _] => (key, value, None),
        [key, value, _, time] => (key, value, Some(time).filter(|time| !time.is_none())),
        other => {
            return Err(going.type_error(&format!(
                "it is a tuple of {}; give (key, value), (key, value, headers) or (key, value, headers, timestamp)",
                other.len()
            )));
        }
    };
    let timestamp = time.map_or(Ok(NO_TIME), |time| timestamp(time, going))?;
    Ok(Checked { headers, timestamp, ..plain(Field::of(key, "key", going)?, Field::of(value, "value", going)?) })
}

/// What is too large for any request is found before anything is appended.
fn check_sizes<S: Source>(client: &ClientProducer, common: &Common<'_, '_>, source: &S) -> PyResult<()> {
    let common_key = common.key.map_or(0, <[u8]>::len);
    let limit = client.accumulator().longest();
    for index in 0..source.len() {
        let fits = source.lend(index, |record, _| {
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
    Ok(())
}

/// Numbers that no record can have are found before anything is appended.
fn check_rows(rows: &[NewRows<'_>], common: &Common<'_, '_>) -> PyResult<()> {
    let mut before = 0;
    for rows in rows {
        let first = before;
        before += rows.len();
        if rows.timestamp.is_none() && rows.partition.is_none() {
            continue;
        }
        for row in 0..rows.len() {
            let going = Going { topic: common.topic, index: Some(first + row) };
            let timestamp = rows.timestamp.as_ref().and_then(|column| column.get(row));
            if let Some(time) = timestamp.filter(|time| *time < 0) {
                return Err(going.type_error(&format!("its timestamp is milliseconds since 1970, not {time}")));
            }
            let partition = rows.partition.as_ref().and_then(|column| column.get(row));
            if let Some(wrong) = partition.filter(|partition| !(0..=i64::from(i32::MAX)).contains(partition)) {
                return Err(going.type_error(&format!("its partition is a number from 0 to {}, not {wrong}", i32::MAX)));
            }
        }
    }
    Ok(())
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
