//! Where reports go: a pipe that may be full, or have nobody at its other end.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::{BorrowedFd, RawFd};

use crate::error::HealthError;
use crate::held::Held;
use crate::sys;

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It is in the pipe, or its beginning is and the rest will follow.
    Yes,
    /// There was no room for it.
    Dropped,
    /// Nobody reads at the other end any more.
    HungUp,
    /// The descriptor stands for something else by now, or does not take bytes.
    Lost,
}

/// A duplicate of a pipe's write end. Writing never blocks.
#[derive(Debug)]
pub struct Pipe {
    end: Held,
    /// What is left of a frame whose beginning is in the pipe.
    rest: Vec<u8>,
    dropped: u64,
}

impl Pipe {
    /// A duplicate of `fd`; the caller keeps its own. Both do not block from now on.
    ///
    /// # Errors
    /// When it cannot be written to.
    pub fn new(fd: RawFd) -> Result<Self, HealthError> {
        let end = sys::duplicate_nonblocking(fd).and_then(Held::new);
        let end = end.map_err(|error| HealthError::Descriptor { fd, error })?;
        Ok(Self { end, rest: Vec::new(), dropped: 0 })
    }

    /// Frames that found the pipe full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether the descriptor still stands for it.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.end.get().is_some()
    }

    /// What is left of the last frame goes first; if the pipe is full by then, the new one is dropped.
    pub fn send(&mut self, frame: &[u8]) -> Sent {
        let Some(mut file) = self.end.get() else { return Sent::Lost };
        let rest = std::mem::take(&mut self.rest);
        let sent = match write(&mut file, &rest) {
            Ok(written) if written < rest.len() => {
                self.rest = rest;
                self.rest.drain(..written);
                Ok(0)
            }
            Ok(_) => write(&mut file, frame),
            Err(sent) => Err(sent),
        };
        match sent {
            Err(sent) => sent,
            Ok(0) => {
                self.dropped += 1;
                Sent::Dropped
            }
            Ok(written) => {
                self.rest.extend(frame.iter().skip(written));
                Sent::Yes
            }
        }
    }

    /// To be waited for.
    pub(crate) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.end.as_fd()
    }
}

/// How many bytes there was room for.
fn write(file: &mut &File, bytes: &[u8]) -> Result<usize, Sent> {
    let mut written = 0;
    while let Some(left) = bytes.get(written..).filter(|left| !left.is_empty()) {
        match file.write(left) {
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Err(Sent::HungUp),
            Err(_) => return Err(Sent::Lost),
        }
    }
    Ok(written)
}
