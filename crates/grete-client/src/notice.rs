//! Things worth a log line that happen on a thread which cannot log.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// The descriptor is readable. Lets a look at an empty queue cost no system call.
    signalled: AtomicBool,
    event: EventFd,
}

impl Notices {
    pub(crate) fn new(event: EventFd) -> Self {
        Self { queue: Mutex::default(), signalled: AtomicBool::new(false), event }
    }

    pub(crate) fn push(&self, notices: impl IntoIterator<Item = Notice>) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        for notice in notices {
            if queue.len() == KEEP {
                queue.pop_front();
            }
            queue.push_back(notice);
        }
        self.signal();
    }

    /// Makes the descriptor readable, if it is not, though nothing may wait (a fatal error).
    pub(crate) fn signal(&self) {
        if !self.signalled.swap(true, Ordering::AcqRel) {
            self.event.signal();
        }
    }

    /// A signal between the swap and the clear belongs to a notice that is in the queue already or waits for its lock; a
    /// signal before the swap is cleared here, and what it stands for is taken below.
    pub(crate) fn take(&self) -> Vec<Notice> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if self.signalled.load(Ordering::Acquire) {
            self.event.clear();
            self.signalled.store(false, Ordering::Release);
        }
        queue.drain(..).collect()
    }

    pub(crate) fn event(&self) -> &EventFd {
        &self.event
    }
}
