//! A wait that always has a reason to end: what is watched hangs up, somebody says stop, or the time is up.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use crate::error::HealthError;
use crate::held::Held;
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
    told: Held,
    tell: Held,
}

impl Stop {
    /// Nobody has said stop.
    ///
    /// # Errors
    /// When the system has no descriptor to give.
    pub fn new() -> Result<Self, HealthError> {
        let wrong = |error| HealthError::Os { what: "opening a pipe", error };
        let (told, tell) = io::pipe().map_err(wrong)?;
        let hold = |end: OwnedFd| Held::new(File::from(end)).map_err(wrong);
        Ok(Self { told: hold(told.into())?, tell: hold(tell.into())? })
    }

    /// All waits end, now and from now on. Once is enough.
    pub fn stop(&self) {
        if let Some(mut tell) = self.tell.get() {
            let _ = tell.write(&[0]); // there is a reader, and there is room
        }
    }

    /// Readable once somebody has said stop; `None`: nobody can say it.
    pub(crate) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.told.as_fd()
    }

    /// Waits until `due`, or until it is told to stop, or nobody reads from `watched` (a pipe's write end).
    #[must_use]
    pub fn wait(&self, watched: Option<BorrowedFd<'_>>, due: Instant) -> Woken {
        let Some((watched, told)) = watched.zip(self.told.as_fd()) else { return Woken::Lost };
        loop {
            let left = due.saturating_duration_since(Instant::now());
            let Ok((watched, stopped)) = sys::poll(watched, told, left) else { return Woken::Lost };
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
