//! Messages one by one.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use pyo3::prelude::*;

use crate::message::Message;
use crate::messages::Messages;

/// Iterates over `Messages`.
// Frozen: borrowing it anew for each row would cost as much as the rest of a step. The GIL orders all accesses.
#[pyclass(frozen, module = "grete._core")]
pub(crate) struct MessagesIterator {
    messages: Py<Messages>,
    next: AtomicU32,
    end: u32,
    /// The end has been told.
    over: AtomicBool,
    /// Two messages that take turns. A loop still holds the last one when it asks for the next; the one before that comes
    /// again with another row, as long as nobody has kept it.
    turns: [OnceLock<Py<Message>>; 2],
}

impl MessagesIterator {
    pub(crate) fn new(messages: &Bound<'_, Messages>) -> Self {
        messages.get().shared().cursor.begin();
        let rows = messages.get().rows();
        Self {
            messages: messages.clone().unbind(),
            next: AtomicU32::new(rows.start),
            end: rows.end,
            over: AtomicBool::new(false),
            turns: Default::default(),
        }
    }
}

#[pymethods]
impl MessagesIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, Message>>> {
        let messages = self.messages.bind(py);
        let cursor = &messages.get().shared().cursor;
        let row = self.next.load(Ordering::Relaxed);
        if row >= self.end {
            if !self.over.swap(true, Ordering::Relaxed) {
                cursor.end();
            }
            return Ok(None);
        }
        self.next.store(row + 1, Ordering::Relaxed);
        cursor.at(row);
        let [even, odd] = &self.turns;
        let turn = if row.is_multiple_of(2) { even } else { odd };
        if let Some(message) = turn.get() {
            return Message::next(message.bind(py), row).map(Some);
        }
        let message = Message::new(messages, row)?;
        // Nobody else can have been faster: the GIL was held all the time. If so, the message is only not used again.
        let _ = turn.set(message.clone().unbind());
        Ok(Some(message))
    }

    fn __length_hint__(&self) -> usize {
        self.end.saturating_sub(self.next.load(Ordering::Relaxed)) as usize
    }
}

impl Drop for MessagesIterator {
    fn drop(&mut self) {
        let (next, over) = (*self.next.get_mut(), *self.over.get_mut());
        let begun = next > self.messages.get().rows().start;
        if begun && !over {
            // A frozen class is looked at without the GIL; whoever drops the last reference holds it.
            Python::try_attach(|py| self.messages.get().shared().cursor.leave(py, next - 1));
        }
    }
}
