//! Rows whose payload a function turns into a record of one topic, with the key of the row: a whole job without a
//! message object, or a Python frame of ours, for each record.

use grete_client::JobToken;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::consumer::message::Message;
use crate::consumer::messages::Messages;
use crate::ffi::cpython;
use crate::producer::Producer;

/// Destination of the results of one job.
pub(super) struct Publication<'a, 'py> {
    pub(super) token: &'a JobToken,
    pub(super) messages: &'a Bound<'py, Messages>,
    pub(super) producer: &'a Bound<'py, Producer>,
    /// Name of the topic.
    pub(super) topic: &'a Bound<'py, PyAny>,
    /// Class of results that are one value each.
    pub(super) class: &'a Bound<'py, PyType>,
    /// Encodes an object of this class.
    pub(super) encode: &'a Bound<'py, PyAny>,
    /// Called with any other result and the message; and with a result that cannot be encoded, to raise its error.
    pub(super) otherwise: &'a Bound<'py, PyAny>,
}

impl<'py> Publication<'_, 'py> {
    /// Takes the record for the result of a row. Returns None, or what `otherwise` returns.
    pub(super) fn publish(&self, row: u32, result: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = result.py();
        if result.is_none() {
            return Ok(result);
        }
        if std::ptr::eq(result.get_type_ptr(), self.class.as_type_ptr()) {
            match cpython::call_one_arg(self.encode, &result) {
                Ok(value) => {
                    self.append(row, &value)?;
                    return Ok(py.None().into_bound(py));
                }
                Err(error) if !error.is_instance_of::<PyException>(py) => return Err(error),
                Err(_) => {}
            }
        }
        self.otherwise.call1((result, Message::new(self.messages, row)?))
    }

    fn append(&self, row: u32, value: &Bound<'py, PyAny>) -> PyResult<()> {
        let messages = self.messages.get();
        let key = messages.job_batch().columns().key(row as usize);
        if self.token.is_exactly_once() {
            return Producer::stage_keyed(self.producer, self.token, self.topic, value, key);
        }
        let (receipt, index) = Producer::append_keyed(self.producer, self.topic, value, key)?;
        self.token.produced(&receipt, index, 1, Some(messages.offset_at(row as usize)));
        Ok(())
    }
}
