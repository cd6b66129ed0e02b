//! Keys, values, partitions and timestamps from Python.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt, PyString};

use crate::errors;
use crate::ffi::buffers::Contiguous;

/// Identification of a record in error messages: its topic, and its index among several.
#[derive(Clone, Copy)]
pub(in crate::producer) struct RecordRef<'a, 'py> {
    pub(in crate::producer) topic: &'a Bound<'py, PyAny>,
    pub(in crate::producer) index: Option<usize>,
}

impl RecordRef<'_, '_> {
    /// Makes a `RecordTypeError` that identifies the record.
    pub(in crate::producer) fn type_error(&self, what: &str) -> PyErr {
        let topic = self.topic.to_string();
        let message = match self.index {
            Some(index) => format!("record {index} for topic {topic:?}: {what}"),
            None => format!("a record for topic {topic:?}: {what}"),
        };
        errors::record_type(&message, &topic, self.index)
    }

    fn not_bytes_error(&self, what: &str, object: &Bound<'_, PyAny>) -> PyErr {
        let is = object.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        if object.is_instance_of::<PyString>() {
            return self.type_error(&format!("its {what} is a str; Kafka keeps bytes: give {what}.encode()"));
        }
        let none = if what == "value" { "None (a tombstone)" } else { "None" };
        self.type_error(&format!("its {what} is bytes, another bytes-like object, or {none}, not {is}"))
    }
}

/// Nullable bytes lent by Python.
pub(in crate::producer) enum BytesArg<'a> {
    Null,
    Bytes(&'a [u8]),
    Buffer(Contiguous),
}

impl<'a> BytesArg<'a> {
    /// Borrows the bytes. Exact `bytes` objects, by far the most common, skip the buffer protocol.
    #[inline]
    pub(in crate::producer) fn from_object(
        object: &'a Bound<'_, PyAny>,
        what: &str,
        going: RecordRef<'_, '_>,
    ) -> PyResult<Self> {
        if let Ok(bytes) = object.cast_exact::<PyBytes>() {
            return Ok(Self::Bytes(bytes.as_bytes()));
        }
        if object.is_none() {
            return Ok(Self::Null);
        }
        Self::from_buffer(object, what, going)
    }

    #[cold]
    fn from_buffer(object: &'a Bound<'_, PyAny>, what: &str, going: RecordRef<'_, '_>) -> PyResult<Self> {
        match Contiguous::from_object(object)? {
            Some(buffer) => Ok(Self::Buffer(buffer)),
            None => Err(going.not_bytes_error(what, object)),
        }
    }

    #[inline]
    pub(in crate::producer) fn get(&self) -> Option<&[u8]> {
        match self {
            Self::Null => None,
            Self::Bytes(bytes) => Some(bytes),
            Self::Buffer(buffer) => Some(buffer.bytes()),
        }
    }
}

/// Returns the number of a partition.
pub(in crate::producer) fn parse_partition(object: &Bound<'_, PyAny>, going: RecordRef<'_, '_>) -> PyResult<i32> {
    if !object.is_instance_of::<PyInt>() || object.is_instance_of::<PyBool>() {
        return Err(going.type_error(&format!("its partition is an int or None, not {}", object.get_type().name()?)));
    }
    match object.extract::<i32>() {
        Ok(partition) if partition >= 0 => Ok(partition),
        _ => Err(going.type_error(&format!("its partition is a number from 0 to {}, not {object}", i32::MAX))),
    }
}

/// Returns a record's timestamp in milliseconds since 1970 UTC, from an int or a datetime (a naive one is local time,
/// the Python convention).
pub(in crate::producer) fn parse_timestamp(object: &Bound<'_, PyAny>, going: RecordRef<'_, '_>) -> PyResult<i64> {
    if object.is_instance_of::<PyInt>() && !object.is_instance_of::<PyBool>() {
        return match object.extract::<i64>() {
            Ok(millis) if millis >= 0 => Ok(millis),
            _ => Err(going.type_error(&format!("its timestamp is milliseconds since 1970, not {object}"))),
        };
    }
    if let Ok(seconds) = object.call_method0("timestamp") {
        let millis = (seconds.extract::<f64>()? * 1000.0).round();
        if (0.0..9e18).contains(&millis) {
            return Ok(millis as i64);
        }
        return Err(going.type_error(&format!("its timestamp {object} is before 1970")));
    }
    let is = object.get_type().name()?;
    Err(going.type_error(&format!("its timestamp is an int (milliseconds since 1970) or a datetime, not {is}")))
}
