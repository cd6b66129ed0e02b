//! A wait that always has a reason to end: what is watched hangs up, somebody says stop, or the time is up.

use std::io::{self, PipeReader, PipeWriter, Write};
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
    told: PipeReader,
    tell: PipeWriter,
    /// Somebody may close all descriptors of a process and open others in their place: nothing must be written there.
    identity: Option<sys::Identity>,
}

impl Stop {
    /// Nobody has said stop.
    ///
    /// # Errors
    /// When the system has no descriptor to give.
    pub fn new() -> Result<Self, HealthError> {
        let (told, tell) = io::pipe().map_err(|error| HealthError::Os { what: "opening a pipe", error })?;
        let identity = sys::identity(tell.as_fd());
        Ok(Self { told, tell, identity })
    }

    /// All waits end, now and from now on. Once is enough.
    pub fn stop(&self) {
        if sys::identity(self.tell.as_fd()) == self.identity {
            let _ = (&self.tell).write(&[0]); // there is a reader, and there is room
        }
    }

    /// Waits until `due`, or until it is told to stop, or nobody reads from `watched` (a pipe's write end).
    #[must_use]
    pub fn wait(&self, watched: BorrowedFd<'_>, due: Instant) -> Woken {
        loop {
            let left = due.saturating_duration_since(Instant::now());
            let Ok((watched, stopped)) = sys::poll(watched, self.told.as_fd(), left) else { return Woken::Lost };
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
