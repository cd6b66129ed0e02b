//! The arguments of a call that takes one record, checked and lent in the wire's terms; and the waiting for room.

use std::time::Duration;

use grete_client::produce::{Refused, TopicId};
use grete_client::{Deadline, Producer as ClientProducer, Slept};
use grete_wire::records::NewRecord;
use pyo3::prelude::*;

use super::field::{Field, Going, partition, timestamp};
use super::headers::Headers;
use crate::errors;

/// Where a record is going.
pub(super) struct Destination<'a, 'py> {
    pub(super) topic: &'a Bound<'py, PyAny>,
    pub(super) id: TopicId,
    pub(super) key: Option<&'a Bound<'py, PyAny>>,
    pub(super) partition: Option<i32>,
}

/// The arguments of `produce`.
pub(super) struct Given<'a, 'py> {
    pub(super) topic: &'a Bound<'py, PyAny>,
    pub(super) value: &'a Bound<'py, PyAny>,
    pub(super) key: Option<&'a Bound<'py, PyAny>>,
    pub(super) headers: Option<&'a Bound<'py, PyAny>>,
    pub(super) partition: Option<&'a Bound<'py, PyAny>>,
    pub(super) timestamp: Option<&'a Bound<'py, PyAny>>,
}

impl<'py> Given<'_, 'py> {
    /// Checks everything, then lends it in the wire's terms: the record, and whether its time is now.
    #[inline]
    pub(super) fn with_record<R>(
        &self,
        id: TopicId,
        then: impl FnOnce(&Destination<'_, 'py>, &mut NewRecord<'_>, bool) -> PyResult<R>,
    ) -> PyResult<R> {
        let going = Going { topic: self.topic, index: None };
        let value = Field::of(self.value, "value", going)?;
        let key = match self.key {
            Some(key) => Field::of(key, "key", going)?,
            None => Field::Null,
        };
        let partition = self.partition.map(|given| partition(given, going)).transpose()?;
        let timestamp = self.timestamp.map(|given| timestamp(given, going)).transpose()?;
        let destination = Destination { topic: self.topic, id, key: self.key, partition };
        let mut record =
            NewRecord { timestamp: timestamp.unwrap_or(-1), key: key.get(), value: value.get(), headers: &[] };
        let Some(headers) = self.headers else { return then(&destination, &mut record, timestamp.is_none()) };
        let headers = Headers::of(headers, going)?;
        let fields = headers.fields(going)?;
        let wire = fields.as_wire();
        then(&destination, &mut NewRecord { headers: &wire, ..record }, timestamp.is_none())
    }
}

/// Waits for what passes, up to one deadline.
pub(super) struct Waiting<'a> {
    client: &'a ClientProducer,
    max_block: Duration,
    deadline: Option<Deadline>,
}

impl<'a> Waiting<'a> {
    pub(super) fn new(client: &'a ClientProducer, max_block: Duration) -> Self {
        Self { client, max_block, deadline: None }
    }

    /// Returns when it is worth another try.
    #[cold]
    pub(super) fn pass(&mut self, topic: &Bound<'_, PyAny>, id: TopicId, refused: Refused) -> PyResult<()> {
        let py = topic.py();
        let name = topic.extract::<&str>()?;
        let refused = self.client.passing(name, refused).map_err(errors::client)?;
        let deadline = *self.deadline.get_or_insert_with(|| self.client.deadline(self.max_block));
        let slept = py.detach(|| self.client.await_passing((name, id), &refused, deadline));
        if slept.map_err(errors::client)? == Slept::Interrupted {
            py.check_signals()?;
        }
        Ok(())
    }
}
