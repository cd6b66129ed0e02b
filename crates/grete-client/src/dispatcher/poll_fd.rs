//! Descriptor for an event loop that polls a low-level consumer: readable when [`Dispatcher::next`] may find a job.
//!
//! The loop arms the descriptor, then looks for a job, and sleeps only if there is none. A lane that becomes ready after
//! the look was changed under the dispatcher's lock, after the descriptor was armed. So no wake-up is lost.

use std::sync::{OnceLock, PoisonError};

use grete_sys::EventFd;

use super::Dispatcher;
use crate::error::ClientError;

/// Descriptor, opened with the first use.
#[derive(Debug, Default)]
pub(super) struct PollFd {
    event_fd: OnceLock<EventFd>,
}

impl PollFd {
    /// Makes the descriptor readable, if there is one.
    pub(super) fn signal(&self) {
        if let Some(event_fd) = self.event_fd.get() {
            event_fd.signal();
        }
    }
}

impl Dispatcher {
    /// Arms the descriptor that becomes readable when a lane is ready for a thread, a log event waits, or a client has
    /// failed. Returns the descriptor.
    ///
    /// # Errors
    /// Fails if the system has no descriptor left, and in a forked child of the process that created the dispatcher.
    pub fn arm_poll_fd(&self) -> Result<i32, ClientError> {
        self.check_fork()?;
        let mut state = self.inner.state.lock().unwrap_or_else(PoisonError::into_inner);
        let place = &self.inner.poll_fd.event_fd;
        if place.get().is_none() {
            let event_fd = EventFd::new().map_err(|e| ClientError::os("opening an eventfd", &e))?;
            drop(place.set(event_fd)); // under the lock: no other thread has set it
        }
        state.poll_armed = true;
        let fd = place.get().map(|event_fd| {
            event_fd.clear();
            std::os::fd::AsRawFd::as_raw_fd(event_fd)
        });
        drop(state);
        // A failure or a log event before the clearing would be lost.
        if self.inner.log_events.has_pending() || self.fatal().is_some() {
            self.inner.poll_fd.signal();
        }
        fd.ok_or_else(|| ClientError::Invalid("the dispatcher has no descriptor to poll".to_owned()))
    }
}
