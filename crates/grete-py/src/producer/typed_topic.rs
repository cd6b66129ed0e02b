//! Topics that are declared with types: `grete.Topic` encodes keys and values.

use pyo3::exceptions::PyAttributeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::produce_args::ProduceArgs;
use crate::consumer::messages::Messages;
use crate::errors;

/// Arguments of `produce`, encoded.
pub(super) struct Encoded<'a, 'py> {
    given: &'a ProduceArgs<'a, 'py>,
    name: Bound<'py, PyString>,
    value: Bound<'py, PyAny>,
    key: Option<Bound<'py, PyAny>>,
    headers: Option<Bound<'py, PyAny>>,
}

impl<'py> Encoded<'_, 'py> {
    pub(super) fn lend<R>(&self, then: impl FnOnce(&ProduceArgs<'_, 'py>) -> PyResult<R>) -> PyResult<R> {
        then(&ProduceArgs {
            topic: self.name.as_any(),
            value: &self.value,
            key: self.key.as_ref(),
            headers: self.headers.as_ref(),
            partition: self.given.partition,
            timestamp: self.given.timestamp,
        })
    }
}

/// Encodes the arguments of `produce` by the topic. Raises `EncodeError`, or `RecordTypeError` if the topic is none.
#[cold]
pub(super) fn encode<'a, 'py>(given: &'a ProduceArgs<'a, 'py>) -> PyResult<Encoded<'a, 'py>> {
    let topic = given.topic;
    let encode = method(topic, intern!(topic.py(), "encode"))?;
    let (name, value, key, headers) =
        encode.call1((given.value, given.key, given.headers))?.extract::<(_, _, Option<_>, Option<_>)>()?;
    Ok(Encoded { given, name, value, key, headers })
}

/// Arguments of `produce_many`, encoded.
pub(super) struct EncodedMany<'py> {
    pub(super) name: Bound<'py, PyAny>,
    pub(super) records: Bound<'py, PyAny>,
    pub(super) key: Option<Bound<'py, PyAny>>,
    pub(super) keys: Option<Bound<'py, PyAny>>,
}

/// Encodes the arguments of `produce_many` by the topic. Records that were read, and Arrow columns, stay as they are.
#[cold]
pub(super) fn encode_many<'py>(
    topic: &Bound<'py, PyAny>,
    records: &Bound<'py, PyAny>,
    key: Option<&Bound<'py, PyAny>>,
    keys: Option<&Bound<'py, PyAny>>,
) -> PyResult<EncodedMany<'py>> {
    let py = topic.py();
    let encode = method(topic, intern!(py, "encode_many"))?;
    let is_encoded = records.is_instance_of::<Messages>()
        || records.hasattr(intern!(py, "__arrow_c_array__"))?
        || records.hasattr(intern!(py, "__arrow_c_stream__"))?;
    let (name, records) = match is_encoded {
        true => (topic.getattr(intern!(py, "name"))?, records.clone()),
        false => encode.call1((records,))?.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>()?,
    };
    Ok(EncodedMany {
        name: name.cast_into::<PyString>()?.into_any(),
        records,
        key: key.map(|key| topic.call_method1(intern!(py, "encode_key"), (key,))).transpose()?,
        keys: keys.map(|keys| topic.call_method1(intern!(py, "encode_keys"), (keys,))).transpose()?,
    })
}

fn method<'py>(topic: &Bound<'py, PyAny>, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
    topic.getattr(name).map_err(|error| {
        if !error.is_instance_of::<PyAttributeError>(topic.py()) {
            return error;
        }
        let is = topic.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        errors::record_type(&format!("a topic is a str or a grete.Topic, not {is}"), &topic.to_string(), None)
    })
}
