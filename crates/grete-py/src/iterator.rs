//! Messages one by one.

use std::ops::Range;

use pyo3::prelude::*;

use crate::message::Message;
use crate::messages::Messages;

/// Iterates over `Messages`.
#[pyclass(module = "grete._core")]
pub(crate) struct MessagesIterator {
    messages: Py<Messages>,
    rows: Range<u32>,
    /// The end has been told.
    over: bool,
    /// The last two messages. A loop still holds the last one when it asks for the next; the one before that comes again
    /// with another row if nobody has kept it.
    kept: [Option<Py<Message>>; 2],
}

impl MessagesIterator {
    pub(crate) fn new(messages: &Bound<'_, Messages>) -> Self {
        messages.get().shared().cursor.begin();
        Self { rows: messages.get().rows(), over: false, kept: [None, None], messages: messages.clone().unbind() }
    }
}

#[pymethods]
impl MessagesIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, Message>>> {
        let messages = self.messages.bind(py);
        let cursor = &messages.get().shared().cursor;
        let Some(row) = self.rows.next() else {
            if !std::mem::replace(&mut self.over, true) {
                cursor.end();
            }
            return Ok(None);
        };
        cursor.at(row);
        let [older, newer] = &mut self.kept;
        std::mem::swap(older, newer);
        let message = match newer.take() {
            Some(message) => Message::next(message.into_bound(py), row)?,
            None => Message::new(messages, row)?,
        };
        *newer = Some(message.clone().unbind());
        Ok(Some(message))
    }

    fn __length_hint__(&self) -> usize {
        self.rows.len()
    }
}

impl Drop for MessagesIterator {
    fn drop(&mut self) {
        let begun = self.rows.start > self.messages.get().rows().start;
        if begun && !self.over {
            // A frozen class is looked at without the GIL; whoever drops the last reference holds it.
            Python::try_attach(|py| self.messages.get().shared().cursor.leave(py, self.rows.start - 1));
        }
    }
}
