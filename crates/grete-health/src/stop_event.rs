//! Event that ends a wait on a pipe: a stop, a wake-up, the reader's hang-up, or the deadline.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::checked_fd::CheckedFd;
use crate::error::HealthError;
use crate::sys;

/// Reason why a wait ended. If several apply, the first in this order is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeReason {
    /// [`StopEvent::set`] was called.
    Stopped,
    /// [`StopEvent::wake`] was called.
    Notified,
    /// The pipe has no reader any more.
    ReaderClosed,
    /// The watched descriptor is not valid any more, or poll failed.
    InvalidFd,
    /// The deadline has passed.
    TimedOut,
}

/// Stop event that any thread can set. A thread waits for it together with a pipe's hang-up and a deadline.
#[derive(Debug)]
pub struct StopEvent {
    reader: CheckedFd,
    writer: CheckedFd,
    stopped: AtomicBool,
    /// The pipe holds a wake-up byte, or is about to. Further bytes would fill up the pipe while no thread waits.
    wake_pending: AtomicBool,
}

impl StopEvent {
    /// Creates an event that is not set.
    ///
    /// # Errors
    /// [`HealthError::Os`] if the system has no free descriptor.
    pub fn new() -> Result<Self, HealthError> {
        let wrong = |error| HealthError::Os { what: "opening a pipe", error };
        let (reader, writer) = io::pipe().map_err(wrong)?;
        let checked = |end: OwnedFd| CheckedFd::new(File::from(end)).map_err(wrong);
        let (stopped, nudged) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { reader: checked(reader.into())?, writer: checked(writer.into())?, stopped, wake_pending: nudged })
    }

    /// Ends all waits, now and in the future. Idempotent.
    pub fn set(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.notify();
    }

    /// Ends one wait: the current one, or the next. For a single waiting thread.
    pub fn wake(&self) {
        if !self.wake_pending.swap(true, Ordering::SeqCst) {
            self.notify();
        }
    }

    fn notify(&self) {
        if let Some(mut writer) = self.writer.get() {
            let _ = writer.write(&[0]); // there is a reader, and there is room
        }
    }

    /// Returns the pipe's read end, readable once the event is set. `None`: the pipe is gone, and the event cannot be
    /// seen.
    pub(crate) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.reader.as_fd()
    }

    /// Returns the pipe's descriptors, for a forked child to close its copies.
    pub(crate) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        [&self.reader, &self.writer].into_iter().filter_map(CheckedFd::as_fd).collect()
    }

    /// Consumes a wake-up. A stop stays in the pipe, so that every wait sees it. A thread that calls `wake` between the
    /// read and the reset of the flag writes no byte, and need not: the waiting thread checks for changes after both.
    fn consume(&self) -> WakeReason {
        if self.stopped.load(Ordering::SeqCst) {
            return WakeReason::Stopped;
        }
        let Some(mut reader) = self.reader.get() else { return WakeReason::InvalidFd };
        if reader.read_exact(&mut [0]).is_err() {
            return WakeReason::InvalidFd;
        }
        self.wake_pending.store(false, Ordering::SeqCst);
        WakeReason::Notified
    }

    /// Waits until `due`, a stop or a wake-up, or until `watched` (the write end of a pipe) has no reader any more.
    #[must_use]
    pub fn wait(&self, watched: Option<BorrowedFd<'_>>, due: Instant) -> WakeReason {
        let Some((watched, reader)) = watched.zip(self.reader.as_fd()) else { return WakeReason::InvalidFd };
        loop {
            let left = due.saturating_duration_since(Instant::now());
            let Ok((watched, stopped)) = sys::poll(watched, reader, left) else { return WakeReason::InvalidFd };
            if stopped != 0 {
                return self.consume();
            }
            if watched & libc::POLLNVAL != 0 {
                return WakeReason::InvalidFd;
            }
            if watched != 0 {
                return WakeReason::ReaderClosed;
            }
            if Instant::now() >= due {
                return WakeReason::TimedOut;
            }
        }
    }
}
