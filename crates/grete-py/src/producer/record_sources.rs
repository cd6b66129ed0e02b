//! Sources of many records, checked as a whole and lent one by one.

use grete_arrow::ImportedRecords;
use grete_wire::records::{ProducerHeader, ProducerRecord};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use super::bytes_arg::{BytesArg, RecordRef, parse_timestamp};
use super::headers::{BorrowedHeaders, Headers};
use crate::consumer::messages::Messages;
use crate::ffi::buffers::Contiguous;

/// Source of checked records.
pub(super) trait RecordSource {
    fn len(&self) -> usize;

    /// Lends a record and its own partition, if it has one. The record's timestamp is `NO_TIMESTAMP` if it has none of
    /// its own.
    fn with_record<R>(&self, index: usize, then: impl FnOnce(ProducerRecord<'_>, Option<i32>) -> R) -> R;
}

/// Sentinel for a record without a timestamp.
pub(super) const NO_TIMESTAMP: i64 = -1;

/// Values that are exact bytes objects or None.
pub(super) struct BytesValues<'a, 'py>(pub(super) &'a [Bound<'py, PyAny>]);

impl RecordSource for BytesValues<'_, '_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn with_record<R>(&self, index: usize, then: impl FnOnce(ProducerRecord<'_>, Option<i32>) -> R) -> R {
        let value =
            self.0.get(index).and_then(|value| value.cast_exact::<PyBytes>().ok()).map(|value| value.as_bytes());
        then(ProducerRecord { timestamp: NO_TIMESTAMP, key: None, value, headers: &[] }, None)
    }
}

/// Record from any other Python value.
pub(super) struct CheckedRecord<'a> {
    value: BytesArg<'a>,
    key: BytesArg<'a>,
    headers: Option<BorrowedHeaders<'a>>,
    timestamp: i64,
    partition: Option<i32>,
}

impl RecordSource for Vec<CheckedRecord<'_>> {
    fn len(&self) -> usize {
        self.as_slice().len()
    }

    fn with_record<R>(&self, index: usize, then: impl FnOnce(ProducerRecord<'_>, Option<i32>) -> R) -> R {
        let Some(checked) = self.get(index) else { return then(ProducerRecord::default(), None) };
        let headers = checked.headers.as_ref().map(BorrowedHeaders::as_wire).unwrap_or_default();
        let (key, value) = (checked.key.get(), checked.value.get());
        then(ProducerRecord { timestamp: checked.timestamp, key, value, headers: &headers }, checked.partition)
    }
}

/// Records that were read from Kafka.
pub(super) struct KafkaRows<'a>(pub(super) &'a Messages);

impl RecordSource for KafkaRows<'_> {
    fn len(&self) -> usize {
        self.0.range().len()
    }

    fn with_record<R>(&self, index: usize, then: impl FnOnce(ProducerRecord<'_>, Option<i32>) -> R) -> R {
        let (columns, row) = (self.0.columns(), self.0.range().start + index);
        let pairs = columns.headers(row).filter_map(Result::ok);
        let headers: Vec<ProducerHeader<'_>> = pairs
            .filter_map(|(key, value)| std::str::from_utf8(key).ok().map(|key| ProducerHeader { key, value }))
            .collect();
        let timestamp = columns.timestamps.get(row).copied().unwrap_or(NO_TIMESTAMP);
        let (key, value) = (columns.key(row), columns.value(row));
        then(ProducerRecord { timestamp, key, value, headers: &headers }, None)
    }
}

/// Records of an Arrow array.
pub(super) struct ArrowRows<'a>(pub(super) ImportedRecords<'a>);

