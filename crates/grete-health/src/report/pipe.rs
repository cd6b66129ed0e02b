//! Non-blocking write end of the report pipe, which may be full or without a reader.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::{BorrowedFd, RawFd};

use crate::checked_fd::CheckedFd;
use crate::error::HealthError;
use crate::sys;

/// Outcome of sending a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendOutcome {
    /// The frame is in the pipe, or its beginning is and the rest will follow.
    Sent,
    /// The pipe was full; the frame is dropped.
    Dropped,
    /// The pipe has no reader any more.
    ReaderClosed,
    /// The descriptor refers to another file by now, or does not take bytes.
    InvalidFd,
}

/// Duplicate of a pipe's write end. Writes never block.
#[derive(Debug)]
pub struct Pipe {
    end: CheckedFd,
    /// Rest of a frame whose beginning is in the pipe.
    pending: Vec<u8>,
    dropped: u64,
}

impl Pipe {
    /// Duplicates `fd`; the caller keeps its own. Both are non-blocking from now on.
    ///
    /// # Errors
    /// [`HealthError::Descriptor`] if `fd` cannot be written to.
    pub fn new(fd: RawFd) -> Result<Self, HealthError> {
        let end = sys::duplicate_nonblocking(fd).and_then(CheckedFd::new);
        let end = end.map_err(|error| HealthError::Descriptor { fd, error })?;
        Ok(Self { end, pending: Vec::new(), dropped: 0 })
    }

    /// Returns the number of frames dropped because the pipe was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns whether the descriptor still refers to the pipe.
    pub fn is_open(&self) -> bool {
        self.end.get().is_some()
    }

    /// Sends a frame, after the rest of the last one. If the pipe is full by then, the new frame is dropped.
    pub fn send(&mut self, frame: &[u8]) -> SendOutcome {
        let Some(mut file) = self.end.get() else { return SendOutcome::InvalidFd };
        let rest = std::mem::take(&mut self.pending);
        let sent = match write_available(&mut file, &rest) {
            Ok(written) if written < rest.len() => {
                self.pending = rest;
                self.pending.drain(..written);
                Ok(0)
            }
            Ok(_) => write_available(&mut file, frame),
            Err(sent) => Err(sent),
        };
        match sent {
            Err(sent) => sent,
            Ok(0) => {
                self.dropped += 1;
                SendOutcome::Dropped
            }
            Ok(written) => {
                self.pending.extend(frame.iter().skip(written));
                SendOutcome::Sent
            }
        }
    }

    /// Returns the descriptor for polling only.
    pub(crate) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.end.as_fd()
    }
}

/// Writes until the pipe is full. Returns the bytes written.
fn write_available(file: &mut &File, bytes: &[u8]) -> Result<usize, SendOutcome> {
    let mut written = 0;
    while let Some(left) = bytes.get(written..).filter(|left| !left.is_empty()) {
        match file.write(left) {
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Err(SendOutcome::ReaderClosed),
            Err(_) => return Err(SendOutcome::InvalidFd),
        }
    }
    Ok(written)
}
