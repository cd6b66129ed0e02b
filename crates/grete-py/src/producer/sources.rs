//! What many records can come from, checked as a whole and lent one by one.

use grete_columns::NewRows;
use grete_wire::records::{NewHeader, NewRecord};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use super::field::{Field, Going, timestamp};
use super::headers::{HeaderFields, Headers};
use crate::buffers::Contiguous;
use crate::messages::Messages;

/// Checked records.
pub(super) trait Source {
    fn len(&self) -> usize;

    /// Lends a record, its own partition, and whether it has a time of its own.
    fn lend<R>(&self, index: usize, then: impl FnOnce(NewRecord<'_>, Option<i32>) -> R) -> R;
}

/// A timestamp that is not there.
pub(super) const NO_TIME: i64 = -1;

/// Exact bytes objects and None.
pub(super) struct Values<'a, 'py>(pub(super) &'a [Bound<'py, PyAny>]);

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
pub(super) struct Checked<'a> {
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
pub(super) struct Read<'a>(pub(super) &'a Messages);

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
pub(super) struct Rows<'a>(pub(super) NewRows<'a>);

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

pub(super) fn snapshot<'py>(records: &Bound<'py, PyAny>, going: Going<'_, 'py>) -> PyResult<Bound<'py, PyTuple>> {
    if let Ok(list) = records.cast::<PyList>() {
        return Ok(list.to_tuple());
    }
    if let Ok(tuple) = records.cast::<PyTuple>() {
        return Ok(tuple.clone());
    }
    let one = records.is_instance_of::<PyString>() || records.is_instance_of::<PyDict>();
    if one || Contiguous::of(records)?.is_some() {
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
pub(super) fn headers_of<'py>(
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

pub(super) fn check<'a>(
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

/// Numbers that no record can have are found before anything is appended.
pub(super) fn check_rows(rows: &[NewRows<'_>], topic: &Bound<'_, PyAny>) -> PyResult<()> {
    let mut before = 0;
    for rows in rows {
        let first = before;
        before += rows.len();
        if rows.timestamp.is_none() && rows.partition.is_none() {
            continue;
        }
        for row in 0..rows.len() {
            let going = Going { topic, index: Some(first + row) };
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