impl RecordSource for ArrowRows<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn with_record<R>(&self, index: usize, then: impl FnOnce(ProducerRecord<'_>, Option<i32>) -> R) -> R {
        let rows = &self.0;
        let mut headers = Vec::new();
        if let Some(column) = &rows.headers {
            let text = |name: Option<_>| name.and_then(|name| std::str::from_utf8(name).ok());
            headers.extend(
                column.get(index).filter_map(|(name, value)| text(name).map(|key| ProducerHeader { key, value })),
            );
        }
        let timestamp = rows.timestamp.as_ref().and_then(|column| column.get(index)).unwrap_or(NO_TIMESTAMP);
        let partition = rows.partition.as_ref().and_then(|column| column.get(index));
        let partition = partition.map(|partition| i32::try_from(partition).unwrap_or(-1));
        let (key, value) = (rows.key.as_ref().and_then(|column| column.get(index)), rows.value.get(index));
        then(ProducerRecord { timestamp, key, value, headers: &headers }, partition)
    }
}

pub(super) fn to_tuple<'py>(records: &Bound<'py, PyAny>, going: RecordRef<'_, 'py>) -> PyResult<Bound<'py, PyTuple>> {
    if let Ok(list) = records.cast::<PyList>() {
        return Ok(list.to_tuple());
    }
    if let Ok(tuple) = records.cast::<PyTuple>() {
        return Ok(tuple.clone());
    }
    let one = records.is_instance_of::<PyString>() || records.is_instance_of::<PyDict>();
    if one || Contiguous::from_object(records)?.is_some() {
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

/// Returns the headers of a tuple that has some.
pub(super) fn parse_headers<'py>(
    item: &Bound<'py, PyAny>,
    topic: &Bound<'py, PyAny>,
    index: usize,
) -> PyResult<Option<Headers<'py>>> {
    let Ok(tuple) = item.cast::<PyTuple>() else { return Ok(None) };
    match tuple.as_slice() {
        [_, _, headers] | [_, _, headers, _] if !headers.is_none() => {
            Headers::from_object(headers, RecordRef { topic, index: Some(index) }).map(Some)
        }
        _ => Ok(None),
    }
}

pub(super) fn check_record<'a>(
    item: &'a Bound<'_, PyAny>,
    headers: Option<&'a Headers<'_>>,
    topic: &Bound<'_, PyAny>,
    index: usize,
) -> PyResult<CheckedRecord<'a>> {
    let going = RecordRef { topic, index: Some(index) };
    let headers = headers.map(|headers| headers.fields(going)).transpose()?;
    let plain = |key, value| CheckedRecord { value, key, headers: None, timestamp: NO_TIMESTAMP, partition: None };
    let Ok(tuple) = item.cast::<PyTuple>() else {
        return Ok(plain(BytesArg::Null, BytesArg::from_object(item, "value", going)?));
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
    let timestamp = time.map_or(Ok(NO_TIMESTAMP), |time| parse_timestamp(time, going))?;
    Ok(CheckedRecord {
        headers,
        timestamp,
        ..plain(BytesArg::from_object(key, "key", going)?, BytesArg::from_object(value, "value", going)?)
    })
}

/// Checks a value and its key.
pub(super) fn check_pair<'a>(
    value: &'a Bound<'_, PyAny>,
    key: &'a Bound<'_, PyAny>,
    going: RecordRef<'_, '_>,
) -> PyResult<CheckedRecord<'a>> {
    Ok(CheckedRecord {
        value: BytesArg::from_object(value, "value", going)?,
        key: BytesArg::from_object(key, "key", going)?,
        headers: None,
        timestamp: NO_TIMESTAMP,
        partition: None,
    })
}

/// Refuses timestamps and partitions that no record can have, before any record is appended.
pub(super) fn check_arrow_rows(rows: &[ImportedRecords<'_>], topic: &Bound<'_, PyAny>) -> PyResult<()> {
    let mut before = 0;
    for rows in rows {
        let first = before;
        before += rows.len();
        if rows.timestamp.is_none() && rows.partition.is_none() {
            continue;
        }
        for row in 0..rows.len() {
            let going = RecordRef { topic, index: Some(first + row) };
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
