//! A wait that always has a reason to end: what is watched hangs up, somebody says stop, or the time is up.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use crate::error::HealthError;
use crate::sys;

/// Why a wait has ended. The first that is true is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// [`Stop::stop`] was called.
    Stopped,
    /// Nobody reads at the other end any more.
    HungUp,
    /// What is watched is no descriptor any more, or waiting does not work.
    Lost,
    /// The deadline has come.
    Due,
}

/// Ends waits, from any thread.
#[derive(Debug)]
pub struct Stop {
    event: File,
}

impl Stop {
    /// Nobody has said stop.
    ///
    /// # Errors
    /// When the system has no descriptor to give.
    pub fn new() -> Result<Self, HealthError> {
        let event = sys::event().map_err(|error| HealthError::Os { what: "opening an eventfd", error })?;
        Ok(Self { event })
    }

    /// All waits end, now and from now on.
    pub fn stop(&self) {
        // It can only fail by being full, which is readable, too.
        let _ = (&self.event).write(&1_u64.to_ne_bytes());
    }

    /// Waits until `due`, or until it is told to stop, or nobody reads from `watched` (a pipe's write end).
    #[must_use]
    pub fn wait(&self, watched: BorrowedFd<'_>, due: Instant) -> Woken {
        loop {
            let left = due.saturating_duration_since(Instant::now());
            let Ok((watched, stopped)) = sys::poll(watched, self.event.as_fd(), left) else { return Woken::Lost };
            if stopped != 0 {
                return Woken::Stopped;
            }
            if watched & libc::POLLNVAL != 0 {
                return Woken::Lost;
            }
            if watched != 0 {
                return Woken::HungUp;
            }
            if Instant::now() >= due {
                return Woken::Due;
            }
        }
    }
}
