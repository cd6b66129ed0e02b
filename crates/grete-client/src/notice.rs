//! Things worth a log line that happen on a thread which cannot log.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use grete_net::EventFd;

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For those who look closely.
    Debug,
    /// Good to know.
    Info,
    /// Somebody should know.
    Warning,
    /// Somebody should act.
    Error,
}

/// One event.
#[derive(Debug, Clone)]
pub struct Notice {
    /// How much it matters.
    pub level: Level,
    /// What happened, in Kafka's terms, dotted: `broker.disconnected`.
    pub name: &'static str,
    /// For people.
    pub message: String,
    /// For machines.
    pub fields: Vec<(&'static str, String)>,
}

/// Notices kept until somebody takes them; beyond this the oldest go.
const KEEP: usize = 10_000;

/// A bounded queue with a descriptor that is readable while something waits.
#[derive(Debug)]
pub(crate) struct Notices {
    queue: Mutex<VecDeque<Notice>>,
    event: EventFd,
}

impl Notices {
    pub(crate) fn new(event: EventFd) -> Self {
        Self { queue: Mutex::default(), event }
    }

    pub(crate) fn push(&self, notices: impl IntoIterator<Item = Notice>) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let before = queue.len();
        for notice in notices {
            if queue.len() == KEEP {
                queue.pop_front();
            }
            queue.push_back(notice);
        }
        if before == 0 && !queue.is_empty() {
            self.event.signal();
        }
    }

    /// Makes the descriptor readable though nothing waits (a fatal error).
    pub(crate) fn signal(&self) {
        self.event.signal();
    }

    pub(crate) fn take(&self) -> Vec<Notice> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        self.event.clear();
        queue.drain(..).collect()
    }

    pub(crate) fn event(&self) -> &EventFd {
        &self.event
    }
}
