//! The event as a pipe, for systems without eventfd(2).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::fork::{self, NotInherited};

/// Pipe that is readable from `signal` to `clear`.
#[derive(Debug)]
pub struct EventFd {
    reader: NotInherited<OwnedFd>,
    writer: NotInherited<OwnedFd>,
}

impl EventFd {
    /// Opens an event that is not signaled.
    ///
    /// # Errors
    /// The error of the system call, for example when descriptors are exhausted.
    pub fn new() -> io::Result<Self> {
        let hold = fork::hold_off();
        let (reader, writer) = io::pipe()?;
        let (reader, writer) = (OwnedFd::from(reader), OwnedFd::from(writer));
        set_nonblocking(&reader)?;
        set_nonblocking(&writer)?;
        Ok(Self { reader: NotInherited::new(reader, &hold), writer: NotInherited::new(writer, &hold) })
    }

    /// Makes the descriptor readable. Never blocks.
    pub fn signal(&self) {
        let one = 1_u8;
        // SAFETY: writes one byte from a live u8 to an owned descriptor. A full pipe (EAGAIN) is readable anyway.
        unsafe { libc::write(self.writer.as_raw_fd(), (&raw const one).cast(), 1) };
    }

    /// Empties the pipe: the descriptor is no longer readable.
    ///
    /// A signal between two reads is taken by the second one, or leaves its byte behind. Either way its caller had
    /// changed the awaited condition before, and the thread that clears checks the condition afterwards.
    pub fn clear(&self) {
        let mut bytes = [0_u8; 512];
        loop {
            // SAFETY: reads at most as many bytes as the live array has. Nothing to read (EAGAIN) is fine.
            let read = unsafe { libc::read(self.reader.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
            if usize::try_from(read) != Ok(bytes.len()) {
                return;
            }
        }
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.reader.as_raw_fd()
    }
}

fn set_nonblocking(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: F_GETFL takes and returns plain numbers.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    // SAFETY: F_SETFL takes and returns plain numbers.
    if flags < 0 || unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
