//! A wait that always has a reason to end: what is watched hangs up, somebody says stop, or the time is up.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::error::HealthError;
use crate::held::Held;
use crate::sys;

/// Why a wait has ended. The first that is true is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// [`Stop::stop`] was called.
    Stopped,
    /// [`Stop::nudge`] was called.
    Nudged,
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
    stopped: AtomicBool,
    /// One byte of a nudge is in the pipe, or about to be: more would fill it up while nobody waits.
    nudged: AtomicBool,
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
        let (stopped, nudged) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { told: hold(told.into())?, tell: hold(tell.into())?, stopped, nudged })
    }

    /// All waits end, now and from now on. Once is enough.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.write();
    }

    /// One wait ends: the one under way, or the next. For a single thread that waits.
    pub fn nudge(&self) {
        if !self.nudged.swap(true, Ordering::SeqCst) {
            self.write();
        }
    }

    fn write(&self) {
        if let Some(mut tell) = self.tell.get() {
            let _ = tell.write(&[0]); // there is a reader, and there is room
        }
    }

    /// Readable once somebody has said stop; `None`: nobody can say it.
    pub(crate) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.told.as_fd()
    }

    /// What the pipe has to say. A stop is not read, so that it is true for all waits. Who nudges between the reading and the
    /// flag writes nothing, and need not: the look at whatever has changed comes after both.
    fn read(&self) -> Woken {
        if self.stopped.load(Ordering::SeqCst) {
            return Woken::Stopped;
        }
        let Some(mut told) = self.told.get() else { return Woken::Lost };
        if told.read_exact(&mut [0]).is_err() {
            return Woken::Lost;
        }
        self.nudged.store(false, Ordering::SeqCst);
        Woken::Nudged
    }

    /// Waits until `due`, or until it is told to stop, or nobody reads from `watched` (a pipe's write end).
    #[must_use]
    pub fn wait(&self, watched: Option<BorrowedFd<'_>>, due: Instant) -> Woken {
        let Some((watched, told)) = watched.zip(self.told.as_fd()) else { return Woken::Lost };
        loop {
            let left = due.saturating_duration_since(Instant::now());
            let Ok((watched, stopped)) = sys::poll(watched, told, left) else { return Woken::Lost };
            if stopped != 0 {
                return self.read();
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
